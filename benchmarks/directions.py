"""The direction challenge: a verifier must see which way a change goes, and whether it is one at all.

``python -m benchmarks.directions [--json OUT]``

Hand-written pairs in sixteen strata (``direction_pairs``); accuracy per stratum at the decision threshold
0.5, beside a baseline that any verifier has to beat: a regular expression for change cues times token
overlap.  May not know the training generator.  ``worst_stratum`` is the release gate of a checkpoint.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks import reporting
from benchmarks.direction_pairs import DirectionPair, direction_pairs

DECISION_THRESHOLD = 0.5
BASELINE_OVERLAP = 0.2
CUE = re.compile(
    r"\b(no longer|not any more|any ?more|any longer|now|nowadays|these days|instead|used to|switched|"
    r"swapped|gave up|moved|changed|replaced|stopped|quit|left|new|since|cancel\w*|"
    r"remove\w*|delete\w*|wrong|mistaken|retract|forget|"
    r"nicht mehr|sondern|jetzt|ya no|ahora|désormais|plus|agora|numera|tegenwoordig|stata?)\b|了|ました",
    re.IGNORECASE,
)


def tokens(text: str) -> set[str]:
    """Lower-case words; every Chinese or Japanese character is a word of its own."""
    return set(re.findall(r"[぀-ヿ一-鿿]|\w+", text.lower()))


def baseline_gate(sources: Sequence[str], targets: Sequence[str]) -> np.ndarray:
    """Cue times overlap, shape ``(n,)`` of 0 or 1: a change cue in the source and enough shared words."""
    gate = np.zeros(len(sources))
    for i, (source, target) in enumerate(zip(sources, targets, strict=True)):
        one, two = tokens(source), tokens(target)
        overlap = len(one & two) / max(1, min(len(one), len(two)))
        gate[i] = float(bool(CUE.search(source)) and overlap >= BASELINE_OVERLAP)
    return gate


def accuracy(pairs: Sequence[DirectionPair], gate: np.ndarray) -> dict[str, float]:
    """Fraction right per stratum at the decision threshold; ``gate`` has one score in [0, 1] per pair."""
    right = (gate >= DECISION_THRESHOLD) == np.array([pair.overturn for pair in pairs])
    names = np.array([pair.stratum for pair in pairs])
    return {name: float(right[names == name].mean()) for name in dict.fromkeys(names.tolist())}


def rows_of(pairs: Sequence[DirectionPair], gates: dict[str, np.ndarray]) -> list[dict[str, object]]:
    """One row a stratum: pairs, how many overturn, and the accuracy of every scorer."""
    scores = {name: accuracy(pairs, gate) for name, gate in gates.items()}
    rows: list[dict[str, object]] = []
    for stratum in next(iter(scores.values())):
        own = [pair for pair in pairs if pair.stratum == stratum]
        row: dict[str, object] = {
            "stratum": stratum,
            "pairs": len(own),
            "overturn": sum(p.overturn for p in own),
        }
        row.update({name: round(score[stratum], 4) for name, score in scores.items()})
        rows.append(row)
    return rows


def main() -> None:
    """Command line: see the module's first lines."""
    parser = argparse.ArgumentParser(
        description="Accuracy of the verifier by stratum of the direction challenge."
    )
    parser.add_argument(
        "--data", type=Path, help="accepted for uniformity; the pairs ship with the benchmark"
    )
    parser.add_argument("--quick", action="store_true", help="every fourth pair only")
    parser.add_argument("--wrong", action="store_true", help="list the pairs that the verifier gets wrong")
    parser.add_argument("--json", type=Path, dest="out")
    arguments = parser.parse_args()
    from validity_graph.verifier import Verifier

    pairs = direction_pairs()[:: 4 if arguments.quick else 1]
    sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
    gate = np.asarray(Verifier.load().score(sources, targets).gate, dtype=np.float64)
    gates = {"verifier": gate, "cue_overlap": baseline_gate(sources, targets)}
    rows = rows_of(pairs, gates)
    reporting.table("directions: accuracy by stratum", rows)
    per_stratum = accuracy(pairs, gate)
    summary = {"worst_stratum": min(per_stratum.values()), "mean": float(np.mean(list(per_stratum.values())))}
    baseline = accuracy(pairs, gates["cue_overlap"])
    summary["baseline_worst_stratum"] = min(baseline.values())
    summary["baseline_mean"] = float(np.mean(list(baseline.values())))
    if arguments.wrong:
        for pair, score in zip(pairs, gate, strict=True):
            if (score >= DECISION_THRESHOLD) != pair.overturn:
                sign = "+" if pair.overturn else "-"
                print(f"{pair.stratum:24s} {score:.2f} {sign} {pair.source} | {pair.target}")
    print(summary)
    reporting.write(arguments.out, benchmark="directions", rows=rows, summary=summary)


if __name__ == "__main__":
    main()
