"""Reads the phrasing files into sections and holds out a part of them for validation.

A file is a list of sections.  A section opens with ``@ key domain kind lang`` and is followed by ``role:
text`` lines.  In texts ``[am|is]`` picks first or third person, ``<a|b>`` picks one at random, and
``{name}`` is a slot. Lines of lists (``v``, ``x`` and every upper-case name that the kind's module reads)
separate values by `` | ``. Held out: whole domains, whole languages, and of every role with enough lines
about one in seven, by a hash of the template id; so the two splits never share a template.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

Split = Literal["train", "validation"]
HELD_OUT_DOMAINS = frozenset({"sports", "recipes", "aquarium", "theatre"})
HELD_OUT_LANGUAGES = frozenset({"it", "ko"})
LIST_ROLES = frozenset({"v", "x", "item", "noun", "y"})
SMALLEST_SPLIT_ROLE = 4


@dataclass(frozen=True)
class Template:
    """One phrasing: its stable id (``lang.section.role.number``) and its text."""

    id: str
    text: str


@dataclass(frozen=True)
class Section:
    """One attribute, routine or task with all its phrasings by role and its value lists."""

    key: str
    domain: str
    kind: str
    lang: str
    templates: Mapping[str, tuple[Template, ...]]
    values: Mapping[str, tuple[str, ...]]

    def pick(self, role: str) -> tuple[Template, ...]:
        """Templates of ``role`` in this section; empty when it has none."""
        return self.templates.get(role, ())


def is_held_out(template_id: str) -> bool:
    """Stable choice of about one template in seven, independent of the interpreter's hash seed."""
    return hashlib.blake2b(template_id.encode(), digest_size=2).digest()[0] % 7 == 0


def _restrict(pool: tuple[Template, ...], split: Split) -> tuple[Template, ...]:
    if len(pool) < SMALLEST_SPLIT_ROLE:
        return pool if split == "train" else ()
    held = tuple(template for template in pool if is_held_out(template.id))
    return held if split == "validation" else tuple(t for t in pool if t not in held)


def _parse(path: Path) -> list[Section]:
    sections: list[Section] = []
    header: list[str] = []
    templates: dict[str, list[Template]] = {}
    values: dict[str, list[str]] = {}

    def close() -> None:
        if header:
            key, domain, kind, lang = header
            frozen = {role: tuple(pool) for role, pool in templates.items()}
            lists = {role: tuple(pool) for role, pool in values.items()}
            sections.append(Section(key, domain, kind, lang, frozen, lists))

    for number, raw in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        if line.startswith("@"):
            close()
            header = line[1:].split()
            if len(header) != 4:
                raise ValueError(
                    f"{path.name}:{number}: a section needs key, domain, kind and language: {line!r}"
                )
            templates, values = {}, {}
            continue
        role, separator, text = line.partition(":")
        if not separator or not text.strip():
            raise ValueError(f"{path.name}:{number}: expected 'role: text', got {line!r}")
        role, text = role.strip(), text.strip()
        if role in LIST_ROLES:
            values.setdefault(role, []).extend(part.strip() for part in text.split(" | "))
        else:
            pool = templates.setdefault(role, [])
            pool.append(Template(f"{header[3]}.{header[0]}.{role}.{len(pool)}", text))
    close()
    return sections


@lru_cache(maxsize=1)
def all_sections() -> tuple[Section, ...]:
    """Every section of every phrasing file, in file and line order."""
    folder = Path(__file__).parent
    found = [section for path in sorted(folder.glob("*.txt")) for section in _parse(path)]
    names = [(section.lang, section.key) for section in found]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(f"section keys used twice: {sorted(twice)}; rename one of each")
    return tuple(found)


@lru_cache(maxsize=2)
def sections_of(split: Split) -> tuple[Section, ...]:
    """Sections as one split may see them: held-out domains, languages and templates only in validation."""
    result = []
    for section in all_sections():
        whole = section.domain in HELD_OUT_DOMAINS or section.lang in HELD_OUT_LANGUAGES
        if whole and split == "train":
            continue
        pools = section.templates
        kept = dict(pools) if whole else {role: _restrict(pool, split) for role, pool in pools.items()}
        result.append(Section(section.key, section.domain, section.kind, section.lang, kept, section.values))
    return tuple(result)


def shelf_and_words(
    rng: random.Random, split: Split, lang: str, *, kind: str
) -> tuple[Section, list[Section]] | None:
    """Draw a shelf of ``kind``_items and list the phrasings of ``kind``; ``None`` where either is lacking."""
    sections = sections_of(split)
    shelves = [s for s in sections if s.kind == f"{kind}_items" and s.lang == lang]
    words = [s for s in sections if s.kind == kind and s.lang == lang]
    return (rng.choice(shelves), words) if shelves and words else None
