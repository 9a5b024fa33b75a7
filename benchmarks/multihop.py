"""Multi-hop validity: an update at the head of a chain, asked about at its end ([V3] sections 8 and 10).

    python -m benchmarks.multihop --seeds 7 11 23 31 47 --json OUT

The cases are ``synthetic.chains``; [V3]'s benchmark text is not public, so only the order of the rows is
comparable with its Table 3, not the figures.  Rows: *recency* (share of the case's memories newer than the
target), *relevance* (cosine of static embeddings of the target and the nearest later turn: a light
stand-in for the relevance cross-encoder of [V3]), *single text* (how much a later turn looks like a change,
target unseen), *single hop* (the verifier on later turn and target), *learned graph* (support edges
inferred from text; only where ``validity_graph.supports`` is there), *given graph*, and *oracle* (given
graph and true overturns).  One decision threshold a seed and fold, chosen on the other folds; folds are
whole domains. *Single hop* takes the thresholds of *given graph*: the same scores without propagation.  The
harder set is judged by the thresholds of the main set.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import chain_study as study
from benchmarks import reporting
from benchmarks.chain_study import Batch, Floats, Judge, SupportJudge
from synthetic.chains import COUNTS, SEEDS, cases
from synthetic.harder_chains import HARDER, harder
from validity_graph import embedding
from validity_graph.records import OVERTURNS, Edge

FOLDS = 5
EDGE_THRESHOLDS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
SINGLE_HOP, LEARNED, GIVEN, ORACLE = "single hop", "learned graph", "given graph", "oracle"
#: One in so many cases is used with ``--quick``.
QUICK = 8
Row = dict[str, Any]


@dataclass(frozen=True)
class Judged:
    """One batch with what the verifier made of it and, where there is a scorer, the inferred reasons."""

    batch: Batch
    edges: list[Edge]
    score: dict[str, Floats]
    reasons: list[tuple[study.Pair, float]]


def support_judge() -> SupportJudge | None:
    """Return the packaged scorer of support edges, ``None`` where the package has none."""
    if importlib.util.find_spec("validity_graph.supports") is None:
        return None
    module = importlib.import_module("validity_graph.supports")
    loaded: SupportJudge = module.SupportScorer.load()
    return loaded


def support_threshold() -> float:
    """Return the packaged threshold, which was chosen on training data."""
    return float(importlib.import_module("validity_graph.supports").THRESHOLD)


def judge_batch(batch: Batch, judge: Judge, supports: SupportJudge | None) -> Judged:
    """Score one batch by every method: one call to the verifier for pairs, one for single texts."""
    pairs = list(dict.fromkeys([*batch.proposed, *batch.direct]))
    scores = study.ask(judge, batch, pairs)
    place = {pair: k for k, pair in enumerate(pairs)}
    proposed = study.take(scores, np.array([place[pair] for pair in batch.proposed], dtype=np.int64))
    straight = study.take(scores, np.array([place[pair] for pair in batch.direct], dtype=np.int64))
    edges = study.spoken(batch, batch.proposed, proposed)
    hop = study.spoken(batch, batch.direct, straight)
    structure = study.given(batch)
    score = {
        "recency": recency(batch),
        "relevance": relevance(batch),
        "single text": study.per_case(batch, study.ask_alone(judge, batch)),
        SINGLE_HOP: study.direct(batch, hop),
    }
    found: list[tuple[study.Pair, float]] = []
    if supports is not None:
        found = study.reasons(supports, batch, edges)
        guess = study.inferred(batch, found, threshold=support_threshold())
        score[LEARNED] = study.invalidity(batch, edges + guess)
    score[GIVEN] = study.invalidity(batch, edges + structure)
    score[ORACLE] = study.invalidity(batch, study.true_edges(batch) + structure)
    return Judged(batch, edges, score, found)


def recency(batch: Batch) -> Floats:
    """Return the share of each case's memories that are newer than its target."""
    shares = []
    for case in batch.cases:
        said = {memory.id: memory.time for memory in case.memories}
        target = said[case.target]
        newer = [when for when in said.values() if when is not None and target is not None and when > target]
        shares.append(len(newer) / len(said))
    return np.array(shares)


