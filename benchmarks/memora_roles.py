"""Judges, in real conversations, which of several candidates a later statement overturns.

    python -m benchmarks.memora_roles --data DIR --period monthly --json OUT

Every (source, candidate) pair of a Memora group is judged on its own, each text with its context; a group
is right only when all its candidates are ([V3] section 9, group-all-correct).  *Rule-hard* groups are
those with a target that both rules get wrong: most token overlap with the source, and the newest candidate
on the topic.  *Both-failed* groups are those that the overlap rule and the zero-shot cosine get wrong.
Baselines point at one candidate a group.
Operations are averaged with equal weight, because deletions that repeat the old item are the bulk.
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from benchmarks import reporting
from benchmarks.memora_data import FAMILY, Group, groups

if TYPE_CHECKING:
    from validity_graph.verifier import Verifier

FloatArray = NDArray[np.float64]


class Scorer(Protocol):
    """Scores (source, target) pairs."""

    def __call__(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        source_contexts: Sequence[str],
        target_contexts: Sequence[str],
    ) -> FloatArray:
        """Return scores in [0, 1]; a context says what its text is about, "" for none."""


THRESHOLD = 0.5
#: Strata that the table shows for baselines too; the JSON has all of them.
SHOWN = ("clean", "all", "clean, rule-hard", "clean, both-failed", "clean, operations averaged")
#: A candidate is on the topic when it has at least this share of the group's highest token overlap.
ON_TOPIC = 0.5
CUES = re.compile(
    r"\b(no longer|not .{0,20}any ?more|any ?more|used to|changed?|chang(?:ing|es)|switch(?:ed|ing)?|"
    r"instead|now|updat(?:e|ed|ing)|revis(?:e|ed|ing)|revert(?:ed|ing)?|remov(?:e|ed|ing)|"
    r"delet(?:e|ed|ing)|cancel(?:l?ed|ling)?|"
    r"reschedul(?:e|ed|ing)|moved?|finish(?:ed|ing)?|complet(?:e|ed|ing)|done|already|stop(?:ped)?|"
    r"quit|gone off|drop(?:ped)?|won't|can't|couldn't|lately|actually|shifted|outgr(?:ew|own)|grew out)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Judged:
    """A group, with a score and a verdict for each candidate, targets first."""

    group: Group
    score: FloatArray
    flagged: NDArray[np.bool_]

    @property
    def truth(self) -> NDArray[np.bool_]:
        """Which candidates are overturned."""
        return np.arange(len(self.group.candidates)) < len(self.group.targets)

    @property
    def right(self) -> bool:
        """Whether every candidate is judged right."""
        return bool((self.flagged == self.truth).all())


def by_threshold(listed: Sequence[Group], score: Scorer) -> list[Judged]:
    """Judge every pair on its own, in one batch."""
    pairs = [(group, node) for group in listed for node in group.candidates]
    scores = score(
        [group.source for group, _ in pairs],
        [node.text for _, node in pairs],
        source_contexts=[group.source_context for group, _ in pairs],
        target_contexts=[node.context for _, node in pairs],
    )
    cuts = np.cumsum([len(group.candidates) for group in listed])[:-1]
    parts = np.split(np.asarray(scores, dtype=np.float64), cuts)
    return [Judged(group, part, part >= THRESHOLD) for group, part in zip(listed, parts, strict=True)]


def by_best(listed: Sequence[Group], score: Callable[[Group], FloatArray]) -> list[Judged]:
    """Flag the one highest candidate of each group, the newer of equals; none where all are 0."""
    judged = []
    for group in listed:
        scores = score(group)
        newest = np.lexsort(([node.turn for node in group.candidates], [n.session for n in group.candidates]))
        best = max(newest[::-1], key=lambda k: scores[k])
        flagged = np.zeros(len(scores), dtype=np.bool_)
        flagged[best] = scores[best] > 0.0
        judged.append(Judged(group, scores, flagged))
    return judged


def tokens(text: str) -> set[str]:
    """Return the distinct words of ``text``, case-folded."""
    return set(re.findall(r"\w+", text.casefold()))


def overlap(group: Group) -> FloatArray:
    """Return the Jaccard overlap of each candidate's words with the source's."""
    source = tokens(group.source_reading)
    found = [tokens(node.reading) for node in group.candidates]
    return np.array([len(source & words) / max(1, len(source | words)) for words in found])


def newest_on_topic(group: Group) -> FloatArray:
    """Return the age rank (newest 1) of candidates on the topic, 0 off it."""
    shared = overlap(group)
    order = sorted((node.session, node.turn, k) for k, node in enumerate(group.candidates))
    rank = np.zeros(len(order))
    for place, (_, _, k) in enumerate(order, start=1):
        rank[k] = place / len(order)
    return np.where((shared > 0) & (shared >= ON_TOPIC * shared.max()), rank, 0.0)


def cosines(listed: Sequence[Group]) -> Callable[[Group], FloatArray]:
    """Return a function that looks up each group's cosines by the static embedding, clipped at 0."""
    from validity_graph import embedding

    table = embedding.StaticEmbedding.load()
    source = table.encode([group.source_reading for group in listed])
    found = {}
    for vector, group in zip(source, listed, strict=True):
        candidates = table.encode([node.reading for node in group.candidates])
        found[group.id] = np.maximum(0.0, (candidates @ vector).astype(np.float64))
    return lambda group: found[group.id]


