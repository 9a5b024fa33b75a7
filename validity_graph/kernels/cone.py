"""Edits of a resident graph, and the computing again of only what they can have changed.

A call edits the adjacency, lists the nodes whose formula or inputs it touched, and then computes in
topological order: a node whose value comes out the same wakes nobody, a component is always computed
as a whole from its own start.  Each node runs through the very code of ``on_numba``, on in-edges in the same
order, so the values are those of a whole pass bit for bit.  Arrays only, in the caller's
numbering.  Formulas: SEMANTICS section 3.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from validity_graph.compiled import compiled
from validity_graph.kernels.adjacency import (
    CHANGED, DIRTY, EDGES, EPOCH, INERT, REMOVED, STALLED, State, delete_in_edge, delete_out_neighbour,
    find_in_edge, has_room, insert_in_edge, insert_out_neighbour, mark, open_nodes,
)
from validity_graph.kernels.dynamic_order import edge_added, edge_removed, forget_stall, pop, push
from validity_graph.kernels.on_numba import node_invalidity, settle_component


@compiled
def _wake(state: State, v: int, size: int) -> int:
    """Queue the component of ``v``; return the size of the heap."""
    c = state.node[v].leader
    if state.node[c].stamp != state.counter[EPOCH]:
        state.node[c].stamp = state.counter[EPOCH]
        size = push(state.heap, size, state.node[c].level, c)
    return size


@compiled
def _write(state: State, v: int, value: float, size: int) -> int:
    """Store the new value of ``v`` and wake what lies behind it; return the size of the heap."""
    node = state.node
    state.invalidity[v] = value
    state.changed[state.counter[CHANGED]] = v
    state.counter[CHANGED] += 1
    for i in range(node[v].out_start, node[v].out_start + node[v].out_count):
        w = state.out_target[i]
        if node[w].leader != node[v].leader:
            size = _wake(state, w, size)
    return size


@compiled
def _members(state: State, c: int) -> int:
    """List the members of component ``c`` in ``group`` by number, their places in ``place``; return how many."""
    count = 0
    x = c
    while True:
        state.group[count] = x
        state.place[x] = count
        count += 1
        x = state.node[x].ring
        if x == c:
            return count


@compiled
def _settle_cycle(state: State, c: int, size: int) -> int:
    """Compute component ``c`` as a whole; return the size of the heap.

    Lays its members out as a topology of their own, the values that enter it behind them.
    """
    node = state.node
    count = _members(state, c)
    indptr = np.zeros(count + 1, dtype=np.int32)
    requires_end = np.empty(count, dtype=np.int32)
    for i in range(count):
        v = state.group[i]
        requires_end[i] = indptr[i] + node[v].requires
        indptr[i + 1] = indptr[i] + node[v].count
    source = np.empty(indptr[count], dtype=np.int32)
    weight = np.empty(indptr[count], dtype=np.float64)
    opens = np.empty(indptr[count], dtype=np.uint8)
    direct = np.empty(count, dtype=np.float64)
    value = np.empty(count + indptr[count], dtype=np.float64)
    for i in range(count):
        v = state.group[i]
        direct[i] = state.direct[v]
        for k in range(node[v].count):
            e, old = indptr[i] + k, node[v].start + k
            weight[e] = state.weight[old]
            opens[e] = state.opens[old]
            u = state.source[old]
            source[e] = state.place[u] if node[u].leader == c else count + e
            value[count + e] = state.invalidity[u]
    settled = settle_component(indptr, requires_end, source, weight, opens, 0, count, direct, value)[1]
    forget_stall(state, c)
    if not settled:
        node[c].stalled = 1
        state.counter[STALLED] += 1
    for i in range(count):
        if value[i] != state.invalidity[state.group[i]]:
            size = _write(state, state.group[i], value[i], size)
    return size


@compiled
def settle(state: State) -> None:
    """Compute the marked nodes again and, in topological order, whatever changes with them.

    Lists the nodes whose value changed in ``changed``.  O(their edges * log) outside cycles.
    """
    node, counter = state.node, state.counter
    counter[EPOCH] += 1
    counter[CHANGED] = 0
    size = 0
    for i in range(counter[DIRTY]):
        node[state.dirty[i]].dirty = 0
        size = _wake(state, state.dirty[i], size)
    counter[DIRTY] = 0
    while size > 0:
        v = pop(state.heap, size)
        size -= 1
        if node[v].ring != v:
            size = _settle_cycle(state, v, size)
            continue
        start = node[v].start
        value = node_invalidity(
            start, start + node[v].requires, start + node[v].count, state.source, state.weight, state.opens,
            state.invalidity, state.direct[v],
        )
        if value != state.invalidity[v]:
            size = _write(state, v, value, size)


@compiled
def add_edges(
    state: State, source: NDArray[np.int32], target: NDArray[np.int32], weight: NDArray[np.float64],
    supports: NDArray[np.uint8], justification: NDArray[np.int64], done: int,
) -> int:
    """Add the edges from number ``done`` on; return how many are in, fewer than all when a pool is full."""
    counter = state.counter
    for i in range(done, source.size):
        u, v = source[i], target[i]
        if supports[i] and state.node[v].premise:
            state.edge_target[counter[EDGES]] = INERT - v
            counter[EDGES] += 1
            continue
        if not has_room(state, u, v):
            return i
        insert_in_edge(state, v, u, weight[i], supports[i] != 0, justification[i], counter[EDGES])
        insert_out_neighbour(state, u, v)
        state.edge_target[counter[EDGES]] = v
        counter[EDGES] += 1
        edge_added(state, u, v)
        mark(state, v)
    return source.size


@compiled
def append(
    state: State, direct: NDArray[np.float64], premise: NDArray[np.uint8], source: NDArray[np.int32],
    target: NDArray[np.int32], weight: NDArray[np.float64], supports: NDArray[np.uint8],
    justification: NDArray[np.int64],
) -> int:
    """Add a node for each entry of ``direct`` and edges, and settle; return as ``add_edges`` (then unsettled)."""
    open_nodes(state, target, direct, premise)
    done = add_edges(state, source, target, weight, supports, justification, 0)
    if done == source.size:
        settle(state)
    return done


@compiled
def remove_edges(state: State, edge: NDArray[np.int64]) -> None:
    """Take out the edges ``edge``, all of them present and different, and settle."""
    source = np.empty(edge.size, dtype=np.int32)
    target = np.empty(edge.size, dtype=np.int32)
    kept = 0
    for i in range(edge.size):
        v = state.edge_target[edge[i]]
        state.edge_target[edge[i]] = REMOVED
        if v <= INERT:
            continue
        place = find_in_edge(state, v, edge[i])
        source[kept], target[kept] = state.source[place], v
        delete_in_edge(state, v, place)
        delete_out_neighbour(state, source[kept], v)
        mark(state, v)
        kept += 1
    for i in range(kept):
        edge_removed(state, source[i], target[i])
    settle(state)


@compiled
def set_weight(state: State, edge: NDArray[np.int64], weight: NDArray[np.float64]) -> None:
    """Give the edges ``edge``, all of them present, other weights, and settle."""
    for i in range(edge.size):
        v = state.edge_target[edge[i]]
        if v <= INERT:
            continue
        place = find_in_edge(state, v, edge[i])
        u, group = state.source[place], state.justification[place]
        supports = place >= state.node[v].start + state.node[v].requires
        # The weight decides the place among parallel edges.
        delete_in_edge(state, v, place)
        insert_in_edge(state, v, u, weight[i], supports, group, edge[i])
        mark(state, v)
    settle(state)


@compiled
def set_direct(state: State, v: NDArray[np.int64], direct: NDArray[np.float64]) -> None:
    """Give the nodes ``v`` other direct evidence, and settle."""
    for i in range(v.size):
        state.direct[v[i]] = direct[i]
        mark(state, v[i])
    settle(state)


@compiled
def wrong_edge(
    node_count: int, source: NDArray[np.int32], target: NDArray[np.int32], weight: NDArray[np.float64]
) -> int:
    """Position of the first edge with an end out of range, both ends alike or a weight outside [0, 1]; or -1."""
    for i in range(source.size):
        inside = 0 <= source[i] < node_count and 0 <= target[i] < node_count and source[i] != target[i]
        # A comparison with NaN is False.
        if not (inside and 0.0 <= weight[i] <= 1.0):
            return i
    return -1


@compiled
def lay_order(state: State, order: NDArray[np.int32], level_indptr: NDArray[np.int32],
              component_start: NDArray[np.int32], component_end: NDArray[np.int32]) -> None:
    """Take levels and components over from a ``Topology``."""
    node = state.node
    for level in range(level_indptr.size - 1):
        for i in range(level_indptr[level], level_indptr[level + 1]):
            v = order[i]
            node[v].level = level
            node[v].leader = node[v].ring = v
    for k in range(component_start.size):
        first, last = component_start[k], component_end[k]
        for i in range(first, last):
            node[order[i]].leader = order[first]
            node[order[i]].ring = order[i + 1] if i + 1 < last else order[first]


@compiled
def lay_edges(state: State, edge: NDArray[np.int32], source: NDArray[np.int32], target: NDArray[np.int32],
              weight: NDArray[np.float64], justification: NDArray[np.int64], by_source: NDArray[np.int32],
              supports: NDArray[np.uint8]) -> None:
    """Fill both pools from edges whose canonical in-edge order is ``edge`` and order by source ``by_source``.

    ``edge`` and ``by_source`` are positions into the other arrays; block bounds and ``opens`` are laid already.
    """
    for i in range(edge.size):
        e = edge[i]
        state.source[i] = source[e]
        state.weight[i] = weight[e]
        state.justification[i] = justification[e] if supports[e] else -1
        state.edge[i] = e
        state.out_target[i] = target[by_source[i]]