def relevance(batch: Batch) -> Floats:
    """Return the highest cosine between each target and a later turn of its case, at least 0."""
    encoder = embedding.shipped()
    if encoder is None:
        raise SystemExit("relevance needs validity_graph/embedding_weights; install the package with it")
    vector = encoder.encode([item.memory.text for item in batch.stored])
    source, target = (np.array(part, dtype=np.int64) for part in zip(*batch.direct, strict=True))
    cosine = np.einsum("ij,ij->i", vector[source], vector[target]).astype(np.float64)
    return study.per_case(batch, np.maximum(cosine, 0.0))


def cells(batch: Batch, marked: NDArray[np.bool_]) -> dict[str, float]:
    """Return accuracy by class and length; a cell without cases is left out."""
    length = np.array([case.length for case in batch.cases])
    right, invalid = marked == batch.invalid, batch.invalid
    groups = {"overall": np.ones_like(right), "invalidated": invalid, "valid": ~invalid}
    found = {}
    for name, group in groups.items():
        found[name] = group
        for size in COUNTS:
            found[f"{name.replace('overall', 'all')}/{size}"] = group & (length == size)
    return {name: float(right[group].mean()) for name, group in found.items() if group.any()}


def places_of_errors(judged: Judged, marked: NDArray[np.bool_]) -> dict[str, int]:
    """Return where the invalidated cases that were missed first went wrong, and how many were hit wrongly."""
    batch = judged.batch
    names = [item.memory.id for item in batch.stored]
    asked = {(names[s], names[t]) for s, t in batch.proposed}
    strong = {(e.source, e.target): e.weight for e in judged.edges if e.type == OVERTURNS}
    count = {"candidate": 0, "verifier": 0, "propagation": 0, "wrongly_hit": 0}
    for case, hit in zip(batch.cases, marked, strict=True):
        pair = (case.source, case.chain[0])
        if hit and not case.invalid:
            count["wrongly_hit"] += 1
        elif case.invalid and not hit:
            weak = strong.get(pair, 0.0) < 0.5
            count["candidate" if pair not in asked else "verifier" if weak else "propagation"] += 1
    return count


@dataclass(frozen=True)
class MainSet:
    """The main set of one seed: its rows, the fold of each case, and each method's threshold by fold."""

    judged: Judged
    rows: list[Row]
    fold: NDArray[np.int64]
    thresholds: dict[str, dict[int, float]]


def run_main(seed: int, judge: Judge, supports: SupportJudge | None, *, every: int = 1) -> MainSet:
    """Judge the main set of one seed by every method."""
    judged = judge_batch(study.lay_out(cases(seed)[::every]), judge, supports)
    batch = judged.batch
    fold = study.folds(batch, count=FOLDS, rng=np.random.default_rng(seed))
    chosen = {name: study.decide(score, batch.invalid, fold)[1] for name, score in judged.score.items()}
    chosen[SINGLE_HOP] = chosen[GIVEN]
    rows = []
    for method, score in judged.score.items():
        marked = score >= np.array([chosen[method][int(k)] for k in fold])
        row: Row = {"set": "main", "method": method, "seed": seed, **cells(batch, marked)}
        if method == GIVEN:
            row["first_error"] = places_of_errors(judged, marked)
        rows.append(row)
    return MainSet(judged, rows, fold, chosen)


def run_seed(
    seed: int, judge: Judge, supports: SupportJudge | None, *, every: int = 1
) -> tuple[list[Row], list[Row], list[Row]]:
    """Return the rows of the main set, of the harder set and of the edge thresholds for one seed."""
    main = run_main(seed, judge, supports, every=every)
    hard = judge_batch(study.lay_out(harder(seed)[::every]), judge, supports)
    domain_fold = {case.domain: int(k) for case, k in zip(main.judged.batch.cases, main.fold, strict=True)}
    hard_rows, sweep = [], []
    for method, thresholds in main.thresholds.items():
        limit = np.array([thresholds[domain_fold.get(case.domain, 0)] for case in hard.batch.cases])
        hard_rows.append(_hard_row(hard.batch, hard.score[method] >= limit, method=method, seed=seed))
    if supports is not None:
        sweep = [_sweep_row(main.judged, main.fold, threshold=level, seed=seed) for level in EDGE_THRESHOLDS]
    return main.rows, hard_rows, sweep


