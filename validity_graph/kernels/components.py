"""The fixpoint of one strongly connected component, compiled.

``nu X. mu Y``, in failures: X grows from "none fails", and for each X, Y shrinks from "all fail".  Members
are computed in turn, each behind what it reads, so that a ring takes one sweep around and not one round
a member; the fixpoint does not depend on the order, and the last bits only within ``FINEST``.  Arrays in,
arrays out, in the internal numbering of ``Topology``; computed in float64.  SEMANTICS section 3, Cycles.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from validity_graph.compiled import compiled
from validity_graph.kernels.node import node_invalidity
from validity_graph.kernels.on_numpy import FINEST, MAX_ROUNDS, TOLERANCE
from validity_graph.ordering import Array, reached_member, support_loop, sweep_order

_support_loop = compiled(support_loop)
_reached_member = compiled(reached_member)
_sweep_order = compiled(sweep_order)


class _Component(NamedTuple):
    """One component with edges counted from 0.

    ``value``: X of its members, then Y, then what enters over each edge from outside.  ``reads_x`` and
    ``reads_xy`` [edges] are places in ``value``: with every member read in X, and with supports of reached
    members read in Y.  ``member`` lists the members in the order of a sweep.
    """

    member: NDArray[np.int32]
    indptr: NDArray[np.int32]
    requires_end: NDArray[np.int32]
    weight: NDArray[np.floating]
    opens: NDArray[np.uint8]
    direct: NDArray[np.floating]
    reads_x: NDArray[np.int32]
    reads_xy: NDArray[np.int32]
    value: NDArray[np.float64]


@compiled
def _evidence_enters(
    indptr: Array, source: Array, weight: Array, start: int, end: int, direct: Array, invalidity: Array
) -> bool:
    """Whether some evidence is against a member of ``start:end`` or comes in over an edge."""
    for v in range(start, end):
        if direct[v] > 0:
            return True
        for e in range(indptr[v], indptr[v + 1]):
            if (source[e] < start or source[e] >= end) and weight[e] * invalidity[source[e]] > 0:
                return True
    return False


@compiled
def _laid_out(
    indptr: Array,
    requires_end: Array,
    source: Array,
    weight: Array,
    opens: Array,
    start: int,
    end: int,
    direct: Array,
    invalidity: Array,
) -> tuple[_Component, bool]:
    """Return component ``start:end``, and whether some support is read in Y."""
    size, base, last = end - start, indptr[start], indptr[end]
    loop = _support_loop(indptr, requires_end, source, weight, start, end)
    reached = _reached_member(indptr, requires_end, source, weight, opens, loop, start, end)
    reads_x = np.empty(last - base, dtype=np.int32)
    reads_xy = np.empty(last - base, dtype=np.int32)
    value = np.zeros(2 * size + last - base, dtype=np.float64)
    coupled = False
    for v in range(start, end):
        for e in range(indptr[v], indptr[v + 1]):
            i, u = e - base, source[e] - start
            if u < 0 or u >= size:
                reads_x[i] = reads_xy[i] = 2 * size + i
                value[2 * size + i] = invalidity[source[e]]
                continue
            reads_x[i] = reads_xy[i] = u
            if e >= requires_end[v] and reached[v - start]:
                reads_xy[i] = size + u
                coupled |= weight[e] > 0
    member = _sweep_order(indptr, source, weight, start, end)[0]
    component = _Component(
        member,
        indptr[start : end + 1] - base,
        requires_end[start:end] - base,
        weight[base:last],
        opens[base:last],
        direct[start:end],
        reads_x,
        reads_xy,
        value,
    )
    return component, coupled


@compiled
def _sweep(component: _Component, reads: Array, out: Array, rounds: int) -> tuple[float, int]:
    """Compute all members into ``out`` [size] again and again until a sweep moves none.

    ``reads`` are places in ``value``, of which ``out`` is a part; ``rounds`` were taken before.  Returns what
    the last sweep moved, and the rounds taken then.
    """
    member, indptr, requires_end, weight, opens, direct, _, _, value = component
    change = 1.0
    while change > FINEST and rounds < MAX_ROUNDS:
        change = 0.0
        for i in member:
            new = node_invalidity(
                indptr[i],
                requires_end[i],
                indptr[i + 1],
                reads,
                weight,
                opens,
                value,
                np.float64(direct[i]),
            )
            change = max(change, abs(new - out[i]))
            out[i] = new
        rounds += 1
    return change, rounds


@compiled
def settle_component(
    indptr: Array,
    requires_end: Array,
    source: Array,
    weight: Array,
    opens: Array,
    start: int,
    end: int,
    direct: Array,
    invalidity: Array,
) -> tuple[int, bool]:
    """Write the invalidity of component ``start:end``; return ``(rounds, settled)``.

    ``invalidity`` holds that of all else it depends on.  The iteration of ``on_numpy.settle_component``.
    """
    size = end - start
    if not _evidence_enters(indptr, source, weight, start, end, direct, invalidity):
        invalidity[start:end] = 0
        return 0, True
    component, coupled = _laid_out(
        indptr, requires_end, source, weight, opens, start, end, direct, invalidity
    )
    x, y = component.value[:size], component.value[size : 2 * size]
    rounds = 0
    while True:
        change, rounds = _sweep(component, component.reads_x, x, rounds)
        if not coupled or change > TOLERANCE:
            break
        y[:] = 1.0
        change, rounds = _sweep(component, component.reads_xy, y, rounds)
        moved = np.abs(y - x).max()
        if moved <= TOLERANCE:
            break
        x[:] = y
        if change > TOLERANCE:
            break
    for i in range(size):
        invalidity[start + i] = x[i]
    return rounds, change <= TOLERANCE
