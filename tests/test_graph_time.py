"""Time as users meet it: what was known when, what comes later, and what arrives late."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from conftest import Clock, statuses
from hypothesis import given, settings
from hypothesis import strategies as st

from validity_graph import InputError, ValidityGraph

START = datetime(2025, 1, 1, tzinfo=timezone.utc)


def test_law_15_as_of_equals_the_graph_of_what_was_known(acme):
    early = ValidityGraph.open()
    early.add("job", "Alice works at Acme", time="2025-01-10")
    early.add("train", "Alice takes the train to Acme", time="2025-01-11", depends_on=["job"])
    assert acme.as_of("2025-01-11").check() == early.check()
    assert acme.as_of("2025-06-02").check() == acme.check()
    with pytest.raises(InputError, match="reading only"):
        acme.as_of("2025-01-11").add("x", "y")


@given(
    days=st.lists(st.integers(0, 9), min_size=2, max_size=6),
    pairs=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.floats(0, 1)), max_size=8),
    cut=st.integers(0, 9),
)
@settings(max_examples=40, deadline=None)
def test_law_15_on_any_history(days, pairs, cut):
    whole, known = ValidityGraph.open(), ValidityGraph.open()
    moment = START + timedelta(days=cut)
    for k, day in enumerate(days):
        for graph in (whole, known):
            if graph is whole or day <= cut:
                graph.add(f"m{k}", f"text {k}", time=START + timedelta(days=day))
    for source, target, weight in pairs:
        if max(source, target) >= len(days) or source == target or days[source] <= days[target]:
            continue
        whole.connect(f"m{source}", f"m{target}", type="overturns", weight=weight)
        if days[source] <= cut:
            known.connect(f"m{source}", f"m{target}", type="overturns", weight=weight)
    assert whole.as_of(moment).check() == known.check()


def test_future_changes_take_effect_at_their_time():
    clock = Clock()
    graph = ValidityGraph.open(clock=clock)
    graph.add("rent", "rent is 1200", time="2025-01-01")
    graph.add("rise", "rent is 1400", time="2026-06-01", supersedes=["rent"])
    assert statuses(graph) == {"rent": "valid", "rise": "valid"}
    assert statuses(graph.as_of("2026-06-01"))["rent"] == "outdated"
    clock.now = datetime(2026, 7, 1, tzinfo=timezone.utc)
    assert statuses(graph)["rent"] == "outdated"


def test_instants_are_compared_not_strings():
    graph = ValidityGraph.open()
    graph.add("a", "late in New York", time="2025-03-01T23:30:00-05:00")
    graph.add("b", "early in London", time="2025-03-02T03:00:00Z")
    with pytest.raises(InputError, match="is earlier than a"):
        graph.connect("b", "a", type="overturns")
    graph.connect("a", "b", type="overturns")


def test_a_retraction_reaches_replayed_copies_but_not_later_ones():
    graph = ValidityGraph.open()
    graph.add("party", "party on Friday", time="2025-03-01")
    graph.add("off", "forget the party", time="2025-03-02", retracts=["party"])
    graph.add("replay", "party on  Friday", time="2025-03-01")
    graph.add("anew", "party on Friday", time="2025-03-05")
    assert statuses(graph) == {"party": "outdated", "off": "valid", "replay": "outdated", "anew": "valid"}


def test_a_retraction_that_reaches_copies_closes_no_cycle():
    graph = ValidityGraph.open()
    for id in ("a", "b", "c"):
        graph.add(id, "the same words")
    graph.connect("a", "b", type="overturns", kind="retracts")
    # It would reach the earlier "a" too, which has taken away its force already.
    graph.connect("b", "c", type="overturns", kind="retracts", weight=0.9)
    found = graph.check()
    assert [found[id].invalidity for id in ("a", "b", "c")] == [0.0, 1.0, 0.0]