def _hard_row(batch: Batch, marked: NDArray[np.bool_], *, method: str, seed: int) -> Row:
    right = marked == batch.invalid
    kind = np.array([case.kind for case in batch.cases])
    by_kind = {name: float(right[kind == name].mean()) for name in HARDER if (kind == name).any()}
    return {"set": "harder", "method": method, "seed": seed, "overall": float(right.mean()), **by_kind}


def _sweep_row(judged: Judged, fold: NDArray[np.int64], *, threshold: float, seed: int) -> Row:
    """Return recall and false overturns at one edge threshold."""
    guess = study.inferred(judged.batch, judged.reasons, threshold=threshold)
    score = study.invalidity(judged.batch, judged.edges + guess)
    marked, _ = study.decide(score, judged.batch.invalid, fold)
    found = cells(judged.batch, marked)
    return {
        "set": "edge threshold",
        "method": LEARNED,
        "seed": seed,
        "edge_threshold": threshold,
        "inferred_edges": len(guess),
        "recall": found["invalidated"],
        "false_overturn": 1.0 - found["valid"],
        "overall": found["overall"],
    }


def aggregated(rows: Sequence[Mapping[str, Any]], *, by: str = "method") -> list[Row]:
    """Return one row for each value of ``by``: percent, mean and standard deviation over the seeds."""
    table = []
    for value in dict.fromkeys(row[by] for row in rows):
        same = [row for row in rows if row[by] == value]
        shown: Row = {by: value}
        for name in same[0]:
            if name != by and isinstance(same[0][name], float):
                values = 100 * np.array([row[name] for row in same if name in row])
                shown[name.replace("invalidated", "inval")] = (
                    f"{values.mean():.1f}±{values.std(ddof=1) if len(values) > 1 else 0.0:.1f}"
                )
        table.append(shown)
    return table


def turned(table: Sequence[Row]) -> list[Row]:
    """Return the table with a column for each method."""
    names = [name for name in table[0] if name != "method"]
    return [{"kind": name} | {row["method"]: row.get(name) for row in table} for name in names]


def summarise(rows: Sequence[Row], hard: Sequence[Row]) -> dict[str, float]:
    """Return the fixed names, and the worst cell of the given graph."""

    def mean(listed: Sequence[Row], method: str, name: str) -> float | None:
        values = [row[name] for row in listed if row["method"] == method and name in row]
        return float(np.mean(values)) if values else None

    smallest = [mean(rows, GIVEN, f"{name}/{size}") for name in ("invalidated", "valid") for size in COUNTS]
    valid = mean(rows, LEARNED, "valid")
    named = {
        "given_overall": mean(rows, GIVEN, "overall"),
        "given_worst_cell": min((value for value in smallest if value is not None), default=None),
        "learned_overall": mean(rows, LEARNED, "overall"),
        "learned_false_overturn": None if valid is None else 1.0 - valid,
        "learned_invalidated": mean(rows, LEARNED, "invalidated"),
        "single_hop_invalidated": mean(rows, SINGLE_HOP, "invalidated"),
        "harder_overall": mean(hard, GIVEN, "overall"),
        "harder_surviving_alternatives": mean(hard, GIVEN, "one_reason_left"),
    }
    return {name: value for name, value in named.items() if value is not None}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.multihop", description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="not used: the cases are generated")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--quick", action="store_true", help=f"the first seed, one case in {QUICK}")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    from validity_graph.verifier import Verifier

    seeds, every = (options.seeds[:1], QUICK) if options.quick else (options.seeds, 1)
    judge, supports = Verifier.load(), support_judge()
    began = time.perf_counter()
    rows, hard, sweep = [], [], []
    for seed in seeds:
        found = run_seed(seed, judge, supports, every=every)
        rows += found[0]
        hard += found[1]
        sweep += found[2]
    seconds = time.perf_counter() - began
    reporting.table("Multi-hop validity, percent right over the seeds", aggregated(rows))
    reporting.table("Harder set, thresholds of the main set", turned(aggregated(hard)))
    reporting.table("Learned graph by edge threshold", aggregated(sweep, by="edge_threshold"))
    summary = summarise(rows, hard) | {"seconds": seconds}
    print({name: round(value, 4) for name, value in summary.items()})
    reporting.write(
        options.json,
        benchmark="multihop",
        rows=[*rows, *hard, *sweep],
        summary=summary,
        seeds=seeds,
    )


if __name__ == "__main__":
    main()
