"""The factors of the mean field for a block of nodes and B evidence vectors, and their derivatives.

Pure functions of tensors.  No clamping: inside [0, 1] none is needed (each rounded factor stays in it),
and outside the formula has to go on as the polynomial that it is.  Formulas: SEMANTICS section 3.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from validity_graph.kernels.torch_plan import Block, Plan
from validity_graph.kernels.torch_segments import exclusive_product, product


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights by role and what follows from them alone: A_j, and prod_j A_j of each node."""

    requirement: Tensor
    support: Tensor
    absent: Tensor
    all_absent: Tensor

    @classmethod
    def of(cls, plan: Plan, weight: Tensor) -> Weights:
        """Split ``weight`` ``(m,)``, in the order of ``Topology.weight``."""
        support = weight.index_select(0, plan.support_edge)
        absent = product(1.0 - support, plan.support.segments)
        return cls(
            requirement=weight.index_select(0, plan.requirement_edge),
            support=support,
            absent=absent,
            all_absent=product(absent, plan.justification),
        )

    def part(self, block: Block) -> Weights:
        """Return what belongs to ``block``."""
        return Weights(
            self.requirement[block.requirement.place],
            self.support[block.support.place],
            self.absent[block.group],
            self.all_absent[block.node],
        )

    def double(self) -> Weights:
        """Return the same in float64."""
        return self._each(Tensor.double)

    def zeros_like(self) -> Weights:
        """Return zeros of the same shapes."""
        return self._each(torch.zeros_like)

    def _each(self, function: Callable[[Tensor], Tensor]) -> Weights:
        return Weights(
            function(self.requirement),
            function(self.support),
            function(self.absent),
            function(self.all_absent),
        )


@dataclass(frozen=True, slots=True)
class Parts:
    """The factors of one block: ``kept`` is 1 - q_v, ``held`` 1 - l_v; the rest is what they come from."""

    requirement_factor: Tensor
    support_factor: Tensor
    not_lost: Tensor
    kept: Tensor
    held: Tensor

    @property
    def inherited(self) -> Tensor:
        """``1 - (1 - q_v) * (1 - l_v)``, ``(nodes, B)``."""
        return 1.0 - self.kept * self.held


def factors(block: Block, weights: Weights, requirement_value: Tensor, support_value: Tensor) -> Parts:
    """Compute a block from the invalidity ``(rows, B)`` of its edges' sources and its own weights."""
    requirement_factor = 1.0 - weights.requirement[:, None] * requirement_value
    kept = product(requirement_factor, block.requirement.segments)
    if support_value.shape[0] == 0:
        return Parts(requirement_factor, support_value, support_value, kept, torch.ones_like(kept))
    support_factor = 1.0 - weights.support[:, None] * support_value
    stands = product(support_factor, block.support.segments)
    # In this form a justification that nothing has touched gives A_j exactly, hence l_v exactly 0.
    not_lost = weights.absent[:, None] + (1.0 - stands)
    lost = product(not_lost, block.justification) - weights.all_absent[:, None]
    return Parts(requirement_factor, support_factor, not_lost, kept, 1.0 - lost)


def combine(direct: Tensor, parts: Parts) -> Tensor:
    """``1 - (1 - d_v) * (1 - q_v) * (1 - l_v)``, ``(nodes, B)``, in the form of ``on_numpy.combine``."""
    return direct + (1.0 - direct) * parts.inherited


@dataclass(frozen=True, slots=True)
class Slopes:
    """Derivatives of I_v: by d_v, by ``w * I_u`` of each edge, by A_j and by prod_j A_j."""

    direct: Tensor
    requirement: Tensor
    support: Tensor
    absent: Tensor
    all_absent: Tensor


def slopes(block: Block, parts: Parts, direct: Tensor) -> Slopes:
    """Differentiate the block's invalidity by each of its factors; never divides by one."""
    spared = 1.0 - direct
    by_lost = spared * parts.kept
    by_kept = spared * parts.held
    requirement = by_kept[block.requirement.segments.owner] * exclusive_product(
        parts.requirement_factor, block.requirement.segments
    )
    if parts.not_lost.shape[0] == 0:
        return Slopes(parts.kept, requirement, parts.not_lost, parts.not_lost, -by_lost)
    absent = by_lost[block.justification.owner] * exclusive_product(parts.not_lost, block.justification)
    support = absent[block.support.segments.owner] * exclusive_product(
        parts.support_factor, block.support.segments
    )
    return Slopes(parts.kept * parts.held, requirement, support, absent, -by_lost)
