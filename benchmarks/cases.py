"""How many everyday cases come out right, by category, with the given edges alone and with the verifier.

Each case is a handful of memories with given structure and the memories that must end valid or
outdated.  A case is right when every labelled memory is.  Edges that the graph refuses (self-loops,
unknown ends, sources earlier than what they overturn) are left out, as a caller would have to, and counted.

    python -m benchmarks.cases --data cases.jsonl --json OUT
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import reporting
from validity_graph import InputError, Status, ValidityGraph
from validity_graph.verifier import Verifier

NEVER_INVALIDATE = "false_invalidation"


@dataclass(frozen=True)
class Outcome:
    """One case judged one way: labelled memories by expectation and by what came out."""

    id: str
    category: str
    verifier: bool
    given: bool
    refused: int
    hit: int
    missed: int
    wrongly_hit: int
    kept: int

    @property
    def right(self) -> bool:
        """Whether every labelled memory came out as expected."""
        return self.missed == 0 and self.wrongly_hit == 0


def judge(case: Mapping[str, Any], *, verifier: Verifier | None) -> Outcome:
    """Run one case through the library, with the given edges alone where there is no verifier."""
    graph = ValidityGraph.open(verifier=verifier)
    for item in case["memories"]:
        graph.add(item["id"], item["text"], time=item.get("time"))
    refused = 0
    for item in case["edges"]:
        try:
            graph.connect(**item)
        except InputError:
            refused += 1
    if verifier is not None:
        graph.verify()
    found = graph.check()
    counts = {"hit": 0, "missed": 0, "wrongly_hit": 0, "kept": 0}
    for id, expected in case["expect"].items():
        fell = found[id].status is Status.OUTDATED
        name = (
            ("hit" if fell else "missed") if expected == "outdated" else ("wrongly_hit" if fell else "kept")
        )
        counts[name] += 1
    outdated = {id for id, expected in case["expect"].items() if expected == "outdated"}
    given = outdated <= reached(case["edges"])
    return Outcome(case["id"], case["category"], verifier is not None, given, refused, **counts)


def reached(edges: Iterable[Mapping[str, Any]]) -> set[str]:
    """Return what the given edges overturn, and what rests on it."""
    listed = list(edges)
    found = {item["target"] for item in listed if item["type"] == "overturns"}
    structure = [item for item in listed if item["type"] in ("requires", "supports")]
    while True:
        onward = {item["target"] for item in structure if item["source"] in found}
        if onward <= found:
            return found
        found |= onward


def row(name: str, outcomes: Iterable[Outcome]) -> dict[str, Any]:
    """Return the figures of one group of outcomes."""
    listed = list(outcomes)
    hit, missed = sum(o.hit for o in listed), sum(o.missed for o in listed)
    wrongly, kept = sum(o.wrongly_hit for o in listed), sum(o.kept for o in listed)
    return {
        "category": name,
        "cases": len(listed),
        "right": sum(o.right for o in listed),
        "cases_right": _share(sum(o.right for o in listed), len(listed)),
        "recall": _share(hit, hit + missed),
        "false_positive_rate": _share(wrongly, wrongly + kept),
        "refused_edges": sum(o.refused for o in listed),
    }


def main() -> None:
    """Run every case both ways, print the tables and write the JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="cases.jsonl, or the folder that holds it")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--no-verify", action="store_true", help="given edges only")
    parser.add_argument("--failures", action="store_true", help="list the cases that came out wrong")
    arguments = parser.parse_args()
    path = arguments.data / "cases.jsonl" if arguments.data.is_dir() else arguments.data
    cases = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]

    bare = [judge(case, verifier=None) for case in cases]
    reporting.table("given edges only", by_category(bare))
    verifier = None if arguments.no_verify else Verifier.load()
    scored = bare if verifier is None else [judge(case, verifier=verifier) for case in cases]
    if not arguments.no_verify:
        reporting.table("with the verifier", by_category(scored))
    if arguments.failures:
        print("wrong:", ", ".join(outcome.id for outcome in scored if not outcome.right))
    given = [outcome for outcome in bare if outcome.given]
    print(f"every overturning edge given: {sum(o.right for o in given)} of {len(given)} right")

    total = row("all", scored)
    summary = {
        "cases_right": total["cases_right"],
        "recall": total["recall"],
        "false_positive_rate": row("", (o for o in scored if o.category == NEVER_INVALIDATE))[
            "false_positive_rate"
        ],
        "given_right": _share(sum(o.right for o in given), len(given)),
    }
    summary |= {f"cases_right/{r['category']}": r["cases_right"] for r in by_category(scored)[:-1]}
    rows = [vars(outcome) | {"right": outcome.right} for outcome in (*bare, *scored)]
    reporting.write(arguments.json, benchmark="cases", rows=rows, summary=summary)


def by_category(outcomes: Iterable[Outcome]) -> list[dict[str, Any]]:
    """Return one row a category, and one for all."""
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        groups[outcome.category].append(outcome)
    rows = [row(category, group) for category, group in sorted(groups.items())]
    return [*rows, row("all", [outcome for group in groups.values() for outcome in group])]


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


if __name__ == "__main__":
    main()
