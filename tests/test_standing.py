"""Verdicts that follow writes are those of a graph read afresh, to the last bit: law 10 by the public API."""

from __future__ import annotations

import tempfile
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from validity_graph import InputError, ValidityGraph
from validity_graph import judge as judge_module
from validity_graph.counterfactual import blast_radius
from validity_graph.explain import Thresholds, explanation, ground_of
from validity_graph.formats import Record
from validity_graph.inference import Moment
from validity_graph.records import Edge
from validity_graph.standing import Standing

START = datetime(2025, 1, 1, tzinfo=timezone.utc)
WEIGHT = st.sampled_from([0.0, 0.1, 0.3, 0.7, 0.9, 1.0])
TIME = st.one_of(st.none(), st.integers(0, 6).map(lambda day: START + timedelta(days=day)))
TEXT = st.sampled_from(["cola", "coffee", "tea", "works at Acme", "left Acme"])
PLACE = st.integers(0, 40)
TYPES = [
    ("requires", ""),
    ("supports", ""),
    ("supports", ""),
    ("overturns", "supersedes"),
    ("overturns", "supersedes"),
    ("overturns", "retracts"),
    ("confirms", ""),
    ("cites", ""),
]


class Clock:
    def __init__(self):
        self.now = START + timedelta(days=10)

    def __call__(self):
        return self.now


