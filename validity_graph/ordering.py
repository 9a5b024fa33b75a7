"""Linear-time loops that order a graph: counting sorts, topological levels, grounding of members.

Plain Python on arrays, written so that numba compiles it unchanged: ``loops(size)`` returns the plain
functions for small inputs (no compiler to load) and the compiled ones for large inputs.  Both return
the same arrays.  Knows arrays only.  Levels: Kahn, "Topological sorting of large networks", 1962;
grounding: SEMANTICS section 3, Cycles.
"""

from __future__ import annotations

from functools import lru_cache
from types import SimpleNamespace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]

#: Up to this many nodes and edges the plain loops are faster than loading the compiler.
PLAIN_LIMIT = 20_000
#: ``arrange_levels`` brings alike nodes together by moving them less than this many positions.
BLOCK = 4096


def stable_order(key: Array, previous: Array, count: int) -> Array:
    """Order ``previous`` (int32[k], positions into ``key``) by ``key`` in [0, count); ties stay as they are.

    Returns int32[k].  O(k + count).
    """
    first = np.zeros(count + 1, dtype=np.int64)
    for i in range(previous.size):
        first[key[previous[i]] + 1] += 1
    for i in range(count):
        first[i + 1] += first[i]
    order = np.empty(previous.size, dtype=np.int32)
    for i in range(previous.size):
        place = key[previous[i]]
        order[first[place]] = previous[i]
        first[place] += 1
    return order


def topological_level(node_count: int, source: Array, target: Array, by_source: Array) -> Array:
    """Length of the longest path into each node, int32[n]; -1 on nodes that a cycle is or leads to.

    ``source``, ``target``: int[m]; ``by_source``: int32[m], the edges ordered by source.  Edges from a
    node to itself are ignored.  O(n + m), no recursion.
    """
    first = np.zeros(node_count + 1, dtype=np.int64)
    waiting = np.zeros(node_count, dtype=np.int32)
    for e in range(source.size):
        first[source[e] + 1] += 1
        if source[e] != target[e]:
            waiting[target[e]] += 1
    for v in range(node_count):
        first[v + 1] += first[v]
    level = np.zeros(node_count, dtype=np.int32)
    queue = np.empty(node_count, dtype=np.int32)
    filled = 0
    for v in range(node_count):
        if waiting[v] == 0:
            queue[filled] = v
            filled += 1
    done = 0
    while done < filled:
        u = queue[done]
        done += 1
        for i in range(first[u], first[u + 1]):
            v = target[by_source[i]]
            if v == u:
                continue
            level[v] = max(level[v], level[u] + 1)
            waiting[v] -= 1
            if waiting[v] == 0:
                queue[filled] = v
                filled += 1
    for v in range(node_count):
        if waiting[v] > 0:
            level[v] = -1
    return level


def arrange_levels(
    order: Array,
    first: Array,
    last: Array,
    alike: Array,
    unread: Array,
    target: Array,
    by_source: Array,
    out_first: Array,
) -> None:
    """Order the nodes at ``first:last`` of each level in place, for the caches and branches of a pass.

    ``order`` int32[n]: nodes by position; level i ends at ``last[i]``.  Nodes come by ``unread`` (int[n],
    large on nodes that few others read), then by their first antecedent's position, so that neighbours
    read neighbours; then, within blocks of ``BLOCK``, by ``alike`` int[n].  Ties keep their order.
    ``by_source`` int32[m]: the edges ordered by source, those of u at ``out_first[u]:out_first[u + 1]``.
    O(n log n + m).
    """
    nearest = np.full(order.size, order.size, dtype=np.int64)
    level_start = 0
    for i in range(first.size):
        if last[i] - first[i] > 1:
            part = order[first[i] : last[i]].copy()
            key = unread[part] * np.int64(order.size + 1) + nearest[part]
            order[first[i] : last[i]] = part[np.argsort(key, kind="mergesort")]
        start = first[i]
        while start < last[i] - 1:
            end = min(start + BLOCK, last[i])
            part = order[start:end].copy()
            order[start:end] = part[np.argsort(alike[part], kind="mergesort")]
            start = end
        for place in range(level_start, last[i]):
            u = order[place]
            for k in range(out_first[u], out_first[u + 1]):
                v = target[by_source[k]]
                nearest[v] = min(nearest[v], place)
        level_start = last[i]


