"""Seeded training pairs in the shape of conversations: what decides stands among talk that decides nothing.

``python -m synthetic.conversations --seed 7 --count 20000 -o FILE.jsonl``

Five kinds of scene (preferences within one category, to-dos, goals that never name their old value, fields of
named documents, calendar entries).  Every statement has claims, a mapping from what it speaks of to the value
that holds afterwards; a source overturns a target exactly when the two give one thing different values, so no
label is written by hand.  The kinds follow failure patterns of an earlier checkpoint ([V3] Algorithm 2);
wordings are ours (``conversation_texts.txt``).  May not know any evaluation data.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

TEXTS = Path(__file__).with_name("conversation_texts.txt")
#: A value that no statement of a target claims: what was said before is gone, with nothing in its place.
GONE = "(gone)"
OVERTURN_SHARE = 0.42
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


def _one(thing: str, *value: str) -> dict[str, frozenset[str]]:
    return {thing: frozenset(value)}


def preferences(rng: random.Random) -> Scene:
    """Two or three items of one category and an item of another, each liked, disliked or changed."""
    items = [*_items(rng, rng.choice(kinds("category")), 3), *_items(rng, rng.choice(kinds("category")), 1)]
    polar = (
        ("likes", "like", False), ("dislikes", "dislike", False), ("likes_to_dislikes", "dislike", True),
        ("dislikes_to_likes", "like", True), ("still_likes", "like", False),
        ("still_dislikes", "dislike", False),
    )  # fmt: skip

    def polarity(item: str, choices: Sequence[tuple[str, str, bool]]) -> Statement:
        section, value, change = rng.choice(choices)
        return Statement(say(rng, section, item=item), _one(item, value), change)

    def switch(item: str, other: str) -> Statement:
        claims = _one(item, "dislike") | _one(other, "like")
        return Statement(say(rng, "switches", item=item, other=other), claims, True)

    one, two, three, foreign = items
    sources = [
        switch(one, two), switch(three, one), polarity(one, polar[2:4]), polarity(two, polar[2:4]),
        polarity(one, polar), polarity(rng.choice(items), polar),
        Statement(say(rng, "neutral", item=one), {}),
    ]  # fmt: skip
    targets = [
        *(polarity(item, polar[:2]) for item in (one, one, two, three, foreign)),
        polarity(one, polar[2:4]), polarity(two, polar[2:4]), switch(one, two), switch(two, three),
    ]  # fmt: skip
    return Scene("preference", sources, targets)


def _items(rng: random.Random, category: str, count: int) -> list[str]:
    line = rng.choice(sections()[f"category {category}"])
    template, values = line.split(" : ")
    return [fill(template, x=value) for value in rng.sample(values.split(", "), count)]


def todos(rng: random.Random) -> Scene:
    """Tasks of which one is done, cancelled, half done, postponed or done by someone else."""
    lines = sections()["task"]
    first = rng.choice(lines)
    alike = [line for line in lines if line != first and line.split()[0] == first.split()[0]]
    apart = [line for line in lines if line not in (first, *alike)]
    chosen = [first, *alike[:1], *rng.sample(apart, 3)][:4]
    forms = [dict(zip(("inf", "past", "ger", "noun"), line.split(" | "), strict=True)) for line in chosen]

    def ended(form: dict[str, str]) -> Statement:
        section = rng.choices(("todo_done", "todo_cancelled"), (3, 1))[0]
        return Statement(say(rng, section, **form), _one(form["inf"], GONE), True)

    sources = [
        ended(forms[0]), ended(forms[0]), ended(forms[1]), ended(forms[2]),
        Statement(say(rng, "todo_open", **forms[0]), _one(forms[0]["inf"], "open")),
        Statement(say(rng, "todo_other", **forms[0]), {}),
        Statement(say(rng, "todo", **forms[3]), _one(forms[3]["inf"], "open")),
    ]  # fmt: skip
    targets = [Statement(say(rng, "todo", **form), _one(form["inf"], "open")) for form in (forms[0], *forms)]
    targets.append(Statement(say(rng, "todo_open", **forms[0]), _one(forms[0]["inf"], "open")))
    return Scene("todo", sources, targets)


def goals(rng: random.Random) -> Scene:
    """Goals of two kinds; a new one of a kind replaces the old one without naming it."""
    ours, theirs = rng.sample(kinds("goal"), 2)
    first, second, third = rng.sample(sections()[f"goal {ours}"], 3)
    other = rng.choice(sections()[f"goal {theirs}"])

    def goal(section: str, kind: str, text: str) -> Statement:
        return Statement(say(rng, section, kind=kind, goal=text), _one(kind, text), section == "goal_update")

    sources = [
        goal("goal_update", ours, second), goal("goal_update", ours, third),
        goal("goal_update", theirs, other), goal("goal_set", ours, first),
        Statement(say(rng, "goal_reached", kind=ours), _one(ours, GONE), True),
        Statement(say(rng, "goal_progress", kind=ours), {}),
        Statement(say(rng, "goal_progress", kind=theirs), {}),
    ]  # fmt: skip
    targets = [
        goal("goal_set", ours, first), goal("goal_update", ours, first), goal("goal_set", ours, second),
        goal("goal_set", theirs, other), goal("goal_update", theirs, other),
    ]  # fmt: skip
    return Scene("goal", sources, targets)


@dataclass(frozen=True)
class Document:
    """A named document of one kind."""

    kind: str
    title: str

    def about(self, rng: random.Random, section: str) -> str:
        """Name the document in a sentence."""
        return say(rng, section, doc=self.kind, title=self.title)


def documents(rng: random.Random) -> Scene:
    """Two documents; one field of one of them is changed, put back, added to or partly removed."""
    here, there = (_document(rng) for _ in range(2))
    field, quiet = rng.sample(kinds("field"), 2)
    listed = rng.choice(kinds("list"))
    values = rng.sample(_values(field), 4)
    entries = rng.sample(_entries(listed), 4)
    sources = [
        _edited(rng, here, field, values[0], values[1]), _edited(rng, here, field, values[1], values[2]),
        _edited(rng, here, field, values[1], values[0], section="field_revert"),
        _edited(rng, there, field, values[2], values[3]),
        _statement(rng, here, "edit_context", say(rng, "field_remove", field=listed, old=entries[0]),
                   _one(f"{here.title}/{listed}/{entries[0]}", GONE), change=True),
        _statement(rng, here, "edit_context", say(rng, "field_add", field=listed, new=entries[3]), {}),
    ]  # fmt: skip
    targets = [
        _stated(rng, here, field, values[0]), _edited(rng, here, field, values[0], values[1]),
        _stated(rng, here, quiet, rng.choice(_values(quiet))), _stated(rng, there, field, values[2]),
        _listing(rng, here, listed, entries[:2]), _listing(rng, here, listed, entries[1:3]),
        _listing(rng, there, listed, entries[:2]),
        Statement(here.about(rng, "document_context"), {}),
    ]  # fmt: skip
    return Scene("document", sources, targets)


def _document(rng: random.Random) -> Document:
    title = " ".join(rng.choice(sections()[f"title_{part}"]) for part in ("head", "core", "tail"))
    return Document(rng.choice(sections()["document_kind"]), title)


def _values(field: str) -> list[str]:
    return sections()[f"field {field}"][0].split(" : ")[1].split(", ") if field != "budget" else _budgets()


def _budgets() -> list[str]:
    # Thousands are written with commas, so a comma alone does not part two values.
    return re.split(r", (?=\S)", sections()["field budget"][0].split(" : ")[1])


def _entries(listed: str) -> list[str]:
    return sections()[f"list {listed}"][0].split(" : ")[1].split(", ")


def _statement(
    rng: random.Random, document: Document, context: str, said: str, claims: Mapping[str, frozenset[str]],
    *, change: bool = False,
) -> Statement:  # fmt: skip
    return Statement(f"{document.about(rng, context)} {said}", claims, change)


def _stated(rng: random.Random, document: Document, field: str, value: str) -> Statement:
    template = rng.choice(sections()[f"field {field}"]).split(" : ")[0].removesuffix(" :")
    said = capital(fill(template, value=value)) + "."
    return _statement(rng, document, "document_context", said, _one(f"{document.title}/{field}", value))


def _edited(
    rng: random.Random, document: Document, field: str, old: str, new: str, *, section: str = "field_replace"
) -> Statement:
    said = say(rng, section, field=field, old=old, new=new)
    claims = _one(f"{document.title}/{field}", new)
    return _statement(rng, document, "edit_context", said, claims, change=True)


def _listing(rng: random.Random, document: Document, listed: str, entries: Sequence[str]) -> Statement:
    template = rng.choice(sections()[f"list {listed}"]).split(" : ")[0]
    claims: dict[str, frozenset[str]] = {}
    for entry in entries:
        claims |= _one(f"{document.title}/{listed}/{entry}", "in")
    said = capital(fill(template, a=entries[0], b=entries[1])) + "."
    return _statement(rng, document, "document_context", said, claims)


def calendar(rng: random.Random) -> Scene:
    """Appointments that are moved, cancelled or merely mentioned."""
    events = rng.sample(sections()["event"], 3)
    days = rng.sample("Monday Tuesday Wednesday Thursday Friday Saturday".split(), 4)
    times = rng.sample(("9 am", "10:30", "noon", "2 pm", "3:15 pm", "4:45 pm", "6 pm"), 4)
    slots = list(zip(days, times, strict=True))

    def entry(section: str, event: str, slot: tuple[str, str]) -> Statement:
        text = say(rng, section, event=event, day=slot[0], time=slot[1])
        return Statement(text, _one(event, " ".join(slot)), section == "event_move")

    one, two, three = events
    sources = [
        entry("event_move", one, slots[1]), entry("event_move", one, slots[2]),
        entry("event_move", two, slots[3]),
        Statement(say(rng, "event_cancel", event=one), _one(one, GONE), True),
        Statement(say(rng, "event_neutral", event=one, day=slots[0][0], time=slots[0][1]), {}),
        entry("event_set", three, slots[0]),
    ]  # fmt: skip
    targets = [
        entry("event_set", one, slots[0]), entry("event_move", one, slots[0]),
        entry("event_set", one, slots[1]),
        entry("event_set", two, slots[0]), entry("event_set", three, slots[1]),
    ]  # fmt: skip
    return Scene("calendar", sources, targets)


SCENES: tuple[tuple[Callable[[random.Random], Scene], float], ...] = (
    (preferences, 0.35), (todos, 0.22), (documents, 0.25), (goals, 0.10), (calendar, 0.08),
)  # fmt: skip


def overturns(source: Statement, target: Statement) -> bool:
    """Whether one thing gets different values from the two statements."""
    shared = source.claims.keys() & target.claims.keys()
    return any(not source.claims[thing] & target.claims[thing] for thing in shared)


def row(
    scene: Scene, source: Statement, target: Statement, *, group: str, rng: random.Random
) -> dict[str, Any]:
    """One training pair in the format of ``validity-graph train``."""
    over = overturns(source, target)
    shared = bool(source.claims.keys() & target.claims.keys())
    operation = "supersedes" if over else "confirms" if shared else "none"
    return {
        "source": dress(source.text, rng), "target": dress(target.text, rng), "overturn": int(over),
        "same_proposition": int(shared), "event": int(source.change or over), "operation": operation,
        "domain": f"conversation_{scene.kind}", "lang": "en", "stratum": f"conversation_{operation}",
        "group": group,
    }  # fmt: skip


def generate(seed: int, count: int) -> Iterator[dict[str, Any]]:
    """``count`` pairs, the same for the same seed and count on every machine; about 42% overturn."""
    rng = random.Random(f"conversation:{seed}")
    builders, shares = zip(*SCENES, strict=True)
    made = overturned = number = 0
    while made < count:
        scene = rng.choices(builders, shares)[0](rng)
        number += 1
        for source in scene.sources:
            hit = [target for target in scene.targets if overturns(source, target)]
            spared = [target for target in scene.targets if not overturns(source, target)]
            few = overturned <= OVERTURN_SHARE * made
            chosen = [
                *rng.sample(hit, min(len(hit), 2 if few else 1)),
                *rng.sample(spared, min(len(spared), 2)),
            ]
            for target in chosen:
                if made == count:
                    return
                made += 1
                overturned += overturns(source, target)
                yield row(scene, source, target, group=f"conversation-{seed}-{number}", rng=rng)


def main() -> None:
    """Command line: see the module's first lines."""
    parser = argparse.ArgumentParser(description="Write seeded conversational pairs as JSON lines.")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("-o", "--output", type=Path, required=True)
    given = parser.parse_args()
    with given.output.open("w", encoding="utf-8") as lines:
        for pair in generate(given.seed, given.count):
            lines.write(json.dumps(pair, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
