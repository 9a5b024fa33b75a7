"""Propagation compiled by numba: the default kernel.

The formulas of ``on_numpy``, one node at a time in topological order, so that a node is computed by the
same instructions whether the whole graph or only its cone is.  Arrays in, arrays out, in the internal
numbering of ``Topology``; stored in the dtype of ``topology.weight``, computed in float64.  Where a float32
topology has ``blocks``, requirements go block by block of sources and are multiplied in float32.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from validity_graph.compiled import compiled
from validity_graph.kernels.by_blocks import Task, part_tasks
from validity_graph.kernels.components import settle_component
from validity_graph.kernels.instructions import prefetch
from validity_graph.kernels.node import node_inherited, node_invalidity
from validity_graph.ordering import Array
from validity_graph.topology import Topology

#: A level with this many in-edges is shared among threads, and its sources are prefetched.
_WIDE = 1 << 16
#: Edges between asking for a source's invalidity and using it.
_GATHER_AHEAD = np.uint32(160)
#: Edges between asking for a stretch of the edge arrays and using it.
_STREAM_AHEAD = np.uint32(512)
_ONE = np.uint32(1)


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
        by_part: list[Task] = []
        if far and topology.blocks is not None:
            by_part, end = part_tasks(topology, topology.blocks, start, end, own, invalidity, threads=shares)
        cut = _shares(topology, start, end, shares) if far and shares > 1 else [start, end]
        return [partial(settle, *ends, far) for ends in pairwise(cut) if ends[0] < ends[1]] + by_part

    stretches = list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), wide.tolist(), strict=True))
    done: list[tuple[int, bool]] = []
    if threads == 1 or not wide.any():
        done = [task() for stretch in stretches for task in tasks(*stretch, 1)]
    else:
        # A pool of its own: one that outlived the call would be dead in a forked process.
        with ThreadPoolExecutor(threads - 1) as pool:
            for stretch in stretches:
                done += _share_out(tasks(*stretch, threads), pool, threads=threads)
    return invalidity, max((r for r, _ in done), default=0), all(settled for _, settled in done)


def _share_out(tasks: Sequence[Task], pool: ThreadPoolExecutor, *, threads: int) -> list[tuple[int, bool]]:
    """Do tasks on ``threads`` threads, this one included: waking another takes longer than many a task."""
    todo = deque(tasks)
    helpers = [pool.submit(_work_off, todo) for _ in range(min(threads, len(tasks)) - 1)]
    done = _work_off(todo)
    for helper in helpers:
        done += helper.result()
    return done


def _work_off(todo: deque[Task]) -> list[tuple[int, bool]]:
    """Do tasks until none is left."""
    done: list[tuple[int, bool]] = []
    while True:
        try:
            task = todo.popleft()
        except IndexError:
            return done
        done.append(task())


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
