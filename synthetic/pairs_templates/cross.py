"""Scenes whose source and target are in different languages.

Sections whose key ends in 2 exist in several languages with value lists in the same order, so value i of
one language means value i of another; situations are matched by ``SAME_SITUATION``.  Some language pairs
appear in validation only.
"""

from __future__ import annotations

import random
from dataclasses import replace

from synthetic.pairs_templates import functional, polar
from synthetic.pairs_templates.casting import Cast, cast_for
from synthetic.pairs_templates.catalogue import Section, Split, sections_of
from synthetic.pairs_templates.rendering import SPEAKER
from synthetic.pairs_templates.situations import ON
from synthetic.pairs_templates.statements import NOTHING, Claim, Scene, Source, Target

LANGUAGES = ("en", "es", "de", "fr", "zh", "ja")
HELD_OUT_COMBINATIONS = frozenset({frozenset({"ja", "fr"}), frozenset({"de", "zh"})})
SAME_SITUATION = {
    "run": "morning_run",
    "smoke": "smoker",
    "job": "unemployed",
    "age": "minor",
    "dog": "dog_walk",
    "car": "car_free",
    "bar": "quiet_flat",
}


def _languages(rng: random.Random, split: Split) -> tuple[str, str]:
    while True:
        first, second = rng.sample(LANGUAGES, 2)
        if rng.random() < 0.6 and "en" not in {first, second}:
            first, second = rng.choice([(first, "en"), ("en", second)])
        if split == "validation" or frozenset({first, second}) not in HELD_OUT_COMBINATIONS:
            return first, second


def _shared(split: Split, kind: str, lang: str) -> dict[str, Section]:
    return {s.key: s for s in sections_of(split) if s.kind == kind and s.lang == lang and s.key.endswith("2")}


def _cast(rng: random.Random, split: Split, lang: str) -> Cast:
    return replace(cast_for(rng, split, lang), person=SPEAKER)


def _functional(rng: random.Random, split: Split, first: str, second: str) -> Scene | None:
    one, two = _shared(split, "func", first), _shared(split, "func", second)
    keys = sorted(one.keys() & two.keys())
    if not keys:
        return None
    key = rng.choice(keys)
    order = rng.sample(range(len(one[key].values["v"])), 4)
    entity = rng.randrange(3)
    stages = []
    for lang, section in ((first, one[key]), (second, two[key])):
        generic = next((s for s in sections_of(split) if s.kind == "generic" and s.lang == lang), None)
        values = {letter: section.values["v"][i] for letter, i in zip("abcz", order, strict=True)}
        name = section.values["x"][entity] if "x" in section.values else SPEAKER.name
        stages.append(functional.Stage(section, generic, _cast(rng, split, lang), name, values))
    words = {stages[0].value[letter]: stages[1].value[letter] for letter in "abcz"}
    roles = [*rng.sample(functional.OVERTURNING, 3), *rng.sample(functional.KEEPING, 3)]
    sources = []
    for role in roles:
        source = functional.source_of(stages[0], role)
        if source is not None:
            sources.append(
                replace(source, claims=tuple(_moved(c, stages[0], stages[1], words) for c in source.claims))
            )
    return Scene(one[key].domain, tuple(sources), tuple(functional.targets_of(stages[1], [])))


def _moved(claim: Claim, one: functional.Stage, two: functional.Stage, words: dict[str, str]) -> Claim:
    """Return the claim in the other language's words."""
    slot = two.slot() if claim.slot == one.slot() else claim.slot
    return replace(
        claim,
        slot=slot,
        holds=frozenset(words[v] for v in claim.holds),
        ends=frozenset(words[v] for v in claim.ends),
    )


def _polar(rng: random.Random, split: Split, first: str, second: str) -> Scene | None:
    one, two = _shared(split, "polar_items", first), _shared(split, "polar_items", second)
    keys = sorted(one.keys() & two.keys())
    if not keys:
        return None
    shelf = rng.choice(keys)
    i, j = rng.sample(range(len(one[shelf].values["item"])), 2)
    slots = (f"{shelf}:{i}", f"{shelf}:{j}")
    words = {
        lang: [s for s in sections_of(split) if s.kind == "polar" and s.lang == lang and s.domain == "any"]
        for lang in (first, second)
    }
    names = [
        {"x": section.values["item"][i], "y": section.values["item"][j]}
        for section in (one[shelf], two[shelf])
    ]
    roles = [*polar.QUADRUPLE, *rng.sample(polar.EXTRA, 2)]
    cast, other = _cast(rng, split, first), _cast(rng, split, second)
    made = [polar.source_of(cast, words[first], role, names[0], slots) for role in roles]
    targets = [
        t for t in polar.targets_of(other, words[second], names[1], slots) if t.relation != "other_entity"
    ]
    return Scene(one[shelf].domain, tuple(s for s in made if s is not None), tuple(targets))


def _situation(rng: random.Random, split: Split, first: str, second: str) -> Scene | None:
    base = rng.choice(sorted(SAME_SITUATION))
    found = {}
    for lang in (first, second):
        key = SAME_SITUATION[base] if lang == "en" else f"{base}_{lang}"
        found[lang] = next(
            (s for s in sections_of(split) if s.kind == "implicit" and (s.lang, s.key) == (lang, key)), None
        )
    one, two = found[first], found[second]
    if one is None or two is None:
        return None
    cast, other = _cast(rng, split, first), _cast(rng, split, second)
    claims = {
        "O": Claim(base, "implicit", NOTHING, ON, change=True),
        "C": Claim(base, "still", ON),
        "P": Claim(base, "hypothetical"),
        "N": Claim(("near", base), "near_miss"),
    }
    sources = [
        Source(cast.render(t, {}), t.id, (claim,), first)
        for role, claim in claims.items()
        for t in one.pick(role)
    ]
    targets = [Target(other.render(t, {}), t.id, base, ON, "main", second) for t in two.pick("T")]
    targets += [
        Target(other.render(t, {}), t.id, ("beside", base), ON, "near_miss", second) for t in two.pick("D")
    ]
    return Scene(one.domain, tuple(sources), tuple(targets)) if targets else None


def build(rng: random.Random, split: Split, lang: str) -> Scene | None:
    """One scene across two languages (``lang`` is ignored: both are drawn here)."""
    del lang
    first, second = _languages(rng, split)
    make = rng.choices((_functional, _polar, _situation), (5, 3, 2))[0]
    return make(rng, split, first, second)
