"""Scenes about liking and disliking one item: the contrastive quadruples.

Every scene crosses {like to dislike, dislike to like, switch to, switch from} with a target of each
polarity, so that neither the source nor the target alone tells the label.
"""

from __future__ import annotations

import random

from synthetic.pairs_templates.casting import Cast, cast_for, other_person
from synthetic.pairs_templates.catalogue import Section, Split, Template, shelf_and_words
from synthetic.pairs_templates.rendering import agree
from synthetic.pairs_templates.statements import NOTHING, Claim, Scene, Source, Target

LIKE, DISLIKE = frozenset({"like"}), frozenset({"dislike"})
QUADRUPLE = ("ld", "dl", "st", "sf")
EXTRA = ("l", "d", "kl", "kd", "q", "n", "n", "pl", "pd", "o", "hl", "hd", "fl", "fd")


def _claims(role: str, x: str, y: str) -> tuple[Claim, ...]:
    """Return what a preference source of ``role`` says about the item x and its sibling y."""
    table = {
        "ld": (Claim(x, "preference_flip", DISLIKE, LIKE, change=True),),
        "dl": (Claim(x, "preference_flip", LIKE, DISLIKE, change=True),),
        "st": (
            Claim(x, "switch_to", LIKE, DISLIKE, change=True),
            Claim(y, "switch_from", NOTHING, LIKE, change=True),
        ),
        "sf": (
            Claim(x, "switch_from", NOTHING, LIKE, change=True),
            Claim(y, "switch_to", LIKE, DISLIKE, change=True),
        ),
        "l": (Claim(x, "bare_restated_value", LIKE),),
        "d": (Claim(x, "bare_restated_value", DISLIKE),),
        "kl": (Claim(x, "still", LIKE),),
        "kd": (Claim(x, "still", DISLIKE),),
        "q": (Claim(y, "additive", LIKE),),
        "n": (Claim(x, "hypothetical"),),
        "pl": (Claim(x, "history"),),
        "pd": (Claim(x, "history"),),
        "o": (Claim(("mention", x), "same_value_other"),),
        "hl": (Claim(x, "history_to_target", LIKE, DISLIKE, change=True),),
        "hd": (Claim(x, "history_to_target", DISLIKE, LIKE, change=True),),
        "fl": (Claim(x, "deletion", NOTHING, LIKE, change=True),),
        "fd": (Claim(x, "deletion", NOTHING, DISLIKE, change=True),),
    }
    return table[role]


def source_of(
    cast: Cast, words: list[Section], role: str, items: dict[str, str], keys: tuple[str, str]
) -> Source | None:
    pool = tuple(template for section in words for template in section.pick(role))
    template = cast.choose(pool)
    if template is None:
        return None
    text = cast.render(template, items)
    if cast.lang == "en":
        text = agree(agree(text, items["x"]), items["y"])
    return Source(text, template.id, _claims(role, *keys), cast.lang)


def targets_of(
    cast: Cast, words: list[Section], items: dict[str, str], keys: tuple[str, str]
) -> list[Target]:
    x, y = keys
    found: list[Target] = []

    def put(role: str, slot: object, holds: frozenset[str], relation: str, **changes: object) -> None:
        template: Template | None = cast.choose(tuple(t for s in words for t in s.pick(role)))
        if template is not None:
            slots = {**items, **changes.get("slots", {})}  # type: ignore[dict-item]
            text = cast.render(template, slots, person=changes.get("person"))  # type: ignore[arg-type]
            text = agree(text, slots["x"]) if cast.lang == "en" else text
            found.append(Target(text, template.id, slot, holds, relation, cast.lang))  # type: ignore[arg-type]

    put("l", x, LIKE, "main")
    put("d", x, DISLIKE, "main")
    put("hl", x, LIKE, "update")
    put("hd", x, DISLIKE, "update")
    put(
        "l" if cast.rng.random() < 0.6 else "d",
        y,
        LIKE,
        "sibling_item",
        slots={"x": items["y"], "y": items["x"]},
    )
    if found and found[-1].relation == "sibling_item" and ".d." in found[-1].template:
        last = found.pop()
        found.append(Target(last.text, last.template, y, DISLIKE, "sibling_item", cast.lang))
    if cast.lang == "en":
        stranger = other_person(cast)
        put("l", ("other", stranger.name, x), LIKE, "other_entity", person=stranger)
    put("o", ("mention", x), NOTHING, "other_attribute")
    return found


def build(rng: random.Random, split: Split, lang: str) -> Scene | None:
    """One preference scene: two near-sibling items of one category, quadruple first in ``always``."""
    drawn = shelf_and_words(rng, split, lang, kind="polar")
    if drawn is None:
        return None
    shelf, words = drawn
    usable = [s for s in words if s.domain in {"any", shelf.key}]
    x, y = rng.sample(list(shelf.values["item"]), 2)
    cast = cast_for(rng, split, lang)
    items, keys = {"x": x, "y": y}, (f"{cast.person.name}:{x}", f"{cast.person.name}:{y}")
    roles = [*QUADRUPLE, *rng.sample(EXTRA, 3)]
    made = [(role, source_of(cast, usable, role, items, keys)) for role in roles]
    sources = tuple(source for _, source in made if source is not None)
    targets = tuple(targets_of(cast, usable, items, keys))
    core = [i for i, source in enumerate(sources) if any(source is s for r, s in made if r in QUADRUPLE)]
    poles = [j for j, target in enumerate(targets) if target.relation == "main"]
    return Scene(shelf.domain, sources, targets, tuple((i, j) for i in core for j in poles))
