"""Propagation as a torch_geometric layer: noisy-or message passing with an aggregation of its own.

``NoisyOr`` sits in a model like any other ``MessagePassing`` layer and takes edges in the caller's order;
one round carries invalidity one edge further.  ``on_torch.noisy_or`` is the whole fixpoint, cycles
included, in one pass over the levels.  Formulas: SEMANTICS section 3; the gradient: ``torch_segments``.
"""

from __future__ import annotations

from validity_graph.errors import InputError, MissingExtraError
from validity_graph.kernels.torch_segments import Segments, segment_product

try:
    import torch
    from torch import Tensor
    from torch_geometric.nn import MessagePassing
    from torch_geometric.nn.aggr import Aggregation
except ImportError as error:
    raise MissingExtraError("NoisyOr", needs="torch-geometric", extra="torch") from error


class NoisyOrAggregation(Aggregation):  # type: ignore[misc]  # torch_geometric ships no types
    """``1 - prod(1 - x)`` of each set of elements, with a gradient that is right where some x is 1.

    ``x`` ``(..., k, ...)`` in [0, 1] is aggregated along ``dim``; sets are given by ``index`` (in any
    order) or by ``ptr``.  An empty set gives 0.  [V3] Eq. 4.
    """

    def forward(
        self,
        x: Tensor,
        index: Tensor | None = None,
        ptr: Tensor | None = None,
        dim_size: int | None = None,
        dim: int = -2,
        max_num_elements: int | None = None,
    ) -> Tensor:
        """Aggregate ``x`` along ``dim`` into ``dim_size`` sets; arguments as in ``Aggregation``."""
        moved = x.movedim(dim, 0)
        rows = _two_axes(moved)
        if ptr is not None:
            segments = _segments_of_offsets(ptr)
        else:
            if index is None or dim_size is None:
                raise InputError("NoisyOrAggregation needs index or ptr: which set each element belongs to")
            order = torch.argsort(index, stable=True)
            rows = rows.index_select(0, order)
            sets = torch.arange(dim_size + 1, device=x.device)
            segments = _segments_of_offsets(torch.searchsorted(index[order], sets))
        result = 1.0 - segment_product(1.0 - rows, segments)
        return result.reshape(result.shape[0], *moved.shape[1:]).movedim(0, dim)


def _two_axes(value: Tensor) -> Tensor:
    """Flatten all axes behind the first into one; reshape(-1) would not know how without elements."""
    return value.unsqueeze(-1) if value.dim() == 1 else value.flatten(1)


def _segments_of_offsets(offsets: Tensor) -> Segments:
    length = offsets.diff()
    owner = torch.repeat_interleave(torch.arange(length.numel(), device=offsets.device), length)
    return Segments(offsets, owner, int(length.max()) if length.numel() else 0)


