"""How long it takes to verify new memories against a store that is already full.

    python -m benchmarks.verifier_store --json OUT

A store of 10,000 memories is filled from the generator (its own pairs are not verified: that was paid when
they came), then 1,000 more arrive and are verified: candidates, cheap head, second head where the router asks
it, and the edges written. Texts are seeded and made of what one person tells an agent; a store of real text
has other candidates, so the figure is about cost, not about quality.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks import reporting
from synthetic import conversations
from synthetic import pairs as generator
from validity_graph import ValidityGraph
from validity_graph.formats import Record
from validity_graph.records import Memory
from validity_graph.verifier import Scores, Verifier
from validity_graph.verifier.router import report


def texts(count: int, *, seed: int) -> list[str]:
    """``count`` different texts, half of them conversational."""
    half = count // 2 + 1
    told = [row["target"] for row in conversations.generate(seed, 4 * half)]
    plain = [pair.target for pair in generator.generate(seed, 4 * half, split="validation")]
    found = [*list(dict.fromkeys(told))[:half], *list(dict.fromkeys(plain))[:half]]
    np.random.default_rng(seed).shuffle(found)
    return found[:count]


class Silent:
    """Stands in for the verifier while the store is filled: nothing overturns anything."""

    def score(self, sources: Sequence[str], targets: Sequence[str], **_: Any) -> Scores:
        """Return scores of 0."""
        none = np.zeros(len(sources))
        kind = np.full(len(sources), "none")
        return Scores(none, np.full(len(sources), np.nan), none, none, none, kind, none, report([]))


class Counted:
    """The verifier under test, which remembers what its router did and how long it took."""

    def __init__(self, verifier: Verifier) -> None:
        """Wrap ``verifier``."""
        self.verifier, self.seconds, self.stopped = verifier, 0.0, 1.0

    def score(self, sources: Sequence[str], targets: Sequence[str], **given: Any) -> Scores:
        """Score as the verifier does."""
        started = time.perf_counter()
        scores = self.verifier.score(sources, targets, **given)
        self.seconds, self.stopped = time.perf_counter() - started, scores.routing.stopped_cheap
        return scores


def records(told: Sequence[str], *, start: int) -> list[Record]:
    """One memory a text, named by its number."""
    return [Record("", Memory(str(start + k), text)) for k, text in enumerate(told)]


def measure(place: Path, verifier: Verifier, *, stored: int, arriving: int, seed: int) -> dict[str, Any]:
    """Fill a store, let memories arrive, and time their verification."""
    every = texts(stored + arriving, seed=seed)
    filled = ValidityGraph.open(str(place), verifier=Silent())  # type: ignore[arg-type]
    filled.ingest(records(every[:stored], start=0))
    filled.verify()
    counted = Counted(verifier)
    graph = ValidityGraph.open(str(place), verifier=counted)  # type: ignore[arg-type]
    started = time.perf_counter()
    graph.ingest(records(every[stored:], start=stored))
    found = graph.verify()
    seconds = time.perf_counter() - started
    return {
        "stored": stored, "arriving": arriving, "pairs": found.pairs, "overturns": found.overturns,
        "stopped_cheap": counted.stopped, "verifier_seconds": counted.seconds, "seconds": seconds,
    }  # fmt: skip


def main() -> None:
    """Command line: see the module's first lines."""
    parser = argparse.ArgumentParser(description="Seconds to verify new memories against a full store.")
    parser.add_argument("--data", type=Path, help="accepted for uniformity; the texts are drawn here")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="a tenth of the sizes")
    parser.add_argument("--json", type=Path, dest="out")
    given = parser.parse_args()
    stored, arriving = (1_000, 100) if given.quick else (10_000, 1_000)
    verifier = Verifier.load()
    rows = []
    for name, judge in (("with second head", verifier), ("cheap head alone", verifier.asking_never())):
        judge.score(["I moved."], ["I live here."])
        with TemporaryDirectory() as folder:
            place = Path(folder) / "store.db"
            rows.append(
                {"verifier": name} | measure(place, judge, stored=stored, arriving=arriving, seed=given.seed)
            )
    reporting.table("verifier_store: new memories against a full store", rows)
    summary = {"seconds": rows[0]["seconds"], "stopped_cheap": rows[0]["stopped_cheap"]}
    print(summary)
    reporting.write(given.out, benchmark="verifier_store", rows=rows, summary=summary, seed=given.seed)


if __name__ == "__main__":
    main()
