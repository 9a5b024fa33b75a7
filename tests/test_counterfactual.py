"""Counterfactuals against a graph that never held what is left out."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.stories import START, Story, rests, says, stories, story
from validity_graph import InputError, ValidityGraph, kernels
from validity_graph.ancestry import cut
from validity_graph.counterfactual import Hinge, blast_radius, hinges, without
from validity_graph.database import SQLStore
from validity_graph.encode import encode
from validity_graph.explain import ground_of
from validity_graph.formats import Record
from validity_graph.kernels.adjoint import LIMIT, gradient
from validity_graph.kernels.direct import direct_evidence
from validity_graph.paths import widest_path
from validity_graph.records import CONFIRMS, REQUIRES, SUPPORTS, Edge

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
