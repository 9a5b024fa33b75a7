"""Propagation in torch: many evidence vectors at once, CPU or GPU, differentiable by weight and evidence.

The formulas of ``on_numpy`` level by level over ``Topology``, on arrays ``(n, B)`` of B evidence vectors.
The gradient is written out, not recorded: each level's derivatives are products of the *other* factors
(``torch_segments``), so that they are right where a factor is exactly 0, and memory stays O(n B + m).
Inside a cycle the gradient is the implicit one, at the settled values: ``lambda = g + J^T lambda``,
iterated like the values; J has no negative entry, so this settles exactly where the derivative is finite.
Values outside [0, 1] are neither refused nor clamped, so that the formula can be probed by differences.

Knows nothing of records.  Formulas: SEMANTICS section 3; gradient law: section 5, law 12.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from validity_graph.errors import InputError, MissingExtraError

try:
    import torch
    from torch import Tensor
except ImportError as error:
    raise MissingExtraError('kernel "torch"', needs="torch", extra="torch") from error

from validity_graph.kernels.on_numpy import FINEST, MAX_ROUNDS, TOLERANCE
from validity_graph.kernels.torch_factors import Weights, combine, factors
from validity_graph.kernels.torch_plan import Block, Cycle, Plan
from validity_graph.kernels.torch_pull import pull
from validity_graph.kernels.torch_runs import Run
from validity_graph.ordering import loops
from validity_graph.topology import Topology


def noisy_or(topology: Topology | Plan, direct: Tensor, *, weight: Tensor | None = None) -> Tensor:
    """Invalidity ``(..., n)`` in [0, 1] under direct evidence ``direct`` ``(..., n)``, caller's numbering.

    ``weight`` ``(m,)`` stands for ``topology.weight``, in the order of ``topology.weight`` (``edge_order``
    brings weights into it); ``None`` takes the topology's own.  float32 or float64, that of ``direct``, on
    the device of ``direct``.  A ``Plan`` saves laying the topology out again for each call.

    Differentiable once by ``direct`` and ``weight``; at a weight of 0, as it changes to the right.  Where
    such a weight would close a loop of supports the invalidity itself may jump: the derivative is then
    that of the formula as it stands, the loop open.  Large cycles: all members move at once in a round,
    so a ring of more than 10,000 stops early and says so, where the other kernels take a few rounds.  A
    component without evidence is exactly 0 (law 2); where the derivative there is infinite, the
    gradient is cut off with a ``RuntimeWarning``.
    Raises ``InputError`` for another shape, dtype or device.  SEMANTICS section 3.
    """
    return noisy_or_rounds(topology, direct, weight=weight)[0]


def noisy_or_rounds(
    topology: Topology | Plan, direct: Tensor, *, weight: Tensor | None = None
) -> tuple[Tensor, int, bool]:
    """``noisy_or`` with the most rounds that a level's components took, and whether all settled."""
    plan = topology if isinstance(topology, Plan) else Plan(topology, device=direct.device)
    weight = _checked(plan, direct, weight)
    shape = direct.shape
    given = direct.reshape(math.prod(shape[:-1]), plan.node_count).t().index_select(0, plan.order)
    report = _Report()
    result: Tensor = _Propagation.apply(given, weight, plan, report)  # type: ignore[no-untyped-call]
    return result.index_select(0, plan.rank).t().reshape(shape), report.rounds, report.converged


def edge_order(
    topology: Topology,
    *,
    source: ArrayLike,
    target: ArrayLike,
    supports: ArrayLike,
    justification: ArrayLike,
) -> NDArray[np.int64]:
    """Return int64 ``(m,)``: the caller's edge at each position of ``topology.weight``.

    The arguments are those of ``build_topology``.  Supports into a premise are in no topology, hence in no
    position.  ``weight[edge_order(...)]`` is what ``noisy_or`` takes.  Raises ``InputError`` where these
    are not the edges of ``topology``.
    """
    source, target = np.asarray(source, dtype=np.int64), np.asarray(target, dtype=np.int64)
    supports, justification = np.asarray(supports, dtype=bool), np.asarray(justification, dtype=np.int64)
    row = topology.rank[target]
    has_supports = topology.indptr[1:] > topology.requires_end
    kept = np.flatnonzero(~supports | has_supports[row])
    group = np.where(supports, justification, 0)
    order = kept[np.lexsort((source[kept], group[kept], supports[kept], row[kept]))]
    degree = np.bincount(row[order], minlength=topology.order.size)
    if not (
        np.array_equal(degree, np.diff(topology.indptr))
        and np.array_equal(topology.rank[source[order]], topology.source)
    ):
        raise InputError("these edges are not the edges that the topology was built from")
    return order


