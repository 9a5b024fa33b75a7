"""Checks on given structure with certain evidence that what must fall falls and what must stand stands.

``python -m benchmarks.structure --data DIR`` reads ``proofwriter``, ``entailment_bank`` and ``mquake``
under DIR (any of them may be missing), removes facts or applies edits one at a time, propagates, and
compares every memory of the graph with what it must be.  A pair is one (piece of evidence, memory).
Nothing is learned and no text is read: the structure comes with the data, every weight is 1, so each
invalidity must be 0 or 1.

Kinds of pairs: ``removed`` (the memory that the evidence is about), ``rederived`` (it stands all the
same), ``invalid`` (falls), ``cyclic trap`` (falls, though supports in a circle still hold it up),
``surviving`` (depends on the removed fact and stands), ``elsewhere`` (every other memory; stands).

Efficient by locality (SEMANTICS law 4): theories are parts of one graph, and one pass carries one
piece of evidence for each of them.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import reporting
from validity_graph import kernels
from validity_graph.topology import Topology, build_topology

TOLERANCE = 1e-6
KINDS = ("removed", "rederived", "invalid", "cyclic trap", "surviving", "elsewhere")
#: How many pairs there are by (kind, depth).
Tally = Counter[tuple[str, int]]
FALLING = frozenset({"removed", "invalid", "cyclic trap"})


@dataclass
class Structure:
    """Edges in the making: names become node numbers, justifications are numbered as they come."""

    number: dict[Hashable, int] = field(default_factory=dict)
    source: list[int] = field(default_factory=list)
    target: list[int] = field(default_factory=list)
    supports: list[bool] = field(default_factory=list)
    justification: list[int] = field(default_factory=list)

    def node(self, name: Hashable) -> int:
        """Return the number of ``name``, a new one where it is new."""
        return self.number.setdefault(name, len(self.number))

    def justify(self, premises: Iterable[Hashable], head: Hashable) -> None:
        """Add one justification of ``head``: all of ``premises`` together.

        Without premises it is a fact of its own; one that needs ``head`` itself can never be its ground.
        """
        distinct = dict.fromkeys(premises) or {("axiom", head): None}
        if head in distinct:
            return
        group = len(self.justification)  # Larger than every number given so far.
        for premise in distinct:
            self._edge(premise, head, supports=True, justification=group)

    def require(self, prerequisite: Hashable, dependent: Hashable) -> None:
        """Add ``dependent`` requires ``prerequisite``."""
        self._edge(prerequisite, dependent, supports=False, justification=-1)

    def _edge(self, source: Hashable, target: Hashable, *, supports: bool, justification: int) -> None:
        self.source.append(self.node(source))
        self.target.append(self.node(target))
        self.supports.append(supports)
        self.justification.append(justification)

    def topology(self) -> Topology:
        """Return the arrays that the kernels run on; every weight is 1."""
        return build_topology(
            len(self.number),
            source=np.array(self.source, dtype=np.int64),
            target=np.array(self.target, dtype=np.int64),
            weight=np.ones(len(self.source)),
            supports=np.array(self.supports, dtype=bool),
            justification=np.array(self.justification, dtype=np.int64),
            dtype=np.float64,
        )


@dataclass(frozen=True)
class Trial:
    """One piece of certain evidence and what it must do to the nodes ``start:stop``.

    ``evidence`` is a node, or ``None`` where the edit is about no memory of the graph.  ``kind`` maps
    nodes to a place in ``KINDS``; all others of the range are ``elsewhere``.
    """

    start: int
    stop: int
    evidence: int | None
    kind: Mapping[int, str]


@dataclass
class Study:
    """One data set: its graph and its trials."""

    name: str
    structure: Structure = field(default_factory=Structure)
    trials: list[Trial] = field(default_factory=list)


def records(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of every JSON-lines file in ``folder``, gzipped or not, in name order."""
    for path in sorted(folder.glob("*.jsonl*")):
        opener = gzip.open if path.suffix == ".gz" else open
        with opener(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                if line.strip():
                    yield json.loads(line)


def proofwriter(theories: Iterable[Mapping[str, Any]]) -> Study:
    """Every asserted fact gets an assertion that supports it; removing the fact overturns the assertion."""
    study = Study("proofwriter")
    structure = study.structure
    for place, theory in enumerate(theories):
        start = len(structure.number)
        for _, fact in theory["facts"]:
            structure.justify([(place, "assertion", *fact)], (place, *fact))
        for derived in theory.get("derived", ()):
            structure.node((place, *derived))
        for _, body, head in theory["supports"]:
            structure.justify([(place, *atom) for atom in body], (place, *head))
        stop = len(structure.number)
        for removal in theory.get("removals", ()):
            study.trials.append(_removal(structure, place, removal, start=start, stop=stop))
    return study


def _removal(structure: Structure, place: int, removal: Mapping[str, Any], *, start: int, stop: int) -> Trial:
    number = structure.number
    fact = number[(place, *removal["fact"])]
    traps = {number[(place, *atom)] for atom in removal.get("cyclic_traps", ())}
    assertion = number[(place, "assertion", *removal["fact"])]
    kind = {assertion: "removed", fact: "rederived" if removal["fact_rederived"] else "removed"}
    kind |= {number[(place, *atom)]: "invalid" for atom in removal["invalid"]}
    kind |= {number[(place, *atom)]: "surviving" for atom in removal["downstream_survives"]}
    # A trap falls whatever the other lists call it; one that is listed as standing would show as a mismatch.
    kind |= dict.fromkeys(traps, "cyclic trap")
    return Trial(start, stop, assertion, kind)


def entailment_bank(trees: Iterable[Mapping[str, Any]]) -> Study:
    """Every step is one justification of its head; removing a leaf must fell exactly its ancestors."""
    study = Study("entailment_bank")
    structure = study.structure
    for place, tree in enumerate(trees):
        start = len(structure.number)
        for name in (*tree["leaves"], *tree["nodes"]):
            structure.node((place, name))
        heads: dict[str, list[str]] = defaultdict(list)
        for premises, head in tree["steps"]:
            structure.justify([(place, premise) for premise in premises], (place, head))
            for premise in premises:
                heads[premise].append(head)
        stop = len(structure.number)
        for leaf in tree["leaves"]:
            kind = {structure.number[(place, above)]: "invalid" for above in _reachable(heads, leaf)}
            evidence = structure.number[(place, leaf)]
            study.trials.append(Trial(start, stop, evidence, {**kind, evidence: "removed"}))
    return study


def _reachable(successors: Mapping[Any, Iterable[Any]], start: Any) -> dict[Any, int]:
    """Return every node that can be reached from ``start``, with its least number of steps."""
    distance, frontier = {start: 0}, [start]
    for node in frontier:  # Grows while it is walked: breadth first.
        for successor in successors.get(node, ()):
            if successor not in distance:
                distance[successor] = distance[node] + 1
                frontier.append(successor)
    return distance


def mquake(cases: Iterable[Mapping[str, Any]]) -> Study:
    """Facts are nodes by their text, conclusions are sub-chains of at least two hops; edits hit facts."""
    study = Study("mquake")
    structure = study.structure
    listed = list(cases)
    facts = {hop["text"] for case in listed for hop in case["hops"]}
    holding: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for case in listed:
        for conclusion in _subchains([hop["text"] for hop in case["hops"]]):
            if conclusion in structure.number:
                continue
            for text in dict.fromkeys(conclusion):
                structure.require(text, conclusion)
                holding[text].add(conclusion)
    for text in sorted(facts):
        structure.node(text)  # A chain of one hop has no conclusion.
    for case in listed:
        for edit in case["edits"]:
            text = edit["old_text"]
            kind = {structure.number[conclusion]: "invalid" for conclusion in holding.get(text, ())}
            evidence = structure.number[text] if text in facts else None
            if evidence is not None:
                kind[evidence] = "removed"
            study.trials.append(Trial(0, len(structure.number), evidence, kind))
    return study


def _subchains(texts: list[str]) -> Iterator[tuple[str, ...]]:
    for first in range(len(texts) - 1):
        for last in range(first + 2, len(texts) + 1):
            yield tuple(texts[first:last])


READERS = {"proofwriter": proofwriter, "entailment_bank": entailment_bank, "mquake": mquake}


def passes(trials: Iterable[Trial]) -> list[list[Trial]]:
    """Group trials so that no two of a group touch the same nodes: each group is one propagation."""
    turn: Counter[int] = Counter()
    grouped: list[list[Trial]] = []
    for trial in trials:
        if turn[trial.start] == len(grouped):
            grouped.append([])
        grouped[turn[trial.start]].append(trial)
        turn[trial.start] += 1
    return grouped


def judge(study: Study, *, backend: str) -> tuple[Tally, Tally, list[str]]:
    """Run every trial; return pairs and mismatches by (kind, depth), and a line for each mismatch.

    Depth is the least number of edges from the evidence; -1 where no path leads there.
    """
    structure = study.structure
    topology = structure.topology()
    successors: dict[int, list[int]] = defaultdict(list)
    for source, target in zip(structure.source, structure.target, strict=True):
        successors[source].append(target)
    name = list(structure.number)
    pairs: Tally = Counter()
    wrong: Tally = Counter()
    lines: list[str] = []
    for group in passes(study.trials):
        direct = np.zeros(len(name))
        direct[[trial.evidence for trial in group if trial.evidence is not None]] = 1.0
        result = kernels.propagate(topology, direct, backend=backend)
        if not result.converged:
            lines.append(f"{study.name}: a cycle did not settle in {result.rounds} rounds")
        for trial in group:
            for node, kind, depth, value in _mismatches(trial, result.invalidity, successors, pairs):
                wrong[kind, depth] += 1
                lines.append(f"{study.name}: {name[node]} is {kind} at depth {depth}, invalidity {value:.6g}")
    return pairs, wrong, lines


def _mismatches(
    trial: Trial,
    invalidity: np.ndarray,
    successors: Mapping[int, list[int]],
    pairs: Tally,
) -> list[tuple[int, str, int, float]]:
    """Return (node, kind, depth, invalidity) of every mismatch; add what was compared to ``pairs``."""
    nodes = list(trial.kind)
    expected = np.zeros(trial.stop - trial.start)
    expected[[node - trial.start for node in nodes if trial.kind[node] in FALLING]] = 1.0
    depth = {} if trial.evidence is None else _reachable(successors, trial.evidence)
    for node in nodes:
        pairs[trial.kind[node], depth.get(node, -1)] += 1
    pairs["elsewhere", -1] += trial.stop - trial.start - len(nodes)
    # Written so that NaN is a mismatch.
    matches = np.abs(invalidity[trial.start : trial.stop] - expected) <= TOLERANCE
    found = []
    for node in np.flatnonzero(~matches) + trial.start:
        kind = trial.kind.get(int(node), "elsewhere")
        place = -1 if kind == "elsewhere" else depth.get(int(node), -1)
        found.append((int(node), kind, place, float(invalidity[node])))
    return found


def measure(data: Path, *, backend: str) -> tuple[list[dict[str, Any]], dict[str, float], list[str]]:
    """Run every data set found under ``data``; return rows, summary and mismatch lines."""
    rows: list[dict[str, Any]] = []
    lines: list[str] = []
    for name, read in READERS.items():
        if not any((data / name).glob("*.jsonl*")):
            print(f"skipped {name}: no *.jsonl or *.jsonl.gz under {data / name}", file=sys.stderr)
            continue
        start = time.perf_counter()
        study = read(records(data / name))
        pairs, wrong, found = judge(study, backend=backend)
        elapsed = time.perf_counter() - start
        lines += found
        for kind, depth in sorted(pairs, key=lambda key: (KINDS.index(key[0]), key[1])):
            count, mismatches = pairs[kind, depth], wrong[kind, depth]
            row = {"data": name, "kind": kind, "depth": depth, "pairs": count, "mismatches": mismatches}
            rows.append(row)
        print(
            f"{name}: {len(study.structure.number)} memories, {len(study.structure.source)} edges, "
            f"{len(study.trials)} trials in {elapsed:.1f} s"
        )
    summary: dict[str, float] = {
        # A component that did not settle is a mismatch too, though no single pair shows it.
        "mismatches": len(lines),
        "pairs": sum(row["pairs"] for row in rows),
    }
    for kind in KINDS:
        of_kind = [row for row in rows if row["kind"] == kind]
        summary[f"pairs/{kind}"] = sum(row["pairs"] for row in of_kind)
        summary[f"mismatches/{kind}"] = sum(row["mismatches"] for row in of_kind)
    return rows, summary, lines


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.structure", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder that holds the data sets")
    parser.add_argument("--backend", default="numba", choices=("numba", "numpy", "torch"))
    parser.add_argument("--json", type=Path, help="write rows and summary here")
    options = parser.parse_args(arguments)
    rows, summary, lines = measure(options.data, backend=options.backend)
    if not rows:
        print(f"nothing to measure under {options.data}", file=sys.stderr)
        return 2
    reporting.table("Given structure, certain evidence", rows)
    for line in lines[:20]:
        print(line)
    print(f"{summary['mismatches']:.0f} mismatches in {summary['pairs']:.0f} pairs")
    reporting.write(options.json, benchmark="structure", rows=rows, summary=summary, backend=options.backend)
    return 0


if __name__ == "__main__":
    sys.exit(main())
