"""One level of a pass in blocks of sources: ``SourceBlocks`` turned into tasks for threads.

The formulas of ``node``, requirement by requirement in the order of the blocks, in float32.  Arrays in,
arrays out; used by ``on_numba`` where a topology has ``blocks``.  SEMANTICS section 3.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from validity_graph.blocking import FEW, LINE, SLICES, TARGET_BITS, SourceBlocks
from validity_graph.compiled import compiled, inlined
from validity_graph.kernels.instructions import prefetch
from validity_graph.kernels.node import Position, node_inherited
from validity_graph.ordering import Array
from validity_graph.topology import Topology

#: Edges between asking for a stretch of the edge arrays and using it.
_STREAM_AHEAD = np.uint32(512)
#: Nodes between asking for the sources of a node's supports and using them.
_ROWS_AHEAD = 32
_TARGET_BITS = np.uint32(TARGET_BITS)
_TARGET = np.uint32((1 << TARGET_BITS) - 1)
_WHOLE = np.float32(1)

#: A piece of a pass that one thread does: returns ``(most rounds, all settled)``.
Task: TypeAlias = "Callable[[], tuple[int, bool]]"


def part_tasks(
    topology: Topology,
    blocks: SourceBlocks,
    start: int,
    end: int,
    direct: NDArray[np.floating],
    invalidity: NDArray[np.floating],
    *,
    threads: int,
) -> tuple[list[Task], int]:
    """Return what is to do for the parts in the level ``start:end``, and where its first part starts.

    Nodes before that one (``end`` where the level has no parts) are not in blocks.
    """
    parts = _parts(blocks, start, end)
    tasks: list[Task] = [
        partial(_settle_part, topology, blocks, *piece, direct, invalidity)
        for piece in _pieces(parts, threads)
    ]
    return tasks, int(blocks.part_start[parts[0]]) if parts else end


@inlined
def _lose_one(key: Array, weight: Array, e: Position, values: Array, lost: Array) -> None:
    """Let the target of edge ``e`` lose what the edge makes it lose; precise for small losses too."""
    target = key[e] & _TARGET
    so_far = lost[target]
    lost[target] = so_far + weight[e] * values[key[e] >> _TARGET_BITS] * (_WHOLE - so_far)


@compiled
def _lose_requirements(
    key: Array,
    weight: Array,
    bounds: Array,
    block_bits: int,
    first: int,
    last: int,
    invalidity: Array,
    lost: Array,
) -> None:
    """Raise ``lost``, float[part size], by the requirements in slices ``first:last`` of a part.

    One block of sources after the other, the next one asked for meanwhile.  Each target takes its edges in
    the same order whatever the slices.  ``bounds``: those of the part; see ``SourceBlocks``.
    """
    size = 1 << block_bits
    count = bounds.size // SLICES
    for block in range(count):
        values = invalidity[block << block_bits :]
        e = np.uint64(bounds[block * SLICES + first])
        end = np.uint64(bounds[block * SLICES + last])
        asked = (block + 1) << block_bits
        limit = asked + size if block + 1 < count else asked
        stride = (size // (int(end - e) + LINE) + 1) * LINE
        until = asked
        while e + np.uint64(LINE) <= end:
            until += stride
            while asked < limit and asked < until:
                prefetch(invalidity, np.uint64(asked))
                asked += LINE
            prefetch(key, e + np.uint64(_STREAM_AHEAD))
            prefetch(weight, e + np.uint64(_STREAM_AHEAD))
            for i in range(LINE):
                _lose_one(key, weight, e + np.uint64(i), values, lost)
            e += np.uint64(LINE)
        while e < end:
            _lose_one(key, weight, e, values, lost)
            e += np.uint64(1)


@compiled
def _add_direct(direct: Array, lost: Array) -> None:
    """Turn what nodes lose by requirements into their invalidity, in place, where nothing else matters."""
    for v in range(lost.size):
        own = np.float64(direct[v])
        lost[v] = own + (1.0 - own) * np.float64(lost[v])


@inlined
def _first_read(indptr: Array, requires_end: Array, v: int) -> Position:
    """First in-edge of node ``v`` that is not in the blocks."""
    first: Position = requires_end[v]
    return first if first - indptr[v] <= FEW else indptr[v]


@compiled
def _finish_nodes(
    indptr: Array,
    requires_end: Array,
    source: Array,
    weight: Array,
    opens: Array,
    start: int,
    end: int,
    direct: Array,
    invalidity: Array,
) -> None:
    """Turn what nodes ``start:end`` lose by requirements in blocks into their invalidity, in place.

    Reads node by node what is not in the blocks: supports, and all of a node with many requirements.
    """
    for v in range(start, end):
        ahead = min(v + _ROWS_AHEAD, end - 1)
        for e in range(_first_read(indptr, requires_end, ahead), indptr[ahead + 1]):
            prefetch(invalidity, np.uint64(np.uint32(source[e])))
        inherited = node_inherited(
            _first_read(indptr, requires_end, v),
            requires_end[v],
            indptr[v + 1],
            source,
            weight,
            opens,
            invalidity,
        )
        required = np.float64(invalidity[v])
        own = np.float64(direct[v])
        invalidity[v] = own + (1.0 - own) * (required + (1.0 - required) * inherited)


def _settle_part(
    topology: Topology,
    blocks: SourceBlocks,
    part: int,
    first: int,
    last: int,
    direct: NDArray[np.floating],
    invalidity: NDArray[np.floating],
) -> tuple[int, bool]:
    """Write the invalidity of slices ``first:last`` of one part; return as ``_settle_range``."""
    start, end = int(blocks.part_start[part]), int(blocks.part_end[part])
    # Slice s starts at the first i with i * SLICES // size >= s.
    lowest, highest = (start - (start - end) * s // SLICES for s in (first, last))
    invalidity[lowest:highest] = 0
    _lose_requirements(
        blocks.key,
        blocks.weight,
        blocks.bounds[blocks.bound_start[part] : blocks.bound_start[part + 1]],
        blocks.block_bits,
        first,
        last,
        invalidity,
        invalidity[start:end],
    )
    if blocks.left_out[part] == 0:
        _add_direct(direct[lowest:highest], invalidity[lowest:highest])
        return 0, True
    _finish_nodes(
        topology.indptr,
        topology.requires_end,
        topology.source,
        topology.weight,
        topology.opens,
        lowest,
        highest,
        direct,
        invalidity,
    )
    return 0, True


def _parts(blocks: SourceBlocks, start: int, end: int) -> range:
    """Return the parts of ``blocks`` among nodes ``start:end``, a level."""
    return range(*np.searchsorted(blocks.part_start, (start, end)).tolist())


def _pieces(parts: range, threads: int) -> list[tuple[int, int, int]]:
    """Cut parts into ``(part, first slice, last slice)``, a piece for each thread as far as slices go."""
    count = min(SLICES, -(-threads // max(1, len(parts))))
    cut = [SLICES * i // count for i in range(count + 1)]
    return [(part, *slices) for part in parts for slices in pairwise(cut)]
