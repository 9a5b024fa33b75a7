"""The worlds of the multi-hop cases: domains with entities, values and phrasings, read from a text file.

Worlds of the ``train`` split may train the verifier and the scorer of support edges, those of ``validation``
stop and calibrate them; worlds of the ``test`` split train nothing, and no text here is a template of
``synthetic.pairs``.  Knows texts, no cases.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

Split = Literal["test", "train", "validation"]
TEXTS = Path(__file__).with_name("chain_texts.txt")
#: Roles whose lines are lists of words, not sentences.
LISTS = frozenset({"x", "v"})


@dataclass(frozen=True)
class World:
    """One domain: entities ``x``, values ``v`` of the attribute that heads state, and phrasings by role."""

    domain: str
    split: str
    lines: Mapping[str, tuple[str, ...]]


@lru_cache(maxsize=1)
def sections() -> tuple[World, ...]:
    """Return every section of the text file, the small talk included.

    Raises ``ValueError`` naming the line that is not ``role: text``.
    """
    found: list[tuple[str, str, dict[str, list[str]]]] = []
    for number, raw in enumerate(TEXTS.read_text(encoding="utf-8").splitlines(), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        if line.startswith("@"):
            domain, split = line[1:].split()
            found.append((domain, split, {}))
            continue
        role, separator, text = line.partition(": ")
        if not separator or not found:
            raise ValueError(f"{TEXTS.name}:{number}: expected 'role: text', got {line!r}")
        found[-1][2].setdefault(role, []).extend(text.split(" | ") if role in LISTS else [text])
    return tuple(
        World(domain, split, {k: tuple(v) for k, v in lines.items()}) for domain, split, lines in found
    )


def worlds(split: Split) -> tuple[World, ...]:
    """Return the worlds of one split."""
    return tuple(world for world in sections() if world.split == split)


def worlds_in_turn(rng: random.Random, split: Split) -> Iterator[tuple[World, tuple[World, ...]]]:
    """Yield worlds, each as often as every other, with the other worlds of the split."""
    pool = list(worlds(split))
    while True:
        rng.shuffle(pool)
        for world in list(pool):
            yield world, tuple(other for other in pool if other.domain != world.domain)


def texts(split: Split) -> Iterator[str]:
    """Yield every template of a split, for audits."""
    for world in worlds(split):
        for role, lines in world.lines.items():
            if role not in LISTS:
                yield from lines
