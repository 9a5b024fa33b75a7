"""Scenes about named documents, for ``synthetic.conversations``: fields and lists that are edited."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from synthetic.conversation_phrases import GONE, Scene, Statement, capital, claim, fill, kinds, say, sections

#: Share of the edits that are said twice in a row, in other words.
REPEATED = 0.2


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
    here = _document(rng)
    there = _sibling(rng, here) if rng.random() < 0.5 else _document(rng)
    field, quiet = _fields(rng)
    listed = rng.choice(kinds("list"))
    values = rng.sample(_values(field), 4)
    entries = rng.sample(_entries(listed), 4)
    sources = [
        _edited(rng, here, field, values[0], values[1]), _edited(rng, here, field, values[1], values[2]),
        _edited(rng, here, field, values[1], values[0], section="field_revert"),
        _edited(rng, there, field, values[2], values[3]),
        _edited(rng, there, field, values[0], values[1]),
        _statement(rng, here, "edit_context", _quoted(rng, "field_remove", listed, entries[0]),
                   claim(f"{here.title}/{listed}/{entries[0]}", GONE), change=True),
        _statement(rng, here, "edit_context", _quoted(rng, "field_add", listed, entries[3]), {}),
        _both(_edited(rng, here, field, values[1], values[2]), _quoted(rng, "field_add", listed, entries[3])),
    ]  # fmt: skip
    targets = [
        _stated(rng, here, field, values[0]), _edited(rng, here, field, values[0], values[1]),
        _both(_stated(rng, here, field, values[1]), _said(rng, quiet, rng.choice(_values(quiet)))),
        _stated(rng, here, quiet, rng.choice(_values(quiet))), _stated(rng, there, field, values[2]),
        _listing(rng, here, listed, entries[:2]), _listing(rng, here, listed, entries[1:3]),
        _listing(rng, there, listed, entries[:2]),
        Statement(here.about(rng, "document_context"), {}),
    ]  # fmt: skip
    return Scene("document", sources, targets)


def _fields(rng: random.Random) -> list[str]:
    """Two fields; half of the time both hold numbers, which are easily taken for each other."""
    numbers = [name for name in kinds("field") if any(letter.isdigit() for letter in _values(name)[0])]
    return rng.sample(numbers if rng.random() < 0.5 else kinds("field"), 2)


def _document(rng: random.Random) -> Document:
    core = rng.choice(sections()["title_core"])
    title = " ".join((rng.choice(sections()["title_head"]), core, rng.choice(sections()["title_tail"])))
    ending = rng.random()
    if ending < 0.25:
        title = f"{title}: {rng.choice(sections()['subtitle'])}"
    elif ending < 0.45:
        title = f"{core} & {rng.choice(sections()['title_core'])} {rng.choice(sections()['title_tail'])}"
    elif ending < 0.55:
        title = say(rng, "purpose", core=core.lower())
    return Document(rng.choice(sections()["document_kind"]), title)


def _values(field: str) -> list[str]:
    return sections()[f"field {field}"][0].split(" : ")[1].split(", ") if field != "budget" else _budgets()


def _budgets() -> list[str]:
    # Thousands are written with commas, so a comma alone does not part two values.
    return re.split(r", (?=\S)", sections()["field budget"][0].split(" : ")[1])


def _entries(listed: str) -> list[str]:
    return sections()[f"list {listed}"][0].split(" : ")[1].split(", ")


def _quoted(rng: random.Random, section: str, listed: str, entry: str) -> str:
    """Edit a list by one entry, quoted as a list has it: in its first form, with a capital or without."""
    text = entry.split(" ~ ")[0]
    text = rng.choice((text, capital(text), f"{capital(text)}."))
    return say(rng, section, field=listed, old=text, new=text)


def _both(statement: Statement, said: str) -> Statement:
    """``statement`` and something more about the same document, that claims nothing of its own."""
    return Statement(f"{statement.text} {said}", statement.claims, statement.change)


def _statement(
    rng: random.Random, document: Document, context: str, said: str, claims: Mapping[str, frozenset[str]],
    *, change: bool = False,
) -> Statement:  # fmt: skip
    return Statement(f"{document.about(rng, context)} {said}", claims, change)


def _sibling(rng: random.Random, document: Document) -> Document:
    """Return a document that differs from ``document`` by the first word of its title, often of its kind."""
    head, _, rest = document.title.partition(" ")
    if head == "To":
        return _document(rng)
    other = rng.choice([word for word in sections()["title_head"] if word != head])
    return Document(rng.choice((document.kind, *sections()["document_kind"][:2])), f"{other} {rest}")


def _template(rng: random.Random, section: str) -> str:
    return rng.choice(sections()[section]).split(" : ")[0].removesuffix(" :")


def _said(rng: random.Random, field: str, value: str) -> str:
    return capital(fill(_template(rng, f"field {field}"), value=value)) + "."


def _stated(rng: random.Random, document: Document, field: str, value: str) -> Statement:
    said = _said(rng, field, value)
    return _statement(rng, document, "document_context", said, claim(f"{document.title}/{field}", value))


def _edited(
    rng: random.Random, document: Document, field: str, old: str, new: str, *, section: str = "field_replace"
) -> Statement:
    said = say(rng, section, field=field, old=old, new=new)
    if rng.random() < REPEATED:
        said = f"{said} {say(rng, section, field=field, old=old, new=new)}"
    claims = claim(f"{document.title}/{field}", new)
    return _statement(rng, document, "edit_context", said, claims, change=True)


def _listing(rng: random.Random, document: Document, listed: str, entries: Sequence[str]) -> Statement:
    template = _template(rng, f"list {listed}")
    claims: dict[str, frozenset[str]] = {}
    for entry in entries:
        claims |= claim(f"{document.title}/{listed}/{entry}", "in")
    (a, *a_ger), (b, *b_ger) = (entry.split(" ~ ") for entry in entries)
    said = fill(template, a=a, b=b, a_ger="".join(a_ger), b_ger="".join(b_ger))
    return _statement(rng, document, "document_context", f"{capital(said)}.", claims)
