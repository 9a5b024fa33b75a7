"""Propagation compiled by numba: the default kernel.

The formulas of ``on_numpy``, one node at a time in topological order, so that a node is computed by the
same instructions whether the whole graph or only its cone is.  Arrays in, arrays out, in the internal
numbering of ``Topology``; stored in the dtype of ``topology.weight``, computed in float64.  Where a float32
topology has ``blocks``, requirements go block by block of sources and are multiplied in float32.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from validity_graph.blocking import FEW, LINE, SLICES, TARGET_BITS, SourceBlocks
from validity_graph.compiled import compiled, inlined
from validity_graph.kernels.components import settle_component
from validity_graph.kernels.instructions import prefetch
from validity_graph.kernels.node import Position, node_inherited, node_invalidity
from validity_graph.ordering import Array
from validity_graph.topology import Topology

#: A level with this many in-edges is shared among threads, and its sources are prefetched.
_WIDE = 1 << 16
#: Edges between asking for a source's invalidity and using it.
_GATHER_AHEAD = np.uint32(160)
#: Edges between asking for a stretch of the edge arrays and using it.
_STREAM_AHEAD = np.uint32(512)
#: Nodes between asking for the sources of a node's supports and using them.
_ROWS_AHEAD = 32
_ONE = np.uint32(1)
_TARGET_BITS = np.uint32(TARGET_BITS)
_TARGET = np.uint32((1 << TARGET_BITS) - 1)
_WHOLE = np.float32(1)

#: A piece of a pass that one thread does: returns ``(most rounds, all settled)``.
Task: TypeAlias = "Callable[[], tuple[int, bool]]"


@compiled
def _settle_near(
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
    """Write the invalidity of nodes ``start:end``, none of them in a cycle, in order."""
    row = np.uint32(indptr[start])
    for v in range(np.uint32(start), np.uint32(end)):
        row_end = np.uint32(indptr[v + _ONE])
        prefetch(source, np.uint64(row + _STREAM_AHEAD))
        prefetch(weight, np.uint64(row + _STREAM_AHEAD))
        invalidity[v] = node_invalidity(
            row,
            np.uint32(requires_end[v]),
            row_end,
            source,
            weight,
            opens,
            invalidity,
            np.float64(direct[v]),
        )
        row = row_end


@compiled
def _settle_far(
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
    """Do as ``_settle_near`` where the sources lie outside the caches: ask for them ahead of their use."""
    row = np.uint32(indptr[start])
    asked = row
    # Stops short of the last stride; those few edges wait for memory.
    limit = np.uint32(source.size - min(source.size, 16))
    for v in range(np.uint32(start), np.uint32(end)):
        row_end = np.uint32(indptr[v + _ONE])
        while asked < limit and asked < row_end + _GATHER_AHEAD:
            for i in range(16):
                prefetch(invalidity, np.uint64(np.uint32(source[asked + np.uint32(i)])))
            asked += np.uint32(16)
            prefetch(source, np.uint64(asked + _STREAM_AHEAD))
            prefetch(weight, np.uint64(asked + _STREAM_AHEAD - _GATHER_AHEAD))
        invalidity[v] = node_invalidity(
            row,
            np.uint32(requires_end[v]),
            row_end,
            source,
            weight,
            opens,
            invalidity,
            np.float64(direct[v]),
        )
        row = row_end


@compiled
def _settle_range(
    indptr: Array,
    requires_end: Array,
    source: Array,
    weight: Array,
    opens: Array,
    component_start: Array,
    component_end: Array,
    start: int,
    end: int,
    far: bool,
    direct: Array,
    invalidity: Array,
) -> tuple[int, bool]:
    """Write the invalidity of nodes ``start:end`` in order; return ``(most rounds, all settled)``.

    A component is settled where it starts, even when it ends after ``end``.  ``far``: the sources lie
    outside the caches.
    """
    rounds = 0
    converged = True
    component = np.searchsorted(component_start, start)
    v = start
    if component > 0:
        v = max(v, component_end[component - 1])
    while v < end:
        stop = end
        if component < component_start.size:
            stop = min(stop, component_start[component])
        if far:
            _settle_far(indptr, requires_end, source, weight, opens, v, stop, direct, invalidity)
        else:
            _settle_near(indptr, requires_end, source, weight, opens, v, stop, direct, invalidity)
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


def noisy_or(
    topology: Topology,
    direct: NDArray[np.floating],
    *,
    out: NDArray[np.floating] | None = None,
    threads: int | None = None,
) -> tuple[NDArray[np.floating], int, bool]:
    """Invalidity of every memory under direct evidence ``direct`` [n] in [0, 1], internal numbering.

    Returns ``(invalidity, rounds, converged)`` as ``on_numpy.noisy_or`` does.  Wide levels are shared
    among ``threads`` (as many as the process may use processors); the result does not depend on it.  ``out``
    is no view of ``direct``.
    SEMANTICS section 3.
    """
    invalidity = np.empty(direct.size, dtype=topology.weight.dtype) if out is None else out
    own = np.ascontiguousarray(direct, dtype=topology.weight.dtype)
    cuts, wide = _stretches(topology)
    threads = _processors() if threads is None else threads

    def settle(start: int, end: int, far: bool) -> tuple[int, bool]:
        rounds, settled = _settle_range(
            topology.indptr,
            topology.requires_end,
            topology.source,
            topology.weight,
            topology.opens,
            topology.component_start,
            topology.component_end,
            start,
            end,
            far,
            own,
            invalidity,
        )
        return int(rounds), bool(settled)

    def tasks(start: int, end: int, far: bool, shares: int) -> list[Task]:
        done_by_part: list[Task] = []
        if far and topology.blocks is not None:
            parts = _parts(topology.blocks, start, end)
            done_by_part = [
                partial(_settle_part, topology, topology.blocks, *piece, own, invalidity)
                for piece in _pieces(parts, shares)
            ]
            end = int(topology.blocks.part_start[parts[0]]) if parts else end
        cut = _shares(topology, start, end, shares) if far and shares > 1 else [start, end]
        return [partial(settle, *ends, far) for ends in pairwise(cut)] + done_by_part

    stretches = list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), wide.tolist(), strict=True))
    done: list[tuple[int, bool]] = []
    if threads == 1 or not wide.any():
        done = [task() for stretch in stretches for task in tasks(*stretch, 1)]
    else:
        # A pool of its own: one that outlived the call would be dead in a forked process.
        with ThreadPoolExecutor(threads) as pool:
            for stretch in stretches:
                done += pool.map(_call, tasks(*stretch, threads))
    return invalidity, max((r for r, _ in done), default=0), all(settled for _, settled in done)


def _call(task: Task) -> tuple[int, bool]:
    return task()


def _parts(blocks: SourceBlocks, start: int, end: int) -> range:
    """Return the parts of ``blocks`` among nodes ``start:end``, a level."""
    return range(*np.searchsorted(blocks.part_start, (start, end)).tolist())


def _pieces(parts: range, threads: int) -> list[tuple[int, int, int]]:
    """Cut parts into ``(part, first slice, last slice)``, a piece for each thread as far as slices go."""
    count = min(SLICES, -(-threads // max(1, len(parts))))
    cut = [SLICES * i // count for i in range(count + 1)]
    return [(part, *slices) for part in parts for slices in pairwise(cut)]


def threads_used(topology: Topology) -> int:
    """Return the number of threads that ``noisy_or`` takes by default: 1 where no level is wide."""
    return _processors() if _stretches(topology)[1].any() else 1


def _processors() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _stretches(topology: Topology) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Nodes between ``cuts[i]`` and ``cuts[i + 1]`` are one wide level, or narrow levels in a row."""
    edge_count = np.diff(topology.indptr[topology.level_indptr])
    wide = edge_count >= _WIDE
    first = np.ones(wide.size, dtype=bool)
    first[1:] = wide[1:] | wide[:-1]
    cuts = np.append(topology.level_indptr[:-1][first], topology.level_indptr[-1])
    return cuts, wide[first]