def _checked(plan: Plan, direct: Tensor, weight: Tensor | None) -> Tensor:
    if direct.dtype not in (torch.float32, torch.float64):
        raise InputError(f"direct has dtype {direct.dtype}; it must be float32 or float64")
    if direct.dim() == 0 or direct.shape[-1] != plan.node_count:
        raise InputError(
            f"direct has shape {tuple(direct.shape)}; its last axis must be {plan.node_count} memories"
        )
    if direct.device != plan.device:
        raise InputError(f"direct is on {direct.device} and the plan on {plan.device}; move one of them")
    if weight is None:
        return torch.tensor(plan.topology.weight, dtype=direct.dtype, device=direct.device)
    if weight.shape != (plan.edge_count,):
        raise InputError(
            f"weight has shape {tuple(weight.shape)}; it needs one number for each of {plan.edge_count} edges"
        )
    if weight.dtype != direct.dtype or weight.device != direct.device:
        raise InputError(
            f"weight is {weight.dtype} on {weight.device}; it must be {direct.dtype} on {direct.device}"
        )
    return weight


@dataclass
class _Report:
    rounds: int = 0
    converged: bool = True


class _Propagation(torch.autograd.Function):
    """Invalidity ``(n, B)`` from direct evidence ``(n, B)`` and weights ``(m,)``, internal numbering."""

    @staticmethod
    def forward(ctx: Any, direct: Tensor, weight: Tensor, plan: Plan, report: _Report) -> Tensor:  # noqa: ANN401
        weights = Weights.of(plan, weight)
        reached = _reached(plan, weight)
        state = direct.clone()
        for level in plan.steps:
            if isinstance(level, Run):
                level.forward(direct, weight, state)
                continue
            block = plan.block(level)
            if block.requirement.source.numel() + block.support.source.numel() == 0:
                continue
            parts = factors(
                block,
                weights.part(block),
                state.index_select(0, block.requirement.source),
                state.index_select(0, block.support.source),
            )
            state[block.node] = combine(direct[block.node], parts)
            if level in plan.cycle:
                cycle = plan.cycle[level]
                values, rounds, settled = _settle_cycle(cycle, weights, reached[level], state, direct)
                state[cycle.member] = values.to(state.dtype)
                report.rounds, report.converged = max(report.rounds, rounds), report.converged and settled
        ctx.save_for_backward(direct, weight, state)
        ctx.plan = plan
        return state

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:  # noqa: ANN401
        direct, weight, state = ctx.saved_tensors
        return *pull(ctx.plan, direct, weight, state, gradient), None, None


def _reached(plan: Plan, weight: Tensor) -> dict[int, Tensor]:
    """Per level with cycles, bool ``(k,)``: the members that a reason outside their loop of supports reaches.

    Over edges that ``weight`` gives a weight: which these are need not be known when a plan is made.
    """
    if not plan.cycle:
        return {}
    topology = plan.topology
    size = np.abs(weight.detach().cpu().numpy())  # Weights below 0 occur where the formula is probed.
    run = loops(plan.node_count + plan.edge_count)
    structure = topology.indptr, topology.requires_end, topology.source, size
    found = {}
    for level, cycle in plan.cycle.items():
        parts = [
            run.reached_member(
                *structure, topology.opens, run.support_loop(*structure, start, end), start, end
            )
            for start, end in cycle.ranges
        ]
        found[level] = torch.as_tensor(np.concatenate(parts) > 0, device=plan.device)
    return found


