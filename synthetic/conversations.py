"""Seeded training pairs in the shape of conversations: what decides stands among talk that decides nothing.

``python -m synthetic.conversations --seed 7 --count 20000 -o FILE.jsonl``

Six kinds of scene (preferences within one category, to-dos, goals that never name their old value, measured
goals among the daily log of the same measure, fields of named documents, calendar entries). Every statement
has claims, a mapping from what it speaks of to the value that holds afterwards; a source overturns a target
exactly when the two give one thing different values, so no label is written by hand. The kinds follow
failure patterns of an earlier checkpoint ([V3] Algorithm 2); wordings are ours
(``conversation_texts.txt``). May not know any evaluation data.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from synthetic.conversation_documents import documents
from synthetic.conversation_phrases import GONE, Scene, Statement, claim, dress, fill, kinds, say, sections
from synthetic.json_lines import command

OVERTURN_SHARE = 0.42


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
        text = _elaborated(say(rng, section, item=item), "change" if change else f"{value}s", rng)
        return Statement(text, claim(item, value), change)

    def switch(item: str, other: str) -> Statement:
        claims = claim(item, "dislike") | claim(other, "like")
        text = say(rng, "switches", item=item, other=other)
        return Statement(_elaborated(text, "change", rng), claims, True)

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


def _elaborated(text: str, mood: str, rng: random.Random) -> str:
    """``text``, as often as not with a sentence on why."""
    return f"{text} {say(rng, f'{mood}_more')}" if rng.random() < 0.5 else text


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
        return Statement(say(rng, section, **form), claim(form["inf"], GONE), True)

    sources = [
        ended(forms[0]), ended(forms[0]), ended(forms[1]), ended(forms[2]),
        Statement(say(rng, "todo_open", **forms[0]), claim(forms[0]["inf"], "open")),
        Statement(say(rng, "todo_other", **forms[0]), {}),
        Statement(say(rng, "todo", **forms[3]), claim(forms[3]["inf"], "open")),
    ]  # fmt: skip
    targets = [Statement(say(rng, "todo", **form), claim(form["inf"], "open")) for form in (forms[0], *forms)]
    targets.append(Statement(say(rng, "todo_open", **forms[0]), claim(forms[0]["inf"], "open")))
    return Scene("todo", sources, targets)


def goals(rng: random.Random) -> Scene:
    """Goals of two kinds; a new one of a kind replaces the old one without naming it."""
    ours, theirs = rng.sample(kinds("goal"), 2)
    first, second, third = rng.sample(sections()[f"goal {ours}"], 3)
    other = rng.choice(sections()[f"goal {theirs}"])

    def goal(section: str, kind: str, text: str) -> Statement:
        return Statement(say(rng, section, kind=kind, goal=text), claim(kind, text), section == "goal_update")

    sources = [
        goal("goal_update", ours, second), goal("goal_update", ours, third),
        goal("goal_update", theirs, other), goal("goal_set", ours, first),
        Statement(say(rng, "goal_reached", kind=ours), claim(ours, GONE), True),
        Statement(say(rng, "goal_progress", kind=ours), {}),
        Statement(say(rng, "goal_progress", kind=theirs), {}),
    ]  # fmt: skip
    targets = [
        goal("goal_set", ours, first), goal("goal_update", ours, first), goal("goal_set", ours, second),
        goal("goal_set", theirs, other), goal("goal_update", theirs, other),
    ]  # fmt: skip
    return Scene("goal", sources, targets)


def measures(rng: random.Random) -> Scene:
    """Numeric goals; a new number replaces the old one, while the log of single days replaces nothing."""
    ours, theirs = (line.split(" | ") for line in rng.sample(sections()["measure"], 2))

    def goal(section: str, measure: Sequence[str], number: str) -> Statement:
        kind, template = measure[:2]
        text = say(rng, section, kind=kind, goal=template.replace("{n}", number))
        return Statement(text, claim(kind, number), section == "measure_update")

    def log(measure: Sequence[str]) -> Statement:
        return Statement(measure[3].replace("{m}", rng.choice(measure[4].split(", "))), {})

    old, new, *rest = rng.sample(numbers := re.split(r", (?=\S)", ours[2]), len(numbers))
    latest = rng.choice(rest or [new])
    other, changed = rng.sample(re.split(r", (?=\S)", theirs[2]), 2)
    sources = [
        goal("measure_update", ours, new), goal("measure_update", ours, latest),
        goal("measure_update", theirs, changed), goal("measure_set", theirs, other),
        goal("measure_keep", ours, old), log(ours),
        Statement(say(rng, "measure_drop", kind=ours[0]), claim(ours[0], GONE), True),
    ]  # fmt: skip
    targets = [
        goal("measure_set", ours, old), goal("measure_update", ours, old), log(ours), log(ours),
        goal("measure_set", theirs, other), log(theirs),
    ]  # fmt: skip
    return Scene("measure", sources, targets)


def calendar(rng: random.Random) -> Scene:
    """Appointments that are moved, cancelled or merely mentioned."""
    events = rng.sample(sections()["event"], 3)
    days = rng.sample("Monday Tuesday Wednesday Thursday Friday Saturday".split(), 4)
    times = rng.sample(("9 am", "10:30", "noon", "2 pm", "3:15 pm", "4:45 pm", "6 pm"), 4)
    slots = list(zip(days, times, strict=True))

    def entry(section: str, event: str, slot: tuple[str, str]) -> Statement:
        text = say(rng, section, event=event, day=slot[0], time=slot[1])
        return Statement(text, claim(event, " ".join(slot)), section == "event_move")

    one, two, three = events
    sources = [
        entry("event_move", one, slots[1]), entry("event_move", one, slots[2]),
        entry("event_move", two, slots[3]),
        Statement(say(rng, "event_cancel", event=one), claim(one, GONE), True),
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
    (preferences, 0.30), (todos, 0.20), (documents, 0.25), (measures, 0.12), (goals, 0.06), (calendar, 0.07),
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


if __name__ == "__main__":
    command(generate, "Write seeded conversational pairs as JSON lines.")
