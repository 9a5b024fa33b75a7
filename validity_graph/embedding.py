"""Light sentence embeddings: a static table of token vectors, averaged.

Knows texts only; needs neither torch nor onnxruntime.  The table (256 dimensions, int8 with one scale
a row) is distilled from all-MiniLM-L6-v2 (Apache-2.0) by ``synthetic/distill_embedding.py``, after
model2vec (Tulkens and van Dongen, 2024) and Arora, Liang and Ma (2017).  Loaded on first use.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from validity_graph.errors import InputError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

FloatArray = NDArray[np.float32]

WEIGHTS = Path(__file__).parent / "embedding_weights"
TABLE = "table.npz"
TOKENIZER = "tokenizer.json"

#: Later tokens of a very long text are ignored; a memory is rarely longer than a page.
MAX_TOKENS = 2048


class StaticEmbedding:
    """Mean of token vectors, scaled to length 1."""

    def __init__(self, vectors: FloatArray, tokenizer: Tokenizer) -> None:
        """``vectors`` has shape ``(vocabulary, width)``; the tokenizer's ids index its rows."""
        self._vectors = vectors
        self._tokenizer = tokenizer

    @classmethod
    def load(cls, folder: Path = WEIGHTS) -> StaticEmbedding:
        """Read ``table.npz`` (``value`` int8, ``scale`` float16) and ``tokenizer.json`` from ``folder``.

        Raises ``InputError`` when a file is missing or its arrays do not fit each other.
        """
        from tokenizers import Tokenizer

        for name in (TABLE, TOKENIZER):
            if not (folder / name).is_file():
                raise InputError(f"no {name} in {folder}; make it with python -m synthetic.distill_embedding")
        with np.load(folder / TABLE, allow_pickle=False) as arrays:
            value, scale = arrays["value"], arrays["scale"]
        if value.ndim != 2 or scale.shape != value.shape[:1]:
            raise InputError(f"{folder / TABLE}: value {value.shape} and scale {scale.shape} do not fit")
        tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
        tokenizer.no_padding()
        tokenizer.enable_truncation(MAX_TOKENS)
        return cls(value.astype(np.float32) * scale.astype(np.float32)[:, None], tokenizer)

    @property
    def width(self) -> int:
        """Return the number of dimensions of a vector."""
        return int(self._vectors.shape[1])

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Return unit vectors, shape ``(len(texts), width)``; a text without known tokens gets zeros.

        The dot product of two rows is their cosine, in [-1, 1].
        """
        encoded = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        lengths = np.array([len(item.ids) for item in encoded], dtype=np.int64)
        out = np.zeros((len(encoded), self.width), dtype=np.float32)
        filled = np.flatnonzero(lengths)
        if len(filled):
            ids = np.concatenate([np.asarray(encoded[row].ids, dtype=np.int64) for row in filled])
            starts = np.concatenate([[0], np.cumsum(lengths[filled])[:-1]])
            out[filled] = np.add.reduceat(self._vectors[ids], starts, axis=0)
        norm = np.linalg.norm(out, axis=1, keepdims=True)
        return np.asarray(out / np.where(norm > 0.0, norm, 1.0), dtype=np.float32)


@lru_cache(maxsize=1)
def shipped() -> StaticEmbedding | None:
    """Return the table that comes with the package, loaded once; ``None`` where it was left out."""
    if not (WEIGHTS / TABLE).is_file() or not (WEIGHTS / TOKENIZER).is_file():
        return None
    return StaticEmbedding.load()
