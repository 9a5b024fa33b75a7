"""What every benchmark program shares: one JSON shape, one table, where the figures come from."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

PACKAGES = (
    "numpy",
    "scipy",
    "numba",
    "onnxruntime",
    "tokenizers",
    "torch",
    "torch-geometric",
    "validity-graph",
)
#: Instructions that int8 and bfloat16 products are fast with, as Linux names them.
INSTRUCTIONS = frozenset(
    ("avx2", "avx512f", "avx_vnni", "avx512_vnni", "avx512_bf16", "amx_int8", "amx_bf16", "asimddp", "i8mm")
)
RESAMPLES = 4000
ROOT = Path(__file__).resolve().parent.parent


def commit() -> str:
    """Return the commit of this checkout, with ``+`` behind it where tracked files differ from it."""
    try:
        head = _git("rev-parse", "HEAD")
        dirty = _git("status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head + ("+" if dirty else "")


def machine() -> dict[str, Any]:
    """Return what figures are measured on; ``instructions`` are those that the verifier's speed hangs on."""
    told = _processor()
    flags = set(told.get("flags", told.get("Features", "")).split())
    return {
        "processor": told.get("model name", "unknown"), "cores": os.cpu_count(),
        "system": platform.platform(terse=True), "instructions": sorted(flags & INSTRUCTIONS),
    }  # fmt: skip


def versions() -> dict[str, str]:
    """Return the version of Python and of each package that can move a figure."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def write(
    path: str | os.PathLike[str] | None,
    *,
    benchmark: str,
    rows: Sequence[Mapping[str, Any]],
    summary: Mapping[str, float],
    **context: Any,  # noqa: ANN401  seeds, arguments: whatever the run must be repeatable from
) -> None:
    """Write one run as JSON to ``path``; ``None`` writes nothing.

    ``rows`` are the raw numbers, ``summary`` maps fixed names to one number each, ``context`` holds the
    seeds and arguments that the run needs to be repeated.
    """
    if path is None:
        return
    document = {
        "benchmark": benchmark,
        "command": _command(benchmark),
        "commit": commit(),
        "machine": machine(),
        "versions": versions(),
        **context,
        "rows": list(rows),
        "summary": dict(summary),
    }
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def table(title: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Print ``rows`` as one table; the columns are the keys of the first row."""
    listed = list(rows)
    if not listed:
        return
    shown = Table(title=title, title_justify="left")
    for column in listed[0]:
        shown.add_column(str(column), justify="left" if isinstance(listed[0][column], str) else "right")
    for row in listed:
        shown.add_row(*(_cell(row.get(column)) for column in listed[0]))
    Console(width=None if os.isatty(1) else 160).print(shown)


def paired(old: NDArray[np.bool_], new: NDArray[np.bool_]) -> dict[str, float]:
    """Return how much more is right in ``new`` than in ``old`` ``(n,)``, with a 95% bootstrap interval.

    The difference is paired by item; the resamples are the same in every run.
    """
    rng = np.random.default_rng(0)
    difference = new.astype(np.float64) - old
    count = len(difference)
    means = [difference[rng.integers(0, count, count)].mean() for _ in range(RESAMPLES)]
    low, high = np.quantile(means, (0.025, 0.975))
    return {"difference": float(difference.mean()), "low": float(low), "high": float(high)}


def _command(benchmark: str) -> str:
    """Return how the run was started, with folders of this machine left out."""
    shown = [Path(part).name if os.sep in part else part for part in sys.argv[1:]]
    return " ".join(["python -m", f"benchmarks.{benchmark}", *shown])


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _processor() -> dict[str, str]:
    """Return what Linux says of the first processor; elsewhere its name alone."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return {"model name": platform.processor()}
    split = [line.split(":", 1) for line in lines if ":" in line]
    return {key.strip(): value.strip() for key, value in reversed(split)}
