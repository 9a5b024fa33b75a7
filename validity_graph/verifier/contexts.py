"""What a memory says, apart from the context in which it was said.

A text is read behind its context, because "set the budget to $900" needs the turn that names the proposal.
But the context may say things of its own, and a memory is not overturned because they are.  Knows how to
ask for scores, not how they come about.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from validity_graph.errors import InputError
from validity_graph.records import in_context

if TYPE_CHECKING:
    from validity_graph.verifier.scoring import Scores

#: Gate scores under this are not asked after: they make no edge (``verification.EVIDENCE_FLOOR``).
ASKED_FROM = 0.05
#: The context accounts for a verdict when it draws this share of the gate score by itself.
ACCOUNTS_FOR = 0.5

#: ``ask(rows, sources, targets)`` scores the pairs of texts that stand for those rows.
Ask = Callable[[list[int], Sequence[str], Sequence[str]], "Scores"]


def read_in_context(texts: Sequence[str], contexts: Sequence[str] | None, *, what: str) -> Sequence[str]:
    """Return each text behind its context; raises ``InputError`` where they differ in number."""
    if contexts is None:
        return texts
    if len(contexts) != len(texts):
        raise InputError(
            f'{len(texts)} {what}s but {len(contexts)} {what}_contexts; give one a pair, "" for none'
        )
    return [in_context(text, context) for text, context in zip(texts, contexts, strict=True)]


def without_what_contexts_say(
    scores: Scores, ask: Ask, sources: Sequence[str], targets: Sequence[str], *,
    source_contexts: Sequence[str] | None, target_contexts: Sequence[str] | None,
) -> Scores:  # fmt: skip
    """Return ``scores`` with those taken back that a target's context drew, not the target.

    ``scores`` are of the texts behind their contexts, ``(n,)`` as the sequences.  Where the context of a
    target by itself draws at least ``ACCOUNTS_FOR`` of the gate score, the two texts are read without
    contexts, and that reading stands if it is the lower.  Asks at most twice, about few pairs.
    """
    if target_contexts is None:
        return scores
    told = np.array([context != "" for context in target_contexts], dtype=np.bool_)
    rows = np.flatnonzero(told & (scores.gate >= ASKED_FROM)).tolist()
    if not rows:
        return scores
    readings = read_in_context(sources, source_contexts, what="source")
    by_context = ask(rows, [readings[i] for i in rows], [target_contexts[i] for i in rows])
    drawn = by_context.gate >= ACCOUNTS_FOR * scores.gate[rows]
    rows = np.array(rows)[drawn].tolist()
    if not rows:
        return scores
    bare = ask(rows, [sources[i] for i in rows], [targets[i] for i in rows])
    lower = bare.gate < scores.gate[rows]
    return scores.with_rows(np.array(rows)[lower], bare, np.flatnonzero(lower))
