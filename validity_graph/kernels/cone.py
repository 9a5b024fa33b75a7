"""Edits of a resident graph, and the computing again of only what they can have changed.

A call edits the adjacency, lists the nodes whose formula or inputs it touched, and then computes in
topological order: a node whose value comes out the same wakes nobody, a component is always computed
as a whole from its own start.  Each node runs through the very code of ``on_numba``, on in-edges in the
same order, so the values are those of a whole pass bit for bit.  Arrays only, in the caller's numbering.
Formulas: SEMANTICS section 3.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from validity_graph.compiled import compiled
from validity_graph.kernels.adjacency import (
    CHANGED,
    DIRTY,
    EDGES,
    EPOCH,
    INERT,
    REMOVED,
    STALLED,
    Edges,
    State,
    delete_in_edge,
    delete_out_neighbour,
    find_in_edge,
    has_room,
    insert_in_edge,
    insert_out_neighbour,
    mark,
    open_nodes,
)
from validity_graph.kernels.components import settle_component
from validity_graph.kernels.dynamic_order import edge_added, edge_removed, forget_stall, pop, push
from validity_graph.kernels.node import node_invalidity


@compiled
def _wake(node: NDArray[Any], heap: NDArray[np.int64], epoch: int, v: int, size: int) -> int:
    """Queue the component of ``v`` unless ``epoch`` saw it; return the size of the heap."""
    c = node[v].leader
    if node[c].stamp != epoch:
        node[c].stamp = epoch
        size = push(heap, size, node[c].level, c)
    return size


@compiled
def _wake_behind(
    node: NDArray[Any], out_target: NDArray[np.int32], heap: NDArray[np.int64], epoch: int, v: int, size: int
) -> int:
    """Queue what depends on ``v``; return the size of the heap.  Its own component is seen already."""
    for i in range(node[v].out_start, node[v].out_start + node[v].out_count):
        size = _wake(node, heap, epoch, out_target[i], size)
    return size


@compiled
def _members(state: State, c: int) -> int:
    """List the members of component ``c`` by number in ``group``; return how many.

    ``place[v]`` is where v stands in the list.
    """
    node, group, place = state.node, state.group, state.place
    count = 0
    x = c
    while True:
        group[count] = x
        place[x] = count
        count += 1
        x = node[x].ring
        if x == c:
            return count


@compiled
def _settle_cycle(state: State, c: int, size: int) -> int:
    """Compute component ``c`` as a whole; return the size of the heap.

    Lays its members out as a topology of their own, the values that enter it behind them.
    """
    node, invalidity, group, place = state.node, state.invalidity, state.group, state.place
    pool_source, pool_weight, pool_opens = state.source, state.weight, state.opens
    count = _members(state, c)
    indptr = np.zeros(count + 1, dtype=np.int32)
    requires_end = np.empty(count, dtype=np.int32)
    for i in range(count):
        v = group[i]
        requires_end[i] = indptr[i] + node[v].requires
        indptr[i + 1] = indptr[i] + node[v].count
    source = np.empty(indptr[count], dtype=np.int32)
    weight = np.empty(indptr[count], dtype=np.float64)
    opens = np.empty(indptr[count], dtype=np.uint8)
    direct = np.empty(count, dtype=np.float64)
    value = np.empty(count + indptr[count], dtype=np.float64)
    for i in range(count):
        v = group[i]
        direct[i] = state.direct[v]
        for k in range(node[v].count):
            e, old = indptr[i] + k, node[v].start + k
            weight[e] = pool_weight[old]
            opens[e] = pool_opens[old]
            u = pool_source[old]
            source[e] = place[u] if node[u].leader == c else count + e
            value[count + e] = invalidity[u]
    settled = settle_component(indptr, requires_end, source, weight, opens, 0, count, direct, value)[1]
    forget_stall(state, c)
    if not settled:
        node[c].stalled = 1
        state.counter[STALLED] += 1
    for i in range(count):
        v = group[i]
        if value[i] != invalidity[v]:
            invalidity[v] = value[i]
            state.changed[state.counter[CHANGED]] = v
            state.counter[CHANGED] += 1
            size = _wake_behind(node, state.out_target, state.heap, state.counter[EPOCH], v, size)
    return size


@compiled
def settle(state: State) -> None:
    """Compute the marked nodes again and, in topological order, whatever changes with them.

    Lists the nodes whose value changed in ``changed``.  O(their edges * log) outside cycles.
    """
    counter, node, invalidity, direct = state.counter, state.node, state.invalidity, state.direct
    source, weight, opens, out_target = state.source, state.weight, state.opens, state.out_target
    heap, dirty, changed = state.heap, state.dirty, state.changed
    counter[EPOCH] += 1
    epoch = counter[EPOCH]
    counter[CHANGED] = 0
    size = 0
    for i in range(counter[DIRTY]):
        node[dirty[i]].dirty = 0
        size = _wake(node, heap, epoch, dirty[i], size)
    counter[DIRTY] = 0
    while size > 0:
        v = pop(heap, size)
        size -= 1
        if node[v].ring != v:
            size = _settle_cycle(state, v, size)
            continue
        start = node[v].start
        middle, end = start + node[v].requires, start + node[v].count
        value = node_invalidity(start, middle, end, source, weight, opens, invalidity, direct[v])
        if value != invalidity[v]:
            invalidity[v] = value
            changed[counter[CHANGED]] = v
            counter[CHANGED] += 1
            size = _wake_behind(node, out_target, heap, epoch, v, size)


@compiled
def add_edges(state: State, edges: Edges, done: int) -> int:
    """Add the edges from position ``done`` on; return how many are in, not all when a pool is full."""
    counter, node, edge_target = state.counter, state.node, state.edge_target
    source, target, weight = edges.source, edges.target, edges.weight
    supports, justification = edges.supports, edges.justification
    for i in range(done, source.size):
        u, v = source[i], target[i]
        if supports[i] and node[v].premise:
            edge_target[counter[EDGES]] = INERT - v
            counter[EDGES] += 1
            continue
        if not has_room(state, u, v):
            return i
        insert_in_edge(state, v, u, weight[i], supports[i] != 0, justification[i], counter[EDGES])
        insert_out_neighbour(state, u, v)
        edge_target[counter[EDGES]] = v
        counter[EDGES] += 1
        edge_added(state, u, v)
        mark(state, v)
    return source.size


@compiled
def append(state: State, edges: Edges, direct: NDArray[np.float64], premise: NDArray[np.uint8]) -> int:
    """Add a node for each entry of ``direct``, then the edges; settle if all are in.

    Returns as ``add_edges``.
    """
    open_nodes(state, edges.target, direct, premise)
    done = add_edges(state, edges, 0)
    if done == edges.source.size:
        settle(state)
    return done


@compiled
def remove_edges(state: State, edge: NDArray[np.int64]) -> None:
    """Take out the edges ``edge``, all of them present and different, and settle."""
    edge_target = state.edge_target
    source = np.empty(edge.size, dtype=np.int32)
    target = np.empty(edge.size, dtype=np.int32)
    kept = 0
    for i in range(edge.size):
        v = edge_target[edge[i]]
        edge_target[edge[i]] = REMOVED
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
def wrong_edge(edges: Edges, node_count: int) -> int:
    """Position of the first edge with an end out of range, two ends alike or a wrong weight; -1 if none."""
    source, target, weight = edges.source, edges.target, edges.weight
    for i in range(source.size):
        inside = 0 <= source[i] < node_count and 0 <= target[i] < node_count and source[i] != target[i]
        # A comparison with NaN is False.
        if not (inside and 0.0 <= weight[i] <= 1.0):
            return i
    return -1


@compiled
def wrong_number(number: NDArray[np.int64], count: int) -> int:
    """Position of the first number outside [0, count); -1 if none."""
    for i in range(number.size):
        if not 0 <= number[i] < count:
            return i
    return -1


@compiled
def wrong_probability(value: NDArray[np.float64]) -> int:
    """Position of the first value outside [0, 1], NaN included; -1 if none."""
    for i in range(value.size):
        if not 0.0 <= value[i] <= 1.0:
            return i
    return -1


@compiled
def absent_edge(state: State, edge: NDArray[np.int64]) -> int:
    """Position of the first edge that was never added or is removed; -1 if none."""
    edge_target, count = state.edge_target, state.counter[EDGES]
    for i in range(edge.size):
        if not 0 <= edge[i] < count or edge_target[edge[i]] == REMOVED:
            return i
    return -1


@compiled
def lay_order(
    state: State,
    order: NDArray[np.int32],
    level_indptr: NDArray[np.int32],
    component_start: NDArray[np.int32],
    component_end: NDArray[np.int32],
) -> None:
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
def lay_edges(state: State, edges: Edges, edge: NDArray[np.int32], by_source: NDArray[np.int32]) -> None:
    """Fill both pools with the edges: in-edges in the order ``edge``, out-neighbours in ``by_source``.

    Both are positions into ``edges``; the bounds of the blocks and ``opens`` are laid already.
    """
    pool_source, pool_weight, pool_edge = state.source, state.weight, state.edge
    pool_group, out_target = state.justification, state.out_target
    source, target, weight = edges.source, edges.target, edges.weight
    supports, justification = edges.supports, edges.justification
    for i in range(edge.size):
        e = edge[i]
        pool_source[i] = source[e]
        pool_weight[i] = weight[e]
        pool_group[i] = justification[e] if supports[e] else -1
        pool_edge[i] = e
        out_target[i] = target[by_source[i]]
