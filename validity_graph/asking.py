"""Asking models about texts: which memories overturn which, and what supports what.

Finds the pairs that are worth asking about, asks, and keeps the edges that come out.  What the models
are is the business of ``verifier`` and ``supports``; which pairs, of ``candidates`` and ``verification``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from validity_graph.archive import Archive
from validity_graph.records import OVERTURNS, Edge, Verification
from validity_graph.verification import (
    Pair,
    edges_from,
    influence,
    pairs_to_ask,
    reasons_to_weigh,
    stood_then,
    supports_from,
    without_retraction_cycles,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from validity_graph.candidates import CandidateIndex
    from validity_graph.verifier import Verifier
    from validity_graph.verifier.heads import Progress


class Asker:
    """The verifier and an index of the texts of ``archive``, both made on first use."""

    def __init__(self, archive: Archive, verifier: Verifier | None) -> None:
        """Ask ``verifier``, or the packaged one."""
        self._archive = archive
        self.verifier = verifier
        self._candidates: CandidateIndex | None = None
        self._generation = -1

    def index(self) -> CandidateIndex:
        """Return the index over the texts as of the archive's last reading."""
        from validity_graph.candidates import CandidateIndex

        mirror = self._archive.mirror
        if self._candidates is None or self._generation != self._archive.generation:
            self._candidates, self._generation = CandidateIndex(), self._archive.generation
            mirror.touched = set(mirror.by_sequence)
        touched, mirror.touched = sorted(mirror.touched), set()
        for sequence in touched:
            if sequence in self._candidates:
                self._candidates.remove(sequence)
        here = [sequence for sequence in touched if sequence in mirror.by_sequence]
        self._candidates.extend(
            (sequence, mirror.memories[mirror.by_sequence[sequence]].memory) for sequence in here
        )
        return self._candidates

    def verify(self, progress: Progress | None) -> Verification:
        """Ask about every pair that is worth it and was not asked yet; keep the edges.

        The lock is not held while the verifier reads.
        """
        archive = self._archive
        with archive.lock:
            mirror = archive.current()
            fresh, pairs = pairs_to_ask(self.index(), mirror)
            reach = influence(pairs, mirror, now=archive.clock())
        scored = self._score(pairs, reach, progress)
        with archive.writing() as (transaction, mirror):
            # Somebody may have written while the verifier was reading.
            held = mirror.memories
            pairs = [pair for pair in pairs if all(held.get(item.memory.id) == item for item in pair)]
            asked = {(source.memory.id, target.memory.id) for source, target in pairs}
            new = [
                item
                for item in scored
                if item.key not in mirror.edges and (item.source, item.target) in asked
            ]
            edges = without_retraction_cycles(new, given=mirror.retractions)
            asked |= {(id, id) for id in fresh if id in held}
            transaction.put_asked(sorted(asked - mirror.asked))
            transaction.put_edges(edges)
            overturns = sum(item.type == OVERTURNS for item in edges)
            counts = {"pairs": len(pairs), "overturns": overturns, "confirms": len(edges) - overturns}
            if fresh:
                archive.log(transaction, "verify", "", detail=counts)
        return Verification(**counts)

    def infer_supports(self, threshold: float, progress: Progress | None) -> int:
        """Infer support edges from the texts and keep them; return how many are new.

        The lock is not held while the scorer reads.
        """
        from validity_graph.supports import SupportScorer

        archive = self._archive
        with archive.lock:
            mirror = archive.current()
            pairs = reasons_to_weigh(self.index(), mirror)
            stood = stood_then(pairs, mirror.edges.values(), mirror.memories)
        scorer = SupportScorer.load()
        found = supports_from(pairs, scorer, stood=stood, threshold=threshold, progress=progress)
        read = {item.memory.id: item for pair in pairs for item in pair}
        with archive.writing() as (transaction, mirror):
            # Somebody may have written while the scorer was reading.
            held = mirror.memories
            same = {id for id, item in read.items() if held.get(id) == item}
            edges = [
                item for item in found if item.key not in mirror.edges and {item.source, item.target} <= same
            ]
            transaction.put_edges(edges)
            if edges:
                archive.log(transaction, "infer_supports", "", detail={"supports": len(edges)})
        return len(edges)

    def _score(
        self, pairs: Sequence[Pair], reach: NDArray[np.float64], progress: Progress | None
    ) -> list[Edge]:
        if not pairs:
            return []
        if self.verifier is None:
            from validity_graph.verifier import Verifier

            self.verifier = Verifier.load()
        scores = self.verifier.score(
            [source.memory.text for source, _ in pairs],
            [target.memory.text for _, target in pairs],
            source_contexts=[source.memory.context for source, _ in pairs],
            target_contexts=[target.memory.context for _, target in pairs],
            domains=[target.memory.domain for _, target in pairs],
            influence=reach,
            progress=progress,
        )
        return edges_from(pairs, scores)
