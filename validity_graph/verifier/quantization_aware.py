"""Quantisation-aware training: the network learns with the 4-bit weights that it will ship with.

Rounding every weight to 4 bits moves single logits of a finished network by up to 2 (root mean square on
validation pairs), which costs accuracy that no calibration brings back. So the last steps of training see
the rounded weights, while gradients pass straight through the rounding to the whole ones (Jacob et al.,
2018). ``fake_int4`` rounds as ``quantize.quantize_int4`` does; rounding what is already rounded changes
nothing.
"""

from __future__ import annotations

from validity_graph.errors import MissingExtraError
from validity_graph.verifier.network import PairNetwork
from validity_graph.verifier.quantize import BLOCK, HIGHEST_4_BITS, LOWEST_4_BITS

try:
    import torch
    from torch import nn
    from torch.nn.utils import parametrize
except ImportError:  # pragma: no cover - network has raised before
    raise MissingExtraError("training the verifier", needs="torch", extra="train") from None


def fake_int4(weight: torch.Tensor, *, block: int = BLOCK) -> torch.Tensor:
    """Return ``weight`` ``(outputs, inputs)`` as 4 bits would give it back.

    Each ``block`` inputs of a row share a scale that maps their largest magnitude to -8; the last block may
    be shorter.  The gradient is that of the identity.
    """
    rows, width = weight.shape
    padded = (
        torch.nn.functional.pad(weight.detach(), (0, -width % block)) if width % block else weight.detach()
    )
    blocks = padded.view(rows, -1, block)
    low, high = blocks.amin(-1, keepdim=True), blocks.amax(-1, keepdim=True)
    scale = torch.where(high > -low, high, low) / LOWEST_4_BITS
    scale = torch.where(scale == 0, torch.ones_like(scale), scale)
    rounded = torch.mul(blocks, 1 / scale).round_().clamp_(LOWEST_4_BITS, HIGHEST_4_BITS).mul_(scale)
    rounded = rounded.view(rows, -1)[:, :width]
    return _StraightThrough.apply(weight, rounded)  # type: ignore[no-any-return, no-untyped-call]


class _StraightThrough(torch.autograd.Function):
    """The rounded value forward, the gradient of the whole one backward."""

    @staticmethod
    def forward(_: object, __: torch.Tensor, rounded: torch.Tensor) -> torch.Tensor:
        return rounded

    @staticmethod
    def backward(_: object, gradient: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradient, None


class _Int4(nn.Module):
    """Parametrisation of a weight."""

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return fake_int4(weight)


def begin_int4(
    network: PairNetwork, *, kinds: tuple[type[nn.Module], ...] = (nn.Linear, nn.Embedding)
) -> None:
    """Let the encoder's layers of these ``kinds`` compute with 4-bit weights from now on.

    Frozen ones are rounded for good.
    """
    for module in network.encoder.modules():
        if not (isinstance(module, nn.Linear | nn.Embedding) and isinstance(module, kinds)):
            continue
        if module.weight.requires_grad:
            parametrize.register_parametrization(module, "weight", _Int4())
        else:
            module.weight.data = fake_int4(module.weight.data)


def end_int4(network: PairNetwork) -> None:
    """Replace every weight by its rounded value and take the parametrisations off."""
    for module in network.encoder.modules():
        if parametrize.is_parametrized(module):
            parametrize.remove_parametrizations(module, "weight", leave_parametrized=True)