def average_precision(truth: NDArray[np.bool_], score: FloatArray) -> float:
    """Return the mean precision over the positives, equal scores taken together; NaN without positives."""
    if not truth.any():
        return float("nan")
    levels, inverse = np.unique(-score, return_inverse=True)
    hits = np.bincount(inverse, weights=truth, minlength=len(levels))
    seen = np.bincount(inverse, minlength=len(levels))
    return float((hits * np.cumsum(hits) / np.cumsum(seen)).sum() / hits.sum())


def measures(judged: Sequence[Judged]) -> dict[str, float]:
    """Return groups, pairs, all-correct share and pair accuracy, precision, recall, average precision."""
    if not judged:
        return {"groups": 0, "pairs": 0}
    truth = np.concatenate([item.truth for item in judged])
    flagged = np.concatenate([item.flagged for item in judged])
    score = np.concatenate([item.score for item in judged])
    hit = int((truth & flagged).sum())
    return {
        "groups": len(judged),
        "pairs": len(truth),
        "all_correct": float(np.mean([item.right for item in judged])),
        "accuracy": float((truth == flagged).mean()),
        "precision": hit / max(1, int(flagged.sum())),
        "recall": hit / max(1, int(truth.sum())),
        "ap": average_precision(truth, score),
    }


def macro(judged: Sequence[Judged]) -> dict[str, float]:
    """Return the pair measures, each operation with equal weight."""
    by_operation = defaultdict(list)
    for item in judged:
        by_operation[item.group.operation].append(item)
    each = [measures(listed) for listed in by_operation.values()]
    return {
        name: float(np.nanmean([row[name] for row in each]))
        for name in ("accuracy", "precision", "recall", "ap")
        if each
    }


def strata(judged: Sequence[Judged], hard: set[str], both: set[str]) -> dict[str, list[Judged]]:
    """Return the groups by what is reported: clean, all, hard subsets, families and operations."""
    clean = [item for item in judged if item.group.clean]
    found = {
        "clean": clean,
        "all": list(judged),
        "clean, rule-hard": [item for item in clean if item.group.id in hard],
        "clean, both-failed": [item for item in clean if item.group.id in both],
    }
    for name in sorted(set(FAMILY.values())):
        found[f"clean, {name}"] = [item for item in clean if FAMILY.get(item.group.operation) == name]
    for name in sorted({item.group.operation for item in clean}):
        found[f"clean, {name} only"] = [item for item in clean if item.group.operation == name]
    return {name: listed for name, listed in found.items() if listed}


def wrong(judged: Sequence[Judged]) -> set[str]:
    """Return the ids of the groups that are not right."""
    return {item.group.id for item in judged if not item.right}


