"""Evidence paths to one memory: the strongest ones, and the widest.

A path runs from the memory that speaks, over the edge with which it speaks, along requirements and
supports.  Its strength is the product of its weights, its bottleneck the weakest (SEMANTICS section 6).
Knows numbers and edges, no store; what invalidity comes over is the caller's to say.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from validity_graph.records import Edge, Path
from validity_graph.trails import HOP_COST, Inflow, Said, hop


@dataclass(frozen=True, slots=True)
class Ground:
    """What paths lead over, by node number.

    ``said`` against each node by source; ``into`` each node, over which edges, by their keys, and from
    which nodes invalidity comes; ``circular`` are the nodes on loops of such edges.
    """

    said: Mapping[int, Mapping[int, Said]]
    into: Mapping[int, Sequence[tuple[int, Edge]]]
    circular: frozenset[int]

    @classmethod
    def of(cls, said: Mapping[int, Mapping[int, Said]], inflow: Inflow) -> Ground:
        """Lay out ``inflow``, all edges that carry invalidity to the nodes that will be asked about."""
        into: dict[int, list[tuple[int, Edge]]] = defaultdict(list)
        for k, (source, target) in enumerate(
            zip(inflow.source.tolist(), inflow.target.tolist(), strict=True)
        ):
            into[target].append((source, inflow.edge(k)))
        for found in into.values():
            # Of equal paths the same is found first, in whatever order the edges were written.
            found.sort(key=lambda item: item[1].key)
        return cls(said, into, _circular(inflow))


def _circular(inflow: Inflow) -> frozenset[int]:
    """Nodes inside a strongly connected component of more than one."""
    node, place = np.unique(np.concatenate((inflow.source, inflow.target)), return_inverse=True)
    source, target = place[: inflow.source.size], place[inflow.source.size :]
    graph = coo_array((np.ones(source.size, dtype=np.int8), (source, target)), shape=(node.size, node.size))
    _, component = connected_components(graph, directed=True, connection="strong")
    return frozenset(node[np.bincount(component)[component] > 1].tolist())


@dataclass(frozen=True, slots=True)
class _Tail:
    """The end of a path, from node ``v`` on: the edge into v, and the tail behind it."""

    v: int
    edge: Edge
    behind: _Tail | None

    def holds(self, v: int) -> bool:
        """Whether the path runs through node v already."""
        here: _Tail | None = self
        while here is not None:
            if here.v == v:
                return True
            here = here.behind
        return False


def strongest_paths(ground: Ground, target: int, *, count: int) -> list[Path]:
    """Return up to ``count`` strongest loop-free evidence paths to node ``target``, strongest first.

    A best-first search backwards over the cone that settles each node at most ``count`` times, so it is
    linear in the cone's edges times ``count``, with a heap's logarithm.
    """
    settled: dict[int, int] = defaultdict(int)
    found: list[Path] = []
    ticket = itertools.count()
    waiting: list[tuple[float, int, int, _Tail | None, Path | None]] = [(0.0, 0, target, None, None)]
    while waiting and len(found) < count:
        cost, _, v, tail, start = heapq.heappop(waiting)
        if start is not None:
            found.append(_joined(start, tail))
            continue
        settled[v] += 1
        if settled[v] > count:
            continue
        for score, edge, _ in ground.said.get(v, {}).values():
            entry = (cost + _cost(score), next(ticket), v, tail, Path(hop(edge, weight=score)))
            heapq.heappush(waiting, entry)
        for u, edge in ground.into.get(v, ()):
            # Only inside a component can a path come back to where it was.
            if u in ground.circular and (u == v or (tail is not None and tail.holds(u))):
                continue
            step = cost + _cost(edge.weight)
            heapq.heappush(waiting, (step, next(ticket), u, _Tail(v, edge, tail), None))
    return found


def widest_path(ground: Ground, target: int) -> Path | tuple[()]:
    """Return the evidence path to node ``target`` whose weakest hop is strongest; empty without evidence.

    Its ``bottleneck`` is the credit of the best explanation, the operator of [PRM] Eq. 8 on the graph
    (SEMANTICS section 6).  Among equally wide ones a short one.  Best first, each node settled once:
    linear in the cone's edges, with a heap's logarithm.
    """
    settled: set[int] = set()
    ticket = itertools.count()
    waiting: list[tuple[float, int, int, int, _Tail | None, Path | None]] = [
        (-1.0, 0, next(ticket), target, None, None)
    ]
    while waiting:
        width, hops, _, v, tail, start = heapq.heappop(waiting)
        if start is not None:
            return _joined(start, tail)
        if v in settled:
            continue
        settled.add(v)
        for score, edge, _ in ground.said.get(v, {}).values():
            entry = (max(width, -score), hops + 1, next(ticket), v, tail, Path(hop(edge, weight=score)))
            heapq.heappush(waiting, entry)
        for u, edge in ground.into.get(v, ()):
            if u not in settled:
                step = max(width, -edge.weight)
                heapq.heappush(waiting, (step, hops + 1, next(ticket), u, _Tail(v, edge, tail), None))
    return ()


def _joined(start: Path, tail: _Tail | None) -> Path:
    path = start
    while tail is not None:
        path = Path(hop(tail.edge), path)
        tail = tail.behind
    return path


def _cost(weight: float) -> float:
    return math.inf if weight <= 0.0 else -math.log(weight) + HOP_COST
