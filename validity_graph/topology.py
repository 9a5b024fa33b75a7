"""Dependency structure as flat arrays: what the kernels run on.

``build_topology`` turns edge arrays in the caller's numbering into in-edge CSR in a topological
numbering, with justification groups, levels and strongly connected components.  Knows nothing of
records or stores.  Formulas that run on it: SEMANTICS sections 2 and 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from validity_graph.blocking import SourceBlocks, source_blocks
from validity_graph.errors import InputError
from validity_graph.ordering import loops

Index = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Topology:
    """Requirements and supports of ``n`` memories as in-edge CSR, ``m`` edges.

    Nodes are renumbered: every edge that is not inside a strongly connected component runs from a
    smaller to a larger number, levels are contiguous, and so is each component (members in the caller's
    order).  In a level components come first; the others stand where a pass is fast.
    ``order[i]`` is the caller's number of node ``i``; ``rank`` is its inverse.

    The in-edges of node v are ``indptr[v]:indptr[v + 1]``.  First its requirements, up to
    ``requires_end[v]``, sorted by the caller's number of their source; then its supports, justification
    by justification (those of their own first, then by number), within one sorted the same way.
    Parallel edges are sorted by weight.  ``opens[e]`` is 1 on the first edge of each
    justification and 0 elsewhere.  A premise keeps no supports.
    The order of the edges is canonical, so that two builds of the same graph multiply in the same order.

    Level ``l`` holds nodes ``level_indptr[l]:level_indptr[l + 1]``; the nodes of a level depend only on
    lower levels, or on their own component.  Component ``c`` with more than one member holds nodes
    ``component_start[c]:component_end[c]`` inside one level.

    ``blocks`` repeats requirements, with their weights, in the order in which a pass over a large float32
    graph is fastest; ``None`` is always right, so who replaces ``weight`` sets ``blocks`` to ``None`` too.
    """

    indptr: Index
    source: Index
    weight: NDArray[np.floating]
    requires_end: Index
    opens: NDArray[np.uint8]
    level_indptr: Index
    component_start: Index
    component_end: Index
    order: Index
    rank: Index
    blocks: SourceBlocks | None = None


#: ``DirectEvidence.kind``.
SUPERSEDING, RETRACTING, CONFIRMING = 0, 1, 2


@dataclass(frozen=True, slots=True)
class DirectEvidence:
    """``overturns`` and ``confirms`` edges as arrays, ``k`` edges, in the caller's numbering.

    ``kind[e]``: ``SUPERSEDING``, ``RETRACTING`` or ``CONFIRMING``.  ``age[e]`` orders sources in time: a
    confirmation clears what sources of strictly smaller age say.  ``channel[e]`` is -1, or a number that
    sources of one channel share (they count once against a target, by their maximum).
    ``trust[v]`` in [0, 1] scales the force of source v.  Edges are unique by (source, target, kind,
    proposition).
    """

    source: Index
    target: Index
    weight: NDArray[np.float64]
    kind: NDArray[np.uint8]
    age: NDArray[np.int64]
    channel: Index
    trust: NDArray[np.float64]


def build_topology(
    node_count: int,
    *,
    source: ArrayLike,
    target: ArrayLike,
    weight: ArrayLike,
    supports: ArrayLike,
    justification: ArrayLike,
    premise: ArrayLike | None = None,
    dtype: DTypeLike = np.float32,
) -> Topology:
    """Order ``node_count`` memories and their ``requires`` and ``supports`` edges for the kernels.

    ``source``, ``target``: int[m] in [0, node_count); ``weight``: [m] in [0, 1]; ``supports``: bool[m],
    True for a supports edge, False for a requires edge; ``justification``: int[m], supports edges into
    one target with the same non-negative number are one justification, -1 is a justification of its
    own; ``premise``: bool[node_count], memories that keep no supports.  Parallel edges are kept: they
    are different propositions.  ``dtype`` of the weights is float32 or float64.

    Levels and components are those of all edges, of weight 0 too, so that one topology serves any weights and
    a derivative by a weight that is 0.  They only say what is computed together: an edge of weight 0
    grounds nobody and ties no loop (``ordering.support_loop``), and changes no value.

    O(n + m) time and no recursion.  Raises ``InputError`` that names the edge for an end out of range,
    an edge from a memory to itself, or a weight outside [0, 1].  SEMANTICS sections 1 and 3.
    """
    edges = _checked_edges(node_count, source, target, weight, supports, justification, dtype)
    if premise is not None:
        edges = _without_premise_supports(edges, np.asarray(premise, dtype=bool), node_count)
    source, target, weight, supports, justification = edges
    run = loops(node_count + source.size)
    by_source = run.stable_order(source, np.arange(source.size, dtype=np.int32), node_count)
    level, component = _level_and_component(node_count, source, target, by_source, run)
    order, level_indptr, component_start, component_end = _node_order(level, component, run)
    first = level_indptr[:-1].copy()
    if component_start.size:
        # Components stay where they are, in front.
        np.maximum.at(first, np.searchsorted(level_indptr, component_start, "right") - 1, component_end)
    shape = _node_shape(node_count, source, target, supports)
    run.arrange_levels(order, first, level_indptr[1:], *shape[:2], target, by_source, shape[2])
    rank = np.empty(node_count, dtype=np.int32)
    rank[order] = np.arange(node_count, dtype=np.int32)
    indptr, requires_end = _row_bounds(node_count, rank, target, supports)
    edge = run.place_edges(target, supports, by_source, rank, indptr, requires_end)
    del by_source
    opens = run.sort_supports(edge, indptr, requires_end, justification)
    run.sort_parallel(edge, indptr, requires_end, justification, source, weight)
    row_source, row_weight = rank[source[edge]], weight[edge]
    return Topology(
        indptr=_frozen(indptr),
        source=_frozen(row_source),
        weight=_frozen(row_weight),
        requires_end=_frozen(requires_end),
        opens=_frozen(opens),
        level_indptr=_frozen(level_indptr),
        component_start=_frozen(component_start),
        component_end=_frozen(component_end),
        order=_frozen(order),
        rank=_frozen(rank),
        blocks=source_blocks(indptr, requires_end, row_source, row_weight, level_indptr, component_end),
    )


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.setflags(write=False)
    return array


def _offsets(count: NDArray[np.integer]) -> Index:
    offsets = np.zeros(count.size + 1, dtype=np.int32)
    np.cumsum(count, out=offsets[1:])
    return offsets


def _checked_edges(
    node_count: int,
    source: ArrayLike,
    target: ArrayLike,
    weight: ArrayLike,
    supports: ArrayLike,
    justification: ArrayLike,
    dtype: DTypeLike,
) -> tuple[NDArray[Any], ...]:
    if np.dtype(dtype) not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise InputError(f"dtype={dtype!r} must be numpy.float32 or numpy.float64")
    named = {
        "source": source,
        "target": target,
        "weight": weight,
        "supports": supports,
        "justification": justification,
    }
    arrays = {name: np.atleast_1d(np.asarray(values)) for name, values in named.items()}
    count = arrays["source"].size
    for name, array in arrays.items():
        if array.shape != (count,):
            raise InputError(f"{name} has shape {array.shape}; it needs one number for each of {count} edges")
    if node_count < 0 or max(node_count, count) > np.iinfo(np.int32).max:
        raise InputError(f"node_count={node_count} with {count} edges: both must fit in 31 bits")
    for name in ("source", "target"):
        _refuse(
            arrays, (arrays[name] < 0) | (arrays[name] >= node_count), f"{name} must lie in [0, {node_count})"
        )
    _refuse(arrays, arrays["source"] == arrays["target"], "an edge from a memory to itself means nothing")
    # A comparison with NaN is False, so this refuses NaN as well.
    _refuse(arrays, ~((arrays["weight"] >= 0) & (arrays["weight"] <= 1)), "weight must lie in [0, 1]")
    kinds = {
        "source": np.int32,
        "target": np.int32,
        "weight": dtype,
        "supports": bool,
        "justification": np.int64,
    }
    return tuple(np.ascontiguousarray(arrays[name], dtype=kind) for name, kind in kinds.items())


def _refuse(arrays: dict[str, NDArray[Any]], wrong: NDArray[np.bool_], why: str) -> None:
    if wrong.any():
        e = int(np.argmax(wrong))
        raise InputError(
            f"edge {e} ({arrays['source'][e]} -> {arrays['target'][e]}, weight={arrays['weight'][e]}): {why}"
        )


def _without_premise_supports(
    edges: tuple[NDArray[Any], ...], premise: NDArray[np.bool_], node_count: int
) -> tuple[NDArray[Any], ...]:
    if premise.shape != (node_count,):
        raise InputError(f"premise has shape {premise.shape}; it needs one value for each of {node_count}")
    source, target, weight, supports, justification = edges
    kept = ~(supports & premise[target])
    return edges if kept.all() else tuple(array[kept] for array in edges)


def _level_and_component(
    node_count: int,
    source: Index,
    target: Index,
    by_source: Index,
    run: Any,  # noqa: ANN401
) -> tuple[Index, Index | None]:
    """Level of every node, and the smallest member of its component (``None`` without cycles)."""
    level = run.topological_level(node_count, source, target, by_source)
    if not (level < 0).any():
        return level, None
    component = _component_of(node_count, level, source, target)
    # The same loop on the quotient graph; edges within a component are loops there and ignored.
    outer_source, outer_target = component[source], component[target]
    by_component = run.stable_order(outer_source, np.arange(source.size, dtype=np.int32), node_count)
    level = run.topological_level(node_count, outer_source, outer_target, by_component)
    return level[component], component


def _component_of(node_count: int, level: Index, source: Index, target: Index) -> Index:
    """Smallest member of each node's strongly connected component, int32[n]."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    # Only what a cycle is or leads to can be in one: everything else already has a level.
    inside = np.flatnonzero(level < 0).astype(np.int32)
    place = np.full(node_count, -1, dtype=np.int32)
    place[inside] = np.arange(inside.size, dtype=np.int32)
    kept = (place[source] >= 0) & (place[target] >= 0)
    ends = (place[source[kept]], place[target[kept]])
    graph = coo_array((np.ones(ends[0].size, dtype=np.int32), ends), shape=(inside.size, inside.size))
    count, label = connected_components(graph.tocsr(), directed=True, connection="strong")
    smallest = np.full(count, node_count, dtype=np.int32)
    np.minimum.at(smallest, label, inside)
    component = np.arange(node_count, dtype=np.int32)
    component[inside] = smallest[label]
    return component


