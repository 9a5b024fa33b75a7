"""The recipe of the shipped verifier: its base, its mixture of pairs, its validation pairs.

``python -m synthetic.verifier_recipe --data DIR -o FOLDER`` writes ``FOLDER/base`` (the base checkpoint
with more characters), ``FOLDER/pairs.jsonl`` (generated, free-form, unrelated and real pairs) and
``FOLDER/validation.jsonl``; then ``validity-graph train FOLDER/pairs.jsonl --base FOLDER/base -o WEIGHTS``
trains. ``DIR`` holds the real sets as ``*.jsonl.gz``.  Real inference sets assume one scene at one time,
so they train heads of their own; those whose pairs differ in one fact also train the overturn head, at a
lower weight.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from synthetic import pairs as generator

Row = dict[str, Any]
WRITTEN = Path(__file__).with_name("written_pairs.txt")
KINDS = {"+": "supersedes", "!": "retracts", "=": "confirms", "-": "none"}
FUNCTION_WORDS = frozenset("the a i is are to of in my and on at for it was has have with".split())


@dataclass(frozen=True)
class RealSet:
    """How one set of real pairs is used: at most ``cap`` pairs, shorter than ``characters`` together."""

    file: str
    cap: int
    prefix: str = ""
    overturns: bool = False
    characters: int = 420


REAL = (
    RealSet("cad_nli", 11_000, overturns=True),
    RealSet("breaking_nli", 5_000, overturns=True),
    RealSet("snli_devtest", 14_000),
    RealSet("summedits", 4_000, overturns=True),
    RealSet("fever_symmetric", 1_500),
    RealSet("fool_me_twice", 3_000),
    RealSet("openpi_states", 14_000, prefix="event_state", overturns=True),
    RealSet("openpi_states", 5_000, prefix="state_state", overturns=True),
    RealSet("conjnli", 1_000, prefix="conj_dev"),
    RealSet("kvpi_zh", 8_000, overturns=True),
    RealSet("jsick_ja", 8_000),
    RealSet("klue_nli_dev", 1_500, characters=110),
    RealSet("daccord_fr", 1_000),
    RealSet("indonli", 3_000, characters=200),
)
UPDATES, UPDATES_CAP = "sgd_updates", 18_000
REAL_WEIGHT = 0.7


def read_real(folder: Path, file: str) -> list[Row]:
    """Read one set of real pairs, without those whose label is unknown."""
    with gzip.open(folder / f"{file}.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [row for row in rows if row["label"] != "respecified"]


def real_pairs(folder: Path, rng: random.Random) -> Iterator[Row]:
    """Yield the real pairs of the mixture."""
    for use in REAL:
        rows = [
            row
            for row in read_real(folder, use.file)
            if row.get("stratum", "").startswith(use.prefix)
            and len(row["source"]) + len(row["target"]) < use.characters
        ]
        rng.shuffle(rows)
        if use.file == "breaking_nli":
            rows = balanced(rows)
        for row in rows[: use.cap]:
            yield inference_pair(row, use)
    updates = read_real(folder, UPDATES)
    rng.shuffle(updates)
    for row in updates[:UPDATES_CAP]:
        yield {
            "source": row["source"], "target": row["target"], "overturn": int(row["label"] == "overturn"),
            "lang": "en", "stratum": UPDATES, "group": UPDATES + row["source"], "weight": REAL_WEIGHT,
        }  # fmt: skip


def balanced(rows: Sequence[Row]) -> list[Row]:
    """At most three overturning pairs for each other one, and the others twice."""
    over = [row for row in rows if row["label"] == "overturn"]
    other = [row for row in rows if row["label"] != "overturn"]
    return [*over[: 3 * len(other)], *other, *other]


def inference_pair(row: Row, use: RealSet) -> Row:
    """Label one inference pair: contradiction and entailment, and overturn where the set allows it."""
    label = row["label"]
    found: Row = {
        "source": row["source"], "target": row["target"], "contradiction": int(label == "overturn"),
        "entailment": None if label == "not_overturn" else int(label == "support"),
        "lang": row["lang"], "stratum": use.file, "group": use.file + row["target"], "weight": 1.0,
    }  # fmt: skip
    if use.overturns:
        found |= {"overturn": int(label == "overturn"), "weight": REAL_WEIGHT}
    return found


def written_pairs(path: Path = WRITTEN) -> Iterator[Row]:
    """Yield the free-form pairs; the format stands at the head of the file.

    Every source meets every statement of its block: T with the label of its mark, D always without effect.
    """
    for number, block in enumerate(blocks(path.read_text(encoding="utf-8").splitlines())):
        statements = [text for mark, text in block if mark == "T"]
        asides = [text for mark, text in block if mark == "D"]
        sources = [(KINDS[mark], text) for mark, text in block if mark in KINDS]
        group = f"written{number}"
        for target in statements:
            yield from (labelled(text, target, kind, group=group) for kind, text in sources)
            yield from (
                labelled(text, target, "confirms", group=group) for text in statements if text != target
            )
            yield from (labelled(text, target, "none", group=group) for text in asides)
        for target in asides:
            yield from (labelled(text, target, "none", group=group) for _, text in sources)
            yield from (labelled(text, target, "none", group=group) for text in statements)


def labelled(source: str, target: str, kind: str, *, group: str) -> Row:
    """One free-form pair; whether a source without effect is an event is left unknown."""
    over = kind in ("supersedes", "retracts")
    return {
        "source": source, "target": target, "overturn": int(over), "operation": kind,
        "same_proposition": None if kind == "none" else 1, "event": 1 if over else None,
        "stratum": f"written_{kind}", "group": group, "lang": "", "domain": "",
    }  # fmt: skip


def blocks(lines: Iterable[str]) -> Iterator[list[tuple[str, str]]]:
    """Group marked lines into blocks at blank lines; comments are left out.

    Raises ``ValueError`` with the line for a mark that the format does not know.
    """
    block: list[tuple[str, str]] = []
    for line in lines:
        text = line.strip()
        if text.startswith("#"):
            continue
        if not text:
            if block:
                yield block
            block = []
            continue
        mark, rest = text[0], text[1:].removeprefix(":").strip()
        if mark not in {"T", "D", *KINDS} or not rest:
            raise ValueError(f"written pairs: {line!r} starts with none of T: D: + ! = -")
        block.append((mark, rest))
    if block:
        yield block


def unrelated_pairs(pool: Sequence[Row], count: int, rng: random.Random) -> Iterator[Row]:
    """Yield pairs of texts from different scenes and domains, mostly without a shared content word."""
    found = 0
    while found < count:
        a, b = rng.choice(pool), rng.choice(pool)
        shared = (set(a["source"].lower().split()) & set(b["target"].lower().split())) - FUNCTION_WORDS
        if a["domain"] == b["domain"] or (shared and rng.random() < 0.8):
            continue
        bare = rng.random() < 0.35
        side = "target" if rng.random() < 0.8 else "source"
        yield {
            "source": a["target"] if bare else a["source"], "target": b[side],
            "overturn": 0, "same_proposition": 0, "event": None if bare else a["event"], "operation": "none",
            "lang": a["lang"], "stratum": "easy_unrelated", "group": f"unrelated{found}", "weight": 1.5,
        }  # fmt: skip
        found += 1


def generated_pairs(seed: int, count: int, *, split: generator.Split) -> list[Row]:
    """Pairs of the generator as rows with labels 0 and 1."""
    rows = [asdict(pair) for pair in generator.generate(seed, count, split=split)]
    for row in rows:
        row |= {key: int(row[key]) for key in ("overturn", "same_proposition", "event")}
    return rows


def extend_characters(
    folder: Path, output: Path, *, texts: Iterable[str], more: int = 2400, seed: int = 7
) -> int:
    """Give a BERT checkpoint one token for each frequent CJK character that it lacks; returns how many.

    Its ``[unusedN]`` entries are renamed first, then ``more`` rows are added; they start as draws around
    the mean of the characters that it knows.  Characters come in the order of their frequency in
    ``texts``, then those of GB 2312 level 1 and JIS X 0208 level 1.
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


