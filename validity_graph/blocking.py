"""Requirement edges in a second order, by blocks of sources, for levels whose sources overflow the caches.

Node by node, such a level fetches a cache line for nearly every edge.  In blocks of sources, a line that one
edge brings serves the next ones, and the lines come in order.  Arrays only; knows nothing of ``Topology``.
After Nishtala et al., "When cache blocking of sparse matrix vector multiply works and why", 2007.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
from numpy.typing import NDArray

from validity_graph.ordering import Array

Index = NDArray[np.int32]

#: The low bits of a key: the target's place in its part.
TARGET_BITS = 19
#: Parts are cut into so many slices of targets, so that more threads than parts find work.
SLICES = 8
#: A node with more requirements stays out: a long product rounds too often in float32.
FEW = 32
#: Values of 4 bytes in a cache line.
LINE = 16

#: Smaller graphs, in nodes, lie in the second-level cache as they are.
_LEAST_NODES = 1 << 19
#: Smaller levels, in edges, are not worth a stream of all sources.
_LEAST_EDGES = 1 << 16
#: Nodes of a part at most, at most ``1 << TARGET_BITS``; their values fill most of a second-level cache.
_PART = 5 << 16
#: Nodes in a block of sources, as a power of two; their values lie in a first-level cache.
_BLOCK_BITS = 13
#: Lines of a second-level cache of 2 MB.
_CACHE_LINES = 1 << 15


@dataclass(frozen=True, slots=True)
class SourceBlocks:
    """Requirements by blocks of ``1 << block_bits`` sources, for some of the wide levels; ``k`` edges.

    Part ``p`` is the target nodes ``part_start[p]:part_end[p]``, at most ``1 << TARGET_BITS``; parts ascend,
    and those of one level are all its nodes outside components.  Each part is cut into ``SLICES`` slices:
    node ``part_start[p] + i`` of ``size`` is in slice ``i * SLICES // size``.  Nodes with more than ``FEW``
    requirements have no edges here; ``left_out[p]`` counts the in-edges of a part that are not here.

    The bounds of part p are ``bounds[bound_start[p]:bound_start[p + 1]]``; with these as ``b``, its edges
    from block j into slice s are ``b[j * SLICES + s]:b[j * SLICES + s + 1]``, in the order of the in-edges.
    ``key[e]``: the source's place in its block, then ``TARGET_BITS`` bits for the target's in its part.
    """

    key: NDArray[np.uint32]
    weight: NDArray[np.float32]
    bounds: Index
    bound_start: Index
    part_start: Index
    part_end: Index
    left_out: Index
    block_bits: int


def source_blocks(
    indptr: Index,
    requires_end: Index,
    source: Index,
    weight: NDArray[np.floating],
    level_indptr: Index,
    component_end: Index,
) -> SourceBlocks | None:
    """Lay out the requirements of levels where that pays; ``None`` where no level, or not float32.

    Arrays as in ``topology.Topology``.  O(n + m).
    """
    if weight.dtype != np.float32 or requires_end.size < _LEAST_NODES:
        return None
    parts = _parts(indptr, requires_end, source, level_indptr, component_end)
    if not parts:
        return None
    part_start, part_end, highest, edge_count = np.array(parts, dtype=np.int32).T.copy()
    bound_start = np.zeros(len(parts) + 1, dtype=np.int32)
    np.cumsum(((highest >> _BLOCK_BITS) + 1) * SLICES + 1, out=bound_start[1:])
    first_edge = np.append(0, np.cumsum(edge_count))
    key = np.empty(first_edge[-1], dtype=np.uint32)
    laid_weight = np.empty(first_edge[-1], dtype=np.float32)
    bounds = np.zeros(bound_start[-1], dtype=np.int32)
    structure = indptr, requires_end, source, weight
    for p, (start, end, *_) in enumerate(parts):
        own_bounds = bounds[bound_start[p] : bound_start[p + 1]]
        _compiled_loops().lay_part(
            *structure, start, end, _BLOCK_BITS, first_edge[p], key, laid_weight, own_bounds
        )
    left_out = indptr[part_end] - indptr[part_start] - edge_count
    arrays = key, laid_weight, bounds, bound_start, part_start, part_end, left_out
    for array in arrays:
        array.setflags(write=False)
    return SourceBlocks(*arrays, block_bits=_BLOCK_BITS)


def _parts(
    indptr: Index, requires_end: Index, source: Index, level_indptr: Index, component_end: Index
) -> list[tuple[int, int, int, int]]:
    """``(first node, end, largest source, edges)`` of every part of the levels where blocks pay."""
    parts: list[tuple[int, int, int, int]] = []
    wide = np.flatnonzero(np.diff(indptr[level_indptr]) >= _LEAST_EDGES)
    for start, end in zip(level_indptr[wide].tolist(), level_indptr[wide + 1].tolist(), strict=True):
        # Components stand first in their level.
        behind = int(np.searchsorted(component_end, end, "right"))
        first = max(start, int(component_end[behind - 1])) if behind else start
        count = 1
        while count * _PART < end - first:
            count *= 2
        cut = np.linspace(first, end, count + 1).astype(int).tolist()
        level = []
        missed = 0
        for ends in pairwise(cut):
            edges, far, highest = _compiled_loops().far_edges(
                indptr, requires_end, source, *ends, _CACHE_LINES
            )
            missed += far
            level.append((*ends, highest, edges))
        laid = sum(edges for *_, edges in level)
        # A pass by blocks streams the lines of all sources, once a part.
        streamed = sum(highest // LINE + 1 for *_, highest, _ in level)
        if _pays(laid, int(indptr[end] - indptr[first]) - laid, missed, streamed):
            parts += level
    return parts


def _pays(edges: int, left_out: int, missed: int, streamed: int) -> bool:
    """Whether to stream so many lines instead of missing the cache so often."""
    # Edges left out cost a second walk over all rows of the part: a hub or a support here and there may.
    return edges >= max(_LEAST_EDGES, 64 * left_out) and 2 * missed >= 3 * streamed


def far_edges(
    indptr: Array, requires_end: Array, source: Array, start: int, end: int, cache_lines: int
) -> tuple[int, int, int]:
    """Return ``(edges, missed, highest)`` of the requirements of nodes ``start:end`` with ``FEW`` or less.

    ``missed``: how many of them, node by node, would not find their source in a direct-mapped cache of
    ``cache_lines`` lines; ``highest``: the largest source, 0 without edges.
    """
    held = np.full(cache_lines, -1, dtype=np.int32)
    edges = missed = highest = 0
    for v in range(start, end):
        if requires_end[v] - indptr[v] > FEW:
            continue
        edges += requires_end[v] - indptr[v]
        for e in range(indptr[v], requires_end[v]):
            line = source[e] // LINE
            highest = max(highest, source[e])
            if held[line % cache_lines] != line:
                held[line % cache_lines] = line
                missed += 1
    return edges, missed, highest


def lay_part(
    indptr: Array,
    requires_end: Array,
    source: Array,
    weight: Array,
    start: int,
    end: int,
    block_bits: int,
    filled: int,
    key: Array,
    laid_weight: Array,
    bounds: Array,
) -> None:
    """Write the edges of the part ``start:end`` from position ``filled`` on, and its ``bounds``.

    A stable counting sort by block and slice.  ``bounds`` comes in as zeros.
    """
    size = end - start
    for v in range(start, end):
        part_slice = (v - start) * SLICES // size
        if requires_end[v] - indptr[v] <= FEW:
            for e in range(indptr[v], requires_end[v]):
                bounds[(source[e] >> block_bits) * SLICES + part_slice + 1] += 1
    bounds[0] = filled
    for i in range(bounds.size - 1):
        bounds[i + 1] += bounds[i]
    place = bounds.copy()
    mask = (1 << block_bits) - 1
    for v in range(start, end):
        part_slice = (v - start) * SLICES // size
        if requires_end[v] - indptr[v] <= FEW:
            for e in range(indptr[v], requires_end[v]):
                i = (source[e] >> block_bits) * SLICES + part_slice
                key[place[i]] = ((source[e] & mask) << TARGET_BITS) | (v - start)
                laid_weight[place[i]] = weight[e]
                place[i] += 1


@lru_cache(maxsize=1)
def _compiled_loops() -> SimpleNamespace:
    from validity_graph.compiled import compiled

    return SimpleNamespace(far_edges=compiled(far_edges), lay_part=compiled(lay_part))
