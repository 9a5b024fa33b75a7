"""How many pairs the router settles at the cheap head, and what that costs in accuracy.

Pairs come from the validation split of the generator (domains, templates and languages that train nothing)
or, with ``--pairs``, from a JSONL file.  The second head is one that you name (``--second``: a
classification checkpoint or an ONNX file); without one it is an oracle that knows the label.  An oracle
makes the loss as large as any second head can make it: every false alarm that the router does not pass on
is counted against it.  Several thresholds are shown, since the saving depends on how much of the data is
easy ([V3] section 13); the summary is the default router.

python -m benchmarks.routing --json OUT
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import reporting
from synthetic import pairs as generator
from validity_graph.verifier import Route, Router, Scores, SlotHead, Verifier
from validity_graph.verifier.pairs import read_pairs
from validity_graph.verifier.router import report

DECISION = 0.5
ROUTERS = {
    "default": Router(),
    "tight agreement": Router(accept=0.97, agreement=0.97),
    "loose agreement": Router(accept=0.75, agreement=0.75),
    "uncertain only": Router(reject=0.2, accept=0.8, agreement=0.5),
    "never accept": Router(accept=1.0, agreement=1.0),
}


def load_pairs(path: Path | None, *, count: int, seed: int) -> tuple[list[str], list[str], NDArray[np.bool_]]:
    """Return sources, targets and labels from a file or from the generator's validation split."""
    if path is not None:
        listed: list[Any] = [pair for pair in read_pairs(path) if pair.overturn is not None]
    else:
        listed = list(generator.generate(seed, count, split="validation"))
    label = np.array([bool(pair.overturn) for pair in listed])
    return [pair.source for pair in listed], [pair.target for pair in listed], label


def second_opinion(
    path: Path | None, sources: Sequence[str], targets: Sequence[str], label: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """Return the second head's slot probability of every pair; the oracle's where no head is named."""
    if path is None:
        return label.astype(np.float64)
    head = SlotHead.from_onnx(path) if path.is_file() else SlotHead.from_checkpoint(path)
    return head.slot(sources, targets)


def row_of(
    name: str, router: Router, *, cheap: Scores, second: NDArray[np.float64], label: NDArray[np.bool_]
) -> dict[str, Any]:
    """One router: fractions by route, accuracy of cheap head, router and full product."""
    plan = router.plan(gate=cheap.gate, slot=cheap.slot_mini, event=cheap.event, operation=cheap.operation)
    asked = np.array([route is Route.ASK for route in plan])
    routed = np.where(asked, cheap.gate * second, cheap.gate)
    accuracy = {
        key: float(np.mean((gate >= DECISION) == label))
        for key, gate in (("cheap", cheap.gate), ("routed", routed), ("full", cheap.gate * second))
    }
    counted = report(plan)
    return {
        "router": name,
        "stopped_cheap": counted.stopped_cheap,
        "rejected": counted.count[Route.REJECT] / counted.pairs,
        "accepted": counted.count[Route.ACCEPT] / counted.pairs,
        **{f"accuracy_{key}": value for key, value in accuracy.items()},
        "accuracy_loss": accuracy["full"] - accuracy["routed"],
    }


def main() -> None:
    """Command line: see the module's first lines."""
    parser = argparse.ArgumentParser(description="What the router saves and what it costs.")
    parser.add_argument("--data", type=Path, help="accepted for uniformity")
    parser.add_argument("--pairs", type=Path, help="labelled pairs, JSONL; default: the validation split")
    parser.add_argument(
        "--second", type=Path, help="classification checkpoint or ONNX file; default: an oracle"
    )
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="a tenth of the pairs")
    parser.add_argument("--json", type=Path, dest="out")
    given = parser.parse_args()
    count = given.count // 10 if given.quick else given.count
    sources, targets, label = load_pairs(given.pairs, count=count, seed=given.seed)
    cheap = replace(Verifier.load(), second=None).score(sources, targets)
    second = second_opinion(given.second, sources, targets, label)
    rows = [row_of(name, router, cheap=cheap, second=second, label=label) for name, router in ROUTERS.items()]
    shown = "an oracle" if given.second is None else given.second.name
    reporting.table(f"routing: {len(label)} pairs, second head: {shown}", rows)
    summary = {name: rows[0][name] for name in ("stopped_cheap", "accuracy_loss")}
    print(summary)
    reporting.write(
        given.out,
        benchmark="routing",
        rows=rows,
        summary=summary,
        seed=given.seed,
        second=shown,
        pairs=len(label),
    )


if __name__ == "__main__":
    main()
