"""Which patterns of pairs the verifier gets wrong: where the feedback loop begins and ends.

    python -m benchmarks.failure_patterns --data DIR --period weekly [--pairs FILE] [--against WEIGHTS]

[V3] Algorithm 2.  (1) This program sorts the errors on Memora's groups, and on labelled pairs of your own, by
what can be said of a pair without its topic: its operation, whether the source sounds like a change, how much
of the target it repeats, whether the target sounds like a change itself.  (2) Blocks of the same *pattern* in
other words go to ``synthetic/written`` (or strata to ``synthetic/pairs``); ``synthetic.audit`` proves that no
text of an evaluation set went with them.  (3) ``validity-graph train PAIRS --start packaged -o WEIGHTS``
trains on.  (4) The same program with ``--weights WEIGHTS --against packaged --period monthly`` shows what
each pattern gained and lost on conversations that nobody looked at.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import reporting
from benchmarks.memora_data import FAMILY, groups
from benchmarks.memora_roles import CUES
from validity_graph.verifier import Verifier
from validity_graph.verifier.pairs import overlap, read_pairs

DECISION = 0.5
#: Patterns with fewer pairs say nothing.
FEWEST = 5
#: From this share of the target's words on, the source repeats little or most of it.
LITTLE, MOST = 0.2, 0.6
PACKAGED = "packaged"


@dataclass(frozen=True)
class Judged:
    """One labelled pair and its pattern."""

    source: str
    target: str
    overturn: bool
    pattern: str


def pattern(source: str, target: str, *, kind: str, overturn: bool) -> str:
    """Describe a pair by label, kind and surface, without its topic."""
    shared = overlap(source, target)
    repeats = "most" if shared >= MOST else "some" if shared >= LITTLE else "little"
    return ", ".join(
        (
            f"{'overturns' if overturn else 'stands'} ({kind})",
            "change word" if CUES.search(source) else "no change word",
            f"repeats {repeats}",
            *(("target is a change",) if CUES.search(target) else ()),
        )
    )


def judged(source: str, target: str, *, kind: str, overturn: bool) -> Judged:
    """Return a pair with its pattern."""
    return Judged(source, target, overturn, pattern(source, target, kind=kind, overturn=overturn))


def memora(data: Path, *, period: str) -> Iterator[Judged]:
    """Yield every pair of Memora's groups; its kind is what the event changes."""
    for group in groups(data, period=period):
        for k, node in enumerate(group.candidates):
            kind = FAMILY.get(group.operation, group.operation)
            yield judged(group.source_reading, node.reading, kind=kind, overturn=k < len(group.targets))


def own(path: Path) -> Iterator[Judged]:
    """Yield the pairs of a JSONL file that have the label ``overturn``; their kind is their stratum."""
    for pair in read_pairs(path):
        if pair.overturn is not None:
            yield judged(pair.source, pair.target, kind=pair.stratum, overturn=pair.overturn == 1)


def wrong(pairs: Sequence[Judged], verifier: Verifier) -> NDArray[np.bool_]:
    """Return which pairs the verifier gets wrong, shape ``(n,)``."""
    gate = verifier.score([pair.source for pair in pairs], [pair.target for pair in pairs]).gate
    return (np.asarray(gate) >= DECISION) != np.array([pair.overturn for pair in pairs])


def rows_of(
    pairs: Sequence[Judged], errors: NDArray[np.bool_], before: NDArray[np.bool_] | None
) -> list[dict[str, Any]]:
    """Return one row a pattern, most errors first; with errors of other weights, what was gained and lost."""
    places: dict[str, list[int]] = defaultdict(list)
    for k, pair in enumerate(pairs):
        places[pair.pattern].append(k)
    rows = []
    for name, listed in places.items():
        row: dict[str, Any] = {
            "pattern": name, "pairs": len(listed), "wrong": int(errors[listed].sum()),
            "share_wrong": float(errors[listed].mean()),
        }  # fmt: skip
        if before is not None:
            row["mended"] = int((before[listed] & ~errors[listed]).sum())
            row["broken"] = int((~before[listed] & errors[listed]).sum())
        rows.append(row)
    return sorted(rows, key=lambda row: (-row["wrong"], -row["pairs"], row["pattern"]))


def opened(weights: str) -> Verifier:
    """Load weights by folder, or the packaged ones."""
    return Verifier.load(None if weights == PACKAGED else weights)


def main(arguments: list[str] | None = None) -> None:
    """Command line: see the module's first lines."""
    parser = argparse.ArgumentParser(description="Which patterns of pairs the verifier gets wrong.")
    parser.add_argument("--data", type=Path, help="folder that holds memora")
    parser.add_argument("--period", default="weekly", help="period of Memora")
    parser.add_argument("--pairs", type=Path, help="labelled pairs, JSONL")
    parser.add_argument("--weights", default=PACKAGED, help="weights folder, or packaged")
    parser.add_argument("--against", help="weights to compare with: a folder, or packaged")
    parser.add_argument("--quick", action="store_true", help="every tenth pair")
    parser.add_argument("--json", type=Path, dest="out")
    given = parser.parse_args(arguments)
    if given.data is None and given.pairs is None:
        parser.error("nothing to judge; give --data, --pairs or both")
    pairs = [
        *([] if given.data is None else memora(given.data, period=given.period)),
        *([] if given.pairs is None else own(given.pairs)),
    ][:: 10 if given.quick else 1]
    errors = wrong(pairs, opened(given.weights))
    before = None if given.against is None else wrong(pairs, opened(given.against))
    rows = rows_of(pairs, errors, before)
    frequent = [row for row in rows if row["pairs"] >= FEWEST and (row["wrong"] or row.get("mended"))]
    reporting.table("failure patterns, most errors first", frequent)
    summary = {"pairs": float(len(pairs)), "wrong": float(errors.sum())}
    if before is not None:
        summary |= {
            "mended": float((before & ~errors).sum()), "broken": float((~before & errors).sum())
        }  # fmt: skip
    print(summary)
    reporting.write(given.out, benchmark="failure_patterns", rows=rows, summary=summary)


if __name__ == "__main__":
    main()
