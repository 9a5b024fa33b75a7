"""The backward pass of propagation in torch: levels in reverse, the implicit gradient inside cycles.

With ``J`` the derivatives of a component's members by one another at the settled values, the gradient
``g`` by its members becomes ``lambda = g + J^T lambda``.  J has no negative entry, so that iterating
this settles exactly where the derivative is finite.  Formulas: ``torch_factors``, SEMANTICS section 3.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from validity_graph.kernels.on_numpy import MAX_ROUNDS
from validity_graph.kernels.torch_factors import Slopes, Weights, factors, slopes
from validity_graph.kernels.torch_plan import Block, Cycle, Plan
from validity_graph.kernels.torch_runs import Run
from validity_graph.kernels.torch_segments import exclusive_product

#: The gradient inside a cycle has settled when a round moves it by no more than this, relatively.
_TOLERANCE = 1e-13


@dataclass(frozen=True, slots=True)
class _Gradients:
    """Gradients in the making: by invalidity and evidence ``(n, B)``, by weight of each role, by A_j ..."""

    invalidity: Tensor
    direct: Tensor
    weight: Weights


def pull(
    plan: Plan, direct: Tensor, weight: Tensor, state: Tensor, gradient: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the gradients by ``direct`` ``(n, B)`` and by ``weight`` ``(m,)``, internal numbering.

    ``state`` ``(n, B)`` is the invalidity that propagation returned, ``gradient`` ``(n, B)`` that by it.
    """
    weights = Weights.of(plan, weight)
    gradients = _Gradients(gradient.clone(), torch.zeros_like(direct), weights.zeros_like())
    by_weight = torch.zeros_like(weight)
    for level in reversed(plan.steps):
        if isinstance(level, Run):
            level.backward(direct, weight, state, gradients.invalidity, gradients.direct, by_weight)
            continue
        if level in plan.cycle:
            _pull_cycle(plan.cycle[level], weights, direct, state, gradients)
        block = plan.block(level)
        slope = _slopes_at(block, weights, direct, state)
        _pull_block(block, slope, gradients.invalidity[block.node], weights, state, gradients)
    return gradients.direct, by_weight + _by_weight(plan, weights, gradients.weight, torch.zeros_like(weight))


def _slopes_at(block: Block, weights: Weights, direct: Tensor, state: Tensor) -> Slopes:
    requirement_value = state.index_select(0, block.requirement.source)
    support_value = state.index_select(0, block.support.source)
    return slopes(
        block, factors(block, weights.part(block), requirement_value, support_value), direct[block.node]
    )


def _pull_block(
    block: Block, slope: Slopes, gradient: Tensor, weights: Weights, state: Tensor, gradients: _Gradients
) -> None:
    """Hand ``gradient`` by the block's invalidity on to its evidence, weights and sources."""
    gradients.direct[block.node] += gradient * slope.direct
    for fan, product_gradient, weight, by_weight in (
        (
            block.requirement,
            gradient[block.requirement.segments.owner] * slope.requirement,
            weights.requirement,
            gradients.weight.requirement,
        ),
        (
            block.support,
            gradient[block.support_target] * slope.support,
            weights.support,
            gradients.weight.support,
        ),
    ):
        if fan.source.numel() == 0:
            continue
        by_weight[fan.place] += (product_gradient * state.index_select(0, fan.source)).sum(1)
        gradients.invalidity.index_add_(0, fan.source, product_gradient * weight[fan.place][:, None])
    if block.support.source.numel():
        by_absent = gradient[block.justification.owner] * slope.absent
        gradients.weight.absent[block.group] += by_absent.sum(1)
        gradients.weight.all_absent[block.node] += (gradient * slope.all_absent).sum(1)


def _pull_cycle(cycle: Cycle, weights: Weights, direct: Tensor, state: Tensor, gradients: _Gradients) -> None:
    """Turn the gradient by the members into ``lambda`` and hand it on; leave 0 there for the level."""
    block = cycle.block
    slope = _slopes_at(block, weights, direct, state)
    inner_requirement, inner_support = cycle.inner_requirement, cycle.inner_support
    own = weights.part(block)
    requirement = (slope.requirement * own.requirement[:, None])[inner_requirement].double()
    support = (slope.support * own.support[:, None])[inner_support].double()
    to_requirement = block.requirement.segments.owner[inner_requirement]
    to_support = block.support_target[inner_support]
    from_requirement = cycle.local_requirement[inner_requirement]
    from_support = cycle.local_support[inner_support]

    def transposed(value: Tensor) -> Tensor:
        back = torch.zeros_like(value)
        back.index_add_(0, from_requirement, requirement * value[to_requirement])
        return back.index_add_(0, from_support, support * value[to_support])

    wanted = gradients.invalidity[cycle.member]
    solved = _neumann(transposed, wanted.double()).to(wanted.dtype)
    _pull_block(block, slope, solved, weights, state, gradients)
    # That also wrote to the members themselves; it is in ``solved`` already.
    gradients.invalidity[cycle.member] = 0.0


def _by_weight(plan: Plan, weights: Weights, gathered: Weights, result: Tensor) -> Tensor:
    """Sum what reached each weight through its edge, A_j and prod_j A_j; fill ``result`` ``(m,)``."""
    by_absent = gathered.absent + gathered.all_absent[plan.justification.owner] * exclusive_product(
        weights.absent, plan.justification
    )
    by_support = gathered.support - by_absent[plan.support.segments.owner] * exclusive_product(
        1.0 - weights.support, plan.support.segments
    )
    result[plan.requirement_edge] = gathered.requirement
    result[plan.support_edge] = by_support
    return result


def _neumann(transposed: Callable[[Tensor], Tensor], wanted: Tensor) -> Tensor:
    """Solve ``lambda = wanted + transposed(lambda)`` by iteration; ``(k, B)`` float64."""
    solved = wanted
    for _ in range(MAX_ROUNDS):
        following = wanted + transposed(solved)
        moved, size = (following - solved).abs().amax(0), following.abs().amax(0)
        solved = following
        if not (moved > _TOLERANCE * size).any():
            return solved
    warnings.warn(
        f"the gradient inside a cycle did not settle in {MAX_ROUNDS} rounds and is cut off there: the "
        "derivative is infinite, as where certain weights alone carry invalidity around the cycle",
        RuntimeWarning,
        stacklevel=2,
    )
    return solved