def place_edges(
    target: Array, supports: Array, by_source: Array, rank: Array, indptr: Array, requires_end: Array
) -> Array:
    """Lay the edges out as in-edge CSR in the new numbering, sources of one node in the caller's order.

    Returns ``edge`` int32[m]: the caller's edge at each position.  ``indptr`` and ``requires_end`` are
    those of ``Topology``; requirements of a node come first, then its supports.
    """
    next_requirement = indptr[:-1].copy()
    next_support = requires_end.copy()
    edge = np.empty(by_source.size, dtype=np.int32)
    for i in range(by_source.size):
        e = by_source[i]
        v = rank[target[e]]
        if supports[e]:
            edge[next_support[v]] = e
            next_support[v] += 1
        else:
            edge[next_requirement[v]] = e
            next_requirement[v] += 1
    return edge


def sort_supports(edge: Array, indptr: Array, requires_end: Array, justification: Array) -> Array:
    """Order the supports of each node by justification in place; return ``opens`` uint8[m].

    Ties keep their order; -1, a justification of its own, comes first.
    """
    opens = np.zeros(edge.size, dtype=np.uint8)
    for v in range(requires_end.size):
        start, end = requires_end[v], indptr[v + 1]
        for e in range(start + 1, end):
            if justification[edge[e]] < justification[edge[e - 1]]:
                part = edge[start:end].copy()
                edge[start:end] = part[np.argsort(justification[part], kind="mergesort")]
                break
        for e in range(start, end):
            group = justification[edge[e]]
            if e == start or group < 0 or group != justification[edge[e - 1]]:
                opens[e] = 1
    return opens


def sort_parallel(
    edge: Array, indptr: Array, requires_end: Array, justification: Array, source: Array, weight: Array
) -> None:
    """Order parallel edges (same ends, same role, same justification) by weight, in place."""
    for v in range(requires_end.size):
        middle, end = requires_end[v], indptr[v + 1]
        run = indptr[v]
        for e in range(run + 1, end + 1):
            if e < end and e != middle and source[edge[e]] == source[edge[run]]:
                if e < middle or justification[edge[e]] == justification[edge[run]]:
                    continue
            if e - run > 1:
                part = edge[run:e].copy()
                edge[run:e] = part[np.argsort(weight[part], kind="mergesort")]
            run = e


def support_loop(
    indptr: Array, requires_end: Array, source: Array, weight: Array, start: int, end: int
) -> Array:
    """Which loop of supports each member of the component ``start:end`` belongs to, int32[end - start].

    Loops are strongly connected components of supports of weight above 0; their numbers mean nothing, and
    a member of none has a number of its own.  Tarjan, "Depth-first search and linear graph algorithms",
    1972, without recursion.  O(members + edges).
    """
    size = end - start
    loop = np.full(size, -1, dtype=np.int32)
    seen, low = np.zeros(size, dtype=np.int32), np.zeros(size, dtype=np.int32)
    place = requires_end[start:end].copy()
    trail, waiting = np.empty(size, dtype=np.int32), np.empty(size, dtype=np.int32)
    count = held = found = 0
    for root in range(size):
        if seen[root] > 0:
            continue
        trail[0] = root
        depth = 1
        while depth > 0:
            v = trail[depth - 1]
            if seen[v] == 0:
                count += 1
                seen[v] = low[v] = count
                waiting[held] = v
                held += 1
            if place[v] < indptr[start + v + 1]:
                e = place[v]
                place[v] += 1
                u = source[e] - start
                if weight[e] > 0 and 0 <= u < size:
                    if seen[u] == 0:
                        trail[depth] = u
                        depth += 1
                    elif loop[u] < 0:
                        low[v] = min(low[v], seen[u])
                continue
            depth -= 1
            if depth > 0:
                low[trail[depth - 1]] = min(low[trail[depth - 1]], low[v])
            if low[v] == seen[v]:
                while loop[v] < 0:
                    held -= 1
                    loop[waiting[held]] = found
                found += 1
    return loop


