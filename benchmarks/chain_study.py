"""Runs many multi-hop cases as one graph: candidates, one batch of verifier calls, propagation.

Each case is a namespace of its own, so nothing passes from one to another.  The verifier is asked only
about later turns, as in use: what was there before was asked about when it came.  Knows ``Case.truth``
only where its name says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from synthetic.chain_stage import Case
from validity_graph.candidates import CandidateIndex
from validity_graph.encode import encode, is_later
from validity_graph.inference import findings
from validity_graph.records import OVERTURNS, Edge
from validity_graph.store import Snapshot, StoredMemory
from validity_graph.verification import edges_from, inferred_edges, stood_then, without_retraction_cycles
from validity_graph.verifier import Scores

Floats = NDArray[np.float64]
Pair = tuple[int, int]
#: After every time in the cases, so that every memory speaks.
NOW = datetime(2030, 1, 1, tzinfo=timezone.utc)
#: Stands for the memory that a judge of single texts does not see.
NO_TARGET = "-"


class Judge(Protocol):
    """Anything that scores pairs as ``Verifier`` does."""

    def score(
        self, sources: Sequence[str], targets: Sequence[str], *, domains: Sequence[str] | None = None
    ) -> Scores:
        """Score each pair."""
        ...


class SupportJudge(Protocol):
    """Anything that gives the probability that one text is a reason for another."""

    def score(self, reasons: Sequence[str], conclusions: Sequence[str]) -> Floats:
        """Score each pair, shape ``(n,)`` in [0, 1]."""
        ...


@dataclass(frozen=True)
class Batch:
    """Cases laid out as one graph.  Memories are numbered by place, which is also their arrival order.

    ``proposed`` are (source, target) numbers that the candidates propose for the later turns; ``direct``
    are every later turn with its case's target.
    """

    cases: tuple[Case, ...]
    stored: tuple[StoredMemory, ...]
    number: dict[str, int]
    proposed: tuple[Pair, ...]
    direct: tuple[Pair, ...]
    index: CandidateIndex

    @property
    def invalid(self) -> NDArray[np.bool_]:
        """Which targets are invalid, one a case."""
        return np.array([case.invalid for case in self.cases], dtype=np.bool_)


def lay_out(cases: Sequence[Case]) -> Batch:
    """Return all cases as one graph: numbered, with pairs proposed for their later turns."""
    memories = [memory for case in cases for memory in case.memories]
    stored = tuple(StoredMemory(k, NOW, memory) for k, memory in enumerate(memories))
    number = {memory.id: k for k, memory in enumerate(memories)}
    index = CandidateIndex()
    index.extend(enumerate(memories))
    turns = [(case, number[id]) for case in cases for id in case.turns]
    direct = [(turn, number[case.target]) for case, turn in turns]
    return Batch(
        cases=tuple(cases),
        stored=stored,
        number=number,
        proposed=tuple(index.pairs(turn for _, turn in turns)),
        direct=tuple(pair for pair in direct if is_later(stored[pair[0]], stored[pair[1]])),
        index=index,
    )


def ask(judge: Judge, batch: Batch, pairs: Sequence[Pair]) -> Scores:
    """Score these pairs in one call; equal texts are asked about once."""
    texts = [batch.stored[k].memory for k in range(len(batch.stored))]
    keys = [(texts[s].text, texts[t].text, texts[t].domain) for s, t in pairs]
    return _ask(judge, keys)


def ask_alone(judge: Judge, batch: Batch) -> Floats:
    """Return how likely each later turn is a change by its own text, one value for each direct pair."""
    keys = [(batch.stored[s].memory.text, NO_TARGET, "") for s, _ in batch.direct]
    return np.asarray(_ask(judge, keys).event, dtype=np.float64)


def _ask(judge: Judge, keys: Sequence[tuple[str, str, str]]) -> Scores:
    place = {key: k for k, key in enumerate(dict.fromkeys(keys))}
    sources, targets, domains = (list(part) for part in zip(*place, strict=True)) if place else ([], [], [])
    scores = judge.score(sources, targets, domains=domains)
    return take(scores, np.array([place[key] for key in keys], dtype=np.int64))


def take(scores: Scores, chosen: NDArray[np.int64]) -> Scores:
    """Return the scores at these places."""
    names = ("slot_mini", "slot_nli", "event", "operation", "confirms", "kind", "gate")
    return replace(scores, **{name: getattr(scores, name)[chosen] for name in names})


def spoken(batch: Batch, pairs: Sequence[Pair], scores: Scores) -> list[Edge]:
    """Return the edges that ``ValidityGraph.verify`` would make of these scores."""
    found = edges_from([(batch.stored[s], batch.stored[t]) for s, t in pairs], scores)
    return without_retraction_cycles(found, given={})


def given(batch: Batch) -> list[Edge]:
    """Return the structure that comes with the cases."""
    return [edge for case in batch.cases for edge in case.structure]


def true_edges(batch: Batch) -> list[Edge]:
    """Return what each turn overturns or confirms by construction: for the oracle alone."""
    return [edge for case in batch.cases for edge in case.truth]


def invalidity(batch: Batch, edges: Sequence[Edge]) -> Floats:
    """Propagate; return the invalidity of each case's target, shape ``(cases,)``."""
    return _propagated(batch, edges)[[batch.number[case.target] for case in batch.cases]]


