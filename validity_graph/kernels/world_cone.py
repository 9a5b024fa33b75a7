"""What one memory depends on, as a small graph of its own, and the coins that decide its worlds.

Arrays in, arrays out, in the numbering of ``Topology`` or of the cone; never imports records.
SEMANTICS sections 3 and 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from validity_graph.kernels.world_arrays import Enumeration, Structure, Testimony
from validity_graph.kernels.world_loops import ancestors, mark_failing, mark_loops
from validity_graph.topology import Topology


@dataclass(frozen=True, slots=True)
class Cone:
    """The arrays of ``Topology`` of the same names, restricted to what one node depends on.

    ``node[i]`` is the topology's number of node i, ``rank`` the inverse (-1 outside); ``last`` is the
    node whose cone it is.
    """

    indptr: NDArray[np.int32]
    source: NDArray[np.int32]
    weight: NDArray[np.floating]
    requires_end: NDArray[np.int32]
    opens: NDArray[np.uint8]
    component_start: NDArray[np.int32]
    component_end: NDArray[np.int32]
    node: NDArray[np.int64]
    rank: NDArray[np.int64]
    last: int


def cone_of(topology: Topology, v: int) -> Cone:
    """Return the cone of ``v`` (topology's numbering): v and all it depends on, whole components."""
    node = np.flatnonzero(ancestors(topology.indptr, topology.source, v))
    rank = np.full(topology.order.size, -1, dtype=np.int64)
    rank[node] = np.arange(node.size)
    edge = _ranges(topology.indptr[node], topology.indptr[node + 1])
    size = (topology.indptr[node + 1] - topology.indptr[node]).astype(np.int64)
    indptr = np.concatenate([[0], np.cumsum(size)])
    inside = np.flatnonzero(rank[topology.component_start] >= 0)
    start = rank[topology.component_start[inside]]
    return Cone(
        indptr=_frozen(indptr, np.int32),
        source=_frozen(rank[topology.source[edge]], np.int32),
        weight=_frozen(topology.weight[edge], topology.weight.dtype),
        requires_end=_frozen(indptr[:-1] + topology.requires_end[node] - topology.indptr[node], np.int32),
        opens=_frozen(topology.opens[edge], np.uint8),
        component_start=_frozen(start, np.int32),
        component_end=_frozen(
            start + topology.component_end[inside] - topology.component_start[inside], np.int32
        ),
        node=node,
        rank=rank,
        last=int(rank[v]),
    )


def structure_of(graph: Topology | Cone, testimony: Testimony) -> Structure:
    """Arrays for ``world_loops``: with what can fail, and who depends on whom inside components."""
    start, end = graph.component_start, graph.component_end
    can_fail = np.zeros(graph.requires_end.size, dtype=np.uint8)
    mark_failing(graph.indptr, graph.source, graph.weight, start, end, testimony.event_indptr, can_fail)
    loop = np.zeros(graph.requires_end.size, dtype=np.int32)
    mark_loops(graph.indptr, graph.requires_end, graph.source, graph.weight, start, end, loop)
    dependent_indptr, dependent = _dependents(graph)
    return Structure(
        indptr=graph.indptr,
        source=graph.source,
        weight=graph.weight,
        requires_end=graph.requires_end,
        opens=graph.opens,
        component_start=start,
        component_end=end,
        dependent_indptr=_frozen(dependent_indptr, np.int32),
        dependent=_frozen(dependent, np.int32),
        can_fail=_frozen(can_fail, np.uint8),
        loop=_frozen(loop, np.int32),
    )


def enumeration_of(structure: Structure, testimony: Testimony) -> tuple[Enumeration, NDArray[np.float64]]:
    """Independent binary coins behind every draw that matters, and their probabilities, float64[coins].

    An edge has a coin where it is uncertain and its absence can make a difference.  A uniform number that
    is compared with thresholds t1 < t2 < ... has one coin for each: up with t1, then, where the earlier
    ones are down, with (t2 - t1) / (1 - t1) and so on; it is below t_j where one of the first j is up.
    """
    edges = structure.source.size
    edge = np.flatnonzero(_matters(structure))
    probability = structure.weight[edge].astype(np.float64).tolist()
    start = np.zeros(edges + testimony.stream.size, dtype=np.int32)
    stop = np.zeros_like(start)
    start[edge] = np.arange(edge.size)
    stop[edge] = start[edge] + 1
    threshold = np.concatenate([testimony.trust, testimony.retract_threshold, testimony.event_threshold])
    uncertain = np.flatnonzero((threshold > 0) & (threshold < 1))
    order = uncertain[np.lexsort((threshold[uncertain], testimony.stream[uncertain]))]
    stream, first, below = -1, 0, 0.0
    for j in order.tolist():
        if testimony.stream[j] != stream:
            stream, first, below = int(testimony.stream[j]), len(probability), 0.0
        if threshold[j] > below:
            probability.append((threshold[j] - below) / (1.0 - below))
            below = float(threshold[j])
        start[edges + j], stop[edges + j] = first, len(probability)
    return Enumeration(_frozen(start, np.int32), _frozen(stop, np.int32)), np.array(probability)


def _matters(structure: Structure) -> NDArray[np.bool_]:
    """Which edges are uncertain and can make a difference, bool[m].

    A requirement does where its source can fail; a support where some antecedent of its target can.
    """
    nodes = structure.requires_end.size
    size = np.diff(structure.indptr)
    target = np.repeat(np.arange(nodes), size)
    supports = np.arange(structure.source.size) >= structure.requires_end[target]
    fails = (structure.can_fail[structure.source] > 0) & (structure.weight > 0)
    loses_support = np.bincount(target[fails & supports], minlength=nodes) > 0
    uncertain = (structure.weight > 0) & (structure.weight < 1)
    result: NDArray[np.bool_] = uncertain & np.where(supports, loses_support[target], fails)
    return result


def _dependents(graph: Topology | Cone) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
    """Members of its own component that depend on each node, as CSR; empty where there is no component."""
    start, end = graph.component_start, graph.component_end
    none = np.empty(0, dtype=np.int32)
    if start.size == 0:
        return none, none
    nodes = graph.requires_end.size
    component = np.full(nodes, -1, dtype=np.int64)
    component[_ranges(start, end)] = np.repeat(np.arange(start.size), end - start)
    target = np.repeat(np.arange(nodes), np.diff(graph.indptr))
    inner = np.flatnonzero((component[target] >= 0) & (component[graph.source] == component[target]))
    source = graph.source[inner]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(source, minlength=nodes))])
    return indptr, target[inner[np.argsort(source, kind="stable")]]


def _ranges(start: NDArray[np.integer], end: NDArray[np.integer]) -> NDArray[np.int64]:
    """``start[0]:end[0]``, ``start[1]:end[1]`` and so on as one array, int64."""
    size = (end - start).astype(np.int64)
    before = np.cumsum(size) - size
    return np.repeat(start - before, size) + np.arange(size.sum())


def _frozen(values: NDArray[Any], dtype: DTypeLike) -> NDArray[Any]:
    array = np.ascontiguousarray(values, dtype=dtype)
    array.setflags(write=False)
    return array
