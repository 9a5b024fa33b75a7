"""The sides that ``benchmarks.propagation`` compares: each lays out its own plan and returns a pass.

A side takes a requires-only topology without parallel edges and direct evidence ``float32[n]`` in internal
numbering; its pass returns the invalidity in the same numbering.  The formula is SEMANTICS section 3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch_geometric.nn import MessagePassing

from validity_graph.kernels import on_numpy
from validity_graph.topology import Topology

Values = NDArray[np.float32]
Pass = Callable[[], NDArray[Any]]


def numpy_pass(topology: Topology, direct: Values) -> Pass:
    return lambda: on_numpy.noisy_or(topology, direct)[0]


def torch_pass(topology: Topology, direct: Values) -> Pass:
    from validity_graph.kernels import on_torch
    from validity_graph.kernels.torch_plan import Plan

    plan = Plan(topology)
    given = torch.tensor(direct[topology.rank])
    weight = torch.tensor(np.array(topology.weight))
    return lambda: on_torch.noisy_or(plan, given, weight=weight).numpy()[topology.order]


def graphblas_pass(topology: Topology, direct: Values) -> Pass:
    import graphblas
    from graphblas import Matrix, Vector
    from graphblas.core.operator import BinaryOp, Semiring

    stands = BinaryOp.register_anonymous(lambda weight, invalidity: 1 - weight * invalidity, "stand")
    semiring = Semiring.register_anonymous(graphblas.monoid.times, stands, "noisy_or")
    levels = []
    for start, end in level_bounds(topology):
        edges = slice(int(topology.indptr[start]), int(topology.indptr[end]))
        row = np.repeat(np.arange(end - start), np.diff(topology.indptr[start : end + 1]))
        matrix = Matrix.from_coo(
            row, topology.source[edges], topology.weight[edges], nrows=end - start, ncols=direct.size
        )
        levels.append((start, end, matrix, 1 - direct[start:end]))

    def run() -> NDArray[Any]:
        invalidity = Vector.from_dense(direct)
        for start, end, matrix, open_ in levels:
            kept = matrix.mxv(invalidity, semiring).new()
            value = 1 - open_ * kept.to_dense(fill_value=1)
            invalidity[start:end] = Vector.from_dense(value)
        return np.asarray(invalidity.to_dense())

    return run


class Requirements(MessagePassing):  # type: ignore[misc]
    """Multiply ``1 - w * I_u`` over the in-edges of each node."""

    def forward(
        self, invalidity: torch.Tensor, edge_index: torch.Tensor, weight: torch.Tensor, width: int
    ) -> torch.Tensor:
        """Return the product at each of ``width`` targets, ``(width, 1)``; 1 without in-edges."""
        size = (invalidity.shape[0], width)
        return self.propagate(edge_index, x=(invalidity, None), weight=weight, size=size)

    def message(self, x_j: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """Return ``1 - w * I_u`` of each edge, ``(edges, 1)``."""
        return 1 - weight * x_j


def geometric_pass(topology: Topology, direct: Values) -> Pass:
    layer = Requirements(aggr="mul")
    source = torch.tensor(topology.source.astype(np.int64))
    levels = []
    for start, end in level_bounds(topology):
        edges = slice(int(topology.indptr[start]), int(topology.indptr[end]))
        fan_in = np.diff(topology.indptr[start : end + 1])
        target = torch.tensor(np.repeat(np.arange(end - start), fan_in))
        index = torch.stack([source[edges], target])
        weight = torch.tensor(np.array(topology.weight[edges]))[:, None]
        levels.append((start, end, index, weight))
    given = torch.tensor(direct)[:, None]

    def run() -> NDArray[Any]:
        invalidity = given.clone()
        with torch.no_grad():
            for start, end, index, weight in levels:
                kept = layer(invalidity, index, weight, end - start)
                invalidity[start:end] = 1 - (1 - given[start:end]) * kept
        return invalidity[:, 0].numpy()

    return run


def duckdb_pass(topology: Topology, direct: Values) -> Pass:
    import duckdb

    link = duckdb.connect()
    node = {"id": np.arange(direct.size), "level": level_of(topology), "d": direct.astype(np.float64)}
    target = np.repeat(np.arange(direct.size), np.diff(topology.indptr))
    weight = topology.weight.astype(np.float64)
    edge = {"source": topology.source.astype(np.int64), "target": target, "w": weight}
    for name, columns in (("node", node), ("edge", edge)):
        link.register("given", columns)
        link.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
        link.unregister("given")
    query = """
        WITH RECURSIVE r(id, i, level) USING KEY (id) AS (
          SELECT id, d, level FROM node WHERE level = 0
          UNION
          (SELECT n.id, 1 - (1 - any_value(n.d)) * product(1 - e.w * s.i), any_value(n.level)
           FROM (SELECT max(level) + 1 AS next FROM r) x JOIN node n ON n.level = x.next
           JOIN edge e ON e.target = n.id JOIN recurring.r s ON s.id = e.source GROUP BY n.id))
        SELECT i FROM r ORDER BY id"""
    return lambda: link.execute(query).fetchnumpy()["i"]


def networkx_pass(topology: Topology, direct: Values) -> Pass:
    import networkx

    graph = networkx.MultiDiGraph()
    graph.add_nodes_from((v, {"d": d}) for v, d in enumerate(direct.tolist()))
    target = np.repeat(np.arange(direct.size), np.diff(topology.indptr))
    graph.add_weighted_edges_from(
        zip(topology.source.tolist(), target.tolist(), topology.weight.tolist(), strict=True)
    )

    def run() -> NDArray[Any]:
        invalidity: dict[int, float] = {}
        for v in networkx.topological_sort(graph):
            kept = 1.0
            for u, _, weight in graph.in_edges(v, data="weight"):
                kept *= 1 - weight * invalidity[u]
            invalidity[v] = 1 - (1 - graph.nodes[v]["d"]) * kept
        return np.array([invalidity[v] for v in range(direct.size)])

    return run


SIDES: dict[str, Callable[[Topology, Values], Pass]] = {
    "numpy": numpy_pass,
    "torch": torch_pass,
    "graphblas": graphblas_pass,
    "torch_geometric": geometric_pass,
    "duckdb": duckdb_pass,
    "networkx": networkx_pass,
}


def level_bounds(topology: Topology) -> list[tuple[int, int]]:
    """Return the first node and end of every level but the lowest, which depends on nothing."""
    bounds = topology.level_indptr.tolist()
    return list(zip(bounds[1:-1], bounds[2:], strict=True))


def level_of(topology: Topology) -> NDArray[np.int64]:
    width = np.diff(topology.level_indptr)
    return np.repeat(np.arange(width.size), width)
