"""The pair network: one encoder, several heads ([V3] section 5; heads share the encoder).

An encoder reads the rendered pair; segment means ``u`` (source) and ``v`` (target) and the first token are
joined as ``[first, u, v, |u - v|, u * v]``, and a small perceptron gives the logits named in ``OUTPUTS``.
Needs torch and transformers; the run-time path never imports this module.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from validity_graph.errors import MissingExtraError
from validity_graph.verifier.pairs import OPERATIONS, RESTS_ON

try:
    import torch
    from torch import nn
except ImportError:  # pragma: no cover - exercised by the blocked-extra test in a child process
    raise MissingExtraError("training the verifier", needs="torch", extra="train") from None


#: Logits that are always exported, in order; the operation head takes the last four.
EXPORTED = ("overturn", "same_proposition", "event", *(f"operation_{kind}" for kind in OPERATIONS))
#: Logits that only training uses: a head of their own for one-scene inference sets.
AUXILIARY = ("contradiction", "entailment")
#: ``RESTS_ON`` is exported where it was trained.
OUTPUTS = (*EXPORTED, *AUXILIARY, RESTS_ON)
HIDDEN = 256


class PairNetwork(nn.Module):
    """Encoder plus heads; ``forward`` maps ``(batch, length)`` to logits ``(batch, outputs)``."""

    def __init__(self, encoder: nn.Module, *, outputs: int = len(OUTPUTS)) -> None:
        """Wrap ``encoder``, any transformers model whose output has ``last_hidden_state``."""
        super().__init__()
        self.encoder = encoder
        config: Any = encoder.config
        width = int(config.hidden_size)
        self.hidden = nn.Linear(5 * width, HIDDEN)
        self.dropout = nn.Dropout(0.1)
        self.output = nn.Linear(HIDDEN, outputs)

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, token_type_ids: torch.Tensor
    ) -> torch.Tensor:
        """Return logits ``(batch, outputs)``; ``token_type_ids`` is 0 on the source side, 1 on the target."""
        known = {"input_ids": input_ids, "attention_mask": attention_mask}
        if getattr(self.encoder.config, "type_vocab_size", 0) > 1:
            known["token_type_ids"] = token_type_ids
        states = self.encoder(**known).last_hidden_state
        side = token_type_ids.to(states.dtype) * attention_mask.to(states.dtype)
        u = segment_mean(states, attention_mask.to(states.dtype) - side)
        v = segment_mean(states, side)
        joined = torch.cat([states[:, 0], u, v, (u - v).abs(), u * v], dim=-1)
        logits: torch.Tensor = self.output(self.dropout(torch.nn.functional.gelu(self.hidden(joined))))
        return logits


def segment_mean(states: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Mean of ``states`` ``(batch, length, width)`` over the tokens that ``weight`` marks."""
    total = (states * weight.unsqueeze(-1)).sum(dim=1)
    return total / weight.sum(dim=1, keepdim=True).clamp(min=1.0)


def load_encoder(path: str | Path, **options: Any) -> nn.Module:  # noqa: ANN401 - passed on as given
    """Load the encoder of any Hugging Face checkpoint folder (or hub name) without its own heads.

    Raises ``MissingExtraError`` without transformers.
    """
    try:
        from transformers import AutoModel
    except ImportError:
        raise MissingExtraError("loading a checkpoint", needs="transformers", extra="train") from None
    encoder: nn.Module = AutoModel.from_pretrained(str(path), **options)
    return encoder


def freeze(network: PairNetwork, *, layers: int) -> None:
    """Keep embeddings and the first ``layers`` layers of the encoder as they are; nothing where 0."""
    still = tuple(f"layer.{k}." for k in range(layers))
    for name, parameter in network.encoder.named_parameters():
        parameter.requires_grad = not (
            layers and ("embeddings" in name or any(part in name for part in still))
        )


def set_dropout(network: PairNetwork, probability: float) -> None:
    """Set every dropout; fresh generated pairs are seen once, so the default of training is none."""
    for module in network.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = probability