class Writes(RuleBasedStateMachine):
    """One graph that is written to and asked, and after each write one that was opened just now."""

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.place = str(Path(self.folder.name) / "memories.db")
        self.clock = Clock()
        self.graph = ValidityGraph.open(self.place, clock=self.clock)
        self.count = 0

    def teardown(self):
        self.graph.close()
        self.folder.cleanup()

    @initialize(count=st.integers(2, 5))
    def start(self, count):
        for _ in range(count):
            self.add(None, "cola", 1.0, "", False, [])

    def some(self, place):
        ids = [item.id for item in self.graph.memories()]
        return ids[place % len(ids)] if ids else "nobody"

    @rule(
        time=TIME,
        text=TEXT,
        trust=st.sampled_from([1.0, 1.0, 0.6]),
        channel=st.sampled_from(["", "", "a", "b"]),
        premise=st.booleans(),
        edges=st.lists(st.tuples(PLACE, st.sampled_from(TYPES), st.booleans()), max_size=3),
    )
    def add(self, time, text, trust, channel, premise, edges):
        id = f"m{self.count}"
        ends = [(self.some(place), type, kind, outward) for place, (type, kind), outward in edges]
        self.count += 1
        # A forgotten text is refused.
        self.attempt(
            lambda: self.graph.add(id, text, time=time, trust=trust, channel=channel, premise=premise)
        )
        for other, type, kind, outward in ends:
            source, target = (id, other) if outward else (other, id)
            self.attempt(lambda: self.graph.connect(source, target, type=type, kind=kind, weight=0.8))  # noqa: B023

    @rule(
        one=PLACE,
        other=PLACE,
        what=st.sampled_from(TYPES),
        weight=WEIGHT,
        justification=st.sampled_from(["", "", "j", "k"]),
        proposition=st.sampled_from(["", "", "p"]),
    )
    def connect(self, one, other, what, weight, justification, proposition):
        type, kind = what
        self.attempt(
            lambda: self.graph.connect(
                self.some(one),
                self.some(other),
                type=type,
                kind=kind,
                weight=weight,
                justification=justification,
                proposition=proposition,
            )
        )

    @rule(place=PLACE)
    def disconnect(self, place):
        edges = self.graph.edges()
        if edges:
            source, target, type, proposition = edges[place % len(edges)].key
            self.graph.disconnect(source, target, type=type, proposition=proposition)

    @rule(place=PLACE, probability=WEIGHT)
    def invalidate(self, place, probability):
        self.tick()
        self.attempt(lambda: self.graph.invalidate(self.some(place), probability))

    @rule(place=PLACE)
    def confirm(self, place):
        self.tick()
        self.attempt(lambda: self.graph.confirm(self.some(place)))

    @rule(place=PLACE)
    def forget(self, place):
        self.attempt(lambda: self.graph.forget(self.some(place)))

    @rule(place=PLACE, text=TEXT, time=TIME)
    def replace(self, place, text, time):
        self.attempt(lambda: self.graph.add(self.some(place), text, time=time, replace=True))

    @precondition(lambda self: self.count > 3)
    @rule(place=PLACE)
    def remember(self, place):
        self.attempt(lambda: self.graph.add(f"m{place % self.count}", "back again", remember=True))

    @rule(place=PLACE, ahead=st.integers(0, 2), what=st.sampled_from(TYPES), outward=st.booleans())
    def wait_for(self, place, ahead, what, outward):
        """An edge with an end that may come later."""
        known, coming = self.some(place), f"m{self.count + ahead}"
        source, target = (known, coming) if outward else (coming, known)
        edge = Edge(source, target, what[0], weight=0.7, kind=what[1])
        self.attempt(lambda: self.graph.ingest([Record("", edge)], allow_missing=True))

    @rule(text=TEXT)
    def announce(self, text):
        """A change that takes effect in two days."""
        self.count += 1
        time = self.clock.now + timedelta(days=2)
        self.attempt(lambda: self.graph.add(f"m{self.count - 1}", text, time=time))
        self.attempt(
            lambda: self.graph.connect(f"m{self.count - 1}", self.some(0), type="overturns", weight=0.9)
        )

    @rule(days=st.integers(1, 3))
    def pass_time(self, days):
        self.clock.now += timedelta(days=days)

    @rule(place=PLACE)
    def write_elsewhere(self, place):
        with ValidityGraph.open(self.place, clock=self.clock) as other:
            rests_on = self.some(place)
            self.attempt(lambda: other.add(f"m{self.count}", "from elsewhere", depends_on=[rests_on]))
        self.count += 1

    def tick(self):
        self.clock.now += timedelta(seconds=1)

    def attempt(self, write):
        try:
            write()
        except InputError:
            pass

    @invariant()
    def as_read_afresh(self):
        found = self.graph.check()
        with ValidityGraph.open(self.place, clock=self.clock) as fresh:
            assert list(found.items()) == list(fresh.check().items())
            assert self.graph.summary(found) == fresh.summary(found)
        whole = Moment(
            self.graph._archive.current().snapshot(),
            now=self.clock.now,
            as_of=None,
            thresholds=Thresholds(),
        )
        assert list(found.items()) == list(whole.verdicts("noisy_or").items())
        findings = whole.findings("noisy_or")
        for id in list(found)[:: max(1, len(found) // 3)]:
            v = whole.encoded.number[id]
            explained = explanation(ground_of(findings), v, verdict=found[id], count=3)
            assert self.graph.explain(id) == explained
            assert self.graph.blast_radius(id) == blast_radius(findings, v)
        assert self.graph.check() == found

    @rule(day=st.integers(0, 12))
    def as_of(self, day):
        with ValidityGraph.open(self.place, clock=self.clock) as fresh:
            for moment in (START + timedelta(days=day), self.clock.now):
                assert self.graph.as_of(moment).check() == fresh.as_of(moment).check()


Writes.TestCase.settings = settings(
    max_examples=20, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
TestWrites = Writes.TestCase


@pytest.fixture
def readings(monkeypatch):
    """How often everything was judged anew."""
    count = []

    class Counted(Standing):
        def __init__(self, *positional, **named):
            count.append(1)
            super().__init__(*positional, **named)

    monkeypatch.setattr(judge_module, "Standing", Counted)
    return count


def test_everyday_writes_are_followed(readings):
    graph = ValidityGraph.open()
    graph.add("a", "works at Acme", time="2025-01-01")
    graph.check()
    for k in range(20):
        graph.add(f"b{k}", f"memory {k}", depends_on=["a"], supported_by=[f"b{k - 1}"] if k else [])
        graph.check()
    graph.add("c", "left Acme", time="2025-02-01", supersedes=["a"])
    assert graph.check()["b7"].path == ("c", "a", "b7")
    graph.connect("a", "c", type="cites")
    graph.connect("a", "b3", type="requires", weight=0.5)
    assert graph.check()["b0"].inherited == 1.0
    graph.disconnect("a", "b3", type="requires")
    graph.check()
    graph.invalidate("b5", 0.7)
    graph.check()
    graph.confirm("a")
    assert [graph.check()[id].invalidity for id in ("a", "b4", "b7")] == [0.0, 0.0, 0.7]
    assert [item.id for item in graph.blast_radius("b0")][:2] == ["b1", "b2"]
    assert [[hop.target for hop in path] for path in graph.explain("b7").paths] == [["b5", "b6", "b7"]]
    assert len(readings) == 1


def test_what_cannot_be_followed_is_read_anew(readings):
    graph = ValidityGraph.open()
    for id in ("a", "b", "c"):
        graph.add(id, f"memory {id}")
    graph.check()
    writes = [
        lambda: graph.add("d", "no, never", retracts=["a"]),
        lambda: graph.add("e", "memory a", time="2020-01-01"),
        lambda: graph.connect("d", "b", type="overturns"),
        lambda: graph.add("b", "other words", replace=True),
        lambda: graph.forget("c"),
        lambda: graph.add("c", "back", remember=True),
        lambda: graph.add("f", "will move", time=datetime.now(timezone.utc) + timedelta(days=1)),
        lambda: graph.connect("a", "e", type="overturns"),
        lambda: graph.connect("e", "a", type="overturns"),
    ]
    for before, write in enumerate(writes, start=1):
        write()
        graph.check()
        # The last but one closes no loop of supersession yet.
        assert len(readings) == before + 1 - (before >= 8), before
