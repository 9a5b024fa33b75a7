"""Pairs as batches of token arrays, and the settings that shape a run.

Length-sorted batches in an order that depends on seed and epoch alone, so an interrupted run goes on where it
stopped.  Needs torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from validity_graph.errors import MissingExtraError
from validity_graph.verifier import rendering
from validity_graph.verifier.pairs import Pair, binary_labels, operation_labels, stratified_weight
from validity_graph.verifier.reading import side_of_tokens

try:
    import torch
except ImportError:
    raise MissingExtraError("training the verifier", needs="torch", extra="train") from None

if TYPE_CHECKING:
    from tokenizers import Tokenizer


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that shapes a run; written to the manifest.

    Pairs are cut at ``max_length`` tokens in training; ``read_length`` is the window of the shipped head.
    Embeddings and the first ``frozen_layers`` layers of the encoder stay as they are where that is over 0.
    With ``int4`` the encoder learns with 4-bit weights (``quantization_aware``), as a second head ships them;
    with ``compact`` only the embeddings do, as the cheap head ships them.
    """

    seed: int = 7
    epochs: float = 2.0
    batch_size: int = 64
    max_length: int = 96
    read_length: int = 160
    learning_rate: float = 1.5e-4
    warmup: float = 0.05
    final_rate: float = 0.02
    weight_decay: float = 0.01
    hard_focus_multiplier: float = 4.0
    pos_multiplier: float = 3.0
    validation_fraction: float = 0.05
    evaluate_every: int = 200
    patience: int = 6
    checkpoint_seconds: float = 180.0
    threads: int = 2
    dropout: float = 0.0
    frozen_layers: int = 0
    int4: bool = False
    compact: bool = False
    rendering: str = "short"


@dataclass(frozen=True, slots=True)
class Encoded:
    """Pairs as token arrays and labels: ragged ``ids`` and ``types``, dense labels and weights."""

    ids: list[NDArray[np.int64]]
    types: list[NDArray[np.int64]]
    binary: NDArray[np.float32]
    operation: NDArray[np.int64]
    weight: NDArray[np.float64]

    @property
    def length(self) -> NDArray[np.int64]:
        """Tokens per pair, shape ``(n,)``."""
        return np.array([len(row) for row in self.ids], dtype=np.int64)


def encode(pairs: Sequence[Pair], *, tokenizer: Tokenizer, settings: Settings) -> Encoded:
    """Turn pairs into token arrays; a pair over ``max_length`` loses the end of its longer side."""
    render = rendering.named(settings.rendering)
    texts = [render(pair.source, pair.target, domain=pair.domain) for pair in pairs]
    tokenizer.enable_truncation(settings.max_length, strategy="longest_first")
    rows = tokenizer.encode_batch(texts)
    tokenizer.no_truncation()
    return Encoded(
        ids=[np.array(row.ids, dtype=np.int64) for row in rows],
        types=[np.array(side_of_tokens(row.sequence_ids, len(row.ids)), dtype=np.int64) for row in rows],
        binary=binary_labels(pairs),
        operation=operation_labels(pairs),
        weight=stratified_weight(
            pairs,
            hard_focus_multiplier=settings.hard_focus_multiplier,
            pos_multiplier=settings.pos_multiplier,
        ),
    )


def batches(data: Encoded, *, settings: Settings, epoch: int) -> Iterator[NDArray[np.int64]]:
    """Yield index arrays: shuffled by seed and epoch, sorted by length inside blocks of fifty batches."""
    rng = np.random.default_rng([settings.seed, epoch])
    order = rng.permutation(len(data.ids))
    length = data.length
    block = settings.batch_size * 50
    chunks: list[NDArray[np.int64]] = []
    for start in range(0, len(order), block):
        part = order[start : start + block]
        part = part[np.argsort(length[part], kind="stable")]
        chunks += [part[i : i + settings.batch_size] for i in range(0, len(part), settings.batch_size)]
    for i in rng.permutation(len(chunks)):
        yield chunks[i]


def collate(data: Encoded, index: NDArray[np.int64]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Pad the rows ``index`` to their longest: ids, mask and sides, each ``(batch, length)``."""
    width = max(len(data.ids[i]) for i in index)
    ids, mask, types = (np.zeros((len(index), width), dtype=np.int64) for _ in range(3))
    for row, i in enumerate(index):
        size = len(data.ids[i])
        ids[row, :size], mask[row, :size], types[row, :size] = data.ids[i], 1, data.types[i]
    return torch.from_numpy(ids), torch.from_numpy(mask), torch.from_numpy(types)
