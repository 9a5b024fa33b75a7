"""What the store holds, in memory: a reading that one's own writes keep current.

Without it, every write would make the next read fetch everything again.  ``Mirror`` takes the same calls
as a ``store.Transaction``; ``Recorder`` passes them to the real one and plays them to the mirror once
they have landed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from validity_graph.records import OVERTURNS, REQUIRES, RETRACTS, SUPPORTS, Edge, Ruling
from validity_graph.store import LogLine, Snapshot, StoredMemory, Tombstone, Transaction

Key = tuple[str, str, str, str]


class Mirror:
    """The records of one store as of log position ``revision``, by id and by key.

    ``by_sequence`` names the memory of an arrival number.  ``retractions`` maps a source to what it
    retracts; ``touched`` collects the arrival numbers of memories that came, changed or went.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        """Start from ``snapshot``."""
        self.revision = snapshot.revision
        self.memories: dict[str, StoredMemory] = {item.memory.id: item for item in snapshot.memories}
        self.by_sequence: dict[int, str] = {item.sequence: item.memory.id for item in snapshot.memories}
        self.edges: dict[Key, Edge] = {}
        self.rulings: list[Ruling] = list(snapshot.rulings)
        self.tombstones: dict[str, Tombstone] = {item.id: item for item in snapshot.tombstones}
        self.asked: set[tuple[str, str]] = set(snapshot.asked)
        self.retractions: dict[str, set[str]] = {}
        self.touched: set[int] = set()
        self._partners: dict[str, set[tuple[str, str]]] = {}
        self.put_edges(snapshot.edges)
        self.put_asked(snapshot.asked)

    def snapshot(self) -> Snapshot:
        """Return the records as a ``Snapshot``, memories in arrival order."""
        return Snapshot(
            revision=self.revision,
            memories=tuple(self.memories.values()),
            edges=tuple(self.edges.values()),
            rulings=tuple(self.rulings),
            tombstones=tuple(self.tombstones.values()),
            asked=frozenset(self.asked),
        )

    def put_memories(self, memories: Sequence[StoredMemory]) -> None:
        """Insert memories, or replace those with the same id (which keep their place)."""
        for item in memories:
            self.memories[item.memory.id] = item
            self.by_sequence[item.sequence] = item.memory.id
            self.touched.add(item.sequence)

    def put_edges(self, edges: Iterable[Edge]) -> None:
        """Insert edges, or replace those with the same key."""
        for item in edges:
            key = item.key
            if key in self.edges:
                self.drop_edges([key])
            self.edges[key] = item
            if item.type == OVERTURNS and item.kind == RETRACTS:
                self.retractions.setdefault(item.source, set()).add(item.target)

    def drop_edges(self, keys: Iterable[Key]) -> None:
        """Remove edges by key."""
        for key in keys:
            old = self.edges.pop(key, None)
            if old is None or old.type != OVERTURNS or old.kind != RETRACTS:
                continue
            # Another proposition of the same source may still retract the same target.
            others = (item for item in self.edges.values() if item.source == old.source)
            if not any(item.target == old.target and item.kind == RETRACTS for item in others):
                self.retractions[old.source].discard(old.target)

    def put_ruling(self, ruling: Ruling) -> None:
        """Insert a ruling."""
        self.rulings.append(ruling)

    def put_asked(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Record (source, target) pairs as verified."""
        for pair in pairs:
            self.asked.add(pair)
            for id in pair:
                self._partners.setdefault(id, set()).add(pair)

    def drop_asked(self, id: str) -> None:
        """Let every pair with this id be asked again."""
        self.asked -= self._partners.pop(id, set())

    def bury(self, tombstone: Tombstone, *, edges: Iterable[Key]) -> None:
        """Erase a memory and the given edges; leave the tombstone."""
        sequence = self.memories.pop(tombstone.id).sequence
        self.touched.add(sequence)
        del self.by_sequence[sequence]
        self.rulings = [item for item in self.rulings if item.target != tombstone.id]
        self.drop_edges(edges)
        self.drop_asked(tombstone.id)
        self.tombstones[tombstone.id] = tombstone

    def unbury(self, id: str) -> None:
        """Remove a tombstone."""
        self.tombstones.pop(id, None)

    def spoken_with(self, id: str) -> list[Key]:
        """Return the keys of the edges that go when ``id`` is forgotten.

        All that point at it, and what it said about others; what rests on it stays resting on it.
        """
        return [
            key
            for key, item in self.edges.items()
            if item.target == id or (item.source == id and item.type not in (REQUIRES, SUPPORTS))
        ]


class Recorder:
    """Writes to a transaction, and later the same to a mirror."""

    def __init__(self, transaction: Transaction) -> None:
        """Pass calls on to ``transaction``."""
        self._transaction = transaction
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self._revision: int | None = None

    def replay(self, mirror: Mirror) -> None:
        """Make ``mirror`` current; call it once the transaction has landed."""
        for name, positional, named in self.calls:
            getattr(mirror, name)(*positional, **named)
        if self._revision is not None:
            mirror.revision = self._revision

    def append_lines(self, lines: Sequence[LogLine]) -> list[int]:
        """Append lines to the log, in this order, and return their positions."""
        positions = self._transaction.append_lines(lines)
        if positions:
            self._revision = positions[-1]
        return positions

    def put_memories(self, memories: Sequence[StoredMemory]) -> None:
        """Insert or replace memories."""
        self._write("put_memories", memories)

    def put_edges(self, edges: Sequence[Edge]) -> None:
        """Insert or replace edges."""
        self._write("put_edges", edges)

    def drop_edges(self, keys: Sequence[Key]) -> None:
        """Remove edges by key."""
        self._write("drop_edges", keys)

    def put_ruling(self, ruling: Ruling) -> None:
        """Insert a ruling."""
        self._write("put_ruling", ruling)

    def put_asked(self, pairs: Sequence[tuple[str, str]]) -> None:
        """Record (source, target) pairs as verified."""
        self._write("put_asked", pairs)

    def drop_asked(self, id: str) -> None:
        """Let every pair with this id be asked again."""
        self._write("drop_asked", id)

    def bury(self, tombstone: Tombstone, *, edges: Sequence[Key]) -> None:
        """Erase a memory and the given edges; leave the tombstone."""
        self._write("bury", tombstone, edges=edges)

    def unbury(self, id: str) -> None:
        """Remove a tombstone."""
        self._write("unbury", id)

    def _write(self, name: str, *positional: object, **named: object) -> None:
        getattr(self._transaction, name)(*positional, **named)
        self.calls.append((name, positional, named))
