"""Judges pairs of encyclopaedic facts: same slot and another value, against the nearest other slots.

    python -m benchmarks.factconsolidation_pairs --data DIR --json OUT

Positives: a later sentence of the same (subject, relation) with another object overturns the earlier one.
Controls, one of each for every positive's target: the later sentence with most words in common among those
of the same relation and another subject, and among those of the same subject and another relation.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import reporting
from benchmarks.memora_roles import THRESHOLD, FloatArray, Scorer, average_precision, tokens, verifier_scorer

KINDS = ("same slot", "other subject", "other relation")


@dataclass(frozen=True)
class Fact:
    """One numbered sentence of one set."""

    serial: int
    subject: str
    relation: str
    object: str
    sentence: str


@dataclass(frozen=True)
class Pair:
    """A later and an earlier sentence, and which of ``KINDS`` they are."""

    source: str
    target: str
    kind: str


def read(data: Path) -> Iterator[list[Fact]]:
    """Yield the facts of each set, by serial."""
    folder = data / "factconsolidation"
    path = (folder if folder.is_dir() else data) / "facts.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            facts = [Fact(*fact) for fact in json.loads(line)["facts"]]
            yield sorted(facts, key=lambda fact: fact.serial)


def pairs(facts: Sequence[Fact]) -> list[Pair]:
    """Return every positive with its controls."""
    by_subject, by_relation = defaultdict(list), defaultdict(list)
    for fact in facts:
        by_subject[fact.subject].append(fact)
        by_relation[fact.relation].append(fact)
    found = []
    for target in facts:
        for source in by_subject[target.subject]:
            if source.serial <= target.serial or source.relation != target.relation:
                continue
            if source.object == target.object:
                continue
            found.append(Pair(source.sentence, target.sentence, "same slot"))
            others = [fact for fact in by_relation[target.relation] if fact.subject != target.subject]
            found += nearest(target, others, kind="other subject")
            others = [fact for fact in by_subject[target.subject] if fact.relation != target.relation]
            found += nearest(target, others, kind="other relation")
    return found


def nearest(target: Fact, others: Sequence[Fact], *, kind: str) -> list[Pair]:
    """Return the later sentence with most words in common, the first of equals; none where none is later."""
    later = [fact for fact in others if fact.serial > target.serial]
    if not later:
        return []
    words = tokens(target.sentence)

    def shared(fact: Fact) -> float:
        other = tokens(fact.sentence)
        return len(words & other) / len(words | other)

    best = max(later, key=lambda fact: (shared(fact), -fact.serial))
    return [Pair(best.sentence, target.sentence, kind)]


def measure(listed: Sequence[Pair], score: Scorer) -> tuple[list[dict[str, Any]], dict[str, float]]:
    """Return one row a kind and the summary."""
    scores = np.asarray(score([p.source for p in listed], [p.target for p in listed]), dtype=np.float64)
    kind = np.array([pair.kind for pair in listed])
    truth = kind == KINDS[0]
    right = (scores >= THRESHOLD) == truth
    rows = [
        {
            "kind": name,
            "pairs": int((kind == name).sum()),
            "accuracy": float(right[kind == name].mean()),
            "median_score": float(np.median(scores[kind == name])),
        }
        for name in KINDS
        if (kind == name).any()
    ]
    rows.append({"kind": "all", "pairs": len(listed), "accuracy": float(right.mean()), "median_score": None})
    summary = {"accuracy": float(right.mean()), "ap": average_precision(truth, scores)}
    slots = np.isin(kind, KINDS[:2])
    summary["accuracy/other_subject"] = float(right[slots].mean())
    summary |= {f"accuracy/{row['kind'].replace(' ', '_')}": row["accuracy"] for row in rows[:1]}
    return rows, summary


def overlap_scorer(sources: Sequence[str], targets: Sequence[str]) -> FloatArray:
    """Return the Jaccard overlap of words, the baseline."""
    found = [(tokens(source), tokens(target)) for source, target in zip(sources, targets, strict=True)]
    return np.array([len(left & right) / max(1, len(left | right)) for left, right in found])


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="benchmarks.factconsolidation_pairs", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--data", type=Path, required=True, help="folder that holds factconsolidation")
    parser.add_argument("--baselines", action="store_true", help="leave the verifier out")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    listed = [pair for facts in read(options.data) for pair in pairs(facts)]
    baseline, overlap = measure(listed, overlap_scorer)
    reporting.table("FactConsolidation pairs, token overlap", baseline)
    rows = [{"judge": "token overlap", **row} for row in baseline]
    summary = {"overlap_accuracy": overlap["accuracy"], "overlap_ap": overlap["ap"]}
    if not options.baselines:
        judged, measured = measure(listed, verifier_scorer())
        reporting.table("FactConsolidation pairs, verifier", judged)
        rows += [{"judge": "verifier", **row} for row in judged]
        summary |= measured
    reporting.write(options.json, benchmark="factconsolidation_pairs", rows=rows, summary=summary)


if __name__ == "__main__":
    main()
