"""From texts to edges: which pairs the verifier is asked about, and what its scores become.

Candidates propose, the verifier scores, and a score over the evidence floor becomes an ``overturns`` or
``confirms`` edge with its parts ([V3] Eq. 1 to 3, SEMANTICS section 2).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from validity_graph.admission import find_cycle
from validity_graph.records import CONFIRMS, OVERTURNS, RETRACTS, SUPERSEDES, Edge, Evidence
from validity_graph.store import Snapshot, StoredMemory

if TYPE_CHECKING:
    from validity_graph.candidates import CandidateIndex
    from validity_graph.verifier import Scores

#: Gate scores under this make no edge: noisy-or over many tiny scores would invent certainty.
EVIDENCE_FLOOR = 0.05
#: A confirmation clears evidence, so it has to be more likely than not.
CONFIRMATION_FLOOR = 0.5

Pair = tuple[StoredMemory, StoredMemory]


def pairs_to_ask(index: CandidateIndex, snapshot: Snapshot) -> list[Pair]:
    """Return the (source, target) pairs that are worth verifying and were not asked yet.

    A memory that was asked about before only meets memories that arrived since.
    """
    by_sequence = {item.sequence: item for item in snapshot.memories}
    met = {id for pair in snapshot.asked for id in pair}
    # A memory without partners stays unmet and is looked up again, which asks the verifier nothing.
    fresh = [item.sequence for item in snapshot.memories if item.memory.id not in met]
    pairs = [(by_sequence[source], by_sequence[target]) for source, target in index.pairs(fresh)]
    return [pair for pair in pairs if (pair[0].memory.id, pair[1].memory.id) not in snapshot.asked]


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


def without_retraction_cycles(new: Iterable[Edge], *, given: Iterable[Edge]) -> list[Edge]:
    """Return ``new`` with each retraction that would close a cycle turned into a supersession.

    Among memories without times the order of arrival can run in a circle with event times; a scored
    edge must not make the graph unusable.
    """
    following: dict[str, set[str]] = {}
    for item in given:
        if item.type == OVERTURNS and item.kind == RETRACTS:
            following.setdefault(item.source, set()).add(item.target)
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
