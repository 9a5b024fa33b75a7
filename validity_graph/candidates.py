"""Which earlier memories are worth verifying for each new one: a capped proposal, never all pairs.

Knows memories and their arrival order, no verdicts and no edges.  Who is asked about whom follows
SEMANTICS section 2: by event time where both are known and differ, else by arrival.  How texts are ranked
is written in ``ranking``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

from validity_graph import embedding
from validity_graph.errors import ConflictError, InputError, UnknownMemoryError
from validity_graph.ranking import Encoder, Shard
from validity_graph.records import Memory


class CandidateIndex:
    """Memories under their arrival numbers, and for each the earlier ones that it may overturn.

    Grows and shrinks one memory at a time; what it proposes depends on what it holds, not on the order
    of the calls.  Namespaces never mix.  About 2 kB a memory; a query costs time linear in its namespace.
    """

    def __init__(self, *, cap: int = 8, encoder: Encoder | Literal["shipped"] | None = "shipped") -> None:
        """``cap`` distinct texts a memory at most; ``encoder`` ``None`` ranks by BM25 alone.

        ``"shipped"`` takes the table that comes with the package, or BM25 alone where it was left out.
        Raises ``InputError`` when ``cap`` is below 1.
        """
        if cap < 1:
            raise InputError(f"cap={cap} must be at least 1 candidate a memory")
        self.cap = cap
        self._encoder = embedding.shipped() if encoder == "shipped" else encoder
        self._shards: dict[str, Shard] = {}
        self._where: dict[int, tuple[Shard, int]] = {}

    def __len__(self) -> int:
        """Return the number of memories held."""
        return len(self._where)

    def __contains__(self, sequence: object) -> bool:
        """Return whether a memory with this arrival number is held."""
        return sequence in self._where

    def add(self, sequence: int, memory: Memory) -> None:
        """Hold ``memory`` under its arrival number; raises ``ConflictError`` when the number is taken."""
        if sequence in self._where:
            raise ConflictError(f"arrival number {sequence} is taken; remove it first")
        shard = self._shards.setdefault(memory.namespace, Shard(self._encoder))
        self._where[sequence] = (shard, shard.add(sequence, memory))

    def extend(self, memories: Iterable[tuple[int, Memory]]) -> None:
        """Hold every (arrival number, memory); raises ``ConflictError`` like ``add``."""
        for sequence, memory in memories:
            self.add(sequence, memory)

    def remove(self, sequence: int) -> None:
        """Forget a memory and, when no other one says the same, all that was derived from its text."""
        shard, slot = self._find(sequence)
        shard.remove(slot)
        del self._where[sequence]

    def targets(self, sequence: int) -> list[int]:
        """Return the earlier memories that this one may overturn, best first.

        At most ``cap`` distinct texts; all earlier restatements of a chosen text are listed, because one
        refutation must reach every one.  Memories that say the same as this one are left out.
        Raises ``UnknownMemoryError``.
        """
        shard, slot = self._find(sequence)
        (scores,) = shard.scores([slot])
        return list(shard.choose(shard.earlier(slot), scores, recency=shard.recency(), cap=self.cap))

    def sources(self, sequence: int) -> list[int]:
        """Return the later memories that may overturn this one, best first: for one that arrives late.

        Capped and deduplicated like ``targets``.  Raises ``UnknownMemoryError``.
        """
        shard, slot = self._find(sequence)
        (scores,) = shard.scores([slot])
        return list(shard.choose(shard.later(slot), scores, recency=shard.recency(), cap=self.cap))

    def search(self, query: str, *, k: int = 5, namespace: str = "") -> list[tuple[int, float]]:
        """Return the ``k`` memories nearest to ``query`` as (arrival number, score), best first.

        The score, in [0, 1], fuses two rankings and has no meaning beyond its order.  Validity plays no
        part here; see ``layer``.  Raises ``InputError`` when ``k`` is below 1.
        """
        if k < 1:
            raise InputError(f"k={k} must be at least 1 result")
        shard = self._shards.get(namespace)
        if shard is None or not shard.row_of:
            return []
        scores = shard.query_scores(query)
        # Whether a newer memory should come first is for the validity layer to say.
        held = np.array(shard.alive.values, dtype=np.bool_)
        found = shard.choose(held, scores, recency=shard.recency(), cap=k, recency_gain=0.0)
        return list(found.items())[:k]

    def pairs(self, sequences: Iterable[int]) -> list[tuple[int, int]]:
        """Return the (source, target) arrival numbers to verify now that ``sequences`` are new, each once.

        The targets of every new memory, then the older arrivals outside ``sequences`` that speak later
        than it.  Raises ``UnknownMemoryError``.
        """
        by_shard: dict[int, tuple[Shard, list[int]]] = {}
        for sequence in dict.fromkeys(sequences):
            shard, slot = self._find(sequence)
            by_shard.setdefault(id(shard), (shard, []))[1].append(slot)
        found: dict[tuple[int, int], None] = {}
        for shard, slots in by_shard.values():
            known = np.ones(shard.sequence.size, dtype=np.bool_)
            known[slots] = False
            recency = shard.recency()
            for slot, scores in zip(slots, shard.scores(slots), strict=True):
                own = int(shard.sequence.values[slot])
                for target in shard.choose(shard.earlier(slot), scores, recency=recency, cap=self.cap):
                    found[own, target] = None
                late = shard.later(slot) & known
                for source in shard.choose(late, scores, recency=recency, cap=self.cap) if late.any() else ():
                    found[source, own] = None
        return list(found)

    def _find(self, sequence: int) -> tuple[Shard, int]:
        try:
            return self._where[sequence]
        except KeyError:
            raise UnknownMemoryError(
                f"no memory with arrival number {sequence} in the candidate index"
            ) from None


def propose(memories: Sequence[Memory], *, cap: int = 8) -> list[tuple[int, int]]:
    """Return the (source, target) positions worth verifying among ``memories``, given in arrival order."""
    index = CandidateIndex(cap=cap)
    index.extend(enumerate(memories))
    return index.pairs(range(len(memories)))
