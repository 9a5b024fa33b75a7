"""Topological levels and strongly connected components of a resident graph, repaired edit by edit.

Invariant: every edge between two components runs from a lower to a higher level, and the members of a
component share one level.  Levels need not be the smallest possible.  An added edge that breaks the
invariant is repaired by walking only what lies between the levels of its ends; a removed one inside a
component, by looking at that component alone.  In the manner of Pearce and Kelly, "A dynamic
topological sort algorithm for directed acyclic graphs", 2006; components: Tarjan, "Depth-first search
and linear graph algorithms", 1972, without recursion.  Arrays only.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from validity_graph.compiled import compiled
from validity_graph.kernels.adjacency import EPOCH, STALLED, TOP_LEVEL, State, mark

_LOW_HALF = 0xFFFFFFFF


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
    return top & _LOW_HALF


@compiled
def _demand(state: State, c: int, level: int, size: int) -> int:
    """Ask that component ``c`` be raised to ``level`` at least; return the size of the heap."""
    node = state.node
    if node[c].stamp == state.counter[EPOCH]:
        node[c].pending = max(node[c].pending, level)
        return size
    node[c].stamp = state.counter[EPOCH]
    node[c].pending = level
    return push(state.heap, size, node[c].level, c)


@compiled
def _demand_above(state: State, x: int, size: int) -> int:
    """Ask that every out-neighbour of ``x`` outside its component lie above it."""
    node = state.node
    for i in range(node[x].out_start, node[x].out_start + node[x].out_count):
        c = node[state.out_target[i]].leader
        if c != node[x].leader and node[c].level <= node[x].level:
            size = _demand(state, c, node[x].level + 1, size)
    return size


@compiled
def _raise_all(state: State, size: int) -> None:
    """Grant the demands on the heap, lowest old level first: each component is raised once."""
    node = state.node
    while size > 0:
        c = pop(state.heap, size)
        size -= 1
        level = node[c].pending
        state.counter[TOP_LEVEL] = max(state.counter[TOP_LEVEL], level)
        x = c
        while True:
            node[x].level = level
            size = _demand_above(state, x, size)
            x = node[x].ring
            if x == c:
                break


@compiled
def _closes_cycle(state: State, upper: int, lower: int) -> bool:
    """Whether component ``upper`` can be reached from ``lower``, which lies no higher.

    Stamps what is reached from ``lower`` below the level of ``upper`` with the current epoch.
    """
    node = state.node
    state.counter[EPOCH] += 1
    epoch, ceiling = state.counter[EPOCH], node[upper].level
    if node[lower].level >= ceiling:
        return False
    node[lower].stamp = epoch
    state.stack[0] = lower
    size = 1
    found = False
    while size > 0:
        size -= 1
        c = state.stack[size]
        x = c
        while True:
            for i in range(node[x].out_start, node[x].out_start + node[x].out_count):
                y = node[state.out_target[i]].leader
                if y == upper:
                    found = True
                elif node[y].level < ceiling and node[y].stamp != epoch:
                    node[y].stamp = epoch
                    state.stack[size] = y
                    size += 1
            x = node[x].ring
            if x == c:
                break
    return found


@compiled
def _gather_cycle(state: State, upper: int) -> int:
    """Put into ``group`` all members of ``upper`` and of what ``_closes_cycle`` stamped and leads to it."""
    node = state.node
    forward = state.counter[EPOCH]
    state.counter[EPOCH] += 1
    node[upper].stamp = forward + 1
    state.stack[0] = upper
    size, count = 1, 0
    while size > 0:
        size -= 1
        c = state.stack[size]
        forget_stall(state, c)
        x = c
        while True:
            state.group[count] = x
            count += 1
            for i in range(node[x].start, node[x].start + node[x].count):
                s = node[state.source[i]].leader
                if node[s].stamp == forward:
                    node[s].stamp = forward + 1
                    state.stack[size] = s
                    size += 1
            x = node[x].ring
            if x == c:
                break
    return count


@compiled
def _make_component(state: State, first: int, last: int) -> None:
    """Make the nodes ``group[first:last]`` one component, at one above all that enters it so far."""
    node, group = state.node, state.group
    group[first:last] = np.sort(group[first:last])
    for i in range(first, last):
        node[group[i]].leader = group[first]
        node[group[i]].ring = group[i + 1] if i + 1 < last else group[first]


@compiled
def _level_above_sources(state: State, first: int, last: int) -> int:
    """Lowest level allowed for the component ``group[first:last]`` by the edges that enter it."""
    node = state.node
    level = 0
    for i in range(first, last):
        v = state.group[i]
        for e in range(node[v].start, node[v].start + node[v].count):
            u = state.source[e]
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
        _raise_all(state, _demand(state, lower, node[upper].level + 1, 0))
        return
    count = _gather_cycle(state, upper)
    _make_component(state, 0, count)
    level = _level_above_sources(state, 0, count)
    state.counter[EPOCH] += 1
    size = 0
    for i in range(count):
        node[state.group[i]].level = level
    for i in range(count):
        size = _demand_above(state, state.group[i], size)
    leader = state.group[0]
    _raise_all(state, size)
    mark(state, leader)


@compiled
def _strong_parts(state: State, leader: int) -> int:
    """Tarjan on the members of the component ``leader`` alone; returns how many members it has.

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
    done = np.int32(0x7FFFFFFF)
    # All are reachable from the leader only while the component holds, so each member is tried as a root.
    root, seen, count, part = leader, 0, 0, 0
    while True:
        depth, waiting = 0, 0
        if node[root].pending == 0:
            state.stack[0] = root
            depth = 1
            seen += 1
            node[root].pending = node[root].low = seen
            state.place[0] = node[root].out_start
            state.trail[0] = root
            waiting = 1
        while depth > 0:
            x = state.stack[depth - 1]
            i = state.place[depth - 1]
            if i < node[x].out_start + node[x].out_count:
                state.place[depth - 1] = i + 1
                y = state.out_target[i]
                if node[y].leader != leader or node[y].pending == done:
                    continue
                if node[y].pending > 0:
                    node[x].low = min(node[x].low, node[y].pending)
                    continue
                seen += 1
                node[y].pending = node[y].low = seen
                state.stack[depth] = y
                state.place[depth] = node[y].out_start
                depth += 1
                state.trail[waiting] = y
                waiting += 1
                continue
            depth -= 1
            if depth > 0:
                above = state.stack[depth - 1]
                node[above].low = min(node[above].low, node[x].low)
            if node[x].low == node[x].pending:
                while True:
                    waiting -= 1
                    y = state.trail[waiting]
                    node[y].pending = done
                    node[y].low = part
                    state.group[count] = y
                    count += 1
                    if y == x:
                        break
                part += 1
        root = node[root].ring
        if root == leader:
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
    state.counter[EPOCH] += 1
    size = 0
    for i in range(count):
        size = _demand_above(state, group[i], size)
    _raise_all(state, size)
