"""Every kernel through the suite that ships to users, and a wrong kernel that it must catch."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from validity_graph.kernels import propagate
from validity_graph.testing import DependencyGraph, check_kernel, dependency_graphs


def kernel(backend):
    return lambda topology, direct: propagate(topology, direct, backend=backend).invalidity


@pytest.mark.parametrize("backend", ["numpy", "numba", "torch"])
@given(graph=dependency_graphs(cyclic=True))
@settings(max_examples=60, deadline=None)
def test_shipped_kernels_conform(backend, graph):
    check_kernel(kernel(backend), graph)


def chain(weight: float) -> DependencyGraph:
    return DependencyGraph(
        node_count=2,
        source=np.array([0], dtype=np.int32),
        target=np.array([1], dtype=np.int32),
        weight=np.array([weight]),
        supports=np.array([False]),
        justification=np.array([-1]),
        premise=np.array([False, False]),
        direct=np.array([0.5, 0.0]),
    )


@pytest.mark.parametrize(
    ("wrong", "law"),
    [
        (lambda topology, direct: direct * 3, "law 1"),
        (lambda topology, direct: direct * 0 + 0.1, "law 2"),
        (lambda topology, direct: direct, "law 11"),
    ],
)
def test_a_wrong_kernel_is_caught(wrong, law):
    with pytest.raises(AssertionError, match=law):
        check_kernel(wrong, chain(0.8))