def is_ideograph(token: str) -> bool:
    """Whether ``token`` is one CJK ideograph."""
    return len(token) == 1 and "\u3400" <= token <= "\u9fff"


def common_ideographs() -> list[str]:
    """Ideographs of GB 2312 level 1 and of JIS X 0208 level 1, from Python's own codecs."""
    found = []
    for codec, rows in (("gb2312", range(0xB0, 0xD8)), ("euc_jp", range(0xB0, 0xD0))):
        for high in rows:
            found += [c for low in range(0xA1, 0xFF) if is_ideograph(c := _decoded(high, low, codec))]
    return found


def _decoded(high: int, low: int, codec: str) -> str:
    return bytes([high, low]).decode(codec, errors="ignore")


def mixture(folder: Path, *, seed: int, generated: int, unrelated: int, repeats: int) -> list[Row]:
    """All training pairs, shuffled; free-form pairs count ``repeats`` times."""
    rng = random.Random(seed)
    own = generated_pairs(seed, generated, split="train")
    rows = [
        *own,
        *unrelated_pairs(own, unrelated, rng),
        *real_pairs(folder, rng),
        *list(written_pairs()) * repeats,
    ]
    rng.shuffle(rows)
    return rows


def write(path: Path, rows: Iterable[Row]) -> None:
    """Write rows as JSON lines."""
    with path.open("w", encoding="utf-8") as lines:
        for row in rows:
            lines.write(json.dumps(row, ensure_ascii=False) + "\n")


def main() -> None:
    """Command line: see the module's first lines."""
    from validity_graph.verifier.train import base_folder

    parser = argparse.ArgumentParser(
        description="Write the base and the pairs that the shipped weights come from."
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of the real sets, *.jsonl.gz")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=303)
    parser.add_argument("--generated", type=int, default=90_000)
    parser.add_argument("--unrelated", type=int, default=15_000)
    parser.add_argument("--repeats", type=int, default=4)
    given = parser.parse_args()
    (given.output / "base").mkdir(parents=True, exist_ok=True)
    asian = [
        r[k]
        for file in ("jsick_ja", "kvpi_zh")
        for r in read_real(given.data, file)
        for k in ("source", "target")
    ]
    extend_characters(base_folder(), given.output / "base", texts=asian)
    rows = mixture(
        given.data,
        seed=given.seed,
        generated=given.generated,
        unrelated=given.unrelated,
        repeats=given.repeats,
    )
    write(given.output / "pairs.jsonl", rows)
    write(given.output / "validation.jsonl", generated_pairs(5, 2_000, split="validation"))


if __name__ == "__main__":
    main()
