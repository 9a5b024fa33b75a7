"""Training pairs as JSON lines, and the command line of the generators that write them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def write(path: Path, rows: Iterable[Row]) -> None:
    """Write rows as JSON lines."""
    with path.open("w", encoding="utf-8") as lines:
        for row in rows:
            lines.write(json.dumps(row, ensure_ascii=False) + "\n")


def command(generate: Callable[[int, int], Iterable[Row]], description: str) -> None:
    """Run ``generate(seed, count)`` as the command line asks for it."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("-o", "--output", type=Path, required=True)
    given = parser.parse_args()
    write(given.output, generate(given.seed, given.count))
