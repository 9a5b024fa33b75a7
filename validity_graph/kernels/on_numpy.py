"""The definition of propagation in numpy, level by level; every other kernel must agree with it.

Arrays in, arrays out, in the internal numbering of ``Topology``.  Values are stored in the dtype of
``topology.weight`` and computed in float64.  Formulas: SEMANTICS section 3 (mean field and Cycles).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from validity_graph.ordering import loops
from validity_graph.topology import Topology

Values = NDArray[np.float64]

#: A component has settled when a round moves no member by more than this.
TOLERANCE = 1e-9
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

    ``nu X. mu Y``: X starts at "all stand" (0) and only loses; for each X, Y starts at "none stands"
    (1) and only gains.  Requirements read X.  Supports read Y, or X for a member that no premise
    reaches.  Each round computes all members from the round before.  A component that no evidence
    enters is 0.  SEMANTICS section 3, Cycles.
    """
    edges = slice(int(topology.indptr[start]), int(topology.indptr[end]))
    source = topology.source[edges]
    outer = (source < start) | (source >= end)
    given = np.where(outer, invalidity[source], 0).astype(np.float64)
    own = direct[start:end].astype(np.float64)
    if not own.any() and not (topology.weight[edges] * given).any():
        invalidity[start:end] = 0
        return 0, True
    member = np.where(outer, 0, source - start)
    target = np.repeat(np.arange(end - start), np.diff(topology.indptr[start : end + 1]))
    is_support = np.arange(edges.start, edges.stop) >= topology.requires_end[start:end][target]
    reached = (
        loops(edges.stop - edges.start)
        .reached_member(
            topology.indptr,
            topology.requires_end,
            topology.source,
            topology.weight,
            topology.opens,
            start,
            end,
        )
        .astype(bool)
    )
    reads_inner = ~outer & is_support & reached[target]
    reads_outer = ~outer & ~reads_inner
    failed = np.zeros(end - start)
    rounds = 0
    while rounds < MAX_ROUNDS:
        given[reads_outer] = failed[member[reads_outer]]
        now = np.ones(end - start)
        change = 1.0
        while change > TOLERANCE and rounds < MAX_ROUNDS:
            given[reads_inner] = now[member[reads_inner]]
            new = combine(own, inherited_range(topology, start, end, given))
            change = float(np.abs(new - now).max()) if reads_inner.any() else 0.0
            now = new
            rounds += 1
        moved = float(np.abs(now - failed).max())
        failed = now
        if moved <= TOLERANCE and change <= TOLERANCE:
            invalidity[start:end] = failed
            return rounds, True
    invalidity[start:end] = failed
    return rounds, False


def inherited(topology: Topology, invalidity: NDArray[np.floating]) -> Values:
    """Return what each memory inherits when the others have ``invalidity`` [n], float64[n].

    Internal numbering.  ``1 - (1 - q_v) * (1 - l_v)``; needs no order.  SEMANTICS section 3.
    """
    given = invalidity[topology.source].astype(np.float64)
    return inherited_range(topology, 0, invalidity.size, given)