def _shares(topology: Topology, start: int, end: int, threads: int) -> list[int]:
    """Cut nodes ``start:end`` into parts with about equally many in-edges, one a thread."""
    goal = np.linspace(topology.indptr[start], topology.indptr[end], threads + 1)[1:-1]
    inner = start + np.searchsorted(topology.indptr[start:end], goal)
    return [start, *inner.tolist(), end]


@compiled
def _inherited_range(
    indptr: Array,
    requires_end: Array,
    source: Array,
    weight: Array,
    opens: Array,
    start: int,
    end: int,
    invalidity: Array,
    out: Array,
) -> None:
    for v in range(start, end):
        out[v] = node_inherited(indptr[v], requires_end[v], indptr[v + 1], source, weight, opens, invalidity)


def inherited(topology: Topology, invalidity: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return what each memory inherits when the others have ``invalidity`` [n], float64[n].

    Internal numbering.  ``1 - (1 - q_v) * (1 - l_v)``; needs no order.  SEMANTICS section 3.
    """
    out = np.empty(invalidity.size, dtype=np.float64)
    _inherited_range(
        topology.indptr,
        topology.requires_end,
        topology.source,
        topology.weight,
        topology.opens,
        0,
        invalidity.size,
        invalidity,
        out,
    )
    return out
