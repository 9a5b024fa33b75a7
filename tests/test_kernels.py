"""Laws of SEMANTICS section 5 on every CPU kernel, with cycles, against formulas in plain Python."""

from __future__ import annotations

import math

import numpy as np
import oracle
import pytest
from edge_arrays import topology_of
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracle import any_of, mean_field

from synthetic import graphs
from validity_graph import kernels
from validity_graph.errors import InputError
from validity_graph.kernels import on_numba, on_numpy
from validity_graph.topology import build_topology

# The first call of a compiled loop compiles it.
settings.register_profile("compiled", deadline=None)
settings.load_profile("compiled")

BACKENDS = ["numpy", "numba"]
PROBABILITY = st.one_of(
    st.sampled_from([0.0, 1.0, 0.5, 1e-9, 1 - 1e-9]), st.floats(0, 1, allow_subnormal=False)
)
COARSE = st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.8, 1.0])


@st.composite
def problems(draw, *, acyclic=False, supports=None, weights=PROBABILITY, evidence=PROBABILITY, most=8):
    """(node_count, edges as oracle tuples, direct, premise)."""
    n = draw(st.integers(1, most))
    node = st.integers(0, n - 1)
    role = st.booleans() if supports is None else st.just(supports)
    raw = draw(st.lists(st.tuples(node, node, weights, role, st.integers(-1, 1)), max_size=3 * n))
    edges = [
        (min(s, t) if acyclic else s, max(s, t) if acyclic else t, w, "supports" if role else "requires", j)
        for s, t, w, role, j in raw
        if s != t
    ]
    direct = draw(st.lists(st.one_of(st.just(0.0), evidence), min_size=n, max_size=n))
    premise = draw(st.lists(st.booleans(), min_size=n, max_size=n))
    return n, edges, direct, premise


def solve(n, edges, direct, premise=None, *, backend="numba", dtype=np.float64):
    return kernels.propagate(topology_of(n, edges, premise, dtype), np.array(direct), backend=backend)


# --- cycles, in plain Python -------------------------------------------------------------------------


def reachable(n, edges):
    follows = [{t for s, t, *_ in edges if s == v} for v in range(n)]
    result = []
    for v in range(n):
        seen, stack = {v}, [v]
        while stack:
            new = follows[stack.pop()] - seen
            seen |= new
            stack += new
        result.append(seen)
    return result


def formula(v, edges, d, requirement, support):
    """I_v of section 3 with requirements read from one table and supports from another."""
    kept = math.prod(1 - w * requirement[s] for s, t, w, kind, _ in edges if t == v and kind == "requires")
    groups = {}
    for number, (s, t, w, kind, group) in enumerate(edges):
        if t == v and kind == "supports":
            groups.setdefault(("own", number) if group < 0 else group, []).append((s, w))
    absent = [math.prod(1 - w for _, w in group) for group in groups.values()]
    holds = [math.prod(1 - w * support[s] for s, w in group) for group in groups.values()]
    lost = math.prod(a + (1 - h) for a, h in zip(absent, holds, strict=True)) - math.prod(absent)
    return 1 - (1 - d) * kept * (1 - min(max(lost, 0), 1))


def cyclic_mean_field(n, edges, direct, premise):
    """(invalidity, settled) by the nu/mu iteration of section 3 over the whole graph at once."""
    edges = [e for e in edges if not (e[3] == "supports" and premise[e[1]])]
    grounded = oracle.reached(
        oracle.parents(n, [e for e in edges if e[2] > 0], premise), oracle.components(n, edges)
    )
    stands, rounds, moved = [0.0] * n, 0, 1.0
    while moved > 1e-10 and rounds < 5_000:
        now, change = [1.0] * n, 1.0
        while change > 1e-14 and rounds < 5_000:
            new = [formula(v, edges, direct[v], stands, now if v in grounded else stands) for v in range(n)]
            change = max(abs(a - b) for a, b in zip(new, now, strict=True))
            now, rounds = new, rounds + 1
        moved = max(abs(a - b) for a, b in zip(now, stands, strict=True))
        stands = now
    return stands, rounds < 5_000


