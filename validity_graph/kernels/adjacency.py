"""Growing adjacency: in-edges in canonical order and out-neighbours of every memory, edited in place.

Each node owns one block of the in-edge pool and one of the out-neighbour pool.  A block that is full
moves to the end of its pool with twice the room; a pool that is full is copied once, without the gaps
(``repacked``), so that an added edge costs amortised constant time plus the degree of its ends.  Within
a block the in-edges stand in the order of ``topology.Topology``.  Arrays only, in the caller's
numbering; knows neither records nor formulas.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from validity_graph.compiled import compiled

#: One node in one cache line.  ``start, count, room``: its in-edges, the first ``requires`` of them
#: requirements; ``out_*``: its out-neighbours.  ``level`` orders the nodes; ``leader`` is the smallest
#: member of its strongly connected component, ``ring`` the next member.  ``stalled``: the component of
#: this leader did not settle.  ``premise`` nodes keep no supports.  The others are marks of running calls.
NODE = np.dtype(
    [
        ("stamp", np.int64),
        ("start", np.int32),
        ("count", np.int32),
        ("room", np.int32),
        ("requires", np.int32),
        ("out_start", np.int32),
        ("out_count", np.int32),
        ("out_room", np.int32),
        ("level", np.int32),
        ("leader", np.int32),
        ("ring", np.int32),
        ("pending", np.int32),
        ("low", np.int32),
        ("premise", np.uint8),
        ("dirty", np.uint8),
        ("stalled", np.uint8),
    ],
    align=True,
)

# Places in ``State.counter``.
NODES, EDGES, IN_USED, OUT_USED, EPOCH, DIRTY, CHANGED, STALLED, TOP_LEVEL = range(9)

#: ``State.edge_target`` of a removed edge; a support of a premise is kept as ``INERT - target``.
REMOVED, INERT = -1, -2


class State(NamedTuple):
    """A resident graph as arrays with room to grow; ``counter`` says how much of each is in use.

    ``node`` (``NODE``), ``invalidity`` and ``direct`` (float64) by node.  ``source``, ``weight``, ``opens``,
    ``justification``, ``edge``: the in-edge pool.  ``out_target``: the out-neighbour pool.
    ``edge_target[e]``: the node that edge e enters.  The rest is scratch with one place a node:
    ``changed`` and ``dirty`` list nodes; ``heap``, ``stack``, ``place``, ``trail``, ``group`` serve walks.

    Compiled code takes the fields it needs into local names first: reading a field counts a reference,
    which costs more than computing a node.
    """

    counter: NDArray[np.int64]
    node: NDArray[Any]
    invalidity: NDArray[np.float64]
    direct: NDArray[np.float64]
    source: NDArray[np.int32]
    weight: NDArray[np.float64]
    opens: NDArray[np.uint8]
    justification: NDArray[np.int64]
    edge: NDArray[np.int32]
    out_target: NDArray[np.int32]
    edge_target: NDArray[np.int32]
    heap: NDArray[np.int64]
    stack: NDArray[np.int32]
    place: NDArray[np.int32]
    trail: NDArray[np.int32]
    group: NDArray[np.int32]
    dirty: NDArray[np.int32]
    changed: NDArray[np.int32]


class Edges(NamedTuple):
    """Edges to add, [k] each; meanings as for ``topology.build_topology``, ``supports`` as 0 or 1."""

    source: NDArray[np.int32]
    target: NDArray[np.int32]
    weight: NDArray[np.float64]
    supports: NDArray[np.uint8]
    justification: NDArray[np.int64]


@compiled
def mark(state: State, v: int) -> None:
    """List node ``v`` as one to compute again."""
    if state.node[v].dirty == 0:
        state.node[v].dirty = 1
        state.dirty[state.counter[DIRTY]] = v
        state.counter[DIRTY] += 1


@compiled
def open_nodes(
    state: State, target: NDArray[np.int32], direct: NDArray[np.float64], premise: NDArray[np.uint8]
) -> None:
    """Add one node for each entry of ``direct``, with room for those edges to ``target`` that enter them.

    The pools and node arrays have the room already.
    """
    node, counter = state.node, state.counter
    first = counter[NODES]
    for i in range(direct.size):
        v = first + i
        node[v].stamp = 0
        node[v].count = node[v].requires = node[v].room = 0
        node[v].out_start = node[v].out_count = node[v].out_room = 0
        node[v].level = 0
        node[v].leader = node[v].ring = v
        node[v].dirty = node[v].stalled = 0
        node[v].premise = premise[i]
        state.direct[v] = direct[i]
        state.invalidity[v] = 0.0
    counter[NODES] += direct.size
    for e in range(target.size):
        if target[e] >= first:
            node[target[e]].room += 1
    for v in range(first, counter[NODES]):
        node[v].start = counter[IN_USED]
        counter[IN_USED] += node[v].room
        mark(state, v)


@compiled
def has_room(state: State, u: int, v: int) -> bool:
    """Whether the pools can take one more edge u -> v, blocks that must move included."""
    node, counter = state.node, state.counter
    fits = True
    if node[v].count == node[v].room:
        fits = counter[IN_USED] + 2 * node[v].count + 2 <= state.source.size
    if node[u].out_count == node[u].out_room:
        fits &= counter[OUT_USED] + 2 * node[u].out_count + 2 <= state.out_target.size
    return fits


@compiled
def _move_in_block(state: State, v: int) -> None:
    node = state.node
    pool_source, pool_weight, pool_opens = state.source, state.weight, state.opens
    pool_group, pool_edge = state.justification, state.edge
    old, new, count = node[v].start, state.counter[IN_USED], node[v].count
    for i in range(count):
        pool_source[new + i] = pool_source[old + i]
        pool_weight[new + i] = pool_weight[old + i]
        pool_opens[new + i] = pool_opens[old + i]
        pool_group[new + i] = pool_group[old + i]
        pool_edge[new + i] = pool_edge[old + i]
    node[v].start = new
    node[v].room = 2 * count + 2
    state.counter[IN_USED] += node[v].room


@compiled
def _mark_openings(state: State, v: int, first: int, last: int) -> None:
    """Set ``opens`` of the in-edges ``first`` to ``last`` of node ``v`` that are supports."""
    start = state.node[v].start
    middle = start + state.node[v].requires
    for i in range(max(first, middle), min(last + 1, start + state.node[v].count)):
        group = state.justification[i]
        state.opens[i] = i == middle or group < 0 or group != state.justification[i - 1]


@compiled
def insert_in_edge(
    state: State, v: int, u: int, weight: float, supports: bool, justification: int, edge: int
) -> None:
    """Put an edge from ``u`` at its canonical place among the in-edges of ``v``.

    Requirements by (source, weight), then supports by (justification, source, weight): the order of
    ``topology.build_topology``.  ``has_room`` holds.
    """
    node = state.node
    pool_source, pool_weight, pool_opens = state.source, state.weight, state.opens
    pool_group, pool_edge = state.justification, state.edge
    if node[v].count == node[v].room:
        _move_in_block(state, v)
    start = node[v].start
    middle, end = start + node[v].requires, start + node[v].count
    low, high = (middle, end) if supports else (start, middle)
    while low < high:
        i = (low + high) // 2
        before = pool_group[i] - justification if supports else 0
        if before == 0:
            before = pool_source[i] - u
        if before < 0 or (before == 0 and pool_weight[i] <= weight):
            low = i + 1
        else:
            high = i
    for i in range(end, low, -1):
        pool_source[i] = pool_source[i - 1]
        pool_weight[i] = pool_weight[i - 1]
        pool_opens[i] = pool_opens[i - 1]
        pool_group[i] = pool_group[i - 1]
        pool_edge[i] = pool_edge[i - 1]
    pool_source[low] = u
    pool_weight[low] = weight
    pool_opens[low] = 0
    pool_group[low] = justification if supports else -1
    pool_edge[low] = edge
    node[v].count += 1
    node[v].requires += 0 if supports else 1
    _mark_openings(state, v, low, low + 1)


@compiled
def find_in_edge(state: State, v: int, edge: int) -> int:
    """Place of ``edge`` in the in-edge pool; it enters ``v``."""
    i, pool_edge = state.node[v].start, state.edge
    while pool_edge[i] != edge:
        i += 1
    return int(i)


@compiled
def delete_in_edge(state: State, v: int, place: int) -> None:
    """Take the edge at ``place`` of the pool out of the in-edges of ``v``."""
    node = state.node
    pool_source, pool_weight, pool_opens = state.source, state.weight, state.opens
    pool_group, pool_edge = state.justification, state.edge
    if place < node[v].start + node[v].requires:
        node[v].requires -= 1
    node[v].count -= 1
    for i in range(place, node[v].start + node[v].count):
        pool_source[i] = pool_source[i + 1]
        pool_weight[i] = pool_weight[i + 1]
        pool_opens[i] = pool_opens[i + 1]
        pool_group[i] = pool_group[i + 1]
        pool_edge[i] = pool_edge[i + 1]
    _mark_openings(state, v, place, place)


@compiled
def insert_out_neighbour(state: State, u: int, v: int) -> None:
    """Note that one more edge runs from ``u`` to ``v``; ``has_room`` holds."""
    node, out_target = state.node, state.out_target
    if node[u].out_count == node[u].out_room:
        old, new = node[u].out_start, state.counter[OUT_USED]
        for i in range(node[u].out_count):
            out_target[new + i] = out_target[old + i]
        node[u].out_start = new
        node[u].out_room = 2 * node[u].out_count + 2
        state.counter[OUT_USED] += node[u].out_room
    out_target[node[u].out_start + node[u].out_count] = v
    node[u].out_count += 1


@compiled
def delete_out_neighbour(state: State, u: int, v: int) -> None:
    """Note that one edge less runs from ``u`` to ``v``; parallel edges are alike here."""
    node, out_target = state.node, state.out_target
    i = node[u].out_start
    while out_target[i] != v:
        i += 1
    node[u].out_count -= 1
    out_target[i] = out_target[node[u].out_start + node[u].out_count]


@compiled
def repacked(
    old: NDArray[Any], start: NDArray[np.int32], count: NDArray[np.int32], capacity: int
) -> NDArray[Any]:
    """Copy the blocks ``start``, ``count`` [n] of a pool into one of ``capacity``, one behind the other."""
    new = np.empty(capacity, dtype=old.dtype)
    place = 0
    for v in range(start.size):
        for i in range(start[v], start[v] + count[v]):
            new[place] = old[i]
            place += 1
    return new


@compiled
def renumber_blocks(start: NDArray[np.int32], count: NDArray[np.int32], room: NDArray[np.int32]) -> int:
    """Set ``start`` and ``room`` [n] in place to what ``repacked`` made; return the places in use."""
    place = 0
    for v in range(start.size):
        start[v] = place
        room[v] = count[v]
        place += count[v]
    return place
