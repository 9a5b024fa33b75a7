"""How many pairs the router settles at the cheap head, and what that costs in accuracy.

    python -m benchmarks.routing [--data DIR] [--pairs FILE] --json OUT

Every set of pairs is read by the cheap head alone, by both heads, and by the router with several thresholds;
the saving depends on how much of the data is easy ([V3] section 13).  Sets: the validation split of the
generator (domains, templates and languages that train nothing; nearly every pair is hard on purpose), with
``--data`` the pairs of Memora's groups (what candidates look like in conversations), with ``--pairs`` a JSONL
file of labelled pairs.  The second head is the packaged one, or one that you name (``--second``: a
classification checkpoint or an ONNX file).  The summary is the default router on the last of the sets.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import reporting
from benchmarks.memora_data import groups
from synthetic import pairs as generator
from validity_graph.verifier import Route, Router, Scores, SlotHead, Verifier
from validity_graph.verifier.pairs import read_pairs
from validity_graph.verifier.router import report

DECISION = 0.5
ROUTERS = {
    "default": Router(),
    "narrow": Router(reject=0.2, accept=0.8, agreement=0.8),
    "wide": Router(reject=0.02, accept=0.97, agreement=0.97),
    "never accept": Router(accept=1.0, agreement=1.0),
}


@dataclass(frozen=True)
class Labelled:
    """Pairs with their labels, arrays of one length."""

    name: str
    sources: list[str]
    targets: list[str]
    label: NDArray[np.bool_]


def labelled(name: str, listed: list[tuple[str, str, bool]]) -> Labelled:
    """Pairs by column."""
    sources, targets, label = (list(column) for column in zip(*listed, strict=True))
    return Labelled(name, sources, targets, np.array(label, dtype=np.bool_))


def sets(given: argparse.Namespace) -> Iterator[Labelled]:
    """Yield the sets of pairs that the command line asks for."""
    count = given.count // 10 if given.quick else given.count
    made = generator.generate(given.seed, count, split="validation")
    yield labelled("generator, validation", [(pair.source, pair.target, pair.overturn) for pair in made])
    if given.data is not None:
        every = groups(given.data, period=given.period)
        told = [
            (group.source_reading, node.reading, k < len(group.targets))
            for group in (every[::10] if given.quick else every)
            for k, node in enumerate(group.candidates)
        ]
        yield labelled(f"Memora {given.period}", told)
    if given.pairs is not None:
        known = [pair for pair in read_pairs(given.pairs) if pair.overturn is not None]
        yield labelled(given.pairs.name, [(pair.source, pair.target, pair.overturn == 1) for pair in known])


def rows_of(pairs: Labelled, verifier: Verifier) -> list[dict[str, Any]]:
    """One row a router: fractions by route, accuracy of cheap head, router and both heads."""
    cheap = verifier.asking_never().score(pairs.sources, pairs.targets)
    both = verifier.asking_always().score(pairs.sources, pairs.targets)
    return [row_of(name, router, cheap=cheap, both=both, pairs=pairs) for name, router in ROUTERS.items()]


def row_of(name: str, router: Router, *, cheap: Scores, both: Scores, pairs: Labelled) -> dict[str, Any]:
    """Measure one router; a pair that the second head cannot read has no second opinion."""
    plan = router.plan(
        gate=cheap.gate, slot=cheap.slot_mini, event=cheap.event, operation=cheap.operation,
        readable=~np.isnan(both.slot_nli),
    )  # fmt: skip
    asked = np.array([route is Route.ASK for route in plan])
    gates = {"cheap": cheap.gate, "routed": np.where(asked, both.gate, cheap.gate), "both": both.gate}
    accuracy = {key: float(np.mean((gate >= DECISION) == pairs.label)) for key, gate in gates.items()}
    counted = report(plan)
    return {
        "pairs": pairs.name, "count": len(plan), "router": name, "stopped_cheap": counted.stopped_cheap,
        **{route.value: counted.count[route] / counted.pairs for route in Route if route is not Route.ASK},
        **{f"accuracy_{key}": value for key, value in accuracy.items()},
        "accuracy_loss": accuracy["both"] - accuracy["routed"],
    }  # fmt: skip


def main() -> None:
    """Command line: see the module's first lines."""
    parser = argparse.ArgumentParser(description="What the router saves and what it costs.")
    parser.add_argument("--data", type=Path, help="folder that holds memora")
    parser.add_argument("--period", default="weekly", help="period of Memora")
    parser.add_argument("--pairs", type=Path, help="labelled pairs, JSONL")
    parser.add_argument(
        "--second", type=Path, help="classification checkpoint or ONNX file in place of the packaged head"
    )
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="a tenth of the pairs")
    parser.add_argument("--json", type=Path, dest="out")
    given = parser.parse_args()
    verifier = Verifier.load()
    if given.second is not None:
        opened = SlotHead.from_onnx if given.second.is_file() else SlotHead.from_checkpoint
        verifier = replace(verifier, second=opened(given.second))
    rows = [row for pairs in sets(given) for row in rows_of(pairs, verifier)]
    reporting.table("routing: what stops at the cheap head, and accuracy", rows)
    last = next(row for row in reversed(rows) if row["router"] == "default")
    summary = {name: last[name] for name in ("stopped_cheap", "accuracy_loss")}
    print(summary)
    reporting.write(given.out, benchmark="routing", rows=rows, summary=summary, seed=given.seed)


if __name__ == "__main__":
    main()
