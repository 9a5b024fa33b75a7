"""Propagation in torch: agrees with the definition, gradients against differences of plain Python."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import mean_field
from torch_graphs import batches, chain, gradient_of, order_of, topology_of

from validity_graph import kernels
from validity_graph.errors import InputError
from validity_graph.kernels import on_numpy, on_torch, torch_arrays, torch_runs
from validity_graph.kernels.torch_plan import Plan
from validity_graph.testing import dependency_graphs
from validity_graph.topology import build_topology

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
#: Around cycles the derivative stays finite.
UNSURE = st.sampled_from([0.0, 0.1, 0.2])
STEP = 1e-4


def oracle_edges(graph, weight):
    role = np.where(graph.supports, "supports", "requires")
    return list(
        zip(
            graph.source.tolist(),
            graph.target.tolist(),
            weight,
            role.tolist(),
            graph.justification.tolist(),
            strict=True,
        )
    )


def central_differences(function, point, cotangent):
    """Central differences of ``sum(cotangent * function(point))`` by each entry of ``point``."""
    result = np.zeros_like(point)
    for place in np.ndindex(point.shape):
        sides = []
        for sign in (STEP, -STEP):
            moved = point.copy()
            moved[place] += sign
            sides.append((np.array(function(moved)) * cotangent).sum())
        result[place] = (sides[0] - sides[1]) / (2 * STEP)
    return result


def assert_gradients(torch_function, plain, direct, weight, cotangent):
    by_direct, by_weight = gradient_of(torch_function, direct, weight, cotangent)
    expected = central_differences(lambda d: plain(d, weight), direct, cotangent)
    np.testing.assert_allclose(by_direct, expected, atol=1e-6, rtol=1e-6)
    expected = central_differences(lambda w: plain(direct, w), weight, cotangent)
    np.testing.assert_allclose(by_weight, expected, atol=1e-6, rtol=1e-6)


# --- values ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
@given(batch=batches(dependency_graphs(cyclic=True)))
@settings(max_examples=60, deadline=None)
def test_a_batch_equals_the_definition_column_by_column(device, batch):
    graph, direct, weight, _ = batch
    topology = topology_of(graph, weight)
    found = on_torch.noisy_or(topology, torch.tensor(direct, device=device)).cpu().numpy()
    for row, vector in zip(found, direct, strict=True):
        expected = kernels.propagate(topology, vector, backend="numpy")
        np.testing.assert_allclose(row, expected.invalidity, atol=1e-12)
    assert found.min() >= 0.0
    assert found.max() <= 1.0


@given(batch=batches(dependency_graphs(cyclic=True)))
@settings(max_examples=30, deadline=None)
def test_single_precision_is_close_to_double(batch):
    graph, direct, weight, _ = batch
    found = on_torch.noisy_or(
        topology_of(graph, weight, np.float32), torch.tensor(direct, dtype=torch.float32)
    )
    assert found.dtype == torch.float32
    expected = on_torch.noisy_or(topology_of(graph, weight), torch.tensor(direct))
    # Loops of certain supports jump where their last reason turns certain; there rounding decides.
    if (expected.sum(1) > 0).all() and not np.isin(weight, [1.0]).any():
        np.testing.assert_allclose(found.numpy(), expected.numpy(), atol=1e-5)


@given(graph=dependency_graphs(cyclic=True))
@settings(max_examples=40, deadline=None)
def test_the_array_contract_of_the_other_kernels(graph):
    topology = graph.topology()
    direct = graph.direct[topology.order]
    invalidity, rounds, converged = torch_arrays.noisy_or(topology, direct)
    expected, expected_rounds, expected_converged = on_numpy.noisy_or(topology, direct)
    # All members at once in a round here, in turn there: the same fixpoint in more rounds.
    assert rounds >= expected_rounds
    assert expected_converged or not converged
    if converged:
        np.testing.assert_allclose(invalidity, expected, atol=1e-9)
    out = np.empty_like(invalidity)
    assert torch_arrays.noisy_or(topology, direct, out=out)[0] is out
    np.testing.assert_array_equal(out, invalidity)
    np.testing.assert_allclose(
        torch_arrays.inherited(topology, expected),
        kernels.inherited(topology, expected[topology.rank], backend="numpy")[topology.order],
        atol=1e-12,
    )


@given(batch=batches(dependency_graphs(cyclic=True)))
@settings(max_examples=30, deadline=None)
def test_weights_in_the_callers_order_replace_the_topologys(batch):
    graph, direct, weight, _ = batch
    replaced = topology_of(graph, np.full(weight.size, 0.5))
    expected = on_torch.noisy_or(topology_of(graph, weight), torch.tensor(direct))
    found = on_torch.noisy_or(
        Plan(replaced), torch.tensor(direct), weight=torch.tensor(weight)[order_of(replaced, graph)]
    )
    np.testing.assert_allclose(found.numpy(), expected.numpy(), atol=1e-12)


def test_any_number_of_leading_axes():
    topology = chain(3, 0.5)
    direct = torch.zeros(2, 4, 3, dtype=torch.float64)
    direct[1, 2, 0] = 1.0
    found = on_torch.noisy_or(topology, direct)
    assert found.shape == (2, 4, 3)
    assert found[1, 2].tolist() == [1.0, 0.5, 0.25]
    assert found.sum() == 1.75
    assert on_torch.noisy_or(topology, direct[1, 2]).tolist() == [1.0, 0.5, 0.25]


def star(size, weight, *, supports):
    return build_topology(
        size + 1,
        source=np.arange(size),
        target=np.full(size, size),
        weight=np.full(size, weight),
        supports=np.full(size, supports),
        justification=np.full(size, -1),
        dtype=np.float64,
    )


# --- gradients ---------------------------------------------------------------------------------------


@given(batch=batches(dependency_graphs(max_nodes=5, max_edges=8)))
@settings(max_examples=60, deadline=None)
def test_gradients_equal_central_differences(batch):
    graph, direct, weight, cotangent = batch
    topology = topology_of(graph, weight)
    order = order_of(topology, graph)

    def plain(direct, weight):
        # A polynomial: it can be evaluated a step outside [0, 1].
        edges = oracle_edges(graph, weight)
        return [mean_field(graph.node_count, edges, row, premise=graph.premise.tolist()) for row in direct]

    assert_gradients(
        lambda d, w: on_torch.noisy_or(topology, d, weight=w[order]), plain, direct, weight, cotangent
    )


def plain_fixpoint(graph, direct, weight):
    """Iterate the formula of section 3 to rest; only where it contracts, so that there is one fixpoint."""
    value = np.zeros(graph.node_count)
    for _ in range(400):
        following = np.zeros_like(value)
        for v in range(graph.node_count):
            kept, groups = 1.0, {}
            for e in np.flatnonzero(graph.target == v):
                if not graph.supports[e]:
                    kept *= 1 - weight[e] * value[graph.source[e]]
                elif not graph.premise[v]:
                    name = graph.justification[e] if graph.justification[e] >= 0 else ("own", e)
                    absent, holds = groups.get(name, (1.0, 1.0))
                    held = holds * (1 - weight[e] * value[graph.source[e]])
                    groups[name] = (absent * (1 - weight[e]), held)
            lost = np.prod([a + 1 - h for a, h in groups.values()]) - np.prod([a for a, _ in groups.values()])
            following[v] = 1 - (1 - direct[v]) * kept * (1 - lost)
        if np.abs(following - value).max() < 1e-15:
            break
        value = following
    return value


@given(
    batch=batches(
        dependency_graphs(max_nodes=4, max_edges=7, cyclic=True), values=st.sampled_from([0.0, 0.1, 0.2])
    ),
    certain=st.booleans(),
)
@settings(max_examples=25, deadline=None)
def test_gradients_equal_central_differences_around_cycles(batch, certain):
    graph, direct, weight, cotangent = batch
    if certain:
        direct = np.where(direct > 0.15, 1.0, direct)
    topology = topology_of(graph, weight)
    order = order_of(topology, graph)
    assert_gradients(
        lambda d, w: on_torch.noisy_or(topology, d, weight=w[order]),
        lambda d, w: [plain_fixpoint(graph, row, w) for row in d],
        direct,
        weight,
        cotangent,
    )


@pytest.mark.parametrize("supports", [False, True])
def test_two_certain_causes(supports):
    topology = star(2, 1.0, supports=supports)
    direct = torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64, requires_grad=True)
    weight = torch.tensor([1.0, 1.0], dtype=torch.float64, requires_grad=True)
    on_torch.noisy_or(topology, direct, weight=weight)[2].backward()
    if supports:
        # l = w_1 d_1 * w_2 d_2 + w_1 d_1 (1 - w_2) + (1 - w_1) w_2 d_2 at d = w = 1.
        assert direct.grad.tolist() == [1.0, 1.0, 0.0]
        assert weight.grad.tolist() == [0.0, 0.0]
    else:
        # 1 - (1 - w_1 d_1)(1 - w_2 d_2): each is idle while the other is certain.
        assert direct.grad.tolist() == [0.0, 0.0, 0.0]
        assert weight.grad.tolist() == [0.0, 0.0]


def test_an_infinite_derivative_is_announced():
    # Two memories require each other for certain: any evidence at all fells both.
    topology = build_topology(
        2,
        source=[0, 1],
        target=[1, 0],
        weight=[1.0, 1.0],
        supports=[False, False],
        justification=[-1, -1],
        dtype=np.float64,
    )
    direct = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    result = on_torch.noisy_or(topology, direct)
    assert result.tolist() == [0.0, 0.0]
    with pytest.warns(RuntimeWarning, match="derivative is infinite"):
        result.sum().backward()


@pytest.mark.parametrize("supports", [False, True])
def test_a_chain_of_a_million_keeps_its_gradient(supports):
    n, weight = 1_000_000, 0.999999
    topology = build_topology(
        n,
        source=np.arange(n - 1),
        target=np.arange(1, n),
        weight=np.full(n - 1, weight),
        supports=np.full(n - 1, supports),
        justification=np.full(n - 1, -1),
        dtype=np.float64,
    )
    weights = torch.tensor(topology.weight, requires_grad=True)
    direct = torch.zeros(n, dtype=torch.float64)
    direct[0] = 1.0
    start = time.perf_counter()
    last = on_torch.noisy_or(topology, direct, weight=weights)[-1]
    last.backward()
    assert time.perf_counter() - start < 30
    assert last.item() == pytest.approx(weight ** (n - 1), rel=1e-9)
    np.testing.assert_allclose(weights.grad.numpy(), weight ** (n - 2), rtol=1e-9)


@pytest.mark.parametrize("device", DEVICES)
@given(batch=batches(dependency_graphs(max_nodes=9, max_edges=16, cyclic=True), values=UNSURE))
@settings(max_examples=40, deadline=None)
def test_narrow_levels_taken_together_equal_levels_one_by_one(device, batch):
    graph, direct, weight, cotangent = batch
    topology = topology_of(graph, weight)
    order = order_of(topology, graph)
    found = []
    for shortest in (1, 10**9):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch_runs, "_SHORTEST", {device: shortest})
            plan = Plan(topology, device=device)
        assert any(isinstance(step, torch_runs.Run) for step in plan.steps) <= (shortest == 1)

        def invalidity(d, w):
            return on_torch.noisy_or(plan, d.to(device), weight=w[order].to(device)).cpu()  # noqa: B023

        value = invalidity(torch.tensor(direct), torch.tensor(weight)).numpy()
        found.append([value, *gradient_of(invalidity, direct, weight, cotangent)])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("supports", [False, True])
def test_a_wide_star_keeps_its_gradient(supports):
    size = 1_000_000
    topology = star(size, 1.0, supports=supports)
    direct = torch.full((size + 1,), 0.0 if not supports else 1.0, dtype=torch.float64)
    direct[size] = 0.0
    direct.requires_grad_()
    hub = on_torch.noisy_or(topology, direct)[-1]
    hub.backward()
    assert hub.item() == (1.0 if supports else 0.0)
    np.testing.assert_allclose(direct.grad[:size].numpy(), 1.0)


# --- bad input ---------------------------------------------------------------------------------------


def test_bad_input_is_refused():
    topology = chain(3, 0.5)
    good = torch.zeros(3, dtype=torch.float64)
    with pytest.raises(InputError, match=r"last axis must be 3"):
        on_torch.noisy_or(topology, torch.zeros(2, dtype=torch.float64))
    with pytest.raises(InputError, match=r"dtype torch.int64"):
        on_torch.noisy_or(topology, torch.zeros(3, dtype=torch.int64))
    with pytest.raises(InputError, match=r"each of 2 edges"):
        on_torch.noisy_or(topology, good, weight=torch.ones(3, dtype=torch.float64))
    with pytest.raises(InputError, match=r"weight is torch.float32"):
        on_torch.noisy_or(topology, good, weight=torch.ones(2))
    with pytest.raises(InputError, match="not the edges"):
        on_torch.edge_order(
            topology, source=[0, 0], target=[1, 2], supports=[False, False], justification=[-1, -1]
        )
