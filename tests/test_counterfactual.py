"""Counterfactuals against a graph that never held what is left out; derivatives against differences."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import oracle
from validity_graph import InputError, ValidityGraph, kernels
from validity_graph.ancestry import cut
from validity_graph.counterfactual import Hinge, blast_radius, hinges, without
from validity_graph.database import SQLStore
from validity_graph.encode import EncodedGraph, encode
from validity_graph.explain import Findings, ground_of
from validity_graph.formats import Record
from validity_graph.inference import findings
from validity_graph.kernels.adjoint import LIMIT, credit, gradient
from validity_graph.kernels.direct import direct_evidence
from validity_graph.kernels.testimony import gather, statement_credit, statement_gradient
from validity_graph.paths import widest_path
from validity_graph.records import CONFIRMS, OVERTURNS, REQUIRES, RETRACTS, SUPERSEDES, SUPPORTS, Edge, Memory
from validity_graph.store import NOTHING, StoredMemory
from validity_graph.testing import dependency_graphs, probabilities
from validity_graph.topology import DirectEvidence

START = datetime(2025, 1, 1, tzinfo=timezone.utc)
NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Story:
    """What goes into a graph, so that some of it can be left out."""

    memories: tuple[Memory, ...]
    edges: tuple[Edge, ...]

    def without_memory(self, id: str) -> Story:
        return Story(
            tuple(item for item in self.memories if item.id != id),
            tuple(item for item in self.edges if id not in (item.source, item.target)),
        )

    def without_edge(self, edge: Edge) -> Story:
        return replace(self, edges=tuple(item for item in self.edges if item.key != edge.key))

    def encoded(self) -> EncodedGraph:
        stored = tuple(StoredMemory(k, NOW, item) for k, item in enumerate(self.memories))
        return encode(replace(NOTHING, memories=stored, edges=self.edges), now=NOW)

    def findings(self) -> Findings:
        return findings(self.encoded(), "noisy_or")

    def invalidity(self, id: str) -> float:
        found = self.findings()
        return float(found.invalidity[found.encoded.number[id]])


def story(edges: list[Edge], **properties: dict) -> Story:
    """A story told by its edges; every memory is later than those that came up before it."""
    ids = list(dict.fromkeys(id for item in edges for id in (item.source, item.target)))
    return Story(tuple(Memory(id, f"memory {id}", **properties.get(id, {})) for id in ids), tuple(edges))


def says(source: str, target: str, weight: float = 1.0, *, kind: str = SUPERSEDES, proposition: str = ""):
    return Edge(source, target, OVERTURNS, weight, kind, proposition=proposition)


def rests(source: str, target: str, weight: float = 1.0) -> Edge:
    return Edge(source, target, REQUIRES, weight)


@st.composite
def stories(draw, *, acyclic: bool = False, most: int = 6, weights=probabilities) -> Story:
    """Memories in order of time, evidence from later to earlier ones, structure any way around."""
    count = draw(st.integers(2, most))
    memories = tuple(
        Memory(
            f"m{v}",
            f"memory {v}",
            time=START + timedelta(days=v),
            trust=draw(st.sampled_from([1.0, 1.0, 0.5])),
            channel=draw(st.sampled_from(["", "", "x"])),
            premise=draw(st.sampled_from([False, False, True])),
        )
        for v in range(count)
    )
    node = st.integers(0, count - 1)
    structure = st.tuples(
        node, node, st.sampled_from([REQUIRES, SUPPORTS]), weights, st.sampled_from(["", "", "j"])
    )
    evidence = st.tuples(
        node,
        node,
        st.sampled_from([SUPERSEDES, SUPERSEDES, RETRACTS, CONFIRMS]),
        weights,
        st.sampled_from(["", "p"]),
    )
    edges: dict[tuple, Edge] = {}
    for u, v, type, weight, justification in draw(st.lists(structure, max_size=2 * count)):
        if u != v:
            u, v = (min(u, v), max(u, v)) if acyclic else (u, v)
            group = justification if type == SUPPORTS else ""
            item = Edge(f"m{u}", f"m{v}", type, weight, justification=group)
            edges[item.key] = item
    for u, v, kind, weight, proposition in draw(st.lists(evidence, min_size=1, max_size=2 * count)):
        if u != v:
            ends = (f"m{max(u, v)}", f"m{min(u, v)}")
            type, kind = (CONFIRMS, "") if kind == CONFIRMS else (OVERTURNS, kind)
            item = Edge(*ends, type, weight, kind, proposition=proposition)
            edges[item.key] = item
    return Story(memories, tuple(edges.values()))


# -- without -----------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(stories(), st.data())
def test_without_is_the_graph_that_never_held_it(told, data):
    encoded = told.encoded()
    target = data.draw(st.sampled_from(told.memories)).id
    number = encoded.number[target]
    for memory in told.memories:
        if memory.id != target:
            found = without(encoded, number, memory=encoded.number[memory.id])
            assert found == pytest.approx(told.without_memory(memory.id).invalidity(target), abs=1e-7)
    for edge in told.edges:
        found = without(encoded, number, edge=edge)
        assert found == pytest.approx(told.without_edge(edge).invalidity(target), abs=1e-7)


@settings(max_examples=8, deadline=None)
@given(stories(most=4), st.data())
def test_without_agrees_with_a_graph_that_is_written_anew(told, data):
    def judged(part: Story) -> float:
        graph = ValidityGraph.open()
        graph.ingest([Record("", item) for item in (*part.memories, *part.edges)])
        return graph.check()[target].invalidity

    encoded = told.encoded()
    target, other = data.draw(st.permutations([item.id for item in told.memories]))[:2]
    found = without(encoded, encoded.number[target], memory=encoded.number[other])
    assert found == pytest.approx(judged(told.without_memory(other)), abs=1e-7)


def test_without_nothing_of_the_cone_is_the_value_itself():
    told = story([says("s", "a", 0.9), rests("a", "b", 0.8), rests("b", "c"), says("x", "y")])
    encoded = told.encoded()
    number = encoded.number
    for outside in ("c", "x", "y"):
        assert without(encoded, number["b"], memory=number[outside]) == pytest.approx(0.72)
    assert without(encoded, number["b"], edge=told.edges[3]) == pytest.approx(0.72)
    assert without(encoded, number["b"], memory=number["s"]) == 0.0


def test_without_a_loops_member_the_loop_is_none():
    # Two that support each other, held by a reason outside; without it they are grounded in themselves.
    told = story(
        [
            says("s", "p"),
            Edge("p", "a", SUPPORTS),
            Edge("a", "b", SUPPORTS),
            Edge("b", "a", SUPPORTS),
        ]
    )
    encoded = told.encoded()
    number = encoded.number
    assert told.invalidity("b") == 1.0
    assert without(encoded, number["b"], memory=number["p"]) == 0.0
    assert without(encoded, number["b"], edge=told.edges[3]) == 1.0
    assert without(encoded, number["b"], edge=told.edges[2]) == 0.0


def test_a_ruling_and_forgetting_can_be_thought_away():
    store = SQLStore(None)
    graph = ValidityGraph(store)
    graph.add("a", "a fact")
    graph.add("b", "rests on it", depends_on=["a"])
    graph.add("c", "another fact")
    graph.add("d", "rests on both", depends_on=["b", "c"])
    graph.invalidate("c", 0.4, reason="checked")
    graph.forget("a")
    encoded = encode(store.snapshot(), now=datetime.now(timezone.utc))
    target = encoded.number["d"]
    named = {item.memory: item.after for item in hinges(encoded, target) if item.memory}
    ruling = next(id for id in encoded.ids if id.startswith("ruling:"))
    assert named == {"a": pytest.approx(0.4), "b": pytest.approx(0.4)}
    assert without(encoded, encoded.number["c"], memory=encoded.number[ruling]) == 0.0
    assert not any(id.startswith("forgotten:") for id in named)


def test_what_cannot_be_left_out_is_refused():
    encoded = story([says("s", "a"), rests("a", "b")]).encoded()
    with pytest.raises(InputError, match="not both or neither"):
        without(encoded, 0)
    with pytest.raises(InputError, match="not both or neither"):
        without(encoded, 0, memory=1, edge=says("s", "a"))
    with pytest.raises(InputError, match='"s" cannot be judged without itself'):
        without(encoded, 0, memory=0)
    with pytest.raises(InputError, match="there is no requires edge a -> s"):
        without(encoded, 0, edge=rests("a", "s"))
    with pytest.raises(InputError, match="node 7 is not in this graph"):
        without(encoded, 0, memory=7)
    with pytest.raises(InputError, match="node -1 is not in this graph"):
        hinges(encoded, -1)
    with pytest.raises(InputError, match="count=0"):
        hinges(encoded, 0, count=0)


# -- hinges ------------------------------------------------------------------------------------------------


def best(told: Story, target: str) -> float:
    """The largest change that leaving out any one memory or edge makes, by fresh graphs."""
    before = told.invalidity(target)
    changes = [told.without_memory(item.id) for item in told.memories if item.id != target]
    changes += [told.without_edge(item) for item in told.edges]
    return max((abs(item.invalidity(target) - before) for item in changes), default=0.0)


@settings(max_examples=40, deadline=None)
@given(stories(most=5), st.data())
def test_hinges_are_exact_ranked_and_complete_on_small_graphs(told, data):
    encoded = told.encoded()
    target = data.draw(st.sampled_from(told.memories)).id
    found = hinges(encoded, encoded.number[target], count=50)
    before = told.invalidity(target)
    for item in found:
        assert item.before == pytest.approx(before, abs=1e-7)
        other = told.without_edge(item.edge) if item.edge else told.without_memory(item.memory)
        assert item.after == pytest.approx(other.invalidity(target), abs=1e-7)
    changes = [abs(item.change) for item in found]
    assert all(a >= b - 1e-9 for a, b in zip(changes, changes[1:], strict=False))
    # Nothing that makes a difference may be missing, joint causes and joint supports included.
    largest = best(told, target)
    assert (changes[0] if changes else 0.0) == pytest.approx(largest, abs=1e-6)


@settings(max_examples=60, deadline=None)
@given(stories(most=7, weights=st.sampled_from([1.0, 1.0, 0.6])), st.data())
def test_the_largest_hinge_survives_a_narrow_screen(told, data):
    encoded = told.encoded()
    target = data.draw(st.sampled_from(told.memories)).id
    found = hinges(encoded, encoded.number[target], count=4)
    changes = [abs(item.change) for item in found]
    assert (changes[0] if changes else 0.0) == pytest.approx(best(told, target), abs=1e-6)


def test_a_chain_hinges_on_its_beginning_first():
    told = story([says("m3", "m1", 0.93), rests("m1", "m2")])
    encoded = told.encoded()
    assert [str(item) for item in hinges(encoded, encoded.number["m2"])] == [
        "without m3: 0.93 -> 0.00",
        "without m1: 0.93 -> 0.00",
        "without m3 -overturns-> m1: 0.93 -> 0.00",
        "without m1 -requires-> m2: 0.93 -> 0.00",
    ]


def test_one_cause_over_two_certain_ways_is_a_hinge_and_the_ways_are_not():
    told = story(
        [
            says("s", "m"),
            rests("m", "a"),
            rests("m", "b"),
            rests("a", "t"),
            rests("b", "t"),
        ]
    )
    encoded = told.encoded()
    found = hinges(encoded, encoded.number["t"])
    assert [item.memory for item in found if item.memory] == ["s", "m"]
    assert [item.edge for item in found if item.edge] == [told.edges[0]]


def test_two_sufficient_causes_are_no_hinge():
    told = story([says("s", "a"), says("r", "a"), rests("a", "t")])
    encoded = told.encoded()
    named = [item.memory for item in hinges(encoded, encoded.number["t"]) if item.memory]
    assert named == ["a"]
    encoded = story([says("s", "t"), says("r", "t")]).encoded()
    assert hinges(encoded, encoded.number["t"]) == []


def test_what_holds_a_verdict_up_is_a_hinge_too():
    told = story(
        [says("s", "m"), rests("m", "t"), Edge("c", "m", CONFIRMS)],
        s={"time": START},
        c={"time": START + timedelta(days=2)},
    )
    encoded = told.encoded()
    found = hinges(encoded, encoded.number["t"])
    assert [(item.memory, item.before, item.after) for item in found] == [("c", 0.0, 1.0), (None, 0.0, 1.0)]


def test_joint_alternatives_are_found_through_what_both_rest_on():
    # t has two reasons, each of which has a dead reason and p: p alone keeps both alive.
    told = story(
        [
            says("s", "dead"),
            Edge("dead", "x", SUPPORTS),
            Edge("p", "x", SUPPORTS),
            Edge("dead", "y", SUPPORTS),
            Edge("p", "y", SUPPORTS),
            Edge("x", "t", SUPPORTS),
            Edge("y", "t", SUPPORTS),
        ]
    )
    encoded = told.encoded()
    found = hinges(encoded, encoded.number["t"])
    assert (found[0].memory, found[0].before, found[0].after) == ("p", 0.0, 1.0)


def test_two_propositions_of_one_source_fall_together():
    told = story([says("s", "t", proposition="one"), says("s", "t", proposition="two")])
    encoded = told.encoded()
    assert [item.memory for item in hinges(encoded, encoded.number["t"])] == ["s"]


# -- blast radius ------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(stories(), st.data())
def test_blast_radius_is_what_a_certain_ruling_would_do(told, data):
    found = told.findings()
    encoded = found.encoded
    fallen = data.draw(st.sampled_from(told.memories)).id
    direct = direct_evidence(encoded.evidence, encoded.node_count)
    direct[encoded.number[fallen]] = 1.0
    after = kernels.propagate(encoded.topology, direct, backend="numpy").invalidity
    harm = {id: after[v] - found.invalidity[v] for id, v in encoded.number.items() if id != fallen}
    out = blast_radius(found, encoded.number[fallen])
    assert {item.id for item in out} == {id for id, change in harm.items() if change > 1e-8}
    for item in out:
        assert item.before == found.invalidity[encoded.number[item.id]]
        assert item.after == pytest.approx(after[encoded.number[item.id]], abs=1e-9)
    changes = [item.after - item.before for item in out]
    assert changes == sorted(changes, reverse=True)
    assert {item.id for item in out} <= descendants(told, fallen)


def descendants(told: Story, id: str) -> set[str]:
    reached = {id}
    while True:
        more = {
            item.target for item in told.edges if item.type in (REQUIRES, SUPPORTS) and item.source in reached
        } - reached
        if not more:
            return reached - {id}
        reached |= more


def test_blast_radius_names_the_most_harmed_first():
    told = story([rests("a", "b", 0.5), rests("a", "c"), rests("c", "d", 0.9), says("s", "d", 0.5)])
    found = told.findings()
    out = blast_radius(found, found.encoded.number["a"])
    assert [str(item) for item in out] == ["c: 0.00 -> 1.00", "b: 0.00 -> 0.50", "d: 0.50 -> 0.95"]


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


# -- size --------------------------------------------------------------------------------------------------


def ladder(rungs: int) -> Story:
    edges = [says("s", "m0")]
    for k in range(rungs):
        for side in "ab":
            edges += [rests(f"m{k}", f"{side}{k}"), rests(f"{side}{k}", f"m{k + 1}")]
    return story(edges)


@pytest.mark.parametrize("rungs", [30, 300])
def test_a_ladder_of_diamonds_is_instant_and_hinges_on_its_rungs(rungs):
    found = ladder(rungs).findings()
    encoded = found.encoded
    target = encoded.number[f"m{rungs}"]
    hinges(encoded, target, count=1)  # compiles
    start = time.process_time()
    named = [item.memory for item in hinges(encoded, target)]
    path = widest_path(ground_of(found), target)
    fallen = blast_radius(found, encoded.number["m0"])
    assert time.process_time() - start < 5.0
    assert named == ["s", *(f"m{k}" for k in range(9))]
    assert len(path) == 2 * rungs + 1
    assert fallen == []  # all of them have fallen already


def test_a_chain_of_ten_thousand_does_not_recurse():
    length = 10_000
    told = story([says("s", "m0", 0.9), *(rests(f"m{k}", f"m{k + 1}") for k in range(length - 1))])
    found = told.findings()
    encoded = found.encoded
    target = encoded.number[f"m{length - 1}"]
    assert [item.memory for item in hinges(encoded, target, count=3)] == ["s", "m0", "m1"]
    assert without(encoded, target, memory=encoded.number["m5000"]) == 0.0
    assert len(widest_path(ground_of(found), target)) == length
    assert len(blast_radius(found, encoded.number["m0"])) == length - 1


def test_derivatives_through_a_long_ladder_stay_finite():
    told = ladder(1200)
    cone = cut(encoded := told.encoded(), encoded.number["m1200"])
    size = cone.node.size
    moved = gradient(cone.topology, np.zeros(size), np.zeros(size), target=int(cone.topology.rank[0]))
    assert moved.by_direct.max() == LIMIT
    assert np.isfinite(moved.by_weight).all()


def test_certain_requirements_in_a_circle_leave_the_adjoint_finite():
    told = story([says("s", "a", 0.5), rests("a", "b"), rests("b", "c"), rests("c", "a"), rests("b", "t")])
    encoded = told.encoded()
    named = {item.memory: item.after for item in hinges(encoded, encoded.number["t"]) if item.memory}
    # Mean field runs around the circle to 1; where c opens it, what s says counts once.
    assert named == {"s": 0.0, "a": 0.0, "b": 0.0, "c": 0.5}


def test_a_hinge_knows_its_change():
    assert Hinge("m3", None, 0.75, 0.25).change == -0.5
