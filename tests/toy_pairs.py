"""Training pairs of a problem that a tiny model can learn."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def row(i: int) -> dict[str, Any]:
    """Pair i of a problem that a tiny model can learn: "no longer" overturns, "still" confirms."""
    place, change = ("oslo", "rome", "acme", "globex")[i % 4], i % 8 < 4
    return {
        "source": f"i {'no longer' if change else 'still'} live in {place}", "target": f"i live in {place}",
        "overturn": int(change), "same_proposition": 1, "event": int(change),
        "operation": "supersedes" if change else "confirms", "group": f"g{i // 2}", "stratum": "made_up",
    }  # fmt: skip


def write(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(one) + "\n" for one in rows), encoding="utf-8")
    return path
