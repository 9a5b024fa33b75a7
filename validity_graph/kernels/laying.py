"""Room for a resident graph, and a whole graph laid into it.

Arrays only, in the caller's numbering; knows no formulas.  How the arrays are used: ``adjacency``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from validity_graph import ordering
from validity_graph.errors import InputError
from validity_graph.kernels import adjacency, cone
from validity_graph.kernels.adjacency import EDGES, IN_USED, NODES, OUT_USED, TOP_LEVEL, Edges, State
from validity_graph.topology import Topology

#: Node and edge numbers and places in the pools fit in 31 bits.
_MOST = np.iinfo(np.int32).max
#: Fields of ``State`` with one place a node, with one an in-edge, and those that calls only scribble on.
BY_NODE = ("node", "invalidity", "direct")
IN_POOL = ("source", "weight", "opens", "justification", "edge")
SCRATCH = ("heap", "stack", "place", "trail", "group", "dirty", "changed")
#: Of the arrays that are not int32.
DTYPE: dict[str, Any] = {
    "counter": np.int64,
    "node": adjacency.NODE,
    "invalidity": np.float64,
    "direct": np.float64,
    "weight": np.float64,
    "opens": np.uint8,
    "justification": np.int64,
    "heap": np.int64,
}


def capacity(needed: int) -> int:
    """Return the places to allocate where ``needed`` are: half as many again, so copies are amortised."""
    if needed > _MOST:
        raise InputError(f"{needed} memories or edges, gaps included: one graph takes at most {_MOST}")
    return min(needed + needed // 2 + 16, _MOST)


def allocated(node_count: int, edge_count: int) -> State:
    """Return room for a graph of this size; the counters say so, nothing else is laid yet."""
    nodes, edges = capacity(node_count), capacity(edge_count)
    size = dict.fromkeys(State._fields, nodes)
    size |= dict.fromkeys((*IN_POOL, "out_target", "edge_target"), edges)
    arrays = {name: np.empty(size[name], DTYPE.get(name, np.int32)) for name in State._fields}
    arrays["node"] = np.zeros(nodes, adjacency.NODE)
    arrays["counter"] = np.zeros(9, dtype=np.int64)
    state = State(**arrays)
    state.counter[[NODES, EDGES, IN_USED, OUT_USED]] = node_count, edge_count, edge_count, edge_count
    return state


def lay_order(state: State, topology: Topology, *, all_settled: bool) -> None:
    """Take levels and components over from ``topology``."""
    cone.lay_order(
        state, topology.order, topology.level_indptr, topology.component_start, topology.component_end
    )
    state.counter[TOP_LEVEL] = topology.level_indptr.size
    if not all_settled:
        # Which ones did not settle is not told: have each say so again.
        for v in topology.order[topology.component_start]:
            adjacency.mark(state, int(v))


def lay_edges(state: State, edges: Edges, node_count: int) -> None:
    """Fill the pools in the canonical order, by the sorts of ``build_topology`` in the caller's numbering.

    What the pools have beyond the edges is never touched, so it takes no memory yet.
    """
    node = state.node[:node_count]
    source, target, _, supports, justification = edges
    state.edge_target[: source.size] = target
    inert = (supports != 0) & (node["premise"] != 0)[target]
    state.edge_target[np.flatnonzero(inert)] = adjacency.INERT - target[inert]
    kept = np.flatnonzero(~inert).astype(np.int32)
    state.counter[[IN_USED, OUT_USED]] = kept.size
    run = ordering.loops(node_count + source.size)
    by_source = run.stable_order(source, kept, node_count)
    out_count = np.bincount(source[kept], minlength=node_count)
    count = np.bincount(target[kept], minlength=node_count)
    requires = count - np.bincount(target[kept][supports[kept] != 0], minlength=node_count)
    indptr = np.concatenate(([0], np.cumsum(count))).astype(np.int32)
    requires_end = indptr[:-1] + requires.astype(np.int32)
    same = np.arange(node_count, dtype=np.int32)
    edge = run.place_edges(target, supports, by_source, same, indptr, requires_end)
    state.opens[: edge.size] = run.sort_supports(edge, indptr, requires_end, justification)
    run.sort_parallel(edge, indptr, requires_end, justification, source, edges.weight)
    node["start"], node["count"], node["room"], node["requires"] = indptr[:-1], count, count, requires
    node["out_start"] = np.cumsum(out_count) - out_count
    node["out_count"] = node["out_room"] = out_count
    cone.lay_edges(state, edges, edge, by_source)