def reached_member(
    indptr: Array,
    requires_end: Array,
    source: Array,
    weight: Array,
    opens: Array,
    loop: Array,
    start: int,
    end: int,
) -> Array:
    """Which members of the component ``start:end`` a reason outside their loop reaches, uint8[end - start].

    A member is reached when it has no present support, or one present justification all of whose
    antecedents are reached; what lies outside its ``loop`` (as ``support_loop`` says) is, and an edge of
    weight 0 is not present.  Requirements do not matter.  SEMANTICS section 3, Cycles; why loops of
    supports: ``tests/oracle.py``.  O(members + edges).
    """
    size = end - start
    reached = np.zeros(size, dtype=np.uint8)
    base = indptr[start]
    group_of = np.empty(indptr[end] - base, dtype=np.int32)
    missing = np.zeros(indptr[end] - base, dtype=np.int32)
    owner = np.empty(indptr[end] - base, dtype=np.int32)
    inner = np.zeros(indptr[end] - base, dtype=np.uint8)
    first = np.zeros(size + 1, dtype=np.int64)
    queue = np.empty(size, dtype=np.int32)
    filled = 0
    for v in range(start, end):
        group = -1
        met = True
        group_present = False
        for e in range(requires_end[v], indptr[v + 1]):
            if opens[e]:
                if group_present and missing[group] == 0:
                    reached[v - start] = 1
                group = e - base
                group_present = False
            group_of[e - base] = group
            owner[group] = v - start
            if weight[e] > 0:
                met = False
                group_present = True
                u = source[e] - start
                if 0 <= u < size and loop[u] == loop[v - start]:
                    inner[e - base] = 1
                    missing[group] += 1
                    first[u + 1] += 1
        if met or (group_present and missing[group] == 0):
            reached[v - start] = 1
        if reached[v - start]:
            queue[filled] = v - start
            filled += 1
    for i in range(size):
        first[i + 1] += first[i]
    place = first[:-1].copy()
    used_by = np.empty(first[size], dtype=np.int32)
    for e in range(base, indptr[end]):
        if inner[e - base]:
            used_by[place[source[e] - start]] = group_of[e - base]
            place[source[e] - start] += 1
    done = 0
    while done < filled:
        u = queue[done]
        done += 1
        for i in range(first[u], first[u + 1]):
            group = used_by[i]
            missing[group] -= 1
            if missing[group] == 0 and not reached[owner[group]]:
                reached[owner[group]] = 1
                queue[filled] = owner[group]
                filled += 1
    return reached


def sweep_order(indptr: Array, source: Array, weight: Array, start: int, end: int) -> tuple[Array, Array]:
    """Order in which to compute the members of the component ``start:end`` in turn.

    Returns ``(member, level)``, int32[end - start] each: positions in the component, each behind all that
    it reads over edges of weight above 0 but for the back edges of a depth-first search; and by member the
    longest path to it over those edges.  Without a cycle in it this is a topological order.  No
    recursion.  O(members + edges).
    """
    size = end - start
    member, level = np.empty(size, dtype=np.int32), np.zeros(size, dtype=np.int32)
    state = np.zeros(size, dtype=np.uint8)  # 1: on the way, 2: ordered
    place = indptr[start:end].copy()
    trail = np.empty(size, dtype=np.int32)
    filled = 0
    for root in range(size):
        if state[root] > 0:
            continue
        state[root] = 1
        trail[0] = root
        depth = 1
        while depth > 0:
            v = trail[depth - 1]
            if place[v] < indptr[start + v + 1]:
                e = place[v]
                u = source[e] - start
                if weight[e] > 0 and 0 <= u < size:
                    if state[u] == 0:
                        state[u] = 1
                        trail[depth] = u
                        depth += 1
                        continue
                    if state[u] == 2:
                        level[v] = max(level[v], level[u] + 1)
                place[v] += 1
                continue
            depth -= 1
            state[v] = 2
            member[filled] = v
            filled += 1
    return member, level


_LOOPS = (
    stable_order,
    topological_level,
    arrange_levels,
    place_edges,
    sort_supports,
    sort_parallel,
    support_loop,
    reached_member,
    sweep_order,
)


@lru_cache(maxsize=1)
def _compiled_loops() -> SimpleNamespace:
    from validity_graph.compiled import compiled

    return SimpleNamespace(**{loop.__name__: compiled(loop) for loop in _LOOPS})


def loops(size: int) -> SimpleNamespace:
    """Return the loops of this module: plain up to ``PLAIN_LIMIT`` nodes and edges, compiled beyond."""
    if size <= PLAIN_LIMIT:
        return SimpleNamespace(**{loop.__name__: loop for loop in _LOOPS})
    return _compiled_loops()