def direct(batch: Batch, edges: Sequence[Edge]) -> Floats:
    """Return the invalidity of each target by what speaks against itself alone, shape ``(cases,)``."""
    return invalidity(batch, [edge for edge in edges if edge.type == OVERTURNS])


def _propagated(batch: Batch, edges: Sequence[Edge]) -> Floats:
    snapshot = Snapshot(0, batch.stored, tuple(edges), (), (), frozenset())
    found = findings(encode(snapshot, now=NOW), "noisy_or")
    return np.asarray(found.invalidity, dtype=np.float64)


def reasons(judge: SupportJudge, batch: Batch, edges: Sequence[Edge]) -> list[tuple[Pair, float]]:
    """Score which memory is a reason for which later one, over capped candidates.

    A reason that ``edges`` had overturned by then counts less, as in ``ValidityGraph.infer_supports``.
    """
    texts = [item.memory.text for item in batch.stored]
    found: list[tuple[Pair, float]] = []
    for case in batch.cases:
        # A scorer weighs the candidates of one graph against each other, so each case is asked by itself.
        places = [batch.number[memory.id] for memory in case.memories]
        pairs = [(earlier, later) for later, earlier in batch.index.pairs(places)]
        scores = judge.score([texts[a] for a, _ in pairs], [texts[b] for _, b in pairs])
        found += [(pair, float(score)) for pair, score in zip(pairs, scores, strict=True)]
    memories = {item.memory.id: item for item in batch.stored}
    stood = stood_then([(batch.stored[a], batch.stored[b]) for (a, b), _ in found], edges, memories)
    return [(pair, score * share) for (pair, score), share in zip(found, stood.tolist(), strict=True)]


def inferred(batch: Batch, scored: Sequence[tuple[Pair, float]], *, threshold: float) -> list[Edge]:
    """Return the support edges that ``ValidityGraph.infer_supports`` would make of these scores."""
    memory = [item.memory for item in batch.stored]
    pairs = [(memory[a], memory[b]) for (a, b), _ in scored]
    return inferred_edges(pairs, [score for _, score in scored], threshold=threshold)


def per_case(batch: Batch, values: Floats) -> Floats:
    """Return the largest of ``values`` (one a direct pair) of each case, shape ``(cases,)``; 0 for none."""
    place = {batch.number[case.target]: k for k, case in enumerate(batch.cases)}
    result = np.zeros(len(batch.cases))
    np.maximum.at(result, [place[target] for _, target in batch.direct], values)
    return result


def folds(batch: Batch, *, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the fold of each case: whole domains, so that no phrasing is in two folds."""
    domains = sorted({case.domain for case in batch.cases})
    place = dict(zip(domains, rng.permutation(len(domains)) % count, strict=True))
    return np.array([place[case.domain] for case in batch.cases], dtype=np.int64)


def best_threshold(score: Floats, invalid: NDArray[np.bool_]) -> float:
    """Return the threshold with the highest overall accuracy plus that of the class that fares worse.

    A threshold that gives one class away loses, [V3] section 7.  Of equals, the one with most room to the
    nearest score.
    """
    levels = np.unique(np.concatenate([[0.0, 1.0], score]))
    between = (levels[1:] + levels[:-1]) / 2
    marked = score[None, :] >= between[:, None]
    right = marked == invalid[None, :]
    worse = np.minimum(right[:, invalid].mean(axis=1), right[:, ~invalid].mean(axis=1))
    value = right.mean(axis=1) + worse
    room = np.diff(levels)
    return float(between[np.lexsort((room, value))[-1]])


def decide(
    score: Floats, invalid: NDArray[np.bool_], fold: NDArray[np.int64]
) -> tuple[NDArray[np.bool_], dict[int, float]]:
    """Judge each fold by the threshold chosen on the others; return the verdicts and the thresholds."""
    marked = np.zeros(len(score), dtype=np.bool_)
    thresholds = {}
    for number in np.unique(fold):
        test = fold == number
        thresholds[int(number)] = best_threshold(score[~test], invalid[~test])
        marked[test] = score[test] >= thresholds[int(number)]
    return marked, thresholds
