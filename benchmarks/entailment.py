"""Real reasons: what must fall when a leaf of an entailment tree is removed, given and predicted structure.

    python -m benchmarks.entailment --data DIR --json OUT

EntailmentBank's dev trees; the train trees trained the scorer.  (a) *given*: each step is one justification
of its head.  (b) *predicted*: the structure is read from the texts alone by the scorer of support edges,
over capped candidates, each conclusion after its premises; a pair that reaches the threshold is an edge,
and alternatives are told apart by their words as in ``supports.grounds``.
Removing a leaf must fell exactly its ancestors in the tree.  ``right`` is the share of (removed leaf,
conclusion) pairs judged right, by depth of the conclusion: the longest way from it down to a leaf.

A node's gold premises are its direct ones; an edge from a deeper descendant counts as wrong in precision,
although it changes no verdict.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import reporting
from benchmarks.chain_study import SupportJudge
from benchmarks.structure import records
from validity_graph import kernels
from validity_graph.candidates import CandidateIndex
from validity_graph.records import Memory
from validity_graph.topology import build_topology

DECISION = 0.5
THRESHOLDS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
Row = dict[str, Any]
#: (premise, head, weight), by place in ``Tree.texts``.
Reason = tuple[int, int, float]


@dataclass(frozen=True)
class Tree:
    """One tree: texts in an order in which heads follow their premises; ``leaves`` are the first ones."""

    texts: tuple[str, ...]
    leaves: int
    steps: tuple[tuple[tuple[int, ...], int], ...]

    def ancestors(self, leaf: int) -> set[int]:
        """Return every conclusion that rests on ``leaf``."""
        found = {leaf}
        for premises, head in self.steps:
            if found & set(premises):
                found.add(head)
        return found - {leaf}

    def depth(self, head: int) -> int:
        """Return the number of steps on the longest way from ``head`` down to a leaf."""
        below = [self.depth(p) for premises, one in self.steps if one == head for p in premises]
        return 1 + max(below) if below else 0


#: From a tree and its reasons to the number of each one's justification.
Justifications = Callable[[Tree, Sequence[Reason]], list[int]]


def tree(record: Mapping[str, Any]) -> Tree:
    """Return one tree; a premise that the record does not name is left out."""
    names = [*record["leaves"], *dict.fromkeys(head for _, head in record["steps"])]
    place = {name: k for k, name in enumerate(names)}
    said = {**record["leaves"], **record["nodes"]}
    steps = tuple(
        (tuple(place[p] for p in premises if p in place), place[head]) for premises, head in record["steps"]
    )
    return Tree(tuple(said[name] for name in names), len(record["leaves"]), steps)


def given(one: Tree) -> list[Reason]:
    """Return the structure that comes with the tree."""
    return [(premise, head, 1.0) for premises, head in one.steps for premise in premises]


def scored(one: Tree, judge: SupportJudge) -> list[Reason]:
    """Return every proposed (premise, conclusion) with the probability that it is a reason."""
    index = CandidateIndex()
    index.extend((k, Memory(str(k), text)) for k, text in enumerate(one.texts))
    pairs = [(earlier, later) for later, earlier in index.pairs(range(one.leaves, len(one.texts)))]
    scores = judge.score([one.texts[a] for a, _ in pairs], [one.texts[b] for _, b in pairs])
    return [(a, b, float(score)) for (a, b), score in zip(pairs, scores, strict=True)]


def by_head(one: Tree, reasons: Sequence[Reason]) -> list[int]:
    """Return the justification of each reason where the reasons of one head stand together."""
    return [head for _, head, _ in reasons]


def by_words(one: Tree, reasons: Sequence[Reason]) -> list[int]:
    """Return the justification of each reason where alternatives are told apart as in ``supports``."""
    from validity_graph.supports import grounds

    found = np.zeros(len(reasons), dtype=np.int64)
    heads = np.array([head for _, head, _ in reasons], dtype=np.int64)
    for head in np.unique(heads):
        rows = np.flatnonzero(heads == head)
        group = grounds([one.texts[reasons[row][0]] for row in rows], one.texts[head])
        found[rows] = rows[group]
    return [int(number) for number in found]


def fallen(
    one: Tree, edges: Sequence[Reason], *, justification: Justifications = by_head
) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Remove each leaf by itself; return what falls, shape ``(leaves, texts)``."""
    topology = build_topology(
        len(one.texts),
        source=np.array([premise for premise, _, _ in edges], dtype=np.int64),
        target=np.array([head for _, head, _ in edges], dtype=np.int64),
        weight=np.array([strength for _, _, strength in edges], dtype=np.float64),
        supports=np.ones(len(edges), dtype=np.bool_),
        justification=np.array(justification(one, edges), dtype=np.int64),
        dtype=np.float64,
    )
    result = np.zeros((one.leaves, len(one.texts)), dtype=np.bool_)
    for leaf in range(one.leaves):
        direct = np.zeros(len(one.texts))
        direct[leaf] = 1.0
        result[leaf] = kernels.propagate(topology, direct).invalidity >= DECISION
    return result


