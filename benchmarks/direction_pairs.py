"""The hand-written pairs of the direction challenge, read from ``direction_pairs.txt``.

Each pair is a later and an earlier memory with the verdict whether the later one overturns the earlier
(SEMANTICS section 1).  No text, item or phrasing of it occurs in the training generator;
``synthetic.audit`` checks that.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PATH = Path(__file__).with_suffix(".txt")


@dataclass(frozen=True)
class DirectionPair:
    """A later ``source``, an earlier ``target``, whether the first overturns the second, and the stratum."""

    stratum: str
    source: str
    target: str
    overturn: bool


def direction_pairs(path: Path = PATH) -> tuple[DirectionPair, ...]:
    """All pairs in file order.

    Raises ``ValueError`` with file and line for a line that is neither a heading, a target nor a source,
    and for a source before any target.
    """
    found: list[DirectionPair] = []
    stratum = target = ""
    for number, raw in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        line = raw.strip()
        if line.startswith("## "):
            stratum, target = line[3:], ""
        elif line.startswith("T: "):
            target = line[3:]
        elif line[:2] in {"+ ", "- "} and target:
            found.append(DirectionPair(stratum, line[2:], target, line[0] == "+"))
        elif line and not line.startswith("#"):
            raise ValueError(f"{path.name}:{number}: expected '## ', 'T: ', '+ ' or '- ', got {line!r}")
    return tuple(found)
