"""What words tell about a reason and its conclusion: features of a pair of texts for ``supports``.

Cosine of static embeddings, words and word pairs in common, words that mark a consequence, and how the pair
compares with its rivals: other reasons for the conclusion, other conclusions of the reason.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from validity_graph import embedding
from validity_graph.errors import InputError
from validity_graph.ranking import Encoder

FloatArray = NDArray[np.float64]

_WORD = re.compile(r"[^\W_]+")
#: A stem is the beginning of a word: "revolving" and "revolves" agree.
STEM = 6
_FUNCTION_WORDS = frozenset(
    "a an and are as at be been being but by can could did do does for from had has have he her his "
    "i in is it its may me might more most my no not of on one or our s she so some such t than that "
    "the their them then there these they this those to up us was we were what when where which who "
    "will with would you your kind because since therefore hence thus why way also".split()
)
_CONSEQUENCE = re.compile(
    r"\b(so|because|since|therefore|hence|thus|that is why|for th(?:is|at) reason|as a result|thanks to|"
    r"that makes|on account of|due to|while|once)\b|^as ",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Text:
    """What is compared of one text: words, stems of content words, names, signs of a consequence."""

    words: tuple[str, ...]
    stems: tuple[str, ...]
    names: frozenset[str]
    consequence: bool

    @property
    def pairs(self) -> frozenset[tuple[str, str]]:
        """Content stems that follow each other."""
        return frozenset(zip(self.stems, self.stems[1:], strict=False))


def parse(text: str) -> Text:
    """Return what is compared of ``text``."""
    found = _WORD.findall(text)
    words = tuple(word.lower() for word in found)
    stems = tuple(word.rstrip("s")[:STEM] or word for word in words if word not in _FUNCTION_WORDS)
    names = frozenset(word for word in found[1:] if word[0].isupper())
    return Text(words, stems, names, _CONSEQUENCE.search(text) is not None)


def _longest_run(one: Sequence[str], other: Sequence[str]) -> int:
    """Length of the longest run of words in common."""
    best = 0
    row = [0] * (len(other) + 1)
    for word in one:
        row = [0, *(row[k] + 1 if word == match else 0 for k, match in enumerate(other))]
        best = max(best, *row)
    return best


def features(
    reasons: Sequence[str], conclusions: Sequence[str], *, encoder: Encoder | None = None
) -> FloatArray:
    """Return what the network reads of each pair, shape ``(n, features)``.

    ``encoder`` defaults to the packaged static embedding.  Raises ``InputError`` where the lengths differ
    or no embedding is installed.
    """
    if len(reasons) != len(conclusions):
        raise InputError(f"{len(reasons)} reasons and {len(conclusions)} conclusions must be equally many")
    table = encoder or embedding.shipped()
    if table is None:
        raise InputError("supports need validity_graph/embedding_weights; install the package with them")
    texts = list(dict.fromkeys([*reasons, *conclusions]))
    place = {text: k for k, text in enumerate(texts)}
    known = [parse(text) for text in texts]
    rarity = _rarity(known)
    vector = table.encode(texts).astype(np.float64)
    one = np.array([place[text] for text in reasons], dtype=np.int64)
    other = np.array([place[text] for text in conclusions], dtype=np.int64)
    cosine = np.einsum("ij,ij->i", vector[one], vector[other])
    alone = [_alone(known[a], known[b], rarity) for a, b in zip(one, other, strict=True)]
    own = np.array(alone, dtype=np.float64).reshape(len(reasons), OWN)
    rivals = [_relative(one, other, known, rarity, cosine), _relative(other, one, known, rarity, cosine)]
    return np.column_stack([cosine, own, *rivals])


def _rarity(known: Sequence[Text]) -> dict[str, float]:
    """Inverse document frequency of each stem among the texts, in (0, 1]."""
    count = Counter(stem for text in known for stem in set(text.stems))
    top = math.log(1 + len(known))
    return {stem: math.log((1 + len(known)) / many) / top for stem, many in count.items()}


#: Number of features of a pair by itself, without the cosine.
OWN = 13


def _alone(one: Text, other: Text, rarity: dict[str, float]) -> list[float]:
    """Features of one pair by itself."""
    left, right = set(one.stems), set(other.stems)
    shared = left & right
    weight = _sum(rarity, shared)
    pairs = len(one.pairs & other.pairs)
    return [
        len(shared) / max(1, len(left | right)),
        len(shared) / max(1, len(left)),
        len(shared) / max(1, len(right)),
        min(len(shared), 6) / 6,
        weight / max(1e-9, _sum(rarity, left)),
        weight / max(1e-9, _sum(rarity, right)),
        min(pairs, 4) / 4,
        pairs / max(1, len(other.pairs)),
        min(_longest_run(one.words, other.words), 8) / 8,
        float(other.consequence),
        float(one.consequence),
        min(len(one.names & other.names), 3) / 3,
        math.log1p(len(right)) - math.log1p(len(left)),
    ]


def _relative(
    member: NDArray[np.int64],
    key: NDArray[np.int64],
    known: Sequence[Text],
    rarity: dict[str, float],
    cosine: FloatArray,
) -> FloatArray:
    """Features of each pair against the other pairs with the same ``key``, shape ``(n, 5)``.

    By conclusion: does this reason say more of it than the others?  By reason: is this the conclusion that
    it says most about?
    """
    groups: dict[int, list[int]] = defaultdict(list)
    for row, text in enumerate(key):
        groups[int(text)].append(row)
    result = np.zeros((len(key), 5))
    for text, rows in groups.items():
        wanted = set(known[text].stems)
        shared = [wanted & set(known[int(member[row])].stems) for row in rows]
        weight = np.array([_sum(rarity, stems) for stems in shared])
        covered = Counter(stem for stems in shared for stem in stems)
        only = [_sum(rarity, (stem for stem in stems if covered[stem] == 1)) for stems in shared]
        close = cosine[rows]
        total = max(1e-9, _sum(rarity, wanted))
        result[rows, 0] = weight / max(1e-9, weight.max())
        result[rows, 1] = np.array(only) / total
        result[rows, 2] = close - close.max()
        result[rows, 3] = (weight[:, None] < weight[None, :]).sum(axis=1) / 8
        result[rows, 4] = math.log1p(len(rows))
    return result


def _sum(rarity: dict[str, float], stems: Iterable[str]) -> float:
    # Exactly rounded, so that equal sets weigh the same in whatever order they are gone through.
    return math.fsum(rarity[stem] for stem in stems)
