"""The strongest evidence path to every memory, as a forest that can be mended where something changed.

Strength is the product of the weights along a path (SEMANTICS section 6); among equally strong paths the
one with fewer hops, then the one over the memory that arrived first.  Which path that is depends on the graph
alone, not on how much of it was looked at again.  Reads arrays and edges; knows no store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, dijkstra

from validity_graph.records import Edge, Hop, Path

Values = NDArray[np.float64]
Numbers = NDArray[np.int64]

#: Among equally strong paths the one with fewer hops is shown.
HOP_COST = 1e-9


class Said(NamedTuple):
    """What one source says against one target: score in [0, 1], strongest edge, age of the source."""

    score: float
    edge: Edge
    age: int


@dataclass(frozen=True, slots=True)
class Inflow:
    """Edges over which invalidity comes, [k] each: ends by number, and whether the edge is a support."""

    source: Numbers
    target: Numbers
    weight: Values
    support: NDArray[np.bool_]
    edge: Callable[[int], Edge]


class Trails:
    """By memory: ``cost`` of its strongest path, whether invalidity may come over a support, and the path."""

    def __init__(self) -> None:
        """Start without memories."""
        self._cost = np.empty(0)
        self._mixed = np.empty(0, dtype=np.bool_)
        self._paths: dict[int, Path] = {}

    def path(self, v: int) -> Path | tuple[()]:
        """Return the strongest evidence path to ``v``, empty where nothing speaks."""
        return self._paths.get(v, ())

    def requires_only(self, v: int) -> bool:
        """Tell whether invalidity comes to ``v`` over requirements alone."""
        return not self._mixed[v]

    def retrace(
        self, node: Numbers, *, said: Mapping[int, Mapping[int, Said]], inflow: Inflow, count: int
    ) -> None:
        """Find the paths to ``node`` anew, of ``count`` memories in all; the others are as they were.

        ``inflow`` are all edges that carry invalidity into ``node``; ``said`` by target and source.
        """
        self._grow(count)
        place = np.full(count, -1, dtype=np.int64)
        place[node] = np.arange(node.size)
        source, target = place[inflow.source], place[inflow.target]
        cost = _cost(inflow.weight)
        inner = source >= 0
        start = np.full(node.size, np.inf)
        best = {int(v): max(said[v].values(), key=_loudest) for v in node.tolist() if said.get(v)}
        voice = np.full(node.size, np.inf)
        spoken = np.array(list(best), dtype=np.int64)
        voice[place[spoken]] = _cost(np.array([item.score for item in best.values()]))
        np.minimum(start, voice, out=start)
        np.minimum.at(start, target[~inner], self._cost[inflow.source[~inner]] + cost[~inner])
        self._cost[node] = _shortest(start, source[inner], target[inner], cost[inner])
        self._mixed[node] = _reached(
            node.size,
            np.concatenate((target[inflow.support], target[~inner & self._mixed[inflow.source]])),
            source[inner],
            target[inner],
        )
        before = self._before(node.size, inflow, target, cost)
        self._lengthen(node, voice, best, before, inflow)

    def _grow(self, count: int) -> None:
        if count > self._cost.size:
            room = count + count // 2
            for name, fill in (("_cost", np.inf), ("_mixed", False)):
                old = getattr(self, name)
                new = np.full(room, fill, dtype=old.dtype)
                new[: old.size] = old
                setattr(self, name, new)

    def _before(self, count: int, inflow: Inflow, target: Numbers, cost: Values) -> Numbers:
        """By position: the edge in ``inflow`` by which the strongest path arrives, -1 where none does."""
        there = self._cost[inflow.target]
        # What is not strictly nearer is at a distance where the strength is 0 anyway.
        arrives = (self._cost[inflow.source] + cost == there) & (self._cost[inflow.source] < there)
        edge = np.flatnonzero(arrives)
        edge = edge[np.lexsort((-inflow.weight[edge], inflow.source[edge], target[edge]))]
        first = np.flatnonzero(np.diff(target[edge], prepend=-1))
        before = np.full(count, -1, dtype=np.int64)
        for i in first.tolist():
            chosen = e = int(edge[i])
            # Parallel edges of one weight: the one whose name comes first.
            while (i := i + 1) < edge.size and _alike(inflow, e, int(edge[i])):
                chosen = min(chosen, int(edge[i]), key=lambda k: inflow.edge(k).key)
            before[target[e]] = chosen
        return before

    def _lengthen(
        self, node: Numbers, voice: Values, best: Mapping[int, Said], before: Numbers, inflow: Inflow
    ) -> None:
        """Write the paths to ``node``, what lies nearer to the evidence first."""
        cost = self._cost[node]
        for i in np.argsort(cost, kind="stable").tolist():
            v, e = int(node[i]), int(before[i])
            if np.isfinite(cost[i]) and voice[i] == cost[i]:
                self._paths[v] = Path(hop(best[v].edge, weight=best[v].score))
            elif e >= 0:
                self._paths[v] = Path(hop(inflow.edge(e)), self._paths[int(inflow.source[e])])
            else:
                self._paths.pop(v, None)


def hop(edge: Edge, *, weight: float | None = None) -> Hop:
    """Return the edge as a hop; for evidence ``weight`` is what is left after force and confirmations."""
    return Hop(
        source=edge.source,
        target=edge.target,
        type=edge.type,
        weight=edge.weight if weight is None else weight,
        evidence=edge.evidence,
        inferred=edge.inferred,
    )


def _cost(weight: Values) -> Values:
    cost: Values = -np.log(weight) + HOP_COST
    return cost


def _loudest(item: Said) -> tuple[float, int]:
    return (item.score, -item.age)


def _alike(inflow: Inflow, one: int, other: int) -> bool:
    return bool(
        inflow.source[one] == inflow.source[other]
        and inflow.target[one] == inflow.target[other]
        and inflow.weight[one] == inflow.weight[other]
    )


def _shortest(start: Values, source: Numbers, target: Numbers, cost: Values) -> Values:
    """Cost of the cheapest way to each place, of ``start`` there and edges from there on."""
    size = start.size
    entered = np.flatnonzero(np.isfinite(start))
    if entered.size == 0:
        return start
    source = np.concatenate((source, np.full(entered.size, size)))
    target, cost = np.concatenate((target, entered)), np.concatenate((cost, start[entered]))
    order = np.lexsort((cost, target, source))
    # Of parallel edges the cheapest: the matrix would add them up.
    first = np.diff(source[order] * (size + 1) + target[order], prepend=-1) != 0
    kept = order[first]
    graph = csr_array((cost[kept], (source[kept], target[kept])), shape=(size + 1, size + 1))
    found: Values = dijkstra(graph, indices=np.array(size))[:size]
    return found


def _reached(size: int, start: Numbers, source: Numbers, target: Numbers) -> NDArray[np.bool_]:
    """Which places can be reached from ``start`` over the edges, bool[size]."""
    reached = np.zeros(size, dtype=np.bool_)
    if start.size == 0:
        return reached
    source = np.concatenate((source, np.full(start.size, size)))
    target = np.concatenate((target, start))
    graph = csr_array((np.ones(source.size), (source, target)), shape=(size + 1, size + 1))
    order = breadth_first_order(graph, size, return_predecessors=False)
    reached[order[order < size]] = True
    return reached
