"""Products over contiguous segments in torch, with a gradient that is right where a factor is 0.

The derivative of a product by one factor is the product of the others.  It is built from prefix and
suffix products inside each segment (a doubling scan: log2 of the longest segment steps), never by
dividing by the factor, which fails at 0.  Knows nothing of graphs.  Used by ``on_torch`` and by the
torch_geometric layer.  Source: SEMANTICS section 3 (products of the mean field), law 12.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from validity_graph.errors import MissingExtraError

try:
    import torch
    from torch import Tensor
except ImportError as error:
    raise MissingExtraError('kernel "torch"', needs="torch", extra="torch") from error


@dataclass(frozen=True, slots=True)
class Segments:
    """Rows cut into ``s`` contiguous segments, empty ones allowed.

    ``offsets``: int64 ``(s + 1,)``; ``owner``: int64 ``(rows,)``, the segment of each row; ``longest``:
    rows of the longest segment.
    """

    offsets: Tensor
    owner: Tensor
    longest: int

    def part(self, first: int, last: int, *, start: int, stop: int, longest: int) -> Segments:
        """Return segments ``first:last``, which hold rows ``start:stop``, as segments of their own."""
        return Segments(
            offsets=self.offsets[first : last + 1] - start,
            owner=self.owner[start:stop] - first,
            longest=longest,
        )


def product(value: Tensor, segments: Segments) -> Tensor:
    """Return the product of each segment, ``(rows, B)`` or ``(rows,)`` -> ``(s, B)`` or ``(s,)``.

    An empty segment gives 1.  Records no gradient: see ``segment_product``.
    """
    return torch.segment_reduce(value, "prod", offsets=segments.offsets, axis=0, unsafe=True, initial=1.0)


def exclusive_product(value: Tensor, segments: Segments) -> Tensor:
    """Return for each row the product of the other rows of its segment, same shape as ``value``.

    No division: prefix products before the row times suffix products behind it.
    """
    if segments.longest <= 1:
        return torch.ones_like(value)
    before = torch.ones_like(value)
    behind = torch.ones_like(value)
    same = _same_segment(segments.owner, 1, value.dim())
    before[1:] = torch.where(same, value[:-1], before[1:])
    behind[:-1] = torch.where(same, value[1:], behind[:-1])
    step = 1
    while step < segments.longest - 1:
        # After this, each row holds the product of up to ``2 * step`` neighbours on its side.
        same = _same_segment(segments.owner, step, value.dim())
        before[step:] = torch.where(same, before[step:] * before[:-step], before[step:])
        behind[:-step] = torch.where(same, behind[:-step] * behind[step:], behind[:-step])
        step *= 2
    return before * behind


def _same_segment(owner: Tensor, step: int, dimensions: int) -> Tensor:
    same = owner[step:] == owner[:-step]
    return same if dimensions == 1 else same.unsqueeze(1)


class _SegmentProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, segments: Segments) -> Tensor:  # noqa: ANN401  torch's context
        ctx.save_for_backward(value)
        ctx.segments = segments
        return product(value, segments)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:  # noqa: ANN401  torch's context
        (value,) = ctx.saved_tensors
        return gradient[ctx.segments.owner] * exclusive_product(value, ctx.segments), None


def segment_product(value: Tensor, segments: Segments) -> Tensor:
    """Return the product of each segment, differentiable once; shapes as in ``product``."""
    result: Tensor = _SegmentProduct.apply(value, segments)  # type: ignore[no-untyped-call]
    return result