def _node_order(
    level: Index,
    component: Index | None,
    run: Any,  # noqa: ANN401
) -> tuple[Index, Index, Index, Index]:
    """Return ``order``, ``level_indptr``, ``component_start`` and ``component_end`` of ``Topology``.

    In a level, components with more than one member come first, by their smallest member; then the
    others in the caller's order.
    """
    node_count = level.size
    order = np.arange(node_count, dtype=np.int32)
    level_indptr = _offsets(np.bincount(level))
    if component is None:
        empty = np.empty(0, dtype=np.int32)
        return run.stable_order(level, order, level_indptr.size - 1), level_indptr, empty, empty.copy()
    alone = np.bincount(component, minlength=node_count)[component] == 1
    order = run.stable_order(component, order, node_count)
    order = run.stable_order(alone.astype(np.int8), order, 2)
    order = run.stable_order(level, order, level_indptr.size - 1)
    start = np.flatnonzero(np.diff(component[order], prepend=-1)).astype(np.int32)
    end = np.append(start[1:], np.int32(node_count))
    return order, level_indptr, start[end - start > 1], end[end - start > 1]


def _node_shape(
    node_count: int, source: Index, target: Index, supports: NDArray[np.bool_]
) -> tuple[Index, NDArray[np.int64], NDArray[np.int64]]:
    """Return ``alike``, ``unread`` and ``out_first`` for ``arrange_levels``."""
    fan_in = np.bincount(target, minlength=node_count)
    support_count = np.bincount(target[supports], minlength=node_count)
    # A loop over in-edges that runs equally often many times in a row is one that processors predict.
    alike = np.minimum(support_count, 15) * 4096 + np.minimum(fan_in, 4095)
    fan_out = np.bincount(source, minlength=node_count)
    # What many read stays in the caches when it does not share its lines with what few read.
    unread = (fan_out == 0).astype(np.int64) + (fan_out < 3)
    out_first = np.zeros(node_count + 1, dtype=np.int64)
    np.cumsum(fan_out, out=out_first[1:])
    return alike.astype(np.int32), unread, out_first


def _row_bounds(
    node_count: int, rank: Index, target: Index, supports: NDArray[np.bool_]
) -> tuple[Index, Index]:
    """``indptr`` and ``requires_end`` of ``Topology``."""
    row = rank[target]
    indptr = _offsets(np.bincount(row, minlength=node_count))
    support_count = np.bincount(row[supports], minlength=node_count)
    return indptr, (indptr[1:] - support_count).astype(np.int32)
