"""Scenes about an attribute that has one value at a time (job, home, port, deadline, capital).

The claims follow the roles of the phrasing files: c changes a to b, t asserts a new b, e ends a, k keeps a,
w takes a back for b, q adds b, n commits to nothing, o mentions a value in another proposition, p tells the
dated past.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from synthetic.pairs_templates.casting import Cast, cast_for, clause, other_person
from synthetic.pairs_templates.catalogue import Section, Split, Template, sections_of
from synthetic.pairs_templates.rendering import Person
from synthetic.pairs_templates.statements import NOTHING, Claim, Scene, Source, Target

OVERTURNING = (
    "c",
    "c",
    "c",
    "t",
    "t",
    "t",
    "e",
    "e",
    "w",
    "bare",
    "bare",
    "bare",
    "cue",
    "correct",
    "negate",
    "forget",
    "deny",
    "revert",
    "told",
)
KEEPING = (
    "k",
    "q",
    "n",
    "n",
    "o",
    "p",
    "hypo",
    "fiction",
    "ask",
    "hearsay",
    "future",
    "keep",
    "past",
    "plan",
    "agree",
    "agree",
    "paraphrase",
    "past_b",
)
STRATUM = {
    "c": "value_update",
    "t": "value_update_new_only",
    "e": "ended",
    "w": "correction",
    "bare": "bare_restated_value",
    "cue": "value_update",
    "correct": "correction",
    "negate": "negation",
    "forget": "deletion",
    "deny": "retraction",
    "revert": "reversion",
    "told": "value_update",
    "k": "still",
    "q": "additive",
    "n": "plan",
    "o": "same_value_other",
    "p": "history",
    "hypo": "hypothetical",
    "fiction": "fiction",
    "ask": "question",
    "hearsay": "hearsay",
    "future": "announced",
    "keep": "still",
    "past": "history",
    "plan": "plan",
    "agree": "switch_to_target",
    "paraphrase": "restatement",
    "past_b": "history",
}
GENERIC = frozenset(
    {
        "cue",
        "correct",
        "negate",
        "forget",
        "deny",
        "hypo",
        "fiction",
        "ask",
        "hearsay",
        "future",
        "keep",
        "past",
    }
)


@dataclass(frozen=True)
class Stage:
    """One functional scene being built: section, cast, entity and the values in play."""

    section: Section
    generic: Section | None
    cast: Cast
    entity: str
    value: dict[str, str]

    def slot(self, entity: str | None = None) -> tuple[str, str]:
        """Return the slot of the attribute for this or another entity."""
        return (self.section.key, entity or self.entity)

    def text(
        self, template: Template, *, entity: str | None = None, person: Person | None = None, **values: str
    ) -> str:
        """Sentence with values, entity, and the document named before it where the section asks for that."""
        entity = entity or self.entity
        body = self.cast.render(template, {"x": entity, **self.value, **values}, person=person)
        return body if "{x}" in template.text else self.introduced(body, entity)

    def introduced(self, body: str, entity: str) -> str:
        """``body`` after a sentence that names the document, in sections that have such sentences."""
        context = self.cast.choose(self.section.pick("ctx"))
        return body if context is None else f"{self.cast.render(context, {'x': entity})} {body}"


def values_of(section: Section, rng: random.Random, count: int) -> list[str] | None:
    """``count`` different values of the section, or None where it has fewer."""
    if len(section.values["v"]) < 2:
        return None
    pool = list(section.values["v"])
    rng.shuffle(pool)
    while len(pool) < count:
        pool.append(pool[len(pool) - 2])
    return pool[:count]


def _own(stage: Stage, role: str) -> Source | None:
    template = stage.cast.choose(stage.section.pick(role))
    if template is None:
        return None
    a, b = frozenset({stage.value["a"]}), frozenset({stage.value["b"]})
    holds = {"c": b, "t": b, "w": b, "k": a}.get(role, NOTHING)
    ends = a if role in "cew" else NOTHING
    if role in "op":
        use_a = stage.cast.rng.random() < 0.5
        text = stage.text(template, v=stage.value["a" if use_a else "b"])
    else:
        text = stage.text(template)
    slot = stage.slot() if role not in "oq" else ("mention", *stage.slot())
    claim = Claim(slot, STRATUM[role], holds, ends, change=role in "ctew", retracts=role == "w")
    return Source(text, template.id, (claim,), stage.cast.lang)


def _swapped(stage: Stage, role: str) -> Source | None:
    """Return the change c or t in another direction: agree z->a, revert and told a->z."""
    template = stage.cast.choose(
        stage.section.pick("c" if role != "agree" or stage.cast.rng.random() < 0.6 else "t")
    )
    if template is None:
        return None
    old, new = {"agree": ("z", "a"), "revert": ("a", "z"), "told": ("a", "z")}[role]
    text = stage.text(template, a=stage.value[old], b=stage.value[new])
    ends = frozenset({stage.value[old]}) if ".c." in template.id else NOTHING
    claim = Claim(stage.slot(), STRATUM[role], frozenset({stage.value[new]}), ends, change=True)
    return Source(text, template.id, (claim,), stage.cast.lang)


def _state(stage: Stage, letter: str, **who: object) -> tuple[Template, str] | None:
    template = stage.cast.choose(stage.section.pick("s"))
    if template is None:
        return None
    return template, stage.text(template, v=stage.value[letter], **who)  # type: ignore[arg-type]


def _composed(stage: Stage, role: str) -> Source | None:
    """Return a generic frame around a state sentence ("It is no longer true that ...")."""
    frame = stage.cast.choose(stage.generic.pick(role)) if stage.generic else None
    letter = "a" if role in {"negate", "forget", "deny", "keep", "past"} else "b"
    if role in {"hypo", "hearsay", "ask"} and stage.cast.rng.random() < 0.2:
        letter = "a"
    template = stage.cast.choose(stage.section.pick("s"))
    if frame is None or template is None:
        return None
    sentence = stage.cast.render(template, {"x": stage.entity, "v": stage.value[letter]})
    text = stage.cast.render(frame, {"sent": sentence, "that": clause(stage.cast, sentence)})
    text = stage.introduced(text, stage.entity)
    said = frozenset({stage.value[letter]})
    holds = said if role in {"cue", "correct", "keep"} else NOTHING
    ends = said if role in {"negate", "forget", "deny"} else NOTHING
    changing = role in {"cue", "correct", "negate", "forget", "deny"}
    claim = Claim(
        stage.slot(), STRATUM[role], holds, ends, change=changing, retracts=role in {"correct", "deny"}
    )
    return Source(text, f"{frame.id}+{template.id}", (claim,), stage.cast.lang)


def _bare(stage: Stage, role: str) -> Source | None:
    """Return a state sentence without any cue: of another value (bare), or of the same (paraphrase)."""
    letter = "b" if role == "bare" else "a"
    state = _state(stage, letter)
    if state is None:
        return None
    claim = Claim(stage.slot(), STRATUM[role], frozenset({stage.value[letter]}))
    return Source(state[1], state[0].id, (claim,), stage.cast.lang)


def _planned(stage: Stage) -> Source | None:
    """Plans and dreams from the attribute's infinitive and gerund in a generic frame."""
    verb = stage.cast.choose(stage.section.pick("i"))
    noun = stage.cast.choose(stage.section.pick("g"))
    frame = stage.cast.choose(stage.generic.pick("plan")) if stage.generic else None
    if verb is None or noun is None or frame is None:
        return None
    slots = {"x": stage.entity, "v": stage.value["b"]}
    infinitive, gerund = (stage.cast.render(part, slots) for part in (verb, noun))
    lowered = {"inf": infinitive[:1].lower() + infinitive[1:], "ger": gerund[:1].lower() + gerund[1:]}
    claim = Claim(stage.slot(), "plan")
    text = stage.introduced(stage.cast.render(frame, lowered), stage.entity)
    return Source(text, f"{frame.id}+{verb.id}", (claim,), stage.cast.lang)


