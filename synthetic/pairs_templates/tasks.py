"""Scenes about to-do items and list entries: completion, cancellation, partial progress, list changes.

An item of a ``todo`` shelf reads ``infinitive ; past ; gerund ; outcome``: the outcome shows that it is
done without saying so.  A list is many-valued: adding an entry ends nothing, removing one ends every
statement that contains it.
"""

from __future__ import annotations

import random

from synthetic.pairs_templates.casting import Cast, cast_for, other_person
from synthetic.pairs_templates.catalogue import Section, Split, shelf_and_words
from synthetic.pairs_templates.statements import NOTHING, Claim, Scene, Source, Target

OPEN, DONE = frozenset({"open"}), frozenset({"done"})
TASK_ROLES = {
    "done": Claim("", "completion", DONE, OPEN, change=True),
    "out": Claim("", "completion_implicit", DONE, OPEN, change=True),
    "drop": Claim("", "deletion", NOTHING, OPEN, change=True),
    "reopen": Claim("", "reopened", OPEN, DONE, change=True),
    "almost": Claim("", "partial_progress", OPEN, NOTHING),
    "still": Claim("", "still", OPEN, NOTHING),
    "plan": Claim("", "plan"),
    "ask": Claim("", "question"),
    "other": Claim("other", "third_party"),
}


def _slots(item: str) -> dict[str, str]:
    infinitive, past, gerund, outcome = (part.strip() for part in item.split(";"))
    return {"inf": infinitive, "past": past, "ger": gerund, "outcome": outcome}


def _word(cast: Cast, words: list[Section], role: str, slots: dict[str, str]) -> tuple[str, str] | None:
    template = cast.choose(tuple(t for s in words for t in s.pick(role)))
    return (cast.render(template, slots), template.id) if template else None


def build_todo(rng: random.Random, split: Split, lang: str) -> Scene | None:
    """One to-do item with its neighbours."""
    drawn = shelf_and_words(rng, split, lang, kind="todo")
    if drawn is None:
        return None
    shelf, words = drawn
    cast = cast_for(rng, split, lang)
    item, other = rng.sample(list(shelf.values["item"]), 2)
    sources, targets = [], []
    for role in [
        "done",
        "out",
        "drop",
        *rng.sample(["reopen", "almost", "almost", "still", "plan", "ask", "other"], 4),
    ]:
        made = _word(cast, words, role, {**_slots(item), "name": other_person(cast).name})
        if made:
            shape = TASK_ROLES[role]
            slot = (shape.slot, cast.person.name, item) if shape.slot else (cast.person.name, item)
            claim = Claim(slot, shape.stratum, shape.holds, shape.ends, change=shape.change)
            sources.append(Source(*made, (claim,), lang))
    for text, relation, holds, role in (
        (item, "main", OPEN, "s"),
        (item, "main", OPEN, "s"),
        (other, "other_item", OPEN, "s"),
        (item, "main", DONE, "done"),
        (item, "other_attribute", NOTHING, "o"),
    ):
        made = _word(cast, words, role, _slots(text))
        if made:
            slot = (cast.person.name, text) if role != "o" else ("mention", text)
            targets.append(Target(*made, slot, holds, relation, lang))
    if lang == "en":
        stranger = other_person(cast)
        template = cast.choose(tuple(t for s in words for t in s.pick("s")))
        if template:
            text = cast.render(template, _slots(item), person=stranger)
            targets.append(Target(text, template.id, (stranger.name, item), OPEN, "other_entity", lang))
    return Scene(shelf.domain, tuple(sources), tuple(targets))


def build_list(rng: random.Random, split: Split, lang: str) -> Scene | None:
    """One named list with entries a, c, d, a newcomer b, and a second list."""
    drawn = shelf_and_words(rng, split, lang, kind="list")
    if drawn is None:
        return None
    shelf, words = drawn
    words = [s for s in words if s.domain in {"any", shelf.key}]
    cast = cast_for(rng, split, lang)
    a, b, c, d = rng.sample(list(shelf.values["v"]), 4)
    name, *rest = rng.sample(list(shelf.values["x"]), min(2, len(shelf.values["x"])))
    base = {"x": name, "a": a, "b": b, "c": c, "d": d}
    slot = (shelf.key, name)
    claims = {
        "e": Claim(slot, "list_removal", NOTHING, frozenset({a}), False, True),
        "c": Claim(slot, "list_change", frozenset({b}), frozenset({a}), False, True),
        "empty": Claim(slot, "list_removal", NOTHING, frozenset({a, c, d}), False, True),
        "done": Claim(slot, "list_done", NOTHING, frozenset({a}), False, True),
        "add": Claim(slot, "additive", frozenset({b}), NOTHING, False, True),
        "k": Claim(slot, "still", frozenset({a}), NOTHING, False),
        "n": Claim(slot, "hypothetical", NOTHING, NOTHING, False),
        "e_b": Claim(slot, "other_item", NOTHING, frozenset({b}), False, True),
    }
    sources, targets = [], []
    for role, claim in claims.items():
        slots = {**base, "a": b} if role == "e_b" else base
        made = _word(cast, words, role.split("_")[0], slots)
        if made:
            sources.append(Source(*made, (claim,), lang))
    shapes = [
        ("all", base, slot, {a, c, d}, "main"),
        ("all", {**base, "a": b}, slot, {b, c, d}, "main"),
        ("one", base, slot, {a}, "main"),
        ("one", {**base, "a": c}, slot, {c}, "other_item"),
    ]
    if rest:
        shapes.append(("all", {**base, "x": rest[0]}, (shelf.key, rest[0]), {a, c, d}, "other_entity"))
    for role, slots, target_slot, holds, relation in shapes:
        made = _word(cast, words, role, slots)
        if made:
            targets.append(Target(*made, target_slot, frozenset(holds), relation, lang))
    return Scene(shelf.domain, tuple(sources), tuple(targets))
