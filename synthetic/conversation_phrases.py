"""Phrasings of ``synthetic.conversations``, and statements that say what they claim."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TEXTS = Path(__file__).with_name("conversation_texts.txt")
#: A value that no statement of a target claims: what was said before is gone, with nothing in its place.
GONE = "(gone)"
DRESSED = 0.6
#: Words that may lose their capital behind an opener.
PLAIN_START = frozenset(
    "A About After All Change Could Is It It's Let's Lately My New Nothing One Please Put Set Should "
    "Take The There They This Trying Undo Update We What When Where You".split()
)


@dataclass(frozen=True)
class Statement:
    """A text and what it claims: from a thing to the values of which at least one must hold."""

    text: str
    claims: Mapping[str, frozenset[str]]
    change: bool = False


@dataclass(frozen=True)
class Scene:
    """Statements of one situation; every source may be paired with every target."""

    kind: str
    sources: Sequence[Statement]
    targets: Sequence[Statement]


@cache
def sections() -> dict[str, list[str]]:
    """Lines of the phrasing file by section."""
    found: dict[str, list[str]] = defaultdict(list)
    name = ""
    for line in TEXTS.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            name = line.strip("[]")
        elif line and not line.startswith("#"):
            found[name].append(line)
    return dict(found)


def kinds(prefix: str) -> list[str]:
    """Names of the sections ``[prefix NAME]``, without the prefix."""
    return [name.removeprefix(prefix + " ") for name in sections() if name.startswith(prefix + " ")]


def capital(text: str) -> str:
    """``text`` with its first letter in upper case."""
    return text[:1].upper() + text[1:]


def fill(template: str, **value: str) -> str:
    """Fill ``{name}`` and, with a capital, ``{Name}``."""
    value |= {capital(name): capital(text) for name, text in value.items()}
    return re.sub(r"\{(\w+)\}", lambda found: value[found[1]], template)


def say(rng: random.Random, section: str, **value: str) -> str:
    """One phrasing of ``section``, filled in."""
    return fill(rng.choice(sections()[section]), **value)


def dress(text: str, rng: random.Random) -> str:
    """``text`` with talk around it, often none."""
    topic = rng.choice(sections()["topic"])
    if rng.random() < DRESSED:
        opener = say(rng, "opener", topic=topic)
        joined = opener[-1] in ",:" or opener.endswith(" and")
        if joined and text.split(" ", 1)[0] in PLAIN_START:
            text = text[0].lower() + text[1:]
        text = f"{opener} {text}"
    if rng.random() < DRESSED / 2:
        text = f"{text} {say(rng, 'closer', topic=topic)}"
    return text


def claim(thing: str, *value: str) -> dict[str, frozenset[str]]:
    """Return the claim that ``thing`` has one of these values."""
    return {thing: frozenset(value)}
