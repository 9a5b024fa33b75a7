"""Scenes written by hand as situations: what overturns a statement, what is only near it, what confirms it.

Roles: T the earlier statement, O overturns every T, N related and harmless, P about the same thing without
commitment, C confirms T, R retracts T, D an earlier statement near T that no O touches.
"""

from __future__ import annotations

import random

from synthetic.pairs_templates.casting import cast_for, other_person
from synthetic.pairs_templates.catalogue import Split, sections_of
from synthetic.pairs_templates.statements import NOTHING, Claim, Scene, Source, Target

ON, OFF = frozenset({"on"}), frozenset({"off"})


def build(rng: random.Random, split: Split, lang: str) -> Scene | None:
    """One situation with all its roles; None where the split lacks a statement to overturn."""
    sections = [s for s in sections_of(split) if s.kind == "implicit" and s.lang == lang and s.pick("T")]
    if not sections:
        return None
    section = rng.choice(sections)
    cast = cast_for(rng, split, lang)
    slots = {name: rng.choice(values) for name, values in section.values.items()}
    slot = (section.key, cast.person.name, *slots.values())
    claims = {
        "O": Claim(slot, "implicit", NOTHING, ON, change=True),
        "R": Claim(slot, "retraction", NOTHING, ON, change=True, retracts=True),
        "C": Claim(slot, "still", ON),
        "P": Claim(slot, "hypothetical"),
        "N": Claim(("near", *slot), "near_miss"),
    }
    sources = []
    for role, claim in claims.items():
        pool = list(section.pick(role))
        for template in rng.sample(pool, min(len(pool), 3 if role == "O" else 2)):
            sources.append(Source(cast.render(template, slots), template.id, (claim,), lang))
    targets = []
    states = list(section.pick("T"))
    for template in rng.sample(states, min(2, len(states))):
        targets.append(Target(cast.render(template, slots), template.id, slot, ON, "main", lang))
    if lang == "en" and "[" in states[0].text:
        stranger = other_person(cast)
        text = cast.render(states[0], slots, person=stranger)
        targets.append(Target(text, states[0].id, (section.key, stranger.name), ON, "other_entity", lang))
    for template in section.pick("D")[:2]:
        targets.append(
            Target(cast.render(template, slots), template.id, ("beside", *slot), ON, "near_miss", lang)
        )
    return Scene(section.domain, tuple(sources), tuple(targets))
