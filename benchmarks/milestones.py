"""What each step of supervision brings on the multi-hop cases ([V3] section 8, Figure 2a).

    python -m benchmarks.milestones --data DIR --seeds 7 11 23 31 47 --json OUT

Three verifiers on the cases of ``benchmarks.multihop``, structure given and structure read from text: a cheap
head trained on real inference pairs alone (contradiction of one scene: no pair says which memory a later one
overturns), the same head trained on as many pairs of the recipe (slot supervision), and the packaged dual
gate.  Both heads are trained here, from the offline base, in the same number of steps.  [V3]'s milestones are
whole systems of their time, ours differ in supervision and gate alone: only the order is comparable.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks import reporting
from benchmarks.multihop import GIVEN, LEARNED, QUICK, Row, aggregated, run_main, support_judge
from benchmarks.recipe import PAIRS, shares, trained_on
from synthetic.chains import SEEDS
from synthetic.verifier_recipe import mixture, real_pairs
from validity_graph.verifier import Verifier

#: Seed of the two trainings; the seeds of the command line are those of the cases.
TRAINING_SEED = 7


def milestones(data: Path, folder: Path, *, pairs: int) -> Iterator[tuple[str, Verifier]]:
    """Yield each milestone's name and verifier, in the order of [V3] Figure 2a."""
    real = list(real_pairs(data / "training", random.Random(TRAINING_SEED)))
    mixed = mixture(data / "training", seed=TRAINING_SEED, shares=shares(pairs), trees=data)
    for name, rows in (("inference pairs alone", real), ("slot supervision", mixed)):
        chosen = random.Random(TRAINING_SEED).sample(rows, min(pairs, len(rows)))
        yield name, trained_on(chosen, folder / name.split()[0], seed=TRAINING_SEED).asking_never()
    yield "dual gate", Verifier.load()


def main(arguments: list[str] | None = None) -> None:
    """Command line: see the module's first lines."""
    parser = argparse.ArgumentParser(description="Multi-hop accuracy by steps of supervision.")
    parser.add_argument("--data", type=Path, required=True, help="folder that holds training")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--pairs", type=int, default=PAIRS, help="pairs that each of the two heads trains on")
    parser.add_argument("--quick", action="store_true", help="one seed, a tenth of the pairs, few cases")
    parser.add_argument("--json", type=Path, dest="out")
    given = parser.parse_args(arguments)
    seeds, pairs = (given.seeds[:1], given.pairs // 10) if given.quick else (given.seeds, given.pairs)
    every = QUICK if given.quick else 1
    rows: list[Row] = []
    supports = support_judge()
    with tempfile.TemporaryDirectory() as folder:
        for name, judge in milestones(given.data, Path(folder), pairs=pairs):
            for seed in seeds:
                found = run_main(seed, judge, supports, every=every).rows
                rows += [
                    {**row, "set": "milestone", "method": f"{name}, {row['method']}"}
                    for row in found
                    if row["method"] in (GIVEN, LEARNED)
                ]
    table = aggregated(rows)
    reporting.table("Milestones, percent right over the seeds", table)
    summary = {
        f"overall/{shown['method']}": sum(row["overall"] for row in rows if row["method"] == shown["method"])
        / len(seeds)
        for shown in table
    }
    print({name: round(value, 4) for name, value in summary.items()})
    reporting.write(given.out, benchmark="milestones", rows=rows, summary=summary, seeds=seeds)


if __name__ == "__main__":
    main()
