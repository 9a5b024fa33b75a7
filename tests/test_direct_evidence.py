"""Laws of SEMANTICS section 2 on direct evidence, against recursion in plain Python."""

from __future__ import annotations

import math

import numpy as np
import pytest
from edge_arrays import topology_of
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import any_of

from validity_graph import kernels
from validity_graph.errors import CycleError, InputError
from validity_graph.kernels.direct import direct_evidence, force
from validity_graph.topology import DirectEvidence

# The first call of a compiled loop compiles it.
settings.register_profile("compiled", deadline=None)
settings.load_profile("compiled")

BACKENDS = ["numpy", "numba"]
PROBABILITY = st.one_of(
    st.sampled_from([0.0, 1.0, 0.5, 1e-9, 1 - 1e-9]), st.floats(0, 1, allow_subnormal=False)
)


def solve(n, edges, direct, premise=None, *, backend="numba", dtype=np.float64):
    return kernels.propagate(topology_of(n, edges, premise, dtype), np.array(direct), backend=backend)


SUPERSEDES, RETRACTS, CONFIRMS = range(3)


def evidence_of(statements, n, trust=None, channel=None):
    """``statements``: (source, target, weight, kind); age is the source's number, so later is larger."""
    source, target, weight, kind = zip(*statements, strict=True) if statements else ((),) * 4
    channel = [-1] * n if channel is None else channel
    return DirectEvidence(
        source=np.array(source, dtype=np.int32),
        target=np.array(target, dtype=np.int32),
        weight=np.array(weight, dtype=np.float64),
        kind=np.array(kind, dtype=np.uint8),
        age=np.array(source, dtype=np.int64),
        channel=np.array([channel[s] for s in source], dtype=np.int32),
        trust=np.ones(n) if trust is None else np.array(trust, dtype=np.float64),
    )


def expected_direct(statements, n, trust, channel):
    """Section 2 by recursion over sources, in plain Python."""

    def said(s, t, kinds):
        return any_of(w for a, b, w, kind in statements if (a, b) == (s, t) and kind in kinds)

    def together(scores):
        alone = [value for s, value in scores.items() if channel[s] < 0]
        shared: dict[int, float] = {}
        for s, value in scores.items():
            if channel[s] >= 0:
                shared[channel[s]] = max(shared.get(channel[s], 0.0), value)
        return any_of([*alone, *shared.values()])

    def strength(s):
        against = {u for u, t, _, kind in statements if t == s and kind == RETRACTS}
        return trust[s] * (1 - together({u: strength(u) * said(u, s, {RETRACTS}) for u in against}))

    result = []
    for t in range(n):
        scores = {}
        for s in {s for s, b, _, kind in statements if b == t and kind != CONFIRMS}:
            later = {c for c, b, _, kind in statements if b == t and kind == CONFIRMS and c > s}
            kept = math.prod(1 - strength(c) * said(c, t, {CONFIRMS}) for c in later)
            scores[s] = strength(s) * said(s, t, {SUPERSEDES, RETRACTS}) * kept
        result.append(together(scores))
    return result, [strength(s) for s in range(n)]


@st.composite
def statement_lists(draw, kinds=(SUPERSEDES, RETRACTS, CONFIRMS), most=6):
    n = draw(st.integers(2, most))
    node = st.integers(0, n - 1)
    raw = draw(st.lists(st.tuples(node, node, PROBABILITY, st.sampled_from(kinds)), max_size=14))
    statements = [(max(a, b), min(a, b), w, kind) for a, b, w, kind in raw if a != b]
    trust = draw(st.lists(PROBABILITY, min_size=n, max_size=n))
    channel = draw(st.lists(st.integers(-1, 1), min_size=n, max_size=n))
    return statements, n, trust, channel


@given(statement_lists())
@settings(max_examples=200)
def test_direct_evidence_matches_the_formula(case):
    statements, n, trust, channel = case
    expected, strength = expected_direct(statements, n, trust, channel)
    evidence = evidence_of(statements, n, trust, channel)
    assert np.allclose(force(evidence, n), strength, rtol=0, atol=1e-12)
    assert np.allclose(direct_evidence(evidence, n), expected, rtol=0, atol=1e-12)