def source_of(stage: Stage, role: str) -> Source | None:
    """Return a source of one role, or None where this split has no phrasing for it."""
    if role in GENERIC:
        return _composed(stage, role)
    if role in {"agree", "revert", "told"}:
        return _swapped(stage, role)
    if role in {"bare", "paraphrase"}:
        return _bare(stage, role)
    if role == "plan":
        return _planned(stage)
    return _own(stage, "p" if role == "past_b" else role)


def targets_of(stage: Stage, others: list[Section]) -> list[Target]:
    """Earlier sentences: the state, an update to it, somebody else, another attribute, the past."""
    rng, lang = stage.cast.rng, stage.cast.lang
    held = frozenset({stage.value["a"]})
    found: list[Target] = []

    def put(template: Template | None, text: str, slot: object, holds: frozenset[str], relation: str) -> None:
        if template is not None:
            found.append(Target(text, template.id, slot, holds, relation, lang))  # type: ignore[arg-type]

    for _ in range(2):
        state = _state(stage, "a")
        if state:
            put(*state, stage.slot(), held, "main")
    template = stage.cast.choose(stage.section.pick("c"))
    if template:
        text = stage.text(template, a=stage.value["z"], b=stage.value["a"])
        put(template, text, stage.slot(), held, "update")
    state = _state(stage, "b")
    if state:
        put(*state, stage.slot(), frozenset({stage.value["b"]}), "main")
    stranger = other_person(stage.cast)
    entities = [x for x in stage.section.values.get("x", ()) if x != stage.entity]
    entity = rng.choice(entities) if entities else stranger.name
    if lang == "en" or entities:
        state = _state(stage, "a", entity=entity, person=None if entities else stranger)
        if state:
            put(*state, stage.slot(entity), held, "other_entity")
    for role, relation in (("o", "other_attribute"), ("p", "past")):
        template = stage.cast.choose(stage.section.pick(role))
        if template:
            slot = stage.slot() if role == "p" else ("mention", *stage.slot())
            put(template, stage.text(template, v=stage.value["a"]), slot, NOTHING, relation)
    if others:
        section = rng.choice(others)
        values = values_of(section, rng, 1)
        template = stage.cast.choose(section.pick("s"))
        if values and template:
            sibling = Stage(section, stage.generic, stage.cast, stage.entity, {})
            text = sibling.text(template, v=values[0])
            put(template, text, sibling.slot(), frozenset(values), "other_attribute")
    return found


def build(rng: random.Random, split: Split, lang: str) -> Scene | None:
    """One scene on a random functional attribute of ``lang``; None where the split lacks phrasings for it."""
    sections = [s for s in sections_of(split) if s.kind == "func" and s.lang == lang and s.pick("s")]
    if not sections:
        return None
    section = rng.choice(sections)
    generic = next((s for s in sections_of(split) if s.kind == "generic" and s.lang == lang), None)
    cast = cast_for(rng, split, lang)
    values = values_of(section, rng, 4)
    if values is None:
        return None
    entities = section.values.get("x", ())
    entity = rng.choice(entities) if entities else cast.person.name
    stage = Stage(section, generic, cast, entity, dict(zip("abcz", values, strict=True)))
    if stage.value["z"] == stage.value["a"]:
        stage.value["z"] = stage.value["b"]
    others = [
        s
        for s in sections
        if s.key != section.key
        and bool(s.values.get("x")) == bool(entities)
        and (not entities or entity in s.values["x"])
    ]
    roles = [*rng.sample(OVERTURNING, 3), *rng.sample(KEEPING, 4)]
    sources = [source for role in roles if (source := source_of(stage, role)) is not None]
    return Scene(section.domain, tuple(sources), tuple(targets_of(stage, others)))
