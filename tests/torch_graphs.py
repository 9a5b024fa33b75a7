"""Graphs with batches of evidence for the tests in torch, and what they are laid out as."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import strategies as st

from validity_graph.kernels import on_torch
from validity_graph.topology import build_topology

#: 0 and 1, where dividing by a factor fails, and points between.
CORNERS = st.sampled_from([0.0, 1.0, 0.25, 0.7])


@st.composite
def batches(draw, graphs, values=CORNERS):
    """A graph with evidence vectors (B, n) and weights (m,) from ``values``, and a cotangent (B, n)."""
    graph = draw(graphs)
    count = draw(st.integers(1, 3))

    def vector(size):
        return draw(st.lists(values, min_size=size, max_size=size))

    direct = np.array([vector(graph.node_count) for _ in range(count)])
    cotangent = np.random.default_rng(draw(st.integers(0, 999))).normal(size=direct.shape)
    return graph, direct, np.array(vector(graph.source.size)), cotangent


def topology_of(graph, weight, dtype=np.float64):
    return build_topology(
        graph.node_count,
        source=graph.source,
        target=graph.target,
        weight=weight,
        supports=graph.supports,
        justification=graph.justification,
        premise=graph.premise,
        dtype=dtype,
    )


def order_of(topology, graph):
    order = on_torch.edge_order(
        topology,
        source=graph.source,
        target=graph.target,
        supports=graph.supports,
        justification=graph.justification,
    )
    return torch.as_tensor(order)


def gradient_of(function, direct, weight, cotangent):
    """Gradients of ``sum(cotangent * function)`` by torch, as numpy."""
    direct = torch.tensor(direct, requires_grad=True)
    weight = torch.tensor(weight, requires_grad=True)
    total = (function(direct, weight) * torch.as_tensor(cotangent)).sum()
    return [part.numpy() for part in torch.autograd.grad(total, [direct, weight])]


def chain(size, weight):
    return build_topology(
        size,
        source=np.arange(size - 1),
        target=np.arange(1, size),
        weight=np.full(size - 1, weight),
        supports=np.zeros(size - 1, dtype=bool),
        justification=np.full(size - 1, -1),
        dtype=np.float64,
    )
