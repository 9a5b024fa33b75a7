"""Propagation compiled by numba: the default kernel.

The formulas of ``on_numpy``, one node at a time in topological order, so that a node is computed by the
same instructions whether the whole graph or only its cone is.  Arrays in, arrays out, in the internal
numbering of ``Topology``; stored in the dtype of ``topology.weight``, computed in float64.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from validity_graph.compiled import compiled
from validity_graph.kernels.on_numpy import MAX_ROUNDS, TOLERANCE
from validity_graph.ordering import Array, reached_member
from validity_graph.topology import Topology

_reached_member = compiled(reached_member)


@compiled
def node_inherited(
    start: int, middle: int, end: int, source: Array, weight: Array, opens: Array, invalidity: Array
) -> float:
    """``1 - (1 - q_v) * (1 - l_v)`` of the node with requirements ``start:middle`` and supports ``middle:end``.

    ``source``, ``weight``, ``opens``: edge arrays as in ``Topology``; ``invalidity`` [n].  SEMANTICS section 3.
    """
    kept = 1.0
    for e in range(start, middle):
        kept *= 1.0 - np.float64(weight[e]) * np.float64(invalidity[source[e]])
    if middle == end:
        return 1.0 - kept
    lost = 1.0
    all_absent = 1.0
    absent = 1.0
    stands = 1.0
    for e in range(middle, end):
        if opens[e] and e > middle:
            lost *= absent + (1.0 - stands)
            all_absent *= absent
            absent = 1.0
            stands = 1.0
        absent *= 1.0 - np.float64(weight[e])
        stands *= 1.0 - np.float64(weight[e]) * np.float64(invalidity[source[e]])
    lost = min(max(lost * (absent + (1.0 - stands)) - all_absent * absent, 0.0), 1.0)
    return 1.0 - kept * (1.0 - lost)


@compiled
def node_invalidity(
    start: int, middle: int, end: int, source: Array, weight: Array, opens: Array, invalidity: Array,
    direct: float,
) -> float:
    """Invalidity in [0, 1] of one node with direct evidence ``direct``; the rest as ``node_inherited``."""
    return direct + (1.0 - direct) * node_inherited(start, middle, end, source, weight, opens, invalidity)


@compiled
def settle_component(
    indptr: Array, requires_end: Array, source: Array, weight: Array, opens: Array, start: int, end: int,
    direct: Array, invalidity: Array,
) -> tuple[int, bool]:
    """Write the invalidity of component ``start:end``; return ``(rounds, settled)``.

    The iteration of ``on_numpy.settle_component``.  SEMANTICS section 3, Cycles.
    """
    size = end - start
    base = indptr[start]
    evidence = False
    for v in range(start, end):
        evidence |= direct[v] > 0
        for e in range(indptr[v], indptr[v + 1]):
            if source[e] < start or source[e] >= end:
                evidence |= weight[e] * invalidity[source[e]] > 0
    if not evidence:
        for v in range(start, end):
            invalidity[v] = 0
        return 0, True
    # Sources by local number: 0:size reads X, size:2 * size reads Y, from 2 * size on the finished values.
    reached = _reached_member(indptr, requires_end, source, weight, opens, start, end)
    local = np.empty(indptr[end] - base, dtype=np.int32)
    value = np.zeros(2 * size + local.size, dtype=np.float64)
    coupled = False
    for v in range(start, end):
        for e in range(indptr[v], indptr[v + 1]):
            if source[e] < start or source[e] >= end:
                local[e - base] = 2 * size + e - base
                value[2 * size + e - base] = invalidity[source[e]]
            elif e >= requires_end[v] and reached[v - start]:
                local[e - base] = size + source[e] - start
                coupled = True
            else:
                local[e - base] = source[e] - start
    inner_weight = weight[base : indptr[end]]
    inner_opens = opens[base : indptr[end]]
    new = np.empty(size, dtype=np.float64)
    rounds = 0
    settled = False
    while rounds < MAX_ROUNDS and not settled:
        value[size : 2 * size] = 1.0
        change = 1.0
        while change > TOLERANCE and rounds < MAX_ROUNDS:
            change = 0.0
            for v in range(start, end):
                new[v - start] = node_invalidity(
                    indptr[v] - base, requires_end[v] - base, indptr[v + 1] - base,
                    local, inner_weight, inner_opens, value, np.float64(direct[v]),
                )
                change = max(change, abs(new[v - start] - value[size + v - start]))
            value[size : 2 * size] = new
            rounds += 1
            if not coupled:
                change = 0.0
        moved = 0.0
        for i in range(size):
            moved = max(moved, abs(value[size + i] - value[i]))
            value[i] = value[size + i]
        settled = moved <= TOLERANCE and change <= TOLERANCE
    for v in range(start, end):
        invalidity[v] = value[v - start]
    return rounds, settled


@compiled
def _settle_range(
    indptr: Array, requires_end: Array, source: Array, weight: Array, opens: Array,
    component_start: Array, component_end: Array, start: int, end: int, direct: Array, invalidity: Array,
) -> tuple[int, bool]:
    """Write the invalidity of nodes ``start:end`` in order; return ``(most rounds, all settled)``."""
    rounds = 0
    converged = True
    component = np.searchsorted(component_start, start)
    v = start
    while v < end:
        stop = end
        if component < component_start.size and component_start[component] < end:
            stop = component_start[component]
        for i in range(v, stop):
            invalidity[i] = node_invalidity(
                indptr[i], requires_end[i], indptr[i + 1], source, weight, opens, invalidity,
                np.float64(direct[i]),
            )
        v = stop
        if stop < end:
            v = component_end[component]
            taken, settled = settle_component(
                indptr, requires_end, source, weight, opens, stop, v, direct, invalidity
            )
            rounds = max(rounds, taken)
            converged &= settled
            component += 1
    return rounds, converged


def noisy_or(
    topology: Topology, direct: NDArray[np.floating], *, out: NDArray[np.floating] | None = None
) -> tuple[NDArray[np.floating], int, bool]:
    """Invalidity of every memory under direct evidence ``direct`` [n] in [0, 1], internal numbering.

    Returns ``(invalidity, rounds, converged)`` as ``on_numpy.noisy_or`` does.  SEMANTICS section 3.
    """
    invalidity = np.empty(direct.size, dtype=topology.weight.dtype) if out is None else out
    rounds, converged = _settle_range(
        topology.indptr, topology.requires_end, topology.source, topology.weight, topology.opens,
        topology.component_start, topology.component_end, 0, direct.size,
        np.ascontiguousarray(direct, dtype=topology.weight.dtype), invalidity,
    )
    return invalidity, int(rounds), bool(converged)


@compiled
def _inherited_range(
    indptr: Array, requires_end: Array, source: Array, weight: Array, opens: Array, start: int, end: int,
    invalidity: Array, out: Array,
) -> None:
    for v in range(start, end):
        out[v] = node_inherited(indptr[v], requires_end[v], indptr[v + 1], source, weight, opens, invalidity)


def inherited(topology: Topology, invalidity: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return what each memory inherits when the others have ``invalidity`` [n]; float64[n], internal numbering.

    ``1 - (1 - q_v) * (1 - l_v)``; needs no order.  SEMANTICS section 3.
    """
    out = np.empty(invalidity.size, dtype=np.float64)
    _inherited_range(
        topology.indptr, topology.requires_end, topology.source, topology.weight, topology.opens,
        0, invalidity.size, invalidity, out,
    )
    return out
