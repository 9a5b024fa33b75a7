"""The layer of torch_geometric, and its aggregation, against the kernel."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_graphs import CORNERS, batches, gradient_of, order_of, topology_of

from validity_graph.errors import InputError
from validity_graph.kernels import on_torch
from validity_graph.kernels.message_passing import NoisyOr, NoisyOrAggregation
from validity_graph.testing import dependency_graphs


@given(batch=batches(dependency_graphs()))
@settings(max_examples=40, deadline=None)
def test_the_layer_equals_the_kernel_on_acyclic_graphs(batch):
    graph, direct, weight, cotangent = batch
    topology = topology_of(graph, weight)
    order = order_of(topology, graph)
    layer = NoisyOr(rounds=graph.node_count)
    edge_index = torch.as_tensor(np.stack([graph.source, graph.target]).astype(np.int64))

    def by_layer(direct, weight):
        return layer(
            direct.T,
            edge_index,
            weight,
            supports=torch.as_tensor(graph.supports),
            justification=torch.as_tensor(graph.justification),
            premise=torch.as_tensor(graph.premise),
        ).T

    def by_kernel(direct, weight):
        return on_torch.noisy_or(topology, direct, weight=weight[order])

    found = by_layer(torch.tensor(direct), torch.tensor(weight))
    expected = by_kernel(torch.tensor(direct), torch.tensor(weight))
    np.testing.assert_allclose(found.numpy(), expected.numpy(), atol=1e-12)
    for one, other in zip(
        gradient_of(by_layer, direct, weight, cotangent),
        gradient_of(by_kernel, direct, weight, cotangent),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, atol=1e-12)


def test_one_round_carries_one_edge_far():
    edge_index = torch.tensor([[0, 1], [1, 2]])
    direct = torch.tensor([1.0, 0.0, 0.0])
    weight = torch.tensor([0.5, 0.5])
    assert NoisyOr()(direct, edge_index, weight).tolist() == [1.0, 0.5, 0.0]
    assert NoisyOr(rounds=2)(direct, edge_index, weight).tolist() == [1.0, 0.5, 0.25]
    with pytest.raises(InputError, match="rounds=0"):
        NoisyOr(rounds=0)


@given(
    values=st.lists(st.tuples(CORNERS, st.integers(0, 3)), min_size=1, max_size=12),
    dim=st.sampled_from([0, 1, -1]),
)
@settings(max_examples=40, deadline=None)
def test_aggregation_by_index_and_by_pointer(values, dim):
    x = torch.tensor([[value, 1 - value] for value, _ in values], dtype=torch.float64)
    index = torch.tensor([group for _, group in values])
    expected = torch.tensor(
        [[1 - np.prod([1 - row[k].item() for row, g in zip(x, index, strict=True) if g == group])
          for k in range(2)] for group in range(4)],
        dtype=torch.float64,
    )  # fmt: skip
    shaped = x if dim == 0 else x.T
    found = NoisyOrAggregation()(shaped, index, dim_size=4, dim=dim)
    torch.testing.assert_close(found if dim == 0 else found.T, expected)
    order = torch.argsort(index, stable=True)
    pointer = torch.cat([torch.zeros(1, dtype=torch.int64), torch.bincount(index, minlength=4).cumsum(0)])
    torch.testing.assert_close(NoisyOrAggregation()(x[order], ptr=pointer, dim=0), expected)


def test_the_example_recovers_its_weights():
    example = runpy.run_path(str(Path(__file__).parent.parent / "examples" / "learn_edge_weights.py"))
    error = (example["learn"]() - example["true_weight"]).abs().max().item()
    assert error < 0.05