def _live(cycle: Cycle, weights: Weights, outer: tuple[Tensor, Tensor], direct: Tensor) -> Tensor:
    """Bool ``(k, B)``: evidence comes into the member's component, from within or outside."""
    requirement, support = outer
    block = cycle.block
    count = torch.zeros_like(direct)
    arrives = (weights.requirement[:, None] * requirement != 0) & ~cycle.inner_requirement[:, None]
    count.index_add_(0, cycle.component[block.requirement.segments.owner], arrives.to(count.dtype))
    arrives = (weights.support[:, None] * support != 0) & ~cycle.inner_support[:, None]
    count.index_add_(0, cycle.component[block.support_target], arrives.to(count.dtype))
    count.index_add_(0, cycle.component, (direct != 0).to(count.dtype))
    return (count > 0)[cycle.component]


def _settle_cycle(
    cycle: Cycle, all_weights: Weights, reached: Tensor, state: Tensor, direct: Tensor
) -> tuple[Tensor, int, bool]:
    """Return ``(values (k, B) float64, rounds, settled)`` of a level's components.

    The iteration of ``on_numpy.settle_component``, all members at once in each round: X upwards from 0, then
    Y downwards from 1.  Each (component, evidence vector) goes its own way through both and stops on its
    own, so that the result does not depend on what it is batched with.  SEMANTICS section 3, Cycles.
    """
    block = cycle.block
    weights = all_weights.part(block).double()
    given = direct[cycle.member].double()
    outer_requirement = state[block.requirement.source].double()
    outer_support = state[block.support.source].double()
    moving = _live(cycle, weights, (outer_requirement, outer_support), given)
    live = moving.to(given.dtype)
    reads_y = (cycle.inner_support & reached[block.support_target])[:, None]
    single = ~_any_of_component(cycle, block.support_target[reads_y[:, 0]])
    x, y, rounds = torch.zeros_like(given), live, 0
    moved, shrinks = torch.ones_like(given), torch.zeros_like(moving)
    while rounds < MAX_ROUNDS and bool(moving.any()):
        requirement_value = torch.where(
            cycle.inner_requirement[:, None], x[cycle.local_requirement], outer_requirement
        )
        support_value = torch.where(cycle.inner_support[:, None], x[cycle.local_support], outer_support)
        in_y = reads_y & shrinks[block.support_target]
        support_value = torch.where(in_y, y[cycle.local_support], support_value)
        following = live * _following(block, weights, given, requirement_value, support_value)
        moved = _largest(cycle, (following - torch.where(shrinks, y, x)).abs())
        x = torch.where(moving & ~shrinks, following, x)
        y = torch.where(moving & shrinks, following, y)
        grown, shrunk = moving & (moved <= FINEST) & ~shrinks, moving & (moved <= FINEST) & shrinks
        higher = shrunk & (_largest(cycle, (y - x).abs()) > TOLERANCE)
        x, y = torch.where(higher, y, x), torch.where(grown, live, y)
        shrinks = (shrinks & ~shrunk) | (grown & ~single)
        moving = moving & ~(grown & single) & ~(shrunk & ~higher)
        rounds += 1
    unsettled = moving & (moved > TOLERANCE)
    return torch.where(moving & shrinks, y, x), rounds, not bool(unsettled.any())


def _following(
    block: Block, weights: Weights, direct: Tensor, requirement_value: Tensor, support_value: Tensor
) -> Tensor:
    return combine(direct, factors(block, weights, requirement_value, support_value))


def _largest(cycle: Cycle, value: Tensor) -> Tensor:
    """Replace ``value`` ``(k, B)`` >= 0 by the largest of its component, per evidence vector."""
    index = cycle.component[:, None].expand_as(value)
    largest = torch.zeros_like(value[: len(cycle.ranges)]).scatter_reduce(0, index, value, "amax")
    return largest[cycle.component]


def _any_of_component(cycle: Cycle, member: Tensor) -> Tensor:
    """Bool ``(k, 1)``: some of ``member`` (positions) are in the member's component."""
    found = torch.zeros(len(cycle.ranges), dtype=torch.bool, device=cycle.component.device)
    found[cycle.component[member]] = True
    return found[cycle.component][:, None]


def __getattr__(name: str) -> Any:  # noqa: ANN401
    """Load the torch_geometric layer on first use: it needs a package more than the rest."""
    if name in ("NoisyOr", "NoisyOrAggregation"):
        from validity_graph.kernels import message_passing

        return getattr(message_passing, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
