"""From texts to edges: which pairs the verifier is asked about, and what its scores become.

Candidates propose, the verifier scores, and a score over the evidence floor becomes an ``overturns`` or
``confirms`` edge with its parts ([V3] Eq. 1 to 3, SEMANTICS section 2).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from validity_graph.admission import find_cycle
from validity_graph.encode import is_later
from validity_graph.mirror import Mirror
from validity_graph.records import CONFIRMS, OVERTURNS, RETRACTS, SUPERSEDES, SUPPORTS, Edge, Evidence, Memory
from validity_graph.store import StoredMemory

if TYPE_CHECKING:
    from validity_graph.candidates import CandidateIndex
    from validity_graph.supports import SupportScorer
    from validity_graph.verifier import Scores
    from validity_graph.verifier.heads import Progress

#: Gate scores under this make no edge: noisy-or over many tiny scores would invent certainty.
EVIDENCE_FLOOR = 0.05
#: A confirmation clears evidence, so it has to be more likely than not.
CONFIRMATION_FLOOR = 0.5

#: Justification that the inferred reasons of one memory share, and how the names of alternatives begin.
INFERRED = "inferred"

Pair = tuple[StoredMemory, StoredMemory]


def pairs_to_ask(index: CandidateIndex, mirror: Mirror) -> tuple[list[str], list[Pair]]:
    """Return the memories that were not looked at yet, and the pairs with them that are worth verifying.

    A memory that was looked at has the pair (id, id) among those asked; it only meets what came since.
    """
    fresh = [item for id, item in mirror.memories.items() if (id, id) not in mirror.asked]
    by_sequence = {item.sequence: item for item in mirror.memories.values()}
    proposed = index.pairs([item.sequence for item in fresh])
    pairs = [(by_sequence[source], by_sequence[target]) for source, target in proposed]
    new = [pair for pair in pairs if (pair[0].memory.id, pair[1].memory.id) not in mirror.asked]
    return [item.memory.id for item in fresh], new


def influence(pairs: Sequence[Pair], mirror: Mirror, *, now: datetime) -> NDArray[np.float64]:
    """Return how much a verdict on each pair can still move, shape ``(len(pairs),)`` in [0, 1].

    A verdict moves its target's direct invalidity by what stands for the target so far, and nothing
    downstream by more (noisy-or is linear in each input, with slopes in [0, 1]).  Counted are rulings and
    edges that stay as they are: from sources of trust 1, not dated after ``now``, that nothing speaks for or
    against, and against targets that nothing confirms.
    """
    room: dict[str, float] = {}
    challenged = {edge.target for edge in mirror.edges.values() if edge.type in (OVERTURNS, CONFIRMS)}
    for edge in mirror.edges.values():
        source = mirror.memories.get(edge.source)
        if edge.type != OVERTURNS or source is None or edge.source in challenged:
            continue
        if source.memory.trust == 1.0 and (source.memory.time or now) <= now:
            room[edge.target] = room.get(edge.target, 1.0) * (1.0 - edge.weight)
    for ruling in mirror.rulings:
        if ruling.action == "invalidate":
            room[ruling.target] = room.get(ruling.target, 1.0) * (1.0 - ruling.probability)
    cleared = {edge.target for edge in mirror.edges.values() if edge.type == CONFIRMS}
    cleared |= {ruling.target for ruling in mirror.rulings if ruling.action == "confirm"}
    targets = [target.memory.id for _, target in pairs]
    return np.array([1.0 if id in cleared else room.get(id, 1.0) for id in targets], dtype=np.float64)


def edges_from(pairs: Sequence[Pair], scores: Scores) -> list[Edge]:
    """Return the edges that these scores make, one a pair at most.

    ``scores`` holds arrays of shape ``(len(pairs),)``; see ``verifier.Scores``.
    """
    edges = []
    for k, (source, target) in enumerate(pairs):
        gate = float(scores.gate[k])
        confirms = float(scores.confirms[k])
        if gate >= EVIDENCE_FLOOR and gate >= confirms:
            edges.append(
                Edge(
                    source=source.memory.id,
                    target=target.memory.id,
                    type=OVERTURNS,
                    weight=gate,
                    kind=RETRACTS if scores.kind[k] == RETRACTS else SUPERSEDES,
                    evidence=_evidence(scores, k),
                )
            )
        elif confirms >= CONFIRMATION_FLOOR:
            edges.append(Edge(source.memory.id, target.memory.id, CONFIRMS, weight=confirms))
    return edges


def reasons_to_weigh(index: CandidateIndex, mirror: Mirror) -> list[Pair]:
    """Return the (reason, conclusion) pairs of earlier and later memories, capped as for the verifier."""
    by_sequence = {item.sequence: item for item in mirror.memories.values()}
    return [(by_sequence[earlier], by_sequence[later]) for later, earlier in index.pairs(by_sequence)]


def supports_from(
    pairs: Sequence[Pair],
    scorer: SupportScorer,
    *,
    stood: NDArray[np.float64],
    threshold: float,
    progress: Progress | None = None,
) -> list[Edge]:
    """Return the support edges that ``scorer`` finds among (reason, conclusion) ``pairs``.

    A pair's weight is its score times how likely its reason ``stood`` (``stood_then``).  The pairs of one
    namespace are scored together, because a pair is weighed against its rivals.  Which reasons stand
    together: ``inferred_edges``.  ``progress(done, total)`` counts pairs.
    """
    by_namespace: dict[str, list[int]] = {}
    for k, (_, conclusion) in enumerate(pairs):
        by_namespace.setdefault(conclusion.memory.namespace, []).append(k)
    edges: list[Edge] = []
    done = 0
    for rows in by_namespace.values():
        found = [(reason.memory, conclusion.memory) for reason, conclusion in (pairs[k] for k in rows)]
        scores = scorer.score(
            [reason.reading for reason, _ in found],
            [conclusion.reading for _, conclusion in found],
            progress=_within(progress, start=done, size=len(found), total=len(pairs)),
        )
        done += len(found)
        edges += inferred_edges(found, (scores * stood[rows]).tolist(), threshold=threshold)
    return edges


def stood_then(
    pairs: Sequence[Pair], edges: Iterable[Edge], memories: Mapping[str, StoredMemory]
) -> NDArray[np.float64]:
    """Return how likely each reason of (reason, conclusion) ``pairs`` still stood when it was drawn on.

    Shape ``(len(pairs),)``: the product of 1 - weight * trust over the overturns of the reason that came
    before the conclusion.  Nobody concludes from what was outdated by then; that such an overturn was taken
    back is not looked at.  ``memories`` are those that edges may speak of, by id.
    """
    spoken: dict[str, list[tuple[StoredMemory, float]]] = {}
    for edge in edges:
        source = memories.get(edge.source)
        if edge.type == OVERTURNS and source is not None:
            spoken.setdefault(edge.target, []).append((source, edge.weight * source.memory.trust))
    stood = np.ones(len(pairs))
    for k, (reason, conclusion) in enumerate(pairs):
        for source, weight in spoken.get(reason.memory.id, ()):
            if is_later(conclusion, source):
                stood[k] *= 1.0 - weight
    return stood


def _within(progress: Progress | None, *, start: int, size: int, total: int) -> Progress | None:
    """Return what counts a part of the work, ``size`` of ``total`` after ``start``, on ``progress``."""
    if progress is None:
        return None
    return lambda read, all: progress(start + size * read // all, total)


def inferred_edges(
    pairs: Sequence[tuple[Memory, Memory]], scores: Sequence[float], *, threshold: float
) -> list[Edge]:
    """Return the support edges of the (reason, conclusion) ``pairs`` whose score reaches ``threshold``.

    The reasons of one memory are one justification, but for alternatives that their words tell apart
    (``supports.grounds``).
    """
    from validity_graph.supports import grounds

    reasons: dict[str, list[tuple[Memory, Memory, float]]] = {}
    for (reason, conclusion), score in zip(pairs, scores, strict=True):
        if score >= threshold:
            reasons.setdefault(conclusion.id, []).append((reason, conclusion, score))
    edges = []
    for found in reasons.values():
        group = grounds([reason.reading for reason, _, _ in found], found[0][1].reading)
        # An alternative is named by a member, so that a reason that is found later does not rename it.
        first: dict[int, str] = {}
        for (reason, _, _), k in zip(found, group, strict=True):
            first[k] = min(reason.id, first.get(k, reason.id))
        names = {k: f"{INFERRED}:{id}" if len(first) > 1 else INFERRED for k, id in first.items()}
        edges += [
            Edge(reason.id, conclusion.id, SUPPORTS, score, justification=names[k], inferred=True)
            for (reason, conclusion, score), k in zip(found, group, strict=True)
        ]
    return edges


def without_retraction_cycles(new: Iterable[Edge], *, given: Mapping[str, set[str]]) -> list[Edge]:
    """Return ``new`` with each retraction that would close a cycle turned into a supersession.

    ``given`` maps a source to what it retracts already.

    Among memories without times the order of arrival can run in a circle with event times; a scored
    edge must not make the graph unusable.
    """
    following = {id: set(targets) for id, targets in given.items()}
    kept = []
    for item in new:
        if item.kind == RETRACTS:
            targets = following.setdefault(item.source, set())
            targets.add(item.target)
            if find_cycle(item.source, following) is not None:
                targets.discard(item.target)
                item = Edge(
                    item.source, item.target, OVERTURNS, item.weight, SUPERSEDES, evidence=item.evidence
                )
        kept.append(item)
    return kept


def _evidence(scores: Scores, k: int) -> Evidence:
    nli = float(scores.slot_nli[k])
    return Evidence(
        slot_mini=float(scores.slot_mini[k]),
        slot_nli=None if np.isnan(nli) else nli,
        event=float(scores.event[k]),
        operation=float(scores.operation[k]),
    )