@given(statement_lists(), st.randoms(use_true_random=False))
def test_law_1_and_3_for_direct_evidence(case, random):
    statements, n, trust, channel = case
    value = direct_evidence(evidence_of(statements, n, trust, channel), n)
    assert np.all((value >= 0) & (value <= 1))
    shuffled = list(statements)
    random.shuffle(shuffled)
    assert np.array_equal(value, direct_evidence(evidence_of(shuffled, n, trust, channel), n))


@given(statement_lists(kinds=(SUPERSEDES,)), st.data())
def test_law_8_grouping_by_source_never_changes_direct_evidence(case, data):
    statements, n, _, _ = case
    value = direct_evidence(evidence_of(statements, n), n)
    flat = [any_of(w for _, t, w, _ in statements if t == v) for v in range(n)]
    assert np.allclose(value, flat, rtol=0, atol=1e-12)
    idle = [*statements, (n - 1, 0, 0.0, SUPERSEDES)]
    assert np.allclose(direct_evidence(evidence_of(idle, n), n), value, rtol=0, atol=1e-15)
    certain = [*statements, (n - 1, 0, 1.0, SUPERSEDES)]
    assert direct_evidence(evidence_of(certain, n), n)[0] == 1


@given(statement_lists(kinds=(SUPERSEDES, CONFIRMS)), PROBABILITY)
def test_law_14_reinstatement(case, weight):
    statements, n, trust, channel = case
    before = direct_evidence(evidence_of(statements, n, trust, channel), n)
    # Memory n overturns 0 and is itself retracted by n + 1.
    undone = [*statements, (n, 0, weight, SUPERSEDES), (n + 1, n, 1.0, RETRACTS)]
    after = direct_evidence(evidence_of(undone, n + 2, [*trust, 1, 1], [*channel, -1, -1]), n + 2)
    assert np.allclose(after[:n], before, rtol=0, atol=1e-12)


@given(PROBABILITY)
def test_law_14_through_propagation(weight):
    topology = topology_of(4, [(0, 1, weight, "requires", -1)])
    overturned = [(2, 0, 1.0, SUPERSEDES)]
    for statements, held in (([], True), (overturned, False), ([*overturned, (3, 2, 1.0, RETRACTS)], True)):
        value = kernels.propagate(topology, direct_evidence(evidence_of(statements, 4), 4)).invalidity
        assert value[:2].tolist() == ([0.0, 0.0] if held else [1.0, pytest.approx(weight)])


def test_confirmation_clears_only_what_is_older():
    cleared = [(1, 0, 1.0, SUPERSEDES), (2, 0, 1.0, CONFIRMS)]
    assert direct_evidence(evidence_of(cleared, 3), 3)[0] == 0
    again = [(1, 0, 1.0, CONFIRMS), (2, 0, 0.7, SUPERSEDES)]
    assert direct_evidence(evidence_of(again, 3), 3)[0] == 0.7
    same_age = evidence_of(cleared, 3)
    same_age.age[:] = 0
    assert direct_evidence(same_age, 3)[0] == 1


def test_a_cycle_of_retractions_is_named():
    n = 5
    statements = [(4, 3, 1.0, RETRACTS), (1, 2, 0.5, RETRACTS), (2, 3, 0.5, RETRACTS), (3, 1, 0.5, RETRACTS)]
    names = ["zero", "one", "two", "three", "four"]
    with pytest.raises(CycleError) as raised:
        direct_evidence(evidence_of(statements, n), n, name=names.__getitem__)
    text = str(raised.value)
    assert "in a cycle" in text and "remove one" in text
    path = text[text.index("(") + 1 : text.index(")")].split(" -> ")
    assert path[0] == path[-1] and set(path) == {"one", "two", "three"}
    said = {(names[s], names[t]) for s, t, *_ in statements}
    assert all(step in said for step in zip(path, path[1:], strict=False))


def test_bad_statements_are_named():
    with pytest.raises(InputError, match="weight of edge 1"):
        force(evidence_of([(1, 0, 0.5, SUPERSEDES), (2, 0, float("nan"), SUPERSEDES)], 3), 3)
    with pytest.raises(InputError, match="trust of memory 2"):
        force(evidence_of([], 3, trust=[1, 1, 1.2]), 3)
    with pytest.raises(InputError, match="source of edge 0"):
        force(evidence_of([(7, 0, 0.5, SUPERSEDES)], 3, channel=[-1] * 8), 3)