def measure(listed: Sequence[Group], score: Scorer | None) -> tuple[list[dict[str, Any]], dict[str, float]]:
    """Return rows by judge and stratum, and the summary; without ``score`` the baselines alone."""
    cosine = cosines(listed)
    judges: dict[str, list[Judged]] = {} if score is None else {"verifier": by_threshold(listed, score)}
    judges["token overlap"] = by_best(listed, overlap)
    judges["newest on topic"] = by_best(listed, newest_on_topic)
    judges["cosine"] = by_best(listed, cosine)
    judges["cue x cosine"] = by_best(
        listed, lambda group: cosine(group) * bool(CUES.search(group.source_reading))
    )
    # A rule that always points at a candidate fails a group without a target for another reason.
    pointed = {group.id for group in listed if group.targets}
    hard = wrong(judges["token overlap"]) & wrong(judges["newest on topic"]) & pointed
    both = wrong(judges["token overlap"]) & wrong(judges["cosine"]) & pointed
    rows = [
        {"judge": judge, "stratum": stratum} | measures(part)
        for judge, judged in judges.items()
        for stratum, part in strata(judged, hard, both).items()
    ]
    rows += [
        {"judge": judge, "stratum": "clean, operations averaged"}
        | macro([item for item in judged if item.group.clean])
        for judge, judged in judges.items()
    ]
    return rows, summary_of(rows)


def summary_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the numbers under their fixed names."""
    cell = {(row["judge"], row["stratum"]): row for row in rows}
    wanted = {
        "clean_all_correct": ("verifier", "clean", "all_correct"),
        "all_all_correct": ("verifier", "all", "all_correct"),
        "pair_ap": ("verifier", "clean, operations averaged", "ap"),
        "pair_precision": ("verifier", "clean, operations averaged", "precision"),
        "pair_recall": ("verifier", "clean, operations averaged", "recall"),
        "preference_ap": ("verifier", "clean, preference", "ap"),
        "goal_all_correct": ("verifier", "clean, goal", "all_correct"),
        "budget_revised_all_correct": ("verifier", "clean, budget_revised only", "all_correct"),
        "rule_hard_all_correct": ("verifier", "clean, rule-hard", "all_correct"),
        "both_failed_all_correct": ("verifier", "clean, both-failed", "all_correct"),
        "overlap_all_correct": ("token overlap", "clean", "all_correct"),
        "newest_all_correct": ("newest on topic", "clean", "all_correct"),
        "cosine_all_correct": ("cosine", "clean", "all_correct"),
        "cue_cosine_all_correct": ("cue x cosine", "clean", "all_correct"),
        "cue_cosine_ap": ("cue x cosine", "clean, operations averaged", "ap"),
    }
    return {name: cell[j, s][column] for name, (j, s, column) in wanted.items() if (j, s) in cell}


def gate_of(verifier: Verifier) -> Scorer:
    """Return the gate of ``verifier`` as a scorer."""
    return lambda sources, targets, **contexts: np.asarray(
        verifier.score(sources, targets, **contexts).gate, dtype=np.float64
    )


def verifier_scorer() -> Scorer:
    """Return the shipped verifier's gate as a scorer."""
    from validity_graph.verifier import Verifier

    return gate_of(Verifier.load())


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.memora_roles", description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder that holds memora")
    parser.add_argument("--period", default="monthly")
    parser.add_argument("--baselines", action="store_true", help="leave the verifier out")
    parser.add_argument("--quick", action="store_true", help="every tenth group")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    listed = groups(options.data, period=options.period)[:: 10 if options.quick else 1]
    rows, summary = measure(listed, None if options.baselines else verifier_scorer())
    shown = [row for row in rows if row["judge"] == "verifier" or row["stratum"] in SHOWN]
    reporting.table(f"Memora roles, {options.period}", shown)
    reporting.write(options.json, benchmark="memora_roles", rows=rows, summary=summary, period=options.period)


if __name__ == "__main__":
    main()
