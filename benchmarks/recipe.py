"""How much the recipe of the cheap head varies with its seed, beside the head that ships.

    python -m benchmarks.recipe --data DIR --seeds 7 11 23 31 47 --json OUT

Each seed draws its own mixture (``synthetic.verifier_recipe``), trains the offline base on it for one epoch,
exports and calibrates it, and is judged alone, without a second head, on the direction challenge and on
Memora's groups: mean and standard deviation say what the recipe is worth.  The packaged cheap head, which is
one checkpoint with more training behind it, stands in a row of its own and is not part of the mean.  Nothing
chooses among the seeds.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import reporting
from benchmarks.direction_pairs import direction_pairs
from benchmarks.directions import accuracy
from benchmarks.memora_data import Group, groups
from benchmarks.memora_roles import by_threshold, macro
from synthetic.bases import extend_characters
from synthetic.chains import SEEDS
from synthetic.json_lines import write
from synthetic.verifier_recipe import Row, Shares, mixture, validation
from validity_graph.verifier import Verifier

#: Pairs that one seed trains on: four minutes of two cores.
PAIRS = 40_000
VALIDATION = 4_000
FIGURES = ("directions_mean", "directions_worst", "memora_all_correct", "memora_ap")


def shares(pairs: int) -> Shares:
    """Return the shares of the recipe scaled to about ``pairs``; free-form pairs come once."""
    whole = Shares()
    parts = [field.name for field in fields(Shares) if field.name != "repeats"]
    free_form = 100_000
    factor = pairs / (sum(getattr(whole, name) for name in parts) + free_form)
    return Shares(**{name: int(getattr(whole, name) * factor) for name in parts}, repeats=1)


def judge(verifier: Verifier, listed: list[Group]) -> dict[str, float]:
    """Return the figures of one cheap head."""
    alone = verifier.asking_never()
    pairs = direction_pairs()
    gate = alone.score([pair.source for pair in pairs], [pair.target for pair in pairs]).gate
    strata = accuracy(pairs, gate)
    found = by_threshold(listed, lambda sources, targets: alone.score(sources, targets).gate)
    return {
        "directions_mean": float(np.mean(list(strata.values()))),
        "directions_worst": min(strata.values()),
        "memora_all_correct": float(np.mean([item.right for item in found])),
        "memora_ap": macro(found)["ap"],
    }


def trained(data: Path, folder: Path, *, seed: int, pairs: int) -> Verifier:
    """Train one seed of the recipe in ``folder``."""
    rows = mixture(data / "training", seed=seed, shares=shares(pairs), trees=data)
    return trained_on(rows[:pairs], folder, seed=seed)


def trained_on(rows: list[Row], folder: Path, *, seed: int) -> Verifier:
    """Train the offline base in ``folder`` for one epoch of these pairs."""
    from validity_graph.verifier.train import Settings, base_folder, train

    base = folder / "base"
    base.mkdir(parents=True)
    extend_characters(base_folder(), base, texts=[row[side] for row in rows for side in ("source", "target")])
    rng = np.random.default_rng(seed)
    held = validation(seed)
    write(folder / "pairs.jsonl", rows)
    write(folder / "validation.jsonl", [held[k] for k in rng.permutation(len(held))[:VALIDATION]])
    train(
        folder / "pairs.jsonl", output=folder / "weights", seed=seed, base=base,
        validation_path=folder / "validation.jsonl",
        settings=Settings(epochs=1.0, learning_rate=3e-4, batch_size=80, evaluate_every=10_000),
    )  # fmt: skip
    return Verifier.load(folder / "weights")


def main(arguments: list[str] | None = None) -> None:
    """Command line: see the module's first lines."""
    parser = argparse.ArgumentParser(description="Mean and deviation of the cheap head's recipe over seeds.")
    parser.add_argument("--data", type=Path, required=True, help="folder that holds training and memora")
    parser.add_argument("--period", default="weekly", help="period of Memora")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--quick", action="store_true", help="the first seed on a tenth of the pairs")
    parser.add_argument("--json", type=Path, dest="out")
    given = parser.parse_args(arguments)
    seeds, pairs = (given.seeds[:1], given.pairs // 10) if given.quick else (given.seeds, given.pairs)
    listed = [group for group in groups(given.data, period=given.period) if group.clean]
    rows: list[dict[str, Any]] = []
    for seed in seeds:
        with tempfile.TemporaryDirectory() as folder:
            found = judge(trained(given.data, Path(folder), seed=seed, pairs=pairs), listed)
        rows.append({"head": f"recipe, seed {seed}", "pairs": pairs, **found})
        reporting.table(f"recipe: {len(rows)} of {len(seeds)} seeds", rows)
    spread = len(rows) > 1
    summary: dict[str, float] = {}
    for name in FIGURES:
        values = np.array([row[name] for row in rows])
        summary[f"{name}/mean"] = float(values.mean())
        summary[f"{name}/deviation"] = float(values.std(ddof=1)) if spread else 0.0
    rows.append({"head": "packaged cheap head", "pairs": None, **judge(Verifier.load(), listed)})
    reporting.table("recipe: the cheap head alone, by seed, and the one that ships", rows)
    print({name: round(value, 4) for name, value in summary.items()})
    reporting.write(given.out, benchmark="recipe", rows=rows, summary=summary, seeds=seeds)


if __name__ == "__main__":
    main()
