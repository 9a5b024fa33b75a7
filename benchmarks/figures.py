"""Draws the figures of the multi-hop study from its committed rows.

    python -m benchmarks.figures [--rows benchmarks/results/multihop.json] [-o benchmarks/figures]

Writes ``accuracy_by_length.svg`` (accuracy by chain length and class, with 95% intervals of the mean over
the seeds) and ``harm_against_recall.svg`` (false overturns of valid controls against invalidated targets
found, as the threshold of inferred support edges moves).  Nothing is measured here.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student

from synthetic.chains import COUNTS

ROWS = Path(__file__).parent / "results" / "multihop.json"
FOLDER = Path(__file__).parent / "figures"
METHODS = ("single text", "single hop", "learned graph", "given graph", "oracle")
CLASSES = ("all", "invalidated", "valid")
Row = Mapping[str, Any]


def mean_and_interval(values: Sequence[float]) -> tuple[float, float]:
    """Mean, and half the width of its 95% interval by Student's t; 0 for a single value."""
    count = len(values)
    if count < 2:
        return float(np.mean(values)), 0.0
    half = student.ppf(0.975, count - 1) * np.std(values, ddof=1) / np.sqrt(count)
    return float(np.mean(values)), float(half)


def by_length(rows: Sequence[Row], method: str, group: str) -> list[tuple[float, float]]:
    """Mean and interval of one method and class at each chain length, in percent."""
    mine = [row for row in rows if row.get("set") == "main" and row["method"] == method]
    cells = [[100 * row[f"{group}/{size}"] for row in mine if f"{group}/{size}" in row] for size in COUNTS]
    return [mean_and_interval(values) if values else (np.nan, 0.0) for values in cells]


def by_edge_threshold(rows: Sequence[Row]) -> list[tuple[float, float, float]]:
    """(threshold, false overturns, recall), means over the seeds in percent, by rising threshold."""
    swept = [row for row in rows if row.get("set") == "edge threshold"]
    return [
        (
            level,
            100 * float(np.mean([row["false_overturn"] for row in swept if row["edge_threshold"] == level])),
            100 * float(np.mean([row["recall"] for row in swept if row["edge_threshold"] == level])),
        )
        for level in sorted({row["edge_threshold"] for row in swept})
    ]


def draw_lengths(rows: Sequence[Row], path: Path) -> None:
    """Write the figure of accuracy by chain length."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(CLASSES), figsize=(10, 3.4), sharey=True, layout="constrained")
    for axis, group in zip(axes, CLASSES, strict=True):
        for method in METHODS:
            found = by_length(rows, method, group)
            axis.errorbar(
                list(COUNTS), [mean for mean, _ in found], yerr=[half for _, half in found],
                marker="o", capsize=3, label=method,
            )  # fmt: skip
        axis.set(title=group, xlabel="chain length", xticks=list(COUNTS), ylim=(0, 102))
    axes[0].set_ylabel("right, %")
    axes[0].legend(fontsize="small")
    _save(figure, path)


def draw_harm(rows: Sequence[Row], path: Path) -> None:
    """Write the figure of false overturns against recall."""
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(5, 3.6), layout="constrained")
    found = by_edge_threshold(rows)
    axis.plot([harm for _, harm, _ in found], [recall for _, _, recall in found], marker="o")
    for level, harm, recall in found:
        axis.annotate(
            f"{level:g}", (harm, recall), textcoords="offset points", xytext=(5, -9), fontsize="small"
        )
    axis.set(
        xlabel="valid controls overturned, %", ylabel="invalidated targets found, %",
        title="learned graph, by edge threshold",
    )  # fmt: skip
    _save(figure, path)


def _save(figure: Any, path: Path) -> None:  # noqa: ANN401  a matplotlib figure
    import matplotlib.pyplot as plt

    # The same rows give the same bytes: no date, fixed ids.
    with plt.rc_context({"svg.hashsalt": path.name}):
        figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    """Command line: see the module's first lines."""
    import matplotlib

    parser = argparse.ArgumentParser(description="Draw the figures of the multi-hop study.")
    parser.add_argument("--rows", type=Path, default=ROWS, help="JSON that benchmarks.multihop wrote")
    parser.add_argument("-o", "--output", type=Path, default=FOLDER)
    given = parser.parse_args()
    matplotlib.use("svg")
    rows = json.loads(given.rows.read_text(encoding="utf-8"))["rows"]
    given.output.mkdir(parents=True, exist_ok=True)
    for draw, name in ((draw_lengths, "accuracy_by_length.svg"), (draw_harm, "harm_against_recall.svg")):
        draw(rows, given.output / name)
        print(given.output / name)


if __name__ == "__main__":
    main()
