"""Support edges from text: how likely one memory is a reason for another ([V3] section 10, learned graph).

Knows texts only, not the graph.  Two stages.  A small network on features of the words of a pair
(``support_features``) weighs every candidate; those that it does not rule out are read by the cheap head of
the verifier, whose output ``rests_on`` says whether the conclusion holds because of the reason; a logistic
function joins both, and how the pair compares with its rivals, into a probability.  Trained by
``synthetic.train_supports`` on synthetic chains and on EntailmentBank's train split (Dalvi et al., 2021);
calibrated on held-out parts of both.

A reason is not a prerequisite: whether a memory could hold without it is not in the text, so nothing here
makes a ``requires`` edge ([V3] section 15).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from validity_graph.errors import InputError
from validity_graph.support_features import FloatArray, features, parse
from validity_graph.verifier.calibrator import sigmoid
from validity_graph.verifier.heads import OnnxHead, Progress
from validity_graph.verifier.pairs import RESTS_ON
from validity_graph.verifier.scoring import PACKAGED

WEIGHTS = Path(__file__).parent / "support_weights.npz"
NAMES = ("mean", "scale", "inner", "inner_bias", "outer", "outer_bias", "joint")
#: Support edges from this probability on: the middle of the plateau on held-out training trees.
THRESHOLD = 0.25
#: A pair that its words give less is not read: reading costs fifty times as much.
FLOOR = 0.02
#: Log-odds of the strongest rival of a pair that has none, and the least that a rival counts.
NO_RIVAL = -4.0

#: Two reasons are alternatives where each shares so many content words with the conclusion, and both
#: together this part of its content words; and no word of one begins with the letters of one of the other.
#: Chosen on the train split of the chains and on train trees.
SHARED, COVERED, BEGINNING = 2, 0.8, 3

#: From reasons, conclusions and who counts the pairs done, to the log-odds that each conclusion rests on its
#: reason, shape ``(n,)``.
Reader = Callable[[Sequence[str], Sequence[str], Progress | None], FloatArray]


@dataclass(frozen=True, slots=True)
class SupportScorer:
    """Gives the probability that one text is a reason for another; ``load`` gives the packaged one.

    ``inner`` ``(features, hidden)`` and ``outer`` ``(hidden,)`` are the layers of a network on features
    standardised by ``mean`` and ``scale`` ``(features,)``; ``joint`` ``(5,)`` weighs ``joined`` and 1.
    """

    mean: FloatArray
    scale: FloatArray
    inner: FloatArray
    inner_bias: FloatArray
    outer: FloatArray
    outer_bias: FloatArray
    joint: FloatArray
    reader: Reader

    @classmethod
    def load(cls, path: str | Path | None = None, *, reader: Reader | None = None) -> SupportScorer:
        """Read an ``.npz`` of weights (default: the packaged one).

        ``reader`` defaults to the packaged verifier's cheap head.  Raises ``InputError`` where the file is
        missing or lacks an array.
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
            known = {name: arrays[name].astype(np.float64) for name in NAMES}
        return cls(**known, reader=reader or reading(PACKAGED))

    def score(
        self, reasons: Sequence[str], conclusions: Sequence[str], *, progress: Progress | None = None
    ) -> FloatArray:
        """Return the probability of each (reason, conclusion) pair, shape ``(n,)`` in [0, 1].

        Reasons of one conclusion and conclusions of one reason are weighed against each other, and words
        are rare or common by the texts of this call: give all the candidates of a graph at once.
        ``progress(done, total)`` counts the pairs that are read.  Raises ``InputError`` where the lengths
        differ.
        """
        words = self.by_words(reasons, conclusions)
        probability = sigmoid(words)
        worth = np.flatnonzero(probability >= FLOOR).tolist()
        if worth:
            one, other = [reasons[k] for k in worth], [conclusions[k] for k in worth]
            given = joined(one, other, words=words[worth], read=self.reader(one, other, progress))
            probability[worth] = sigmoid(given @ self.joint[:-1] + self.joint[-1])
        return probability

    def by_words(self, reasons: Sequence[str], conclusions: Sequence[str]) -> FloatArray:
        """Return the log-odds of each pair by its words alone, shape ``(n,)``; raises as ``score``."""
        given = features(reasons, conclusions)
        hidden = np.maximum((given - self.mean) / self.scale @ self.inner + self.inner_bias, 0.0)
        logit: FloatArray = hidden @ self.outer + self.outer_bias[0]
        return logit


def reading(folder: str | Path) -> Reader:
    """Return the reader of a weights folder; it opens the model when it is first asked.

    Raises ``InputError`` then, where the head has no output ``rests_on``.
    """
    head: list[OnnxHead] = []

    def read_pairs(
        reasons: Sequence[str], conclusions: Sequence[str], progress: Progress | None
    ) -> FloatArray:
        if not head:
            head.append(OnnxHead.load(folder))
        if RESTS_ON not in head[0].outputs:
            raise InputError(f"{folder} was trained without pairs labelled {RESTS_ON}; train it with some")
        raw = head[0].logits(conclusions, reasons, progress=progress)
        best = np.full(len(reasons), -np.inf)
        np.maximum.at(best, raw.pair, raw.logits[:, head[0].outputs.index(RESTS_ON)])
        return best

    return read_pairs


def joined(
    reasons: Sequence[str], conclusions: Sequence[str], *, words: FloatArray, read: FloatArray
) -> FloatArray:
    """Return what the last stage weighs, log-odds of shape ``(n, 4)``.

    What the head ``read``, what the ``words`` say, and by how much the head prefers the pair to the strongest
    other reason for the same conclusion and to the strongest other conclusion of the same reason.
    """
    rivals = [read - _strongest_rival(side, read) for side in (conclusions, reasons)]
    return np.column_stack([read, words, *rivals])


def _strongest_rival(key: Sequence[str], log_odds: FloatArray) -> FloatArray:
    """Return the highest log-odds among the other pairs with the same ``key``, at least ``NO_RIVAL``."""
    number = {text: k for k, text in enumerate(dict.fromkeys(key))}
    group = np.array([number[text] for text in key], dtype=np.int64)
    first, second = (np.full(len(number), NO_RIVAL) for _ in range(2))
    np.maximum.at(first, group, log_odds)
    is_first = log_odds >= first[group]
    alone = np.bincount(group[is_first], minlength=len(first)) == 1
    np.maximum.at(second, group[~is_first], log_odds[~is_first])
    rival: FloatArray = np.where(is_first & alone[group], second[group], first[group])
    return rival


def grounds(reasons: Sequence[str], conclusion: str) -> list[int]:
    """Return which ``reasons`` of one ``conclusion`` stand together: a number for each, equal where they do.

    Reasons stand together unless their words tell them apart: two are alternatives where they share no
    content word with each other, however inflected, and at least ``SHARED`` each with the conclusion, of
    whose content words they leave out at most 1 - ``COVERED``.  What stands together with two alternatives
    joins them.  The number of a group is the place of its first member.
    """
    said = set(parse(conclusion).stems)
    stems = [set(parse(text).stems) for text in reasons]
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
