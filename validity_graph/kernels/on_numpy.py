"""The definition of propagation in numpy, level by level; every other kernel must agree with it.

Arrays in, arrays out, in the internal numbering of ``Topology``.  Values are stored in the dtype of
``topology.weight`` and computed in float64.  Formulas: SEMANTICS section 3 (mean field and Cycles).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validity_graph.ordering import loops
from validity_graph.topology import Topology

Values = NDArray[np.float64]

#: A component has settled when a round moves no member by more than this.
TOLERANCE = 1e-9
#: It is iterated on to this, so that the order in which members are computed does not show.
FINEST = 1e-14
#: Most rounds one component may take.
MAX_ROUNDS = 10_000
#: Levels of up to this many nodes are cheaper node by node.
_NARROW = 4


def noisy_or(
    topology: Topology, direct: NDArray[np.floating], *, out: NDArray[np.floating] | None = None
) -> tuple[NDArray[np.floating], int, bool]:
    """Invalidity of every memory under direct evidence ``direct`` [n] in [0, 1], internal numbering.

    Returns ``(invalidity, rounds, converged)``: [n] in [0, 1] in the dtype of the weights (``out`` where
    given), the most rounds that a component took (0 without cycles), and whether all settled.
    SEMANTICS section 3.
    """
    invalidity = np.empty(direct.size, dtype=topology.weight.dtype) if out is None else out
    invalidity[:] = direct
    direct = invalidity.copy()
    rounds, converged = 0, True
    component = 0
    for level in range(topology.level_indptr.size - 1):
        start, end = int(topology.level_indptr[level]), int(topology.level_indptr[level + 1])
        while component < topology.component_start.size and topology.component_start[component] < end:
            first, last = int(topology.component_start[component]), int(topology.component_end[component])
            _settle_range(topology, start, first, direct, invalidity)
            taken, settled = settle_component(topology, first, last, direct, invalidity)
            rounds, converged = max(rounds, taken), converged and settled
            start = last
            component += 1
        _settle_range(topology, start, end, direct, invalidity)
    return invalidity, rounds, converged


def _settle_range(
    topology: Topology, start: int, end: int, direct: NDArray[np.floating], invalidity: NDArray[np.floating]
) -> None:
    """Write the invalidity of nodes ``start:end``, whose antecedents are all finished."""
    if end - start > _NARROW:
        given = invalidity[topology.source[topology.indptr[start] : topology.indptr[end]]]
        lost = inherited_range(topology, start, end, given.astype(np.float64))
        invalidity[start:end] = combine(direct[start:end].astype(np.float64), lost)
        return
    for v in range(start, end):
        invalidity[v] = combine(float(direct[v]), node_inherited(topology, v, invalidity))


def combine(direct: Any, inherited: Any) -> Any:  # noqa: ANN401 - floats or arrays
    """``1 - (1 - direct) * (1 - inherited)``, each in [0, 1].  SEMANTICS section 3, I_v.

    In a form that returns ``direct`` unchanged where nothing is inherited.
    """
    return direct + (1.0 - direct) * inherited


def node_inherited(topology: Topology, v: int, invalidity: NDArray[np.floating]) -> float:
    """``1 - (1 - q_v) * (1 - l_v)`` of one node from the invalidity [n] of all; SEMANTICS section 3."""
    start, middle, end = (int(topology.indptr[v]), int(topology.requires_end[v]), int(topology.indptr[v + 1]))
    kept = 1.0
    for e in range(start, middle):
        kept *= 1.0 - float(topology.weight[e]) * float(invalidity[topology.source[e]])
    if middle == end:
        return 1.0 - kept
    lost = all_absent = absent = stands = 1.0
    for e in range(middle, end):
        if topology.opens[e] and e > middle:
            lost *= absent + (1.0 - stands)
            all_absent *= absent
            absent = stands = 1.0
        absent *= 1.0 - float(topology.weight[e])
        stands *= 1.0 - float(topology.weight[e]) * float(invalidity[topology.source[e]])
    lost *= absent + (1.0 - stands)
    all_absent *= absent
    # Rounding can leave the difference a hair outside [0, 1].
    return 1.0 - kept * (1.0 - min(max(lost - all_absent, 0.0), 1.0))


def inherited_range(topology: Topology, start: int, end: int, given: Values) -> Values:
    """``1 - (1 - q_v) * (1 - l_v)`` of nodes ``start:end``, float64[end - start].

    ``given`` float64: the invalidity of the source of each of their in-edges.  SEMANTICS section 3.
    """
    rows = topology.indptr[start : end + 1] - topology.indptr[start]
    edges = slice(int(topology.indptr[start]), int(topology.indptr[end]))
    weight = topology.weight[edges].astype(np.float64)
    middle = topology.requires_end[start:end] - topology.indptr[start]
    is_support = np.arange(weight.size) >= np.repeat(middle, np.diff(rows))
    stands = 1.0 - weight * given
    kept = _row_products(np.where(is_support, 1.0, stands), rows[:-1], np.diff(rows) > 0)
    first = np.flatnonzero(topology.opens[edges])
    if first.size == 0:
        return 1.0 - kept
    # Requirements of the nodes between two justifications count as 1.
    absent = np.multiply.reduceat(np.where(is_support, 1.0 - weight, 1.0), first)
    stands = np.multiply.reduceat(np.where(is_support, stands, 1.0), first)
    group = np.searchsorted(first, middle)
    has_support = middle < rows[1:]
    lost = _row_products(absent + (1.0 - stands), group, has_support)
    lost -= _row_products(absent, group, has_support)
    return 1.0 - kept * (1.0 - np.clip(lost, 0.0, 1.0))


def _row_products(factor: Values, first: NDArray[np.integer], filled: NDArray[np.bool_]) -> Values:
    """Product of each filled row of ``factor``, rows starting at ``first``; 1 for the others."""
    product = np.ones(first.size)
    if filled.any():
        product[filled] = np.multiply.reduceat(factor, first[filled])
    return product


def settle_component(
    topology: Topology, start: int, end: int, direct: NDArray[np.floating], invalidity: NDArray[np.floating]
) -> tuple[int, bool]:
    """Write the invalidity of component ``start:end``; return ``(rounds, settled)``.

    ``nu X. mu Y``, in failures: X starts at "none fails" (0) and only grows.  First by F(X, X), F being the
    formula with requirements read from its first and supports from its second argument: no member fails
    later that does not fail in the end.  Then Y starts at "all fail" (1) and shrinks by F(X, Y) to what X
    gives no grounded reason, which X takes over; until that is X.  Members that no reason outside their
    loop of supports reaches always read X.  Each round computes the members level by level.  A component that
    no evidence enters is 0.  SEMANTICS section 3, Cycles.
    """
    edges = slice(int(topology.indptr[start]), int(topology.indptr[end]))
    source = topology.source[edges]
    outer = (source < start) | (source >= end)
    entering = topology.weight[edges].astype(np.float64) * np.where(outer, invalidity[source], 0)
    if not direct[start:end].any() and not entering.any():
        invalidity[start:end] = 0
        return 0, True
    part, coupled = _laid_out(topology, start, end, invalidity)
    own = direct[start:end][part.member].astype(np.float64)
    size, rounds = end - start, 0
    x, y = part.value[:size], part.value[size : 2 * size]
    while True:
        change, rounds = _sweep(part.in_x, part.value, own, x, rounds)
        if not coupled or change > TOLERANCE:
            break
        y[:] = 1.0
        change, rounds = _sweep(part.in_xy, part.value, own, y, rounds)
        if np.abs(y - x).max() <= TOLERANCE:
            break
        x[:] = y
        if change > TOLERANCE:
            break
    invalidity[start + part.member] = x
    return rounds, bool(change <= TOLERANCE)


@dataclass(frozen=True, slots=True)
class _Component:
    """One component as a topology of its own, members numbered in the order of a sweep.

    ``member[i]`` is the place of member i in the component.  ``value``: X of its members, then Y, then what
    enters over each edge from outside.  The sources are places in ``value``: in ``in_x`` every member is
    read in X, in ``in_xy`` supports of reached members are read in Y.
    """

    in_x: Topology
    in_xy: Topology
    member: NDArray[np.int32]
    value: Values


def _laid_out(
    topology: Topology, start: int, end: int, invalidity: NDArray[np.floating]
) -> tuple[_Component, bool]:
    """Return component ``start:end``, and whether some support is read in Y."""
    size = end - start
    run = loops(size + int(topology.indptr[end] - topology.indptr[start]))
    indptr, requires_end, weight = topology.indptr, topology.requires_end, topology.weight
    loop = run.support_loop(indptr, requires_end, topology.source, weight, start, end)
    reached = run.reached_member(
        indptr, requires_end, topology.source, weight, topology.opens, loop, start, end
    )
    _, level = run.sweep_order(indptr, topology.source, weight, start, end)
    member = np.argsort(level, kind="stable").astype(np.int32)
    place = np.empty(size, dtype=np.int64)
    place[member] = np.arange(size)
    count = np.diff(indptr[start : end + 1])[member]
    rows = np.concatenate(([0], np.cumsum(count))).astype(np.int32)
    edge = np.arange(rows[-1]) + np.repeat(indptr[start + member] - rows[:-1], count)
    target = np.repeat(member, count)
    source = topology.source[edge]
    inner = (source >= start) & (source < end)
    reads_x = np.where(inner, place[np.where(inner, source - start, 0)], 2 * size + np.arange(edge.size))
    in_y = inner & (edge >= requires_end[start + target]) & (reached[target] > 0)
    local = replace(
        topology,
        indptr=rows,
        source=reads_x.astype(np.int32),
        weight=weight[edge],
        requires_end=rows[:-1] + requires_end[start + member] - indptr[start + member],
        opens=topology.opens[edge],
        level_indptr=np.concatenate(([0], np.cumsum(np.bincount(level)))).astype(np.int32),
    )
    value = np.concatenate((np.zeros(2 * size), invalidity[source].astype(np.float64)))
    in_xy = replace(local, source=local.source + np.where(in_y, size, 0))
    return _Component(local, in_xy, member, value), bool((in_y & (weight[edge] > 0)).any())


def _sweep(topology: Topology, value: Values, own: Values, out: Values, rounds: int) -> tuple[float, int]:
    """Compute all members into ``out`` again and again until a sweep moves none.

    The sources of ``topology`` are places in ``value``, of which ``out`` is a part; ``rounds`` were taken
    before.  Returns what the last sweep moved, and the rounds taken then.
    """
    change = 1.0
    while change > FINEST and rounds < MAX_ROUNDS:
        before = out.copy()
        for first, last in pairwise(topology.level_indptr.tolist()):
            if last - first > _NARROW:
                given = value[topology.source[topology.indptr[first] : topology.indptr[last]]]
                out[first:last] = combine(own[first:last], inherited_range(topology, first, last, given))
                continue
            for v in range(first, last):
                out[v] = combine(float(own[v]), node_inherited(topology, v, value))
        change = float(np.abs(out - before).max())
        rounds += 1
    return change, rounds


def inherited(topology: Topology, invalidity: NDArray[np.floating]) -> Values:
    """Return what each memory inherits when the others have ``invalidity`` [n], float64[n].

    Internal numbering.  ``1 - (1 - q_v) * (1 - l_v)``; needs no order.  SEMANTICS section 3.
    """
    given = invalidity[topology.source].astype(np.float64)
    return inherited_range(topology, 0, invalidity.size, given)
