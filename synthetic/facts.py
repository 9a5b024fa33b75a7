"""Seeded training pairs of encyclopaedic facts: a subject, a relation with one value at a time, an object.

``python -m synthetic.facts --seed 7 --count 20000 -o FILE.jsonl``

A later sentence of the same subject and relation with another object overturns the earlier one.  What only
looks like it does not: another subject of the same relation (often one with a name in common), another
relation of the same subject, the same value in other words, a value that is only rumoured or past.  Names and
phrasings stand in ``fact_texts.txt``; no name is drawn from any evaluation set.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from synthetic.json_lines import Row, command

TEXTS = Path(__file__).with_name("fact_texts.txt")
#: How often a later sentence has the phrasing of the earlier one, and another subject a name in common.
SAME_PHRASING = 0.6
NAMESAKE = 0.6
ENDED = ("No longer true: {fact}", "This is out of date now: {fact}")
UNCERTAIN = (
    "Some expect that soon this will hold: {fact}",
    "It was once said, wrongly, that {fact}",
    "Until 1987 it held that {fact}",
    "In a novel by a friend of mine, {fact}",
)


@dataclass(frozen=True)
class Relation:
    """A relation that has one value at a time: kinds of its subject and object, and its phrasings."""

    name: str
    subject: str
    object: str
    phrasings: tuple[str, ...]


@cache
def relations() -> tuple[Relation, ...]:
    """Return every relation of the phrasing file."""
    found = []
    for title, lines in _sections():
        if title.startswith("relation "):
            name, kinds = title.removeprefix("relation ").split(" : ")
            subject, value = kinds.split(" > ")
            found.append(Relation(name, subject, value, tuple(lines)))
    return tuple(found)


@cache
def names() -> dict[str, tuple[str, ...]]:
    """Return the names of each kind, or templates over other kinds."""
    return {
        title.removeprefix("kind "): tuple(name for line in lines for name in line.split(" | "))
        for title, lines in _sections()
        if title.startswith("kind ")
    }


def _sections() -> Iterator[tuple[str, list[str]]]:
    for block in TEXTS.read_text(encoding="utf-8").split("\n\n"):
        title, _, lines = block.strip().partition("\n")
        if title.startswith("["):
            yield title.strip("[]"), lines.splitlines()


def named(kind: str, rng: random.Random) -> str:
    """Return a name of a kind."""
    return _filled(rng.choice(names()[kind]), rng)


def _filled(template: str, rng: random.Random) -> str:
    text = re.sub(r"\{(\w+)\}", lambda found: _part(found[1], rng), template)
    return text[:1].upper() + text[1:] if "{" in template and not template.startswith("the ") else text


def _part(kind: str, rng: random.Random) -> str:
    part = named(kind, rng)
    return part.capitalize() if kind in ("noun", "adjective") else part


def namesake(name: str, kind: str, rng: random.Random) -> str:
    """Return another name of the kind, most often one that shares words with ``name``."""
    others = [other_name(kind, rng, name) for _ in range(200 if rng.random() < NAMESAKE else 1)]
    return max(others, key=lambda other: len(set(other.split()) & set(name.split())))


def other_name(kind: str, rng: random.Random, *taken: str) -> str:
    """Return a name of the kind that is not taken."""
    while (name := named(kind, rng)) in taken:
        pass
    return name


def stated(relation: Relation, subject: str, value: str, phrasing: str) -> str:
    """Return the fact as a sentence."""
    text = phrasing.replace("{s}", subject).replace("{o}", value)
    return text[:1].upper() + text[1:]


def scene(relation: Relation, rng: random.Random) -> Iterator[tuple[str, str, str]]:
    """Yield (source, target, operation) about one fact; the operation is ``none`` where it stands."""
    subject = named(relation.subject, rng)
    old = other_name(relation.object, rng, subject)
    new = other_name(relation.object, rng, subject, old)
    twin = namesake(subject, relation.subject, rng)
    first = rng.choice(relation.phrasings)

    def later(who: str, value: str) -> str:
        same = rng.random() < SAME_PHRASING
        return stated(relation, who, value, first if same else rng.choice(relation.phrasings))

    target = stated(relation, subject, old, first)
    yield later(subject, new), target, "supersedes"
    yield later(subject, other_name(relation.object, rng, subject, old)), target, "supersedes"
    yield later(twin, new), target, "none"
    yield later(twin, rng.choice((new, old))), target, "none"
    yield later(other_name(relation.subject, rng, twin), new), later(twin, old), "none"
    yield stated(relation, subject, old, rng.choice(relation.phrasings)), target, "confirms"
    others = [r for r in relations() if r.subject == relation.subject and r.name != relation.name]
    if others:
        other = rng.choice(others)
        value = new if other.object == relation.object else other_name(other.object, rng, subject, old)
        yield stated(other, subject, value, rng.choice(other.phrasings)), target, "none"
    if relation.subject == relation.object:
        yield later(old, new), target, "none"
    if rng.random() < 0.5:
        fact = later(subject, old)
        yield rng.choice(ENDED).replace("{fact}", fact), target, "retracts"
        yield rng.choice(UNCERTAIN).replace("{fact}", later(subject, new)), target, "none"


def generate(seed: int, count: int) -> list[Row]:
    """Return ``count`` pairs, the same for the same seed and count; every relation as often as another."""
    rng = random.Random(f"facts {seed}")
    found: list[Row] = []
    while len(found) < count:
        for relation in rng.sample(relations(), len(relations())):
            group = f"fact-{seed}-{relation.name}-{len(found)}"
            found += [labelled(*pair, group=group) for pair in scene(relation, rng) if pair[0] != pair[1]]
    rng.shuffle(found)
    return found[:count]


def labelled(source: str, target: str, kind: str, *, group: str) -> Row:
    """Return one pair in the format of ``validity-graph train``."""
    over = kind in ("supersedes", "retracts")
    return {
        "source": source, "target": target, "overturn": int(over), "operation": kind,
        "same_proposition": int(kind != "none"), "event": 1 if over else None,
        "domain": "facts", "lang": "en", "stratum": f"fact_{kind}", "group": group,
    }  # fmt: skip


if __name__ == "__main__":
    command(generate, "Write seeded pairs of facts as JSON lines.")
