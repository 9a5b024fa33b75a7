"""The numbers that training multiplies in: bfloat16 where that is the faster type, else float32.

A processor without bfloat16 products emulates them, up to fifty times slower than float32, so which type is
faster is measured.  Needs torch.
"""

from __future__ import annotations

import time
from functools import cache

from validity_graph.errors import MissingExtraError

try:
    import torch
except ImportError:  # pragma: no cover - network has raised before
    raise MissingExtraError("training the verifier", needs="torch", extra="train") from None

#: Side of the square matrices that are multiplied to find out, and how often.
SIDE, REPEATS = 384, 4


def mixed_precision() -> torch.autocast:
    """Return a context in which products are computed in the faster type; sums stay float32."""
    return torch.autocast("cpu", dtype=torch.bfloat16, enabled=faster_in_bfloat16())


@cache
def faster_in_bfloat16() -> bool:
    """Whether this processor multiplies matrices faster in bfloat16 than in float32; asked once a process."""
    return seconds(torch.bfloat16) < seconds(torch.float32)


def seconds(kind: torch.dtype) -> float:
    """Seconds of one product in ``kind``, the best of ``REPEATS``."""
    factor = torch.ones((SIDE, SIDE), dtype=kind)
    best = float("inf")
    for _ in range(REPEATS):
        started = time.perf_counter()
        torch.mm(factor, factor)
        best = min(best, time.perf_counter() - started)
    return best
