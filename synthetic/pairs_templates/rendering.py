"""Turns a phrasing into a sentence: person, random alternatives, slots, and the chat or log noise around it.

Knows no meaning.  All randomness comes from the ``random.Random`` that the caller passes.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_PERSON = re.compile(r"\[([^\[\]|]*)\|([^\[\]|]*)\]")
_CHOICE = re.compile(r"<([^<>]*\|[^<>]*)>")
_LOWERED = frozenset(
    "My The Our We He She A An It There For On At In Every His Her Their Most Each They You You'll This No "
    "All Hardly Guests Friday Wednesdays".split()
)


@dataclass(frozen=True)
class Person:
    """Who a sentence is about: the forms that phrasings ask for.  ``first`` selects ``[first|third]``."""

    name: str
    subject: str
    pronoun: str
    possessive: str
    pronoun_possessive: str
    object: str
    first: bool
    mine: str = "mine"

    def forms(self) -> dict[str, str]:
        """Slots {S}, {s}, {P}, {p}, {O}, {m} of this person."""
        return {
            "S": self.subject,
            "s": self.pronoun,
            "P": self.possessive,
            "p": self.pronoun_possessive,
            "O": self.object,
            "m": self.mine,
            "M": self.mine.capitalize(),
        }


SPEAKER = Person("I", "I", "I", "my", "my", "me", True)
USER = Person("the user", "the user", "the user", "the user's", "their", "the user", False, "theirs")


def named(name: str, gender: str) -> Person:
    """Return a third person called ``name``; ``gender`` is "f" or "m" and only chooses pronouns."""
    pronoun, possessive, mine = ("she", "her", "hers") if gender == "f" else ("he", "his", "his")
    return Person(name, name, pronoun, f"{name}'s", possessive, name, False, mine)


def fill(text: str, slots: Mapping[str, str], person: Person, rng: random.Random) -> str:
    """``text`` with its alternatives chosen and its slots filled, its first letter raised."""
    text = _PERSON.sub(lambda match: match.group(1 if person.first else 2), text)
    while _CHOICE.search(text):
        text = _CHOICE.sub(lambda match: rng.choice(match.group(1).split("|")), text)
    for name, value in {**slots, **person.forms()}.items():
        text = text.replace("{" + name + "}", value)
    if "{" in text:
        raise ValueError(f"unfilled slot in {text!r}")
    return text[:1].upper() + text[1:]


_PLURAL = {
    "is": "are",
    "has": "have",
    "was": "were",
    "does": "do",
    "bores": "bore",
    "remains": "remain",
    "leaves": "leave",
    "puts": "put",
    "appeals": "appeal",
    "doesn't": "don't",
    "cheers": "cheer",
}


def agree(sentence: str, item: str) -> str:
    """Return the verb after a plural ``item`` in the plural; only for items that end in a plural s."""
    if not item.endswith("s") or item.endswith("ss"):
        return sentence
    pattern = re.compile(rf"({re.escape(item)} )({'|'.join(map(re.escape, _PLURAL))})\b", re.IGNORECASE)
    return pattern.sub(lambda match: match.group(1) + _PLURAL[match.group(2).lower()], sentence)


def as_clause(sentence: str) -> str:
    """Return the sentence as a clause: no final stop, first word lowered unless it is a name or "I"."""
    clause = sentence.rstrip().rstrip(".!。！")
    first = clause.split(" ", 1)[0]
    return clause[:1].lower() + clause[1:] if first in _LOWERED else clause


def casual(sentence: str, rng: random.Random) -> str:
    """Typing habits: dropped final stop, all lower case, exclamation; most sentences stay as they are."""
    roll = rng.random()
    if roll < 0.10:
        return sentence.rstrip(".")
    if roll < 0.15:
        return sentence.lower().rstrip(".")
    if roll < 0.19 and sentence.endswith("."):
        return sentence[:-1] + "!"
    return sentence


def _buried(sentence: str, noise: Mapping[str, Sequence[str]], rng: random.Random) -> str:
    """Return a long message with ``sentence`` somewhere in its middle."""
    before = rng.sample(list(noise["before"]), min(3, len(noise["before"])))
    after = rng.sample(list(noise["after"]), min(3, len(noise["after"])))
    return " ".join([*before[: rng.randint(1, 3)], sentence, *after[: rng.randint(1, 3)]])


def dress(sentence: str, noise: Mapping[str, Sequence[str]], rng: random.Random, *, amount: float) -> str:
    """``sentence`` with an opener, chat around it or a log stamp, ``amount`` of the time."""
    sentence = casual(sentence, rng)
    if rng.random() > amount:
        return sentence
    style = rng.random()
    if style > 0.92 and noise.get("before") and noise.get("after"):
        return _buried(sentence, noise, rng)
    if style < 0.40 and noise.get("open"):
        opener = rng.choice(noise["open"])
        joined = (
            as_clause(sentence) + sentence[len(sentence.rstrip(".!。！")) :]
            if opener.endswith(",")
            else sentence
        )
        sentence = f"{opener} {joined}"
    elif style < 0.55 and noise.get("stamp"):
        return f"{rng.choice(noise['stamp'])} {sentence}"
    if rng.random() < 0.35 and noise.get("before"):
        sentence = f"{rng.choice(noise['before'])} {sentence}"
    if rng.random() < 0.45 and noise.get("after"):
        sentence = f"{sentence} {rng.choice(noise['after'])}"
        if rng.random() < 0.15:
            sentence = f"{sentence} {rng.choice(noise['after'])}"
    return sentence