class NoisyOr(MessagePassing):  # type: ignore[misc]  # torch_geometric ships no types
    """Carry invalidity ``rounds`` edges far: ``I = 1 - (1 - d) * (1 - q(I)) * (1 - l(I))`` from ``I = d``.

    Has no parameters: weights come in, so that they can be parameters of, or computed by, the model around
    it.  Equals ``on_torch.noisy_or`` on acyclic graphs whose longest path has at most ``rounds`` edges.
    Around cycles of requirements it approaches it from below; supports that hold each other up in a
    circle need ``on_torch.noisy_or``.  SEMANTICS section 3.
    """

    def __init__(self, *, rounds: int = 1) -> None:
        """Take ``rounds`` >= 1: how many edges far invalidity is carried."""
        if rounds < 1:
            raise InputError(f"rounds={rounds} must be at least 1")
        super().__init__(aggr=NoisyOrAggregation(), node_dim=0)
        self.rounds = rounds

    def forward(
        self,
        direct: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor,
        *,
        supports: Tensor | None = None,
        justification: Tensor | None = None,
        premise: Tensor | None = None,
    ) -> Tensor:
        """Return the invalidity, shaped as ``direct``: ``(n,)``, or ``(n, B)`` for B evidence vectors.

        ``edge_index`` int64 ``(2, m)`` from cause to effect, ``edge_weight`` ``(m,)`` in [0, 1];
        ``supports`` bool ``(m,)``, ``justification`` int64 ``(m,)`` and ``premise`` bool ``(n,)`` as in
        ``build_topology``: without them every edge is a requirement, or a justification of its own.
        """
        values = _two_axes(direct)
        supporting, kept = _roles(edge_index, supports, premise, values.shape[0])
        requirement = (edge_index[:, kept], edge_weight[kept])
        support = None
        if bool(supporting.any()):
            group, group_target = _groups(edge_index[1, supporting], _pick(justification, supporting))
            support = (edge_index[0, supporting], edge_weight[supporting], group, group_target)
        invalidity = values
        for _ in range(self.rounds):
            standing = (1.0 - values) * (1.0 - self._lost_requirement(invalidity, *requirement))
            if support is not None:
                standing = standing * (1.0 - self._lost_support(invalidity, *support))
            invalidity = 1.0 - standing
        return invalidity.reshape(direct.shape)

    def message(self, x_j: Tensor, weight: Tensor) -> Tensor:
        """Return ``w_uv * I_u`` of each edge."""
        return weight.unsqueeze(-1) * x_j

    def _lost_requirement(self, invalidity: Tensor, edge_index: Tensor, weight: Tensor) -> Tensor:
        size = (invalidity.shape[0], invalidity.shape[0])
        lost: Tensor = self.propagate(edge_index, x=invalidity, weight=weight, size=size)
        return lost

    def _lost_support(
        self, invalidity: Tensor, source: Tensor, weight: Tensor, group: Tensor, group_target: Tensor
    ) -> Tensor:
        """``l_v`` as the difference of two noisy-ors: over ``1 - A_j``, and over ``H_j - A_j``."""
        node_count, group_count = invalidity.shape[0], group_target.numel()
        edge_index = torch.stack((source, group))
        failed = self.propagate(
            edge_index, x=(invalidity, None), weight=weight, size=(node_count, group_count)
        )
        present = self.aggr_module(weight.unsqueeze(-1), group, dim_size=group_count, dim=0)
        any_present = self.aggr_module(present, group_target, dim_size=node_count, dim=0)
        held = self.aggr_module(present - failed, group_target, dim_size=node_count, dim=0)
        lost: Tensor = any_present - held
        return lost


def _roles(
    edge_index: Tensor, supports: Tensor | None, premise: Tensor | None, node_count: int
) -> tuple[Tensor, Tensor]:
    """Which edges are supports that count, and which are requirements, bool ``(m,)`` each."""
    if supports is None:
        supports = torch.zeros(edge_index.shape[1], dtype=torch.bool, device=edge_index.device)
    supporting = supports
    if premise is not None:
        if premise.shape != (node_count,):
            raise InputError(f"premise has shape {tuple(premise.shape)}; it must be ({node_count},)")
        supporting = supports & ~premise[edge_index[1]]
    return supporting, ~supports


def _pick(justification: Tensor | None, supporting: Tensor) -> Tensor:
    if justification is None:
        return torch.full((int(supporting.sum()),), -1, dtype=torch.int64, device=supporting.device)
    return justification[supporting]


def _groups(target: Tensor, justification: Tensor) -> tuple[Tensor, Tensor]:
    """Return the justification of each support edge, numbered from 0, and the target of each of them."""
    # Negative names are made unique: each such edge is a justification of its own.
    own = -1 - torch.arange(target.numel(), device=target.device)
    name = torch.where(justification < 0, own, justification)
    pairs, group = torch.unique(torch.stack((target, name)), dim=1, return_inverse=True)
    return group, pairs[0]
