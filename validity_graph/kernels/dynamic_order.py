"""Topological levels and strongly connected components of a resident graph, repaired edit by edit.

Invariant: every edge between two components runs from a lower to a higher level, and the members of a
component share one level.  Levels need not be the smallest possible.  An added edge that breaks the
invariant is repaired by walking only what lies between the levels of its ends; a removed one inside a
component, by looking at that component alone.  In the manner of Pearce and Kelly, "A dynamic
topological sort algorithm for directed acyclic graphs", 2006; components: Tarjan, "Depth-first search
and linear graph algorithms", 1972, without recursion.  Arrays only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from validity_graph.compiled import compiled
from validity_graph.kernels.adjacency import EPOCH, STALLED, TOP_LEVEL, State, mark

_LOW_HALF = 0xFFFFFFFF
_DONE = 0x7FFFFFFF


@compiled
def push(heap: NDArray[np.int64], size: int, level: int, c: int) -> int:
    """Put component ``c`` at ``level`` on the heap; return its new size."""
    key = (np.int64(level) << 32) | c
    i = size
    while i > 0 and heap[(i - 1) >> 1] > key:
        heap[i] = heap[(i - 1) >> 1]
        i = (i - 1) >> 1
    heap[i] = key
    return size + 1


@compiled
def pop(heap: NDArray[np.int64], size: int) -> int:
    """Take the component of the lowest level, smallest number first, from a heap of ``size``."""
    top = heap[0]
    last = heap[size - 1]
    i, child = 0, 1
    while child < size - 1:
        if child + 1 < size - 1 and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= last:
            break
        heap[i] = heap[child]
        i = child
        child = 2 * i + 1
    heap[i] = last
    return int(top & _LOW_HALF)


@compiled
def _demand(node: NDArray[Any], heap: NDArray[np.int64], epoch: int, c: int, level: int, size: int) -> int:
    """Ask that component ``c`` be raised to ``level`` at least; return the size of the heap."""
    if node[c].stamp == epoch:
        node[c].pending = max(node[c].pending, level)
        return size
    node[c].stamp = epoch
    node[c].pending = level
    return push(heap, size, node[c].level, c)


@compiled
def _demand_above(
    node: NDArray[Any], out_target: NDArray[np.int32], heap: NDArray[np.int64], epoch: int, x: int, size: int
) -> int:
    """Ask that every out-neighbour of ``x`` outside its component lie above it."""
    for i in range(node[x].out_start, node[x].out_start + node[x].out_count):
        c = node[out_target[i]].leader
        if c != node[x].leader and node[c].level <= node[x].level:
            size = _demand(node, heap, epoch, c, node[x].level + 1, size)
    return size


@compiled
def _raise_all(state: State, epoch: int, size: int) -> None:
    """Grant the demands on the heap, lowest old level first: each component is raised once."""
    counter, node, out_target, heap = state.counter, state.node, state.out_target, state.heap
    while size > 0:
        c = pop(heap, size)
        size -= 1
        level = node[c].pending
        counter[TOP_LEVEL] = max(counter[TOP_LEVEL], level)
        x = c
        while True:
            node[x].level = level
            size = _demand_above(node, out_target, heap, epoch, x, size)
            x = node[x].ring
            if x == c:
                break


@compiled
def _raise_above(state: State, count: int) -> None:
    """Raise what the nodes ``group[:count]`` enter above them, and what that enters."""
    state.counter[EPOCH] += 1
    epoch = state.counter[EPOCH]
    node, out_target, heap, group = state.node, state.out_target, state.heap, state.group
    size = 0
    for i in range(count):
        size = _demand_above(node, out_target, heap, epoch, group[i], size)
    _raise_all(state, epoch, size)


@compiled
def _closes_cycle(state: State, upper: int, lower: int) -> bool:
    """Whether component ``upper`` can be reached from ``lower``, which lies no higher.

    Stamps what is reached from ``lower`` below the level of ``upper`` with the current epoch.
    """
    node, out_target, stack = state.node, state.out_target, state.stack
    state.counter[EPOCH] += 1
    epoch, ceiling = state.counter[EPOCH], node[upper].level
    if node[lower].level >= ceiling:
        return False
    node[lower].stamp = epoch
    stack[0] = lower
    size = 1
    found = False
    while size > 0:
        size -= 1
        c = stack[size]
        x = c
        while True:
            for i in range(node[x].out_start, node[x].out_start + node[x].out_count):
                y = node[out_target[i]].leader
                if y == upper:
                    found = True
                elif node[y].level < ceiling and node[y].stamp != epoch:
                    node[y].stamp = epoch
                    stack[size] = y
                    size += 1
            x = node[x].ring
            if x == c:
                break
    return found


@compiled
def _gather_cycle(state: State, upper: int) -> int:
    """Put into ``group`` all members of ``upper`` and of what ``_closes_cycle`` stamped and leads to it."""
    node, source, stack, group = state.node, state.source, state.stack, state.group
    forward = state.counter[EPOCH]
    state.counter[EPOCH] += 1
    node[upper].stamp = forward + 1
    stack[0] = upper
    size, count = 1, 0
    while size > 0:
        size -= 1
        c = stack[size]
        forget_stall(state, c)
        x = c
        while True:
            group[count] = x
            count += 1
            for i in range(node[x].start, node[x].start + node[x].count):
                s = node[source[i]].leader
                if node[s].stamp == forward:
                    node[s].stamp = forward + 1
                    stack[size] = s
                    size += 1
            x = node[x].ring
            if x == c:
                break
    return count


@compiled
def _make_component(state: State, first: int, last: int) -> None:
    """Make the nodes ``group[first:last]`` one component."""
    node, group = state.node, state.group
    group[first:last] = np.sort(group[first:last])
    for i in range(first, last):
        node[group[i]].leader = group[first]
        node[group[i]].ring = group[i + 1] if i + 1 < last else group[first]


@compiled
def _level_above_sources(state: State, first: int, last: int) -> int:
    """Lowest level allowed for the component ``group[first:last]`` by the edges that enter it."""
    node, source, group = state.node, state.source, state.group
    level = 0
    for i in range(first, last):
        v = group[i]
        for e in range(node[v].start, node[v].start + node[v].count):
            u = source[e]
            if node[u].leader != node[v].leader:
                level = max(level, node[u].level + 1)
    return level


@compiled
def forget_stall(state: State, c: int) -> None:
    """Component ``c`` is about to be computed again or to be no more."""
    if state.node[c].stalled:
        state.node[c].stalled = 0
        state.counter[STALLED] -= 1


@compiled
def edge_added(state: State, u: int, v: int) -> None:
    """Repair levels and components after edge u -> v was put into the adjacency."""
    node = state.node
    upper, lower = node[u].leader, node[v].leader
    if upper == lower or node[upper].level < node[lower].level:
        return
    if not _closes_cycle(state, upper, lower):
        state.counter[EPOCH] += 1
        epoch = state.counter[EPOCH]
        _raise_all(state, epoch, _demand(node, state.heap, epoch, lower, node[upper].level + 1, 0))
        return
    count = _gather_cycle(state, upper)
    _make_component(state, 0, count)
    level = _level_above_sources(state, 0, count)
    for i in range(count):
        node[state.group[i]].level = level
    _raise_above(state, count)
    mark(state, state.group[0])


@compiled
def _parts_from(state: State, root: int, seen: int, count: int, part: int) -> tuple[int, int, int]:
    """Tarjan from ``root`` within its component, as far as not seen yet; as ``_strong_parts``.

    ``pending`` is the number in which a node was seen, 0 before that, ``_DONE`` once its part is known.
    """
    node, out_target, group = state.node, state.out_target, state.group
    stack, place, trail = state.stack, state.place, state.trail
    leader = node[root].leader
    seen += 1
    node[root].pending = node[root].low = seen
    stack[0] = trail[0] = root
    place[0] = node[root].out_start
    depth = waiting = 1
    while depth > 0:
        x = stack[depth - 1]
        i = place[depth - 1]
        if i < node[x].out_start + node[x].out_count:
            place[depth - 1] = i + 1
            y = out_target[i]
            if node[y].leader == leader and node[y].pending == 0:
                seen += 1
                node[y].pending = node[y].low = seen
                stack[depth] = trail[waiting] = y
                place[depth] = node[y].out_start
                depth += 1
                waiting += 1
            elif node[y].leader == leader and node[y].pending != _DONE:
                node[x].low = min(node[x].low, node[y].pending)
            continue
        depth -= 1
        if depth > 0:
            above = stack[depth - 1]
            node[above].low = min(node[above].low, node[x].low)
        if node[x].low == node[x].pending:
            y = -1
            while y != x:
                waiting -= 1
                y = trail[waiting]
                node[y].pending = _DONE
                node[y].low = part
                group[count] = y
                count += 1
            part += 1
    return seen, count, part


@compiled
def _strong_parts(state: State, leader: int) -> int:
    """Split what was the component ``leader`` by its edges now; return how many members it has.

    ``group`` then lists them part by part, the last part in topological order first; ``low`` is the
    number of a member's part.
    """
    node = state.node
    x = leader
    while True:
        node[x].pending = 0
        x = node[x].ring
        if x == leader:
            break
    seen = count = part = 0
    # One root no longer leads to all members, so each is tried.
    while True:
        if node[x].pending == 0:
            seen, count, part = _parts_from(state, x, seen, count, part)
        x = node[x].ring
        if x == leader:
            break
    return count


@compiled
def edge_removed(state: State, u: int, v: int) -> None:
    """Repair levels and components after the edges of this call, u -> v among them, were taken out.

    A component that was looked at already in this call carries 2 in ``dirty``.
    """
    node, group = state.node, state.group
    leader = node[u].leader
    if leader != node[v].leader or node[leader].dirty == 2:
        return
    forget_stall(state, leader)
    count = _strong_parts(state, leader)
    floor = node[leader].level
    whole = node[group[0]].low == node[group[count - 1]].low
    for i in range(count):
        mark(state, group[i])
        node[group[i]].dirty = 2
    if whole:
        return
    last = count
    while last > 0:
        first = last - 1
        while first > 0 and node[group[first - 1]].low == node[group[last - 1]].low:
            first -= 1
        _make_component(state, first, last)
        last = first
    _level_parts(state, count, floor)


@compiled
def _level_parts(state: State, count: int, floor: int) -> None:
    """Give the parts in ``group[:count]``, last first, levels of ``floor`` or more; raise what they enter."""
    node, group = state.node, state.group
    last = count
    while last > 0:
        first = last - 1
        while first > 0 and node[group[first - 1]].leader == node[group[last - 1]].leader:
            first -= 1
        level = max(floor, _level_above_sources(state, first, last))
        state.counter[TOP_LEVEL] = max(state.counter[TOP_LEVEL], level)
        for i in range(first, last):
            node[group[i]].level = level
        last = first
    _raise_above(state, count)
