"""The rule by which a checkpoint ships: not behind on the gates, ahead somewhere, beyond the interval."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.release_gate import compare, ships


def share(right: int, of: int = 200) -> np.ndarray:
    return np.arange(of) < right


@pytest.mark.parametrize(
    ("directions", "memora", "verdict"),
    [
        (150, 150, False),  # nothing gained
        (150, 170, True),  # the same on the gate, ahead elsewhere
        (120, 170, False),  # ahead elsewhere, behind on the gate
        (170, 120, True),  # only the gates can refuse
        (149, 151, False),  # one item each way is within the interval
    ],
)
def test_only_differences_beyond_the_interval_count(directions: int, memora: int, verdict: bool) -> None:
    old = {"directions": share(150), "cases": share(150), "memora weekly": share(150)}
    new = {"directions": share(directions), "cases": share(150), "memora weekly": share(memora)}
    rows = compare(old, new)
    assert ships(rows) is verdict
    assert [row["difference"] for row in rows] == pytest.approx(
        [(directions - 150) / 200, 0.0, (memora - 150) / 200]
    )


def test_the_interval_is_of_paired_differences() -> None:
    """Two judges that err on the same items differ less surely than their accuracies alone would say."""
    old = share(100)
    together = compare({"cases": old}, {"cases": share(110)})[0]
    apart = compare({"cases": old}, {"cases": ~share(90)})[0]
    assert together["difference"] == pytest.approx(apart["difference"])
    assert together["low"] > 0 > apart["low"]
