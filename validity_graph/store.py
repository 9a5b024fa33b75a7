"""What a graph keeps and where: the records of a store, and what it asks of a database.

Knows ``records``, nothing of databases, graphs or kernels; ``database`` is the implementation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from validity_graph.records import Edge, Memory, Ruling


@dataclass(frozen=True, slots=True)
class StoredMemory:
    """A memory with its arrival order ``sequence`` and the time ``added`` (UTC) at which it arrived."""

    sequence: int
    added: datetime
    memory: Memory


@dataclass(frozen=True, slots=True)
class Tombstone:
    """What is left of a forgotten memory: no text."""

    id: str
    namespace: str
    time: datetime
    reason: str
    digest: str


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One line of the append-only log; ``subject`` is the id it is about, "" for the whole graph."""

    sequence: int
    time: datetime
    action: str
    subject: str
    reason: str
    detail: Mapping[str, Any]


class LogLine(NamedTuple):
    """What is to be written into one line of the log; see ``LogEntry``."""

    time: datetime
    action: str
    subject: str
    reason: str
    detail: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that the graph holds, in arrival order, as of log position ``revision``."""

    revision: int
    memories: tuple[StoredMemory, ...]
    edges: tuple[Edge, ...]
    rulings: tuple[Ruling, ...]
    tombstones: tuple[Tombstone, ...]
    asked: frozenset[tuple[str, str]]


#: What a graph knows before it reads: not even an empty store.
NOTHING = Snapshot(-1, (), (), (), (), frozenset())


class Transaction(Protocol):
    """Writes that land together or not at all."""

    def revision(self) -> int:
        """Return the last log position, the transaction's own writes included."""

    def snapshot(self) -> Snapshot:
        """Return everything, the transaction's own writes included."""

    def put_memories(self, memories: Sequence[StoredMemory]) -> None:
        """Insert memories, or replace those with the same id (which keep their place)."""

    def put_edges(self, edges: Sequence[Edge]) -> None:
        """Insert edges, or replace those with the same key."""

    def drop_edges(self, keys: Iterable[tuple[str, str, str, str]]) -> None:
        """Remove edges by key."""

    def put_ruling(self, ruling: Ruling) -> None:
        """Insert a ruling."""

    def put_asked(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Record (source, target) pairs as verified."""

    def drop_asked(self, id: str) -> None:
        """Let every pair with this id be asked again."""

    def bury(self, tombstone: Tombstone, *, edges: Iterable[tuple[str, str, str, str]]) -> None:
        """Erase a memory, what was logged of its text, and the given edges; leave the tombstone."""

    def unbury(self, id: str) -> None:
        """Remove a tombstone, so that the id may be used again."""

    def append_lines(self, lines: Sequence[LogLine]) -> list[int]:
        """Append lines to the log, in this order, and return their positions."""


class Store(Protocol):
    """What a ``ValidityGraph`` needs of its storage."""

    def revision(self) -> int:
        """Return the last log position."""

    def snapshot(self) -> Snapshot:
        """Return everything, as one consistent reading."""

    def history(self, subject: str | None = None) -> list[LogEntry]:
        """Return the log, or the part of it about one id."""

    def transaction(self) -> Any:  # noqa: ANN401  a context manager of Transaction
        """Return a context manager whose writes land together or not at all."""

    def digest(self, text: str) -> str:
        """Return the keyed digest of a text, by which a forgotten one is recognised."""

    def scrub(self) -> None:
        """Leave no erased text behind in write-ahead files."""

    def close(self) -> None:
        """Release the connection."""
