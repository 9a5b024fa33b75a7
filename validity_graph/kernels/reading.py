"""Questions about some nodes of a resident graph: what they enter, what enters them, what they lost.

Each takes time linear in the edges of the nodes asked about.  Arrays only, in the caller's numbering.
Formulas: SEMANTICS section 3.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from validity_graph.compiled import compiled
from validity_graph.kernels.adjacency import NODES, State
from validity_graph.kernels.node import node_losses


@compiled
def below(state: State, start: NDArray[np.int64], alive: NDArray[np.uint8]) -> NDArray[np.int64]:
    """List ``start`` and all that is reached from it over edges that leave nodes with ``alive`` [n] 1."""
    node, out_target = state.node, state.out_target
    seen = np.zeros(state.counter[NODES], dtype=np.uint8)
    found = np.empty(state.counter[NODES], dtype=np.int64)
    size = done = 0
    for v in start:
        if not seen[v]:
            seen[v] = 1
            found[size] = v
            size += 1
    while done < size:
        v = found[done]
        done += 1
        if alive[v]:
            for i in range(node[v].out_start, node[v].out_start + node[v].out_count):
                u = out_target[i]
                if not seen[u]:
                    seen[u] = 1
                    found[size] = u
                    size += 1
    return found[:size].copy()


@compiled
def above(state: State, start: int) -> NDArray[np.int64]:
    """List ``start`` and all that it is reached from over edges that carry invalidity."""
    node, source, weight, invalidity = state.node, state.source, state.weight, state.invalidity
    seen = np.zeros(state.counter[NODES], dtype=np.uint8)
    found = np.empty(state.counter[NODES], dtype=np.int64)
    found[0] = start
    seen[start] = size = 1
    done = 0
    while done < size:
        v = found[done]
        done += 1
        for i in range(node[v].start, node[v].start + node[v].count):
            u = source[i]
            if not seen[u] and invalidity[u] > 0.0 and weight[i] > 0.0:
                seen[u] = 1
                found[size] = u
                size += 1
    return found[:size].copy()


@compiled
def into(
    state: State, number: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], NDArray[np.bool_], NDArray[np.int64]]:
    """Source, target, weight, whether a support, and edge number of every edge into ``number``."""
    node = state.node
    pool_source, pool_weight, pool_edge = state.source, state.weight, state.edge
    count = 0
    for v in number:
        count += node[v].count
    source, target = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    weight, support = np.empty(count, dtype=np.float64), np.empty(count, dtype=np.bool_)
    edge = np.empty(count, dtype=np.int64)
    k = 0
    for v in number:
        for i in range(node[v].start, node[v].start + node[v].count):
            source[k], target[k], weight[k], edge[k] = pool_source[i], v, pool_weight[i], pool_edge[i]
            support[k] = i >= node[v].start + node[v].requires
            k += 1
    return source, target, weight, support, edge


@compiled
def losses(state: State, number: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """``q_v`` and ``l_v`` of the nodes ``number``, [k] each."""
    node, invalidity = state.node, state.invalidity
    source, weight, opens = state.source, state.weight, state.opens
    required, supported = np.empty(number.size), np.empty(number.size)
    for k in range(number.size):
        v = number[k]
        start = node[v].start
        middle, end = start + node[v].requires, start + node[v].count
        required[k], supported[k] = node_losses(start, middle, end, source, weight, opens, invalidity)
    return required, supported
