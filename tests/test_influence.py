"""What a verdict on one pair can still move: the bound that lets the router spare the second head."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from validity_graph import ValidityGraph
from validity_graph.errors import InputError
from validity_graph.records import CONFIRMS, OVERTURNS, REQUIRES
from validity_graph.verifier import Scores
from validity_graph.verifier.router import report

NAMES = ("a", "b", "c", "d")


class Recorder:
    """A verifier that finds nothing and remembers the influence that it was told."""

    def __init__(self) -> None:
        self.told: dict[tuple[str, str], float] = {}

    def score(self, sources: Any, targets: Any, *, influence: Any, **_: Any) -> Scores:
        self.told |= dict(zip(zip(sources, targets, strict=True), influence.tolist(), strict=True))
        none = np.zeros(len(sources))
        silent = np.full(len(sources), np.nan)
        return Scores(none, silent, none, none, none, np.full(len(sources), "none"), none, report([]))


names = st.sampled_from(NAMES)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("edge"), names, names, st.sampled_from((0.3, 0.9, 1.0))),
        st.tuples(st.just("confirms"), names, names, st.just(1.0)),
        st.tuples(st.just("requires"), names, names, st.just(0.8)),
        st.tuples(st.just("rule"), names, st.just(""), st.sampled_from((0.5, 1.0))),
        st.tuples(st.just("confirm"), names, st.just(""), st.just(1.0)),
    ),
    max_size=5,
)  # fmt: skip
TYPES = {"edge": OVERTURNS, "confirms": CONFIRMS, "requires": REQUIRES}


@settings(max_examples=60, deadline=None)
@given(steps, st.sampled_from((1.0, 0.5)))
def test_no_verdict_moves_any_memory_by_more_than_its_influence(
    done: list[tuple[str, str, str, float]], trust: float
) -> None:
    recorder = Recorder()
    graph = ValidityGraph.open(verifier=recorder)  # type: ignore[arg-type]
    for k, name in enumerate(NAMES):
        graph.add(
            name, f"{name} walks the old red dog", time=f"2024-01-0{k + 1}", trust=trust if k == 3 else 1.0
        )
    for what, one, other, value in done:
        if what in TYPES and one != other:
            with suppress(InputError):  # of two edges that contradict each other the first stays
                graph.connect(one, other, type=TYPES[what], weight=value)
        elif what == "rule":
            graph.invalidate(one, value)
        elif what == "confirm":
            graph.confirm(one)
    graph.verify()
    text = {f"{name} walks the old red dog": name for name in NAMES}
    before = {id: verdict.invalidity for id, verdict in graph.check().items()}
    for (source, target), influence in recorder.told.items():
        pair = text[source], text[target]
        if any(what == "edge" and (one, other) == pair for what, one, other, _ in done):
            continue  # given edges are never replaced
        try:
            graph.connect(*pair, type=OVERTURNS, weight=1.0)
        except InputError:
            continue
        after = graph.check()
        assert max(abs(after[id].invalidity - before[id]) for id in before) <= influence + 1e-9
        graph.disconnect(*pair, type=OVERTURNS)


def test_what_is_settled_has_no_influence_left() -> None:
    recorder = Recorder()
    graph = ValidityGraph.open(verifier=recorder)  # type: ignore[arg-type]
    graph.add("a", "The old kiln is hot", time="2024-01-01")
    graph.add("b", "The old kiln is hot and loud", time="2024-01-02")
    graph.invalidate("a", 0.75)
    graph.add("c", "The old kiln is cold", time="2024-01-03")
    graph.verify()
    told = {target: value for (source, target), value in recorder.told.items() if source.endswith("cold")}
    assert told["The old kiln is hot"] == pytest.approx(0.25)
    assert told["The old kiln is hot and loud"] == 1.0
