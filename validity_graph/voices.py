"""Who speaks about whom, how loud and when: the direct evidence of now, kept current through writes.

Takes one statement, memory or ruling at a time and says which memories are to be heard again.  What could
change more than that it refuses (``Unfollowed``), and the caller reads everything anew.  Formulas:
SEMANTICS section 2; the same functions as a whole reading by ``encode``, hence the same last bits.
"""

from __future__ import annotations

from bisect import bisect
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from validity_graph.encode import EARLIEST, KIND, EncodedGraph, kind_code, moments
from validity_graph.explain import left_of
from validity_graph.kernels.direct import direct_evidence, force
from validity_graph.records import OVERTURNS, RETRACTS, SUPERSEDES, Edge, Ruling, same_statement
from validity_graph.store import StoredMemory
from validity_graph.topology import DirectEvidence
from validity_graph.trails import Said

Key = tuple[str, str, str, str]

#: Ages lie this far apart, so that what comes in between finds room.
_APART = 1 << 20


class Unfollowed(Exception):  # noqa: N818  not an error: the caller reads everything anew
    """A write may change more than what it touches."""


class Voices:
    """Statements by target, and the force, age and channel of whoever makes them, by number."""

    def __init__(
        self,
        encoded: EncodedGraph,
        stored: Sequence[StoredMemory],
        rulings: Sequence[Ruling],
        looped: Iterable[Edge],
    ) -> None:
        """Start from ``encoded``, made of ``stored`` and ``rulings``.

        ``looped`` are the statements that lost in loops of supersession.
        """
        self._force = force(encoded.evidence, encoded.node_count).tolist()
        self._moments = moments(stored, rulings, first=encoded.memory.start)
        self._ages = [(rank + 1) * _APART for rank in range(len(self._moments))]
        self._age = [int(np.iinfo(np.int64).max)] * encoded.node_count
        for age, (_, _, v) in zip(self._ages, self._moments, strict=True):
            self._age[v] = age
        self._latest = max((item.memory.time for item in stored if item.memory.time), default=EARLIEST)
        self._channels: dict[str, int] = {}
        self._channel = [-1] * encoded.node_count
        for v, item in zip(encoded.memory, stored, strict=True):
            self._channel[v] = self._channel_number(item.memory.channel)
        self._words: dict[int, dict[Key, tuple[int, Edge]]] = defaultdict(dict)
        self._over: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        self._looped = list(looped)
        for edge in encoded.spoken:
            source, target = encoded.number[edge.source], encoded.number[edge.target]
            self._words[target][edge.key] = source, edge
            self._note_over(edge, source, target, 1)
        for edge in self._looped:
            self._note_over(edge, encoded.number[edge.source], encoded.number[edge.target], 1)
        self._retracting, self._retracted = self._retractions(encoded, stored)

    def _retractions(
        self, encoded: EncodedGraph, stored: Sequence[StoredMemory]
    ) -> tuple[set[str], set[str]]:
        """Who retracts, and the texts that are retracted: another record of one would be, too.

        Those that lie inert count: so would what they say of the other record.
        """
        first = encoded.memory.start
        items = [item for item in (*encoded.spoken, *encoded.inert) if item.kind == RETRACTS]
        places = (encoded.number.get(item.target, -1) - first for item in items)
        texts = {same_statement(stored[i].memory) for i in places if 0 <= i < len(stored)}
        return {item.source for item in items}, texts

    def enter(self, item: StoredMemory, v: int) -> None:
        """Hear of a new memory with number ``v``, the next one."""
        memory = item.memory
        if same_statement(memory) in self._retracted:
            raise Unfollowed
        time = memory.time or self._latest
        self._latest = max(self._latest, time)
        self._join(v, time, item.sequence)
        self._force.append(memory.trust)
        self._channel.append(self._channel_number(memory.channel))

    def enter_ruling(self, ruling: Ruling, v: int) -> None:
        """Hear of a new ruling with number ``v``, the next one."""
        self._join(v, ruling.time, ruling.sequence)
        self._force.append(1.0)
        self._channel.append(-1)

    def check(self, item: Edge) -> None:
        """Refuse to follow the coming or going of a retraction, or of what a retracting memory overturns.

        A retraction takes force away, and reaches other records of the words too.
        """
        if item.type == OVERTURNS and (item.kind == RETRACTS or item.source in self._retracting):
            raise Unfollowed

    def speak(self, item: Edge, source: int, target: int) -> None:
        """Take a new statement."""
        if item.type == OVERTURNS:
            if self._leads(target, source):
                raise Unfollowed
            self._note_over(item, source, target, 1)
        self._words[target][item.key] = source, item

    def silence(self, item: Edge, source: int, target: int) -> None:
        """Take a statement back."""
        if item.type == OVERTURNS:
            # A loop may be one no more, and who lost in it speaks again.
            if self._looped:
                raise Unfollowed
            self._note_over(item, source, target, -1)
        del self._words[target][item.key]

    def said(self, target: int) -> dict[int, Said]:
        """Return what is left of the words about ``target``, by source."""
        words = self._words.get(target, {}).values()
        return left_of([(source, self._age[source], item) for source, item in words], self._force)

    def direct(self, target: NDArray[np.int64]) -> NDArray[np.float64]:
        """Direct evidence of the memories ``target`` [k], float64[k], as ``direct_evidence`` has it."""
        words = [(s, int(v), item) for v in target for s, item in self._words.get(int(v), {}).values()]
        voice = np.array(sorted({s for s, _, _ in words} | set(target.tolist())), dtype=np.int64)
        place = {v: i for i, v in enumerate(voice.tolist())}
        # Force stands for trust here, so a retraction is but one more statement.
        kinds = [KIND[SUPERSEDES] if item.kind == RETRACTS else kind_code(item) for _, _, item in words]
        found = direct_evidence(
            DirectEvidence(
                source=np.array([place[s] for s, _, _ in words], dtype=np.int32),
                target=np.array([place[v] for _, v, _ in words], dtype=np.int32),
                weight=np.array([item.weight for _, _, item in words], dtype=np.float64),
                kind=np.array(kinds, dtype=np.uint8),
                age=np.array([self._age[s] for s, _, _ in words], dtype=np.int64),
                channel=np.array([self._channel[s] for s, _, _ in words], dtype=np.int32),
                trust=np.array([self._force[s] for s in voice.tolist()], dtype=np.float64),
            ),
            voice.size,
        )
        return found[np.searchsorted(voice, target)]

    def _join(self, v: int, time: datetime, sequence: int) -> None:
        place = bisect(self._moments, (time, sequence, v))
        before = self._ages[place - 1] if place else 0
        behind = self._ages[place] if place < len(self._ages) else before + 2 * _APART
        age = (before + behind) // 2
        if age == before:
            raise Unfollowed
        self._moments.insert(place, (time, sequence, v))
        self._ages.insert(place, age)
        self._age.append(age)

    def _channel_number(self, name: str) -> int:
        return self._channels.setdefault(name, len(self._channels)) if name else -1

    def _note_over(self, item: Edge, source: int, target: int, change: int) -> None:
        if item.type == OVERTURNS and item.kind != RETRACTS:
            self._over[source][target] += change
            if self._over[source][target] == 0:
                del self._over[source][target]

    def _leads(self, start: int, end: int) -> bool:
        """Whether supersession leads from ``start`` to ``end``: one more edge would close a loop."""
        seen, waiting = {start}, [start]
        while waiting:
            v = waiting.pop()
            if v == end:
                return True
            fresh = self._over[v].keys() - seen if v in self._over else ()
            seen.update(fresh)
            waiting += fresh
        return False
