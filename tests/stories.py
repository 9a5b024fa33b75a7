"""Small graphs told by their memories and edges, for tests that leave some of it out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone

from hypothesis import strategies as st

from validity_graph.encode import EncodedGraph, encode
from validity_graph.explain import Findings
from validity_graph.inference import findings
from validity_graph.records import CONFIRMS, OVERTURNS, REQUIRES, RETRACTS, SUPERSEDES, SUPPORTS, Edge, Memory
from validity_graph.store import NOTHING, StoredMemory
from validity_graph.testing import probabilities

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