@pytest.mark.parametrize("backend", BACKENDS)
@given(problems(acyclic=True))
def test_acyclic_graphs_match_the_formula(backend, problem):
    n, edges, direct, premise = problem
    result = solve(n, edges, direct, premise, backend=backend)
    assert np.allclose(result.invalidity, mean_field(n, edges, direct, premise=premise), rtol=0, atol=1e-12)
    assert (result.converged, result.rounds) == (True, 0)
    narrow = solve(n, edges, direct, premise, backend=backend, dtype=np.float32)
    assert narrow.invalidity.dtype == np.float32
    assert np.allclose(narrow.invalidity, result.invalidity, rtol=0, atol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
@given(problems(weights=COARSE, evidence=COARSE, most=6))
@settings(max_examples=150)
def test_cyclic_graphs_match_the_iteration(backend, problem):
    n, edges, direct, premise = problem
    expected, settled = cyclic_mean_field(n, edges, direct, premise)
    result = solve(n, edges, direct, premise, backend=backend)
    assume(settled)
    assert result.converged
    assert np.allclose(result.invalidity, expected, rtol=0, atol=1e-8)


@given(problems())
def test_kernels_agree_on_any_graph(problem):
    n, edges, direct, premise = problem
    one = solve(n, edges, direct, premise, backend="numpy")
    other = solve(n, edges, direct, premise, backend="numba")
    assume(one.converged)
    assert np.allclose(one.invalidity, other.invalidity, rtol=0, atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("supports", [0.0, 0.5, 1.0])
def test_kernels_agree_on_large_graphs(dtype, supports):
    rng = np.random.default_rng(3)
    for graph in (
        graphs.random_dag(30_000, 150_000, rng=rng, supports=supports, group_size=2),
        graphs.local_dag(5_000, 25_000, rng=rng, reach=50, supports=supports, group_size=2),
        graphs.layered(6, 4_000, 4, rng=rng, supports=supports),
        graphs.cyclic(2_000, 1_900, rng=rng, supports=supports),
    ):
        topology = build_topology(graph.node_count, **graph.edges(), dtype=dtype)
        direct = rng.random(graph.node_count) * (rng.random(graph.node_count) < 0.3)
        one = kernels.propagate(topology, direct, backend="numpy").invalidity
        other = kernels.propagate(topology, direct, backend="numba").invalidity
        assert np.abs(one - other).max() < (1e-6 if dtype == np.float32 else 1e-12)
        for backend in BACKENDS:
            found = kernels.inherited(topology, other, backend=backend)
            stored = direct.astype(dtype)
            assert np.abs(stored + (1 - stored) * found - other).max() < 1e-6


# --- laws --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
@given(problems(), st.sampled_from([np.float32, np.float64]))
def test_law_1_range(backend, problem, dtype):
    n, edges, direct, premise = problem
    value = solve(n, edges, direct, premise, backend=backend, dtype=dtype).invalidity
    assert np.all((value >= 0) & (value <= 1))


@pytest.mark.parametrize("backend", BACKENDS)
@given(problems())
def test_law_2_no_evidence_no_invalidity(backend, problem):
    n, edges, _, premise = problem
    assert not solve(n, edges, [0.0] * n, premise, backend=backend).invalidity.any()


@pytest.mark.parametrize("backend", BACKENDS)
@given(problems(), st.randoms(use_true_random=False))
def test_law_3_permutation(backend, problem, random):
    n, edges, direct, premise = problem
    name = list(range(n))
    random.shuffle(name)
    moved = [(name[s], name[t], w, kind, group) for s, t, w, kind, group in edges]
    random.shuffle(moved)
    moved_direct, moved_premise = [0.0] * n, [False] * n
    for v in range(n):
        moved_direct[name[v]], moved_premise[name[v]] = direct[v], premise[v]
    for dtype, close in ((np.float32, 1e-6), (np.float64, 1e-12)):
        one = solve(n, edges, direct, premise, backend=backend, dtype=dtype)
        other = solve(n, moved, moved_direct, moved_premise, backend=backend, dtype=dtype)
        assert np.allclose(one.invalidity, other.invalidity[name], rtol=0, atol=close)


@pytest.mark.parametrize("backend", BACKENDS)
@given(problems(), st.data())
def test_law_4_locality(backend, problem, data):
    n, edges, direct, premise = problem
    v = data.draw(st.integers(0, n - 1))
    changed = list(direct)
    changed[v] = data.draw(PROBABILITY)
    one = solve(n, edges, direct, premise, backend=backend).invalidity
    other = solve(n, edges, changed, premise, backend=backend).invalidity
    below = reachable(n, edges)[v]
    assert all(one[u] == other[u] for u in range(n) if u not in below)


@pytest.mark.parametrize("backend", BACKENDS)
@given(problems(weights=COARSE, evidence=COARSE), st.data())
def test_law_5_monotone_evidence(backend, problem, data):
    n, edges, direct, premise = problem
    v = data.draw(st.integers(0, n - 1))
    raised = list(direct)
    raised[v] = data.draw(st.floats(direct[v], 1))
    one = solve(n, edges, direct, premise, backend=backend)
    other = solve(n, edges, raised, premise, backend=backend)
    assume(one.converged and other.converged)
    assert np.all(other.invalidity >= one.invalidity - 1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
@given(problems(acyclic=True), st.data())
def test_law_6_one_more_requirement_and_one_certain_support(backend, problem, data):
    n, edges, direct, premise = problem
    before = solve(n, edges, direct, premise, backend=backend).invalidity
    v = data.draw(st.integers(0, n - 1))
    if v > 0:
        u = data.draw(st.integers(0, v - 1))
        more = [*edges, (u, v, data.draw(PROBABILITY), "requires", -1)]
        after = solve(n, more, direct, premise, backend=backend).invalidity
        assert after[v] >= before[v] - 1e-12
    # Memory n stands for certain and supports v.
    safe = [*edges, (n, v, 1.0, "supports", -1)]
    after = solve(n + 1, safe, [*direct, 0.0], [*premise, True], backend=backend).invalidity
    required = any_of(w * after[s] for s, t, w, kind, _ in edges if t == v and kind == "requires")
    assert math.isclose(after[v], 1 - (1 - direct[v]) * (1 - required), abs_tol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
@given(PROBABILITY, st.lists(st.tuples(PROBABILITY, st.booleans()), min_size=1, max_size=30))
def test_law_7_chain(backend, start, links):
    n = len(links) + 1
    edges = [(v, v + 1, w, "supports" if role else "requires", -1) for v, (w, role) in enumerate(links)]
    value = solve(n, edges, [start] + [0.0] * (n - 1), backend=backend).invalidity
    for k in range(n):
        strengths = [start, *(w for w, _ in links[:k])]
        assert math.isclose(value[k], math.prod(strengths), abs_tol=1e-12)
        assert value[k] <= min(strengths) + 1e-12
    assert np.all(np.diff(value) <= 1e-12)


@given(problems(acyclic=False, supports=True, weights=st.just(1.0), evidence=st.just(1.0)))
def test_plain_facts_get_the_least_fixpoint_of_a_truth_maintenance_system(problem):
    """Certain supports from premises: what stands is what can be derived from premises that stand."""
    n, edges, direct, premise = problem
    premise = [p or all(t != v for _, t, *_ in edges) for v, p in enumerate(premise)]
    given_by = [{} for _ in range(n)]
    for number, (s, t, _, _, group) in enumerate(edges):
        given_by[t].setdefault(("own", number) if group < 0 else group, set()).add(s)

    def derived(blocked):
        held: set[int] = set()
        while True:
            more = {
                v
                for v in range(n)
                if v not in held | blocked and (premise[v] or any(g <= held for g in given_by[v].values()))
            }
            if not more:
                return held
            held |= more

    assume(len(derived(set())) == n)
    held = derived({v for v in range(n) if direct[v]})
    value = solve(n, edges, direct, premise).invalidity
    assert [v in held for v in range(n)] == [i == 0 for i in value]


def test_a_loop_of_support_falls_with_the_reason_outside():
    loop = [(1, 2, 1.0, "supports", -1), (2, 1, 1.0, "supports", -1)]
    for backend in BACKENDS:
        fed = solve(3, [*loop, (0, 1, 1.0, "supports", -1)], [1.0, 0, 0], backend=backend)
        assert fed.invalidity.tolist() == [1, 1, 1]
        alone = solve(3, loop, [1.0, 0, 0], backend=backend)
        assert alone.invalidity.tolist() == [1, 0, 0]


def test_a_component_that_does_not_settle_says_so():
    # With these weights each round gains a ten-thousandth of what is left.
    slow = [(0, 1, 0.9999, "requires", -1), (1, 0, 1.0, "requires", -1), (2, 0, 1e-4, "requires", -1)]
    for backend in BACKENDS:
        result = solve(3, slow, [0, 0, 1e-3], backend=backend)
        assert result.rounds == 10_000
        assert not result.converged


@pytest.mark.parametrize("backend", BACKENDS)
def test_deep_chain_and_wide_star(backend):
    n = 1_000_000 if backend == "numba" else 100_000
    rng = np.random.default_rng(5)
    chain = graphs.chain(n, rng=rng, low=1.0, high=1.0)
    direct = np.zeros(n)
    direct[0] = 0.75
    value = kernels.propagate(build_topology(n, **chain.edges()), direct, backend=backend).invalidity
    assert np.all(value == 0.75)
    star = graphs.star(n - 1, rng=rng, inward=True)
    certain = build_topology(n, **star.edges(), dtype=np.float64)
    value = kernels.propagate(certain, np.full(n, 1e-6), backend=backend).invalidity
    expected = 1 - math.exp(math.log1p(-1e-6) + np.log1p(-star.weight.astype(np.float64) * 1e-6).sum())
    assert math.isclose(value[0], expected, abs_tol=1e-9)


@pytest.mark.parametrize("supports", [0.0, 0.6])
def test_threads_do_not_change_the_result(monkeypatch, supports):
    rng = np.random.default_rng(7)
    rings, ring = 400, 5
    member = np.arange(rings * ring)
    after = member // ring * ring + (member + 1) % ring
    # Two levels of rings, every ring of the second fed by one of the first.
    feed = rng.integers(0, rings // 2 * ring, rings // 2)
    source = np.concatenate([member, feed])
    target = np.concatenate([after, rings // 2 * ring + ring * np.arange(rings // 2)])
    graph = graphs.assemble(rings * ring, source, target, rng=rng, supports=supports, high=0.9)
    dag = graphs.random_dag(3_000, 15_000, rng=rng, supports=supports)
    for each in (graph, dag):
        topology = build_topology(each.node_count, **each.edges())
        direct = rng.random(each.node_count)
        alone = on_numba.noisy_or(topology, direct, threads=1)
        monkeypatch.setattr(on_numba, "_WIDE", 16)
        for threads in (1, 2, 3, 7):
            shared = on_numba.noisy_or(topology, direct, threads=threads)
            assert np.array_equal(shared[0], alone[0])
            assert shared[1:] == alone[1:]
        monkeypatch.undo()
        defined = on_numpy.noisy_or(topology, direct)
        assert np.abs(defined[0] - alone[0]).max() < 1e-6
        assert defined[1:] == alone[1:]


def test_node_by_node_equals_the_whole_bit_for_bit():
    rng = np.random.default_rng(6)
    graph = graphs.random_dag(2_000, 10_000, rng=rng, supports=0.5, group_size=2)
    topology = build_topology(graph.node_count, **graph.edges(), dtype=np.float64)
    direct = rng.random(graph.node_count)
    value, _, _ = on_numba.noisy_or(topology, direct)
    for v in range(graph.node_count):
        alone = on_numba.node_invalidity(
            topology.indptr[v],
            topology.requires_end[v],
            topology.indptr[v + 1],
            topology.source,
            topology.weight,
            topology.opens,
            value,
            direct[v],
        )
        assert alone == value[v]
        assert math.isclose(
            on_numpy.node_inherited(topology, v, value), (alone - direct[v]) / (1 - direct[v]), abs_tol=1e-9
        )


def test_bad_evidence_is_named():
    topology = topology_of(2, [(0, 1, 0.5, "requires", -1)])
    with pytest.raises(InputError, match=r"direct\[1\]=1.5 must lie"):
        kernels.propagate(topology, [0.0, 1.5])
    with pytest.raises(InputError, match=r"direct\[0\]=nan"):
        kernels.propagate(topology, [float("nan"), 1.0])
    with pytest.raises(InputError, match="shape"):
        kernels.propagate(topology, [0.0])
    with pytest.raises(InputError, match="backend"):
        kernels.propagate(topology, [0.0, 0.0], backend="abacus")
    with pytest.raises(InputError, match="method"):
        kernels.propagate(topology, [0.0, 0.0], method="guess")
