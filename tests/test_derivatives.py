"""Widest paths against brute force, and derivatives of invalidity against differences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import oracle
from tests.stories import rests, says, stories, story
from validity_graph import kernels
from validity_graph.ancestry import cut
from validity_graph.explain import Findings, ground_of
from validity_graph.kernels.adjoint import credit, gradient
from validity_graph.kernels.direct import direct_evidence
from validity_graph.kernels.testimony import gather, statement_credit, statement_gradient
from validity_graph.paths import widest_path
from validity_graph.records import SUPPORTS, Edge
from validity_graph.testing import dependency_graphs
from validity_graph.topology import DirectEvidence

# -- widest path -------------------------------------------------------------------------------------------


def widths(found: Findings, target: int) -> list[float]:
    """Bottleneck of every loop-free evidence path, by walking all of them."""
    encoded = found.encoded
    premise = encoded.topology
    row = premise.rank[encoded.target]
    real = ~encoded.supports | (premise.requires_end[row] < premise.indptr[row + 1])
    evidence = encoded.evidence
    out: list[float] = []
    stack = [(target, 1.0, frozenset([target]))]
    while stack:
        v, width, seen = stack.pop()
        for s in set(evidence.source[(evidence.target == v) & (evidence.kind != 2)].tolist()):
            mine = (evidence.target == v) & (evidence.source == s) & (evidence.kind != 2)
            score = found.force[s] * oracle.any_of(evidence.weight[mine])
            later = (evidence.target == v) & (evidence.kind == 2) & (evidence.age > evidence.age[mine].max())
            for c in np.flatnonzero(later):
                score *= 1.0 - found.force[evidence.source[c]] * evidence.weight[c]
            out.append(min(width, score))
        for e in np.flatnonzero((encoded.target == v) & real):
            u = int(encoded.source[e])
            if u not in seen and found.invalidity[u] > 0.0:
                stack.append((u, min(width, float(encoded.weight[e])), seen | {u}))
    return [width for width in out if width > 0.0]


@settings(max_examples=80, deadline=None)
@given(stories(), st.data())
def test_the_widest_path_has_the_strongest_weakest_hop(told, data):
    found = told.findings()
    target = data.draw(st.sampled_from(told.memories)).id
    path = widest_path(ground_of(found), found.encoded.number[target])
    expected = widths(found, found.encoded.number[target])
    assert (len(path) > 0) == bool(expected)
    if path:
        assert path.bottleneck == pytest.approx(max(expected), abs=1e-12)
        assert path[-1].target == target
        assert all(a.target == b.source for a, b in zip(path, path[1:], strict=False))


def test_the_widest_path_may_be_longer_than_the_strongest():
    told = story(
        [says("s", "a"), rests("a", "t", 0.6)]
        + [rests(u, v, 0.7) for u, v in (("a", "b"), ("b", "c"), ("c", "t"))]
    )
    found = told.findings()
    path = widest_path(ground_of(found), found.encoded.number["t"])
    assert ([hop.target for hop in path], path.bottleneck) == (["a", "b", "c", "t"], 0.7)
    assert widest_path(ground_of(found), found.encoded.number["s"]) == ()


def test_no_path_leads_over_a_support_of_a_premise():
    told = story(
        [says("s", "a"), Edge("a", "p", SUPPORTS), says("z", "p", 0.5), rests("p", "t")], p={"premise": True}
    )
    found = told.findings()
    assert [hop.source for hop in widest_path(ground_of(found), found.encoded.number["t"])] == ["z", "p"]


# -- derivatives -------------------------------------------------------------------------------------------


def slope(value, at: float, step: float) -> float:
    """Derivative of a smooth function on [0, 1], of second order at its ends too."""
    if at < step:
        return (-3.0 * value(at) + 4.0 * value(at + step) - value(at + 2 * step)) / (2 * step)
    if at > 1.0 - step:
        return (3.0 * value(at) - 4.0 * value(at - step) + value(at - 2 * step)) / (2 * step)
    return (value(at + step) - value(at - step)) / (2 * step)


EDGE_CASES = st.sampled_from([0.0, 1.0, 0.3, 0.7, 1.0])
INSIDE = st.sampled_from([0.0, 0.2, 0.35, 0.5])


def check_structure_gradient(graph, target: int, *, step: float, tolerance: float) -> None:
    def invalidity(weight, direct) -> float:
        built = replace(graph, weight=weight).topology()
        return float(kernels.propagate(built, direct, backend="numpy").invalidity[target])

    topology = graph.topology()
    now = kernels.propagate(topology, graph.direct, backend="numpy").invalidity
    moved = gradient(
        topology, graph.direct[topology.order], now[topology.order], target=int(topology.rank[target])
    )
    for v in range(graph.node_count):

        def by_direct(x, v=v):
            return invalidity(graph.weight, np.where(np.arange(graph.node_count) == v, x, graph.direct))

        expected = slope(by_direct, float(graph.direct[v]), step)
        assert moved.by_direct[topology.rank[v]] == pytest.approx(expected, abs=tolerance)
    kept = ~(graph.supports & graph.premise[graph.target])
    order = np.lexsort(
        (
            graph.weight,
            graph.source,
            np.where(graph.supports, graph.justification, -1),
            graph.supports,
            topology.rank[graph.target],
            ~kept,
        )
    )
    for place, e in enumerate(order[: int(kept.sum())]):

        def by_weight(x, e=e):
            return invalidity(np.where(np.arange(graph.source.size) == e, x, graph.weight), graph.direct)

        expected = slope(by_weight, float(graph.weight[e]), step)
        assert moved.by_weight[place] == pytest.approx(expected, abs=tolerance)


@settings(max_examples=80, deadline=None)
@given(dependency_graphs(), st.data())
def test_law_12_gradient_by_edges_and_evidence_equals_differences(graph, data):
    values = data.draw(st.lists(EDGE_CASES, min_size=graph.source.size, max_size=graph.source.size))
    direct = data.draw(st.lists(EDGE_CASES, min_size=graph.node_count, max_size=graph.node_count))
    graph = replace(graph, weight=np.array(values, dtype=np.float64)).with_direct(direct)
    target = data.draw(st.integers(0, graph.node_count - 1))
    check_structure_gradient(graph, target, step=1e-5, tolerance=1e-6)


@settings(max_examples=60, deadline=None)
@given(dependency_graphs(cyclic=True, max_nodes=5, max_edges=8), st.data())
def test_gradient_inside_cycles_equals_differences_where_the_fixpoint_is_smooth(graph, data):
    # Weights over 0 and evidence everywhere: no edge comes or goes, no component is without evidence.
    inside = st.sampled_from([0.1, 0.2, 0.35])
    values = data.draw(st.lists(inside, min_size=graph.source.size, max_size=graph.source.size))
    direct = data.draw(st.lists(inside, min_size=graph.node_count, max_size=graph.node_count))
    graph = replace(graph, weight=np.array(values, dtype=np.float64)).with_direct(direct)
    target = data.draw(st.integers(0, graph.node_count - 1))
    # The kernel stops at 1e-9, so differences over 2e-3 are right to about 1e-6.
    check_structure_gradient(graph, target, step=1e-3, tolerance=2e-5)


@settings(max_examples=80, deadline=None)
@given(stories(weights=EDGE_CASES), st.data())
def test_gradient_of_direct_evidence_equals_differences(told, data):
    encoded = told.encoded()
    evidence, size = encoded.evidence, encoded.node_count
    gain = np.array(data.draw(st.lists(INSIDE, min_size=size, max_size=size)))

    def total(weight) -> float:
        return float(gain @ direct_evidence(replace(evidence, weight=weight), size))

    # At a tie of two sources of one channel there is no derivative; sources without channels have none.
    evidence = replace(evidence, channel=np.full_like(evidence.channel, -1))
    found = statement_gradient(gather(evidence, size), gain)
    for k in range(evidence.weight.size):

        def by_weight(x, k=k):
            return total(np.where(np.arange(evidence.weight.size) == k, x, evidence.weight))

        expected = slope(by_weight, float(evidence.weight[k]), 1e-5)
        assert found.by_weight[k] == pytest.approx(expected, abs=1e-6)


def test_only_the_strongest_of_a_channel_moves_anything():
    evidence = DirectEvidence(
        source=np.array([1, 2], dtype=np.int32),
        target=np.array([0, 0], dtype=np.int32),
        weight=np.array([0.5, 0.8]),
        kind=np.zeros(2, dtype=np.uint8),
        age=np.array([1, 2]),
        channel=np.zeros(2, dtype=np.int32),
        trust=np.ones(3),
    )
    found = statement_gradient(gather(evidence, 3), np.array([1.0, 0.0, 0.0]))
    assert (found.by_weight.tolist(), found.by_source.tolist()) == ([0.0, 1.0], [0.0, 0.0, 0.8])


@settings(max_examples=60, deadline=None)
@given(stories(acyclic=True), st.data())
def test_credit_hands_out_all_the_invalidity_and_no_more(told, data):
    encoded = told.encoded()
    cone = cut(encoded, encoded.number[data.draw(st.sampled_from(told.memories)).id])
    direct = direct_evidence(cone.evidence, cone.node.size)
    order = cone.topology.order
    now = kernels.propagate(cone.topology, direct).invalidity
    share = credit(cone.topology, direct[order], now[order], target=int(cone.topology.rank[0]))
    assert share.direct.sum() == pytest.approx(now[0], abs=1e-9)
    _, voice = statement_credit(gather(cone.evidence, cone.node.size), share.direct[cone.topology.rank])
    assert voice.sum() == pytest.approx(now[0], abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(stories(), st.data())
def test_a_cone_knows_where_its_edges_stand(told, data):
    encoded = told.encoded()
    cone = cut(encoded, encoded.number[data.draw(st.sampled_from(told.memories)).id])
    topology = cone.topology
    assert np.array_equal(topology.weight[cone.place], cone.weight)
    assert np.array_equal(topology.order[topology.source[cone.place]], cone.source)
    rows = np.repeat(np.arange(topology.order.size), np.diff(topology.indptr))
    assert np.array_equal(topology.order[rows[cone.place]], cone.target)
    assert np.array_equal((cone.place >= topology.requires_end[rows[cone.place]]), cone.supports)
