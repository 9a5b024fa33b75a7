"""The records of one graph: read once, kept current through one's own writes, read again after others'.

Every write is checked whole before it touches the store, lands in one transaction and leaves a line in the
log.  Knows stores and what may enter; judges nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from validity_graph.admission import Holdings, admit
from validity_graph.errors import InputError, UnknownMemoryError
from validity_graph.formats import Record
from validity_graph.mirror import Mirror, Recorder
from validity_graph.records import Intake, Memory, Ruling, probability, same_text
from validity_graph.store import NOTHING, LogLine, Store, StoredMemory, Tombstone

Call = tuple[str, tuple[Any, ...], dict[str, Any]]


class Archive:
    """What the store holds, as a ``Mirror``, and the writes that change both.

    ``lock`` guards it; ``mirror`` is as of the last reading or writing.  ``generation`` counts how often it
    was read from the store, ``changes`` one's own writes; those that nobody has read yet are in ``unread``,
    once somebody does (``followed``).  A ``sealed`` one is for reading only.
    """

    def __init__(self, store: Store, *, clock: Callable[[], datetime], sealed: bool) -> None:
        """Mirror ``store``, read on first use."""
        self.store = store
        self.clock = clock
        self.lock = threading.RLock()
        self.generation = 0
        self._sealed = sealed
        self.changes = 0
        self.followed = False
        self.mirror = Mirror(NOTHING)
        self.unread: list[Call] = []

    def current(self) -> Mirror:
        """Return what the store holds now; read again only where somebody else wrote since."""
        if self.store.revision() != self.mirror.revision:
            self._hold(Mirror(self.store.snapshot()))
        return self.mirror

    def stored(self, id: str) -> StoredMemory:
        """Return one memory as of the last reading.  Raises ``UnknownMemoryError`` where there is none."""
        stored = self.mirror.memories.get(id)
        if stored is None:
            buried = self.mirror.tombstones.get(id)
            mend = f"it was forgotten on {buried.time:%Y-%m-%d}" if buried else "add it first"
            raise UnknownMemoryError(f'unknown memory "{id}"; {mend}')
        return stored

    @contextmanager
    def writing(self) -> Iterator[tuple[Recorder, Mirror]]:
        """Yield a transaction and the mirror, current inside it; a failure leaves both as they were."""
        if self._sealed:
            raise InputError("a graph as of a past time is for reading only; write to the graph it came from")
        with self.lock:
            with self.store.transaction() as transaction:
                if transaction.revision() != self.mirror.revision:
                    self._hold(Mirror(transaction.snapshot()))
                recorder = Recorder(transaction)
                yield recorder, self.mirror
            recorder.replay(self.mirror)
            self.changes += 1
            if self.followed:
                self.unread += recorder.calls

    def log(
        self,
        transaction: Recorder,
        action: str,
        subject: str,
        *,
        reason: str = "",
        detail: Mapping[str, Any] | None = None,
    ) -> int:
        """Append a line to the log and return its position."""
        return transaction.append_lines([LogLine(self.clock(), action, subject, reason, detail or {})])[0]

    def take(
        self,
        records: Sequence[Record],
        *,
        allow_missing: bool = False,
        replace: bool = False,
        remember: bool = False,
    ) -> Intake:
        """Write memories and edges, all of them or none; see ``admission.admit`` for what is refused."""
        with self.writing() as (transaction, mirror):
            memories, edges = admit(
                records,
                Holdings(mirror.memories, mirror.tombstones, mirror.retractions),
                digest=self.store.digest,
                allow_missing=allow_missing,
                replace=replace,
                remember=remember,
            )
            self._put_memories(transaction, mirror, memories)
            edges = [item for item in edges if mirror.edges.get(item.key) != item]
            fresh = {item.id for item in memories}
            missing = sum(
                any(id not in fresh and id not in mirror.memories for id in item.key[:2]) for item in edges
            )
            transaction.put_edges(edges)
            now = self.clock()
            transaction.append_lines(
                [
                    LogLine(now, "connect", item.source, "", {"target": item.target, "type": item.type})
                    for item in edges
                ]
            )
        return Intake(memories=len(memories), edges=len(edges), missing=missing)

    def drop_edge(self, key: tuple[str, str, str, str]) -> None:
        """Remove one edge.  Raises ``InputError`` where there is none."""
        source, target, type, _ = key
        with self.writing() as (transaction, mirror):
            if key not in mirror.edges:
                raise InputError(f"there is no {type} edge {source} -> {target} to remove")
            transaction.drop_edges([key])
            self.log(transaction, "disconnect", source, detail={"target": target, "type": type})

    def rule(self, id: str, action: str, value: float, *, reason: str) -> None:
        """Write a ruling on memory ``id``."""
        value = probability(value, what=f"probability that {id!r} does not hold")
        with self.writing() as (transaction, _):
            self.stored(id)
            sequence = self.log(transaction, action, id, reason=reason, detail={"probability": value})
            transaction.put_ruling(Ruling(id, action, value, reason, self.clock(), sequence))

    def bury(self, id: str, *, reason: str) -> None:
        """Erase memory ``id`` and what it said; leave a tombstone."""
        with self.writing() as (transaction, mirror):
            stored = self.stored(id)
            grave = Tombstone(
                id=id,
                namespace=stored.memory.namespace,
                time=self.clock(),
                reason=reason,
                digest=self.store.digest(same_text(stored.memory)),
            )
            transaction.bury(grave, edges=mirror.spoken_with(id))
            self.log(transaction, "forget", id, reason=reason)
        self.store.scrub()

    def _hold(self, mirror: Mirror) -> None:
        self.mirror = mirror
        self.generation += 1
        self.unread = []

    def _put_memories(self, transaction: Recorder, mirror: Mirror, memories: Sequence[Memory]) -> None:
        now = self.clock()
        old = [mirror.memories.get(item.id) for item in memories]
        positions = transaction.append_lines(
            [
                LogLine(now, "add" if held is None else "replace", item.id, "", {})
                for item, held in zip(memories, old, strict=True)
            ]
        )
        rows = []
        for item, held, position in zip(memories, old, positions, strict=True):
            rows.append(StoredMemory(position if held is None else held.sequence, now, item))
            if held is not None:
                transaction.drop_asked(item.id)
            if item.id in mirror.tombstones:
                transaction.unbury(item.id)
        transaction.put_memories(rows)
