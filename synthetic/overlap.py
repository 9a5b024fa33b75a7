"""Which phrases two sets of texts share: equal sentences, and shared runs of eight words.

Phrases of ``common_phrases.txt`` are allowed: a person's everyday sentence may occur anywhere.  Knows no data
set.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

RUN = 8
SHORTEST_SENTENCE = 5
COMMON_PATH = Path(__file__).with_name("common_phrases.txt")
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W_]+")
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s*|\n+")


def words(text: str) -> tuple[str, ...]:
    """Normalised words of ``text``: NFKC, lower case, no punctuation; a CJK character is a word."""
    return tuple(_WORD.findall(unicodedata.normalize("NFKC", text).lower()))


def sentences(text: str) -> list[tuple[str, ...]]:
    """Normalised sentences of ``text`` of at least ``SHORTEST_SENTENCE`` words, and the whole text."""
    found = {words(text), *(words(part) for part in _SENTENCE_END.split(text))}
    return [sentence for sentence in found if len(sentence) >= SHORTEST_SENTENCE]


def runs(sentence: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Every run of ``RUN`` consecutive words; twice as long where it starts with a CJK character."""
    for start in range(len(sentence) - RUN + 1):
        length = RUN * 2 if sentence[start] >= "\u3040" else RUN
        if start + length <= len(sentence):
            yield sentence[start : start + length]


def strings(value: object) -> Iterator[str]:
    """Every string in a JSON value that holds more than one word."""
    if isinstance(value, str):
        if " " in value or not value.isascii():
            yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from strings(part)
    elif isinstance(value, list):
        for part in value:
            yield from strings(part)


def common_phrases(path: Path = COMMON_PATH) -> frozenset[tuple[str, ...]]:
    """Return the allowed phrases, normalised."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return frozenset(words(line) for line in lines if line.strip() and not line.startswith("#"))


@dataclass
class Index:
    """Sentences and runs of the training texts, with the names of the sets that they come from."""

    allowed: frozenset[tuple[str, ...]]
    sentence: dict[tuple[str, ...], set[str]] = field(default_factory=lambda: defaultdict(set))
    run: dict[tuple[str, ...], set[str]] = field(default_factory=lambda: defaultdict(set))

    def add(self, name: str, texts: Iterable[str]) -> int:
        """Take the texts of one training set in; returns how many there were."""
        count = 0
        for text in texts:
            count += 1
            for sentence in sentences(text):
                self.sentence[sentence].add(name)
            for run in runs(words(text)):
                self.run[run].add(name)
        return count

    def is_allowed(self, phrase: tuple[str, ...]) -> bool:
        """Return True when ``phrase`` is an allowed phrase or lies within one."""
        joined = f" {' '.join(phrase)} "
        return any(joined in f" {' '.join(allowed)} " for allowed in self.allowed)

    def findings(self, texts: Iterable[str]) -> dict[str, Counter[tuple[str, ...]]]:
        """Per training set, the phrases that ``texts`` share with it."""
        found: dict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)
        for text in texts:
            shared = [(s, self.sentence[s]) for s in sentences(text) if s in self.sentence]
            shared += [(r, self.run[r]) for r in runs(words(text)) if r in self.run]
            for phrase, names in shared:
                if not self.is_allowed(phrase):
                    for name in names:
                        found[name][phrase] += 1
        return found
