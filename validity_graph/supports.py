"""Support edges from text: how likely one memory is a reason for another ([V3] section 10, learned graph).

Knows texts only, neither the graph nor the verifier.  A small network over features of the pair: cosine of
static embeddings, words and word pairs in common, words that mark a consequence, and how the pair compares
with its rivals: other reasons for the conclusion, other conclusions of the reason.  Trained by
``synthetic.train_supports`` on synthetic chains and on EntailmentBank's train split (Dalvi et al., 2021);
calibrated on held-out parts of both.

A reason is not a prerequisite: whether a memory could hold without it is not in the text, so nothing here
makes a ``requires`` edge ([V3] section 15).
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from validity_graph import embedding
from validity_graph.errors import InputError
from validity_graph.ranking import Encoder

FloatArray = NDArray[np.float64]

WEIGHTS = Path(__file__).parent / "support_weights.npz"
NAMES = ("mean", "scale", "inner", "inner_bias", "outer", "outer_bias")
#: Support edges from this probability on: the middle of the plateau on held-out training trees.
THRESHOLD = 0.25

#: Two reasons are alternatives where each shares so many content words with the conclusion, and both
#: together this part of its content words; and no word of one begins with the letters of one of the other.
#: Chosen on the train split of the chains and on train trees.
SHARED, COVERED, BEGINNING = 2, 0.8, 3

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
class _Text:
    """What is compared of one text."""

    words: tuple[str, ...]
    stems: tuple[str, ...]
    names: frozenset[str]
    consequence: bool

    @property
    def pairs(self) -> frozenset[tuple[str, str]]:
        """Content stems that follow each other."""
        return frozenset(zip(self.stems, self.stems[1:], strict=False))


def _read(text: str) -> _Text:
    found = _WORD.findall(text)
    words = tuple(word.lower() for word in found)
    stems = tuple(word.rstrip("s")[:STEM] or word for word in words if word not in _FUNCTION_WORDS)
    names = frozenset(word for word in found[1:] if word[0].isupper())
    return _Text(words, stems, names, _CONSEQUENCE.search(text) is not None)


def _longest_run(one: Sequence[str], other: Sequence[str]) -> int:
    """Length of the longest run of words in common."""
    best = 0
    row = [0] * (len(other) + 1)
    for word in one:
        row = [0, *(row[k] + 1 if word == match else 0 for k, match in enumerate(other))]
        best = max(best, *row)
    return best


@dataclass(frozen=True, slots=True)
class SupportScorer:
    """Gives the probability that one text is a reason for another; ``load`` gives the packaged one.

    ``inner`` ``(features, hidden)`` and ``outer`` ``(hidden,)`` are the layers of a network on features
    standardised by ``mean`` and ``scale`` ``(features,)``.
    """

    mean: FloatArray
    scale: FloatArray
    inner: FloatArray
    inner_bias: FloatArray
    outer: FloatArray
    outer_bias: FloatArray

    @classmethod
    def load(cls, path: str | Path | None = None) -> SupportScorer:
        """Read an ``.npz`` of weights (default: the packaged one).

        Raises ``InputError`` where it is missing or lacks an array.
        """
        place = WEIGHTS if path is None else Path(path)
        if not place.is_file():
            raise InputError(
                f"no support weights at {place}; make them with python -m synthetic.train_supports"
            )
        with np.load(place, allow_pickle=False) as arrays:
            lacking = [name for name in NAMES if name not in arrays]
            if lacking:
                raise InputError(f"{place} lacks {', '.join(lacking)}")
            return cls(**{name: arrays[name].astype(np.float64) for name in NAMES})

    def score(self, reasons: Sequence[str], conclusions: Sequence[str]) -> FloatArray:
        """Return the probability of each (reason, conclusion) pair, shape ``(n,)`` in [0, 1].

        Reasons of one conclusion and conclusions of one reason are weighed against each other, and words
        are rare or common by the texts of this call: give all the candidates of a graph at once.  Raises
        ``InputError`` where the lengths differ.
        """
        given = features(reasons, conclusions)
        hidden = np.maximum((given - self.mean) / self.scale @ self.inner + self.inner_bias, 0.0)
        logit = hidden @ self.outer + self.outer_bias[0]
        probability: FloatArray = 1.0 / (1.0 + np.exp(-np.clip(logit, -40.0, 40.0)))
        return probability


def grounds(reasons: Sequence[str], conclusion: str) -> list[int]:
    """Return which ``reasons`` of one ``conclusion`` stand together: a number for each, equal where they do.

    Reasons stand together unless their words tell them apart: two are alternatives where they share no
    content word with each other, however inflected, and at least ``SHARED`` each with the conclusion, of
    whose content words they leave out at most 1 - ``COVERED``.  What stands together with two alternatives
    joins them.  The number of a group is the place of its first member.
    """
    said = set(_read(conclusion).stems)
    stems = [set(_read(text).stems) for text in reasons]
    group = list(range(len(reasons)))
    for i, one in enumerate(stems):
        for k, other in enumerate(stems[:i]):
            if group[k] != group[i] and not _are_alternatives(one, other, said):
                first, last = sorted((group[i], group[k]))
                group = [first if number == last else number for number in group]
    return group


def _are_alternatives(one: set[str], other: set[str], said: set[str]) -> bool:
    enough = min(len(one & said), len(other & said)) >= SHARED
    akin = {stem[:BEGINNING] for stem in one} & {stem[:BEGINNING] for stem in other}
    return enough and not akin and len((one | other) & said) >= COVERED * len(said)


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
    read = [_read(text) for text in texts]
    rarity = _rarity(read)
    vector = table.encode(texts).astype(np.float64)
    one = np.array([place[text] for text in reasons], dtype=np.int64)
    other = np.array([place[text] for text in conclusions], dtype=np.int64)
    cosine = np.einsum("ij,ij->i", vector[one], vector[other])
    alone = [_alone(read[a], read[b], rarity) for a, b in zip(one, other, strict=True)]
    own = np.array(alone, dtype=np.float64).reshape(len(reasons), OWN)
    rivals = [_relative(one, other, read, rarity, cosine), _relative(other, one, read, rarity, cosine)]
    return np.column_stack([cosine, own, *rivals])


def _rarity(read: Sequence[_Text]) -> dict[str, float]:
    """Inverse document frequency of each stem among the texts, in (0, 1]."""
    count = Counter(stem for text in read for stem in set(text.stems))
    top = math.log(1 + len(read))
    return {stem: math.log((1 + len(read)) / many) / top for stem, many in count.items()}


#: Number of features of a pair by itself, without the cosine.
OWN = 13


def _alone(one: _Text, other: _Text, rarity: dict[str, float]) -> list[float]:
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
    read: Sequence[_Text],
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
        wanted = set(read[text].stems)
        shared = [wanted & set(read[int(member[row])].stems) for row in rows]
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
