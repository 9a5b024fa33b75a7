"""Who and when: people, years and noise, drawn for one scene.

Knows names and languages, no meaning.  ``Cast.render`` is the only way in which scenes turn a template into
text.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from synthetic.pairs_templates.catalogue import Section, Split, Template, sections_of
from synthetic.pairs_templates.rendering import SPEAKER, USER, Person, as_clause, dress, fill, named

FIRST_NAMES = {
    "f": "Anna Marta Yuki Salome Chiara Deborah Nkechi Ida Paula Zeynep Ruth Catalina Mina Agnes Lorraine "
    "Dilnoza Frida Keiko Tamsin Vera Ayesha Bridget Noemi Grace Thuy".split(),
    "m": "Ben Karl Mateo Hassan Luca Peter Kofi Stefan Raj Gabriel Wei Anton Julian Emre Sipho Bruno Takeshi "
    "Walter Ivan Rafael Simon Otto Dmitri Niall Hugo".split(),
}
SURNAMES = (
    "Keller Ito Silva Novak Bauer Marsh Adeyinka Rossi Lund Park Herrera Quinn Petit Sokolov Dahl".split()
)
TRAIN_SHARE_FIRST = 0.55
SHARE_USER = 0.08


CONTRACTIONS = {
    "es": ((r"\bde el\b", "del"), (r"\ba el\b", "al")),
    "fr": (
        (r"\bde le\b", "du"),
        (r"\bde les\b", "des"),
        (r"\bà le\b", "au"),
        (r"\b([dD])e (?=[aeiouéèœAEIOU])", r"\1'"),
    ),
    "it": ((r"\bdi il\b", "del"), (r"\ba il\b", "al"), (r"\bda il\b", "dal")),
    "pt": ((r"\bde o\b", "do"), (r"\bde a\b", "da"), (r"\bem o\b", "no"), (r"\bem a\b", "na")),
}


def contract(sentence: str, lang: str) -> str:
    """``sentence`` with the obligatory contractions of the Romance languages ("de el" -> "del")."""
    for pattern, short in CONTRACTIONS.get(lang, ()):
        sentence = re.sub(pattern, short, sentence)
    return sentence


@dataclass(frozen=True)
class Cast:
    """The randomness, the split, the language and the person of one scene."""

    rng: random.Random
    split: Split
    lang: str
    person: Person
    noise_amount: float

    def render(self, template: Template, slots: Mapping[str, str], *, person: Person | None = None) -> str:
        """Plain sentence of ``template``, with a random past ``{year}`` and an earlier ``{year0}``."""
        year = self.rng.randint(1996, 2021)
        known = {"year": str(year), "year0": str(year - self.rng.randint(1, 9)), **slots}
        return contract(fill(template.text, known, person or self.person, self.rng), self.lang)

    def choose(self, pool: tuple[Template, ...]) -> Template | None:
        """Return a random template, or None where this split holds none."""
        return self.rng.choice(pool) if pool else None

    def dress(self, sentence: str) -> str:
        """``sentence`` with chat or log noise in the scene's language."""
        return dress(sentence, noise_of(self.lang), self.rng, amount=self.noise_amount)


@lru_cache(maxsize=16)
def noise_of(lang: str) -> dict[str, tuple[str, ...]]:
    """Return openers, stamps and filler sentences of a language; both splits share them."""
    sections = [s for s in sections_of("train") if s.kind == "noise" and s.lang == lang]
    result: dict[str, tuple[str, ...]] = {}
    for split in ("train", "validation"):
        for section in (s for s in sections_of(split) if s.kind == "noise" and s.lang == lang):
            for role, pool in section.templates.items():
                result[role] = result.get(role, ()) + tuple(template.text for template in pool)
    return result if sections or result else {}


def full_name(rng: random.Random, surname: str | None = None) -> Person:
    """Return a random person; half the time with a surname, always with the one given."""
    gender = rng.choice("fm")
    name = rng.choice(FIRST_NAMES[gender])
    if surname or rng.random() < 0.4:
        name = f"{name} {surname or rng.choice(SURNAMES)}"
    return named(name, gender)


def cast_for(rng: random.Random, split: Split, lang: str) -> Cast:
    """Draw the person and the noise of a scene; languages other than English speak in first person."""
    person = SPEAKER
    roll = rng.random()
    if lang == "en" and roll > TRAIN_SHARE_FIRST:
        person = USER if roll > 1 - SHARE_USER else full_name(rng)
    return Cast(rng, split, lang, person, rng.choice((0.0, 0.3, 0.6)))


def other_person(cast: Cast) -> Person:
    """Somebody else: with the same surname, the same first name, or wholly different."""
    rng = cast.rng
    name = cast.person.name
    if " " in name and cast.person.name != USER.name:
        first, surname = name.split(" ", 1)
        if rng.random() < 0.4:
            other = full_name(rng, surname)
        else:
            renamed = f"{first} {rng.choice([s for s in SURNAMES if s != surname])}"
            return replace(
                cast.person, name=renamed, subject=renamed, possessive=f"{renamed}'s", object=renamed
            )
        if other.name != name:
            return other
    while True:
        other = full_name(rng)
        if other.name != name:
            return other


def clause(cast: Cast, sentence: str) -> str:
    """``sentence`` as a clause in the scene's language (only English changes its case)."""
    if cast.lang == "en":
        return as_clause(sentence)
    return sentence.rstrip(".。")


def pool_of(section: Section, *roles: str) -> tuple[tuple[str, Template], ...]:
    """All templates of several roles with their role."""
    return tuple((role, template) for role in roles for template in section.pick(role))
