"""Whether a checkpoint may replace the one that ships: paired differences with 95% bootstrap intervals.

    python -m benchmarks.release_gate --data DIR --weights WEIGHTS [--against packaged] --json OUT

Both verifiers judge the same direction pairs, cases, weekly Memora groups and FactConsolidation pairs.  A
checkpoint may ship where it is not behind beyond the interval on directions and cases (``GATES``) and ahead
of it beyond the interval on at least one of these benchmarks; where it is ahead on none, another benchmark
can still speak for it (CONTRIBUTING).  ``DIR`` holds memora and factconsolidation; the cases are
in ``DIR/../cases`` or where ``--cases`` says.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import cases, directions, factconsolidation_pairs, memora_data, memora_roles, reporting
from benchmarks.direction_pairs import direction_pairs
from validity_graph.verifier import Verifier
from validity_graph.verifier.scoring import PACKAGED

PERIOD = "weekly"
#: Benchmarks that decide; the others may only speak for a checkpoint.
GATES = ("directions", "cases")
Right = NDArray[np.bool_]


def judged(verifier: Verifier, *, data: Path, case_file: Path) -> dict[str, Right]:
    """Return which items of each benchmark this verifier judges right, always in the same order."""
    pairs = direction_pairs()
    gate = verifier.score([pair.source for pair in pairs], [pair.target for pair in pairs]).gate
    told = [json.loads(line) for line in case_file.read_text(encoding="utf-8").splitlines() if line.strip()]
    listed = [group for group in memora_data.groups(data, period=PERIOD) if group.clean]
    facts = [
        pair
        for stated in factconsolidation_pairs.read(data)
        for pair in factconsolidation_pairs.pairs(stated)
    ]
    same = np.array([pair.kind == factconsolidation_pairs.KINDS[0] for pair in facts])
    apart = verifier.score([pair.source for pair in facts], [pair.target for pair in facts]).gate
    decision = directions.DECISION_THRESHOLD
    conversations = memora_roles.by_threshold(listed, memora_roles.gate_of(verifier))
    return {
        "directions": (gate >= decision) == np.array([pair.overturn for pair in pairs]),
        "cases": np.array([cases.judge(case, verifier=verifier).right for case in told]),
        f"memora {PERIOD}": np.array([one.right for one in conversations]),
        "factconsolidation pairs": (apart >= decision) == same,
    }


def compare(old: Mapping[str, Right], new: Mapping[str, Right]) -> list[dict[str, Any]]:
    """Return one row a benchmark: both accuracies, their paired difference and its interval."""
    rows = []
    for name, was in old.items():
        rows.append(
            {
                "benchmark": name,
                "items": len(was),
                "old": float(was.mean()),
                "new": float(new[name].mean()),
                **reporting.paired(was, new[name]),
            }
        )
    return rows


def is_behind(rows: list[dict[str, Any]]) -> bool:
    """Whether the new checkpoint is behind on a gate, beyond the interval."""
    return any(row["high"] < 0 for row in rows if row["benchmark"] in GATES)


def ships(rows: list[dict[str, Any]]) -> bool:
    """Whether these benchmarks alone let the new checkpoint replace the old one."""
    return not is_behind(rows) and any(row["low"] > 0 for row in rows)


def main() -> None:
    """Command line: see the module's first lines."""
    parser = argparse.ArgumentParser(description="Compare two checkpoints of the verifier, paired.")
    parser.add_argument("--data", type=Path, required=True, help="folder of the real sets")
    parser.add_argument("--cases", type=Path, help="cases.jsonl")
    parser.add_argument("--weights", default="packaged", help="the new weights folder")
    parser.add_argument("--against", default="packaged", help="the old weights folder")
    parser.add_argument("--json", type=Path, dest="out")
    given = parser.parse_args()
    case_file = given.cases or given.data.parent / "cases" / "cases.jsonl"
    old, new = (
        judged(Verifier.load(PACKAGED if name == "packaged" else name), data=given.data, case_file=case_file)
        for name in (given.against, given.weights)
    )
    rows = compare(old, new)
    reporting.table("release gate: share right, paired difference with 95% interval", rows)
    verdict = ships(rows)
    behind = is_behind(rows)
    print("behind on a gate" if behind else "ahead" if verdict else "not behind, and ahead on none of these")
    reporting.write(
        given.out,
        benchmark="release_gate",
        rows=rows,
        summary={"ships": float(verdict)},
        weights=given.weights,
        against=given.against,
    )


if __name__ == "__main__":
    main()
