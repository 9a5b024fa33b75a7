"""Sentences that decide for texts in which they stand among others.

Talk around the one sentence that says a change draws a score down: "I'm off tea. My doctor laughed at me."
Where the whole leaves a doubt, its sentences are read one against one, and a pair of sentences that is clear
speaks for the whole.  Knows how to ask for scores, not how they come about.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from validity_graph.verifier.evidence import strongest
from validity_graph.verifier.windows import sentences

if TYPE_CHECKING:
    from validity_graph.verifier.scoring import Scores

#: Gate scores of a whole in which there is a doubt: below, even a clear sentence is about something else
#: (it lost the name that another sentence gives); above, the whole decides.
DOUBT = (0.02, 0.5)
#: Gate score from which a pair of sentences speaks for the whole.  Both chosen on pairs of
#: ``synthetic.conversations`` and on free-form pairs that train nothing.
CLEAR = 0.9
#: Pairs of sentences a pair of texts at most; longer texts are left to the windows.
MOST = 36

#: ``ask(rows, sources, targets)`` scores the pairs of texts that stand for those rows.
Ask = Callable[[list[int], Sequence[str], Sequence[str]], "Scores"]


def with_clear_sentences(
    scores: Scores, ask: Ask, sources: Sequence[str], targets: Sequence[str], *, rows: Sequence[int]
) -> Scores:
    """Return ``scores`` with the doubtful ones replaced for which a pair of sentences is clear.

    ``scores`` are of the whole texts, ``(n,)`` as the sequences; only ``rows`` may change, and only to a
    higher gate score.  Asks at most once.
    """
    doubtful = [k for k in rows if DOUBT[0] <= scores.gate[k] < DOUBT[1]]
    asked = [(k, *pair) for k in doubtful for pair in sentence_pairs(sources[k], targets[k])]
    if not asked:
        return scores
    whose, left, right = (list(column) for column in zip(*asked, strict=True))
    apart = ask(whose, left, right)
    place, pair = np.unique(whose, return_inverse=True)
    best = strongest(pair, apart.gate, pairs=len(place))
    clear = apart.gate[best] >= CLEAR
    return scores.with_rows(place[clear], apart, best[clear])


def sentence_pairs(source: str, target: str) -> list[tuple[str, str]]:
    """Return every sentence of ``source`` with every one of ``target``; none for one of each or too many."""
    left, right = sentences(source), sentences(target)
    return list(product(left, right)) if 1 < len(left) * len(right) <= MOST else []