def judged(
    trees: Sequence[Tree], reasons: Sequence[Sequence[Reason]], *, justification: Justifications = by_head
) -> dict[int, tuple[int, int]]:
    """Return (right, pairs) over removed leaves and conclusions, by depth of the conclusion."""
    count: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for one, edges in zip(trees, reasons, strict=True):
        fell = fallen(one, edges, justification=justification)
        for leaf in range(one.leaves):
            must = one.ancestors(leaf)
            for head in range(one.leaves, len(one.texts)):
                cell = count[one.depth(head)]
                cell[0] += bool(fell[leaf, head]) == (head in must)
                cell[1] += 1
    return {depth: (right, pairs) for depth, (right, pairs) in sorted(count.items())}


def share(count: Mapping[int, tuple[int, int]]) -> float:
    """Return the share of right pairs over all depths."""
    return float(
        sum(right for right, _ in count.values()) / max(1, sum(pairs for _, pairs in count.values()))
    )


def edge_quality(trees: Sequence[Tree], found: Sequence[Sequence[Reason]]) -> tuple[float, float]:
    """Return precision and recall of the predicted edges against the trees' own."""
    hit = made = true = 0
    for one, edges in zip(trees, found, strict=True):
        gold = {(a, b) for a, b, _ in given(one)}
        predicted = {(a, b) for a, b, _ in edges}
        hit, made, true = hit + len(gold & predicted), made + len(predicted), true + len(gold)
    return hit / max(1, made), hit / max(1, true)


def measure(
    trees: Sequence[Tree], judge: SupportJudge, *, chosen: float
) -> tuple[list[Row], dict[str, float]]:
    """Return rows by structure, threshold and depth, and the summary at the ``chosen`` threshold."""
    rows: list[Row] = []

    def note(structure: str, threshold: float | None, count: Mapping[int, tuple[int, int]]) -> None:
        for depth, (right, pairs) in count.items():
            where = {"structure": structure, "edge_threshold": threshold, "depth": depth}
            rows.append({**where, "pairs": pairs, "right": right / pairs})

    exact = judged(trees, [given(one) for one in trees])
    note("given", None, exact)
    guesses = [scored(one, judge) for one in trees]
    summary = {"given_right": share(exact)}
    for threshold in sorted({*THRESHOLDS, chosen}):
        edges = [[(a, b, 1.0) for a, b, weight in guess if weight >= threshold] for guess in guesses]
        count = judged(trees, edges, justification=by_words)
        precision, recall = edge_quality(trees, edges)
        note("predicted", threshold, count)
        total = {"structure": "predicted", "edge_threshold": threshold, "depth": None}
        rows.append({**total, "right": share(count), "precision": precision, "recall": recall})
        if threshold == chosen:
            summary |= {
                "predicted_right": share(count), "edge_precision": precision, "edge_recall": recall
            }  # fmt: skip
    return rows, summary


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.entailment", description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder that holds entailment_bank")
    parser.add_argument("--quick", action="store_true", help="the first twenty trees")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    from validity_graph.supports import THRESHOLD, SupportScorer

    folder = options.data / "entailment_bank"
    listed = records(folder if folder.is_dir() else options.data)
    trees = [tree(record) for record in listed if record["split"] == "dev"]
    rows, summary = measure(trees[:20] if options.quick else trees, SupportScorer.load(), chosen=THRESHOLD)
    by_depth = [
        row for row in rows if row["depth"] is not None and row["edge_threshold"] in (None, THRESHOLD)
    ]
    reporting.table("EntailmentBank dev: conclusions right after a leaf is removed, by depth", by_depth)
    reporting.table("Predicted edges by threshold", [row for row in rows if row["depth"] is None])
    print({name: round(value, 4) for name, value in summary.items()})
    reporting.write(options.json, benchmark="entailment", rows=rows, summary=summary)


if __name__ == "__main__":
    main()
