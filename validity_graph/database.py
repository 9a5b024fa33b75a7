"""The store on SQLAlchemy 2 Core: SQLite by default, PostgreSQL by URL.

Each call is one transaction, so a process killed at any moment leaves whole records only.  The log is
append-only; nothing but ``forget`` ever takes text out of the database, and ``forget`` takes it out of
every table.  Knows ``records`` and ``store``, nothing of graphs or kernels.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DBAPIError

from validity_graph.errors import StoreError
from validity_graph.records import Edge, Evidence, Memory, Ruling, parse_time
from validity_graph.schema import (
    asked,
    connect,
    edge,
    log,
    memory,
    node,
    prepare,
    read_setting,
    ruling,
    tombstone,
)
from validity_graph.store import LogEntry, LogLine, Snapshot, StoredMemory, Tombstone

#: Rows in one statement.
_PART = 500


class SQLStore:
    """``Store`` on SQLite (WAL, foreign keys, immediate transactions) or any SQLAlchemy URL."""

    def __init__(self, url: str | None = None) -> None:
        """Open ``url``: a file path, an SQLAlchemy URL, or ``None`` for memory only.

        Raises ``StoreError`` where it cannot be opened or was written by a newer schema.
        """
        self._engine = connect(url)
        self._place = url or "memory"
        try:
            with self._engine.begin() as connection:
                prepare(connection, place=self._place)
                self._salt = bytes.fromhex(read_setting(connection, "salt"))
        except DBAPIError as problem:
            raise StoreError(f"cannot open {self._place} as a validity graph: {problem.orig}") from problem

    def revision(self) -> int:
        """Return the last log position."""
        with self._engine.begin() as connection:
            return _revision(connection)

    def snapshot(self) -> Snapshot:
        """Return everything, as one consistent reading."""
        with self._engine.begin() as connection:
            return _snapshot(connection)

    def history(self, subject: str | None = None) -> list[LogEntry]:
        """Return the log, or the part of it about one id, oldest first."""
        query = sa.select(log).order_by(log.c.sequence)
        if subject is not None:
            query = query.where(log.c.subject == subject)
        with self._engine.begin() as connection:
            rows = connection.execute(query).all()
        return [
            LogEntry(row.sequence, _time(row.time), row.action, row.subject, row.reason, row.detail)
            for row in rows
        ]

    @contextmanager
    def transaction(self) -> Iterator[SQLTransaction]:
        """Yield a transaction that lands whole when the block ends, and not at all when it raises."""
        with self._engine.begin() as connection:
            yield SQLTransaction(connection)

    def digest(self, text: str) -> str:
        """Return the keyed digest of a text: HMAC-SHA-256 under this store's own salt."""
        return hmac.new(self._salt, text.encode(), hashlib.sha256).hexdigest()

    def scrub(self) -> None:
        """Leave no erased text behind in write-ahead files; other databases see to that themselves."""
        if self._engine.dialect.name == "sqlite":
            connection = self._engine.raw_connection()
            connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.close()

    def close(self) -> None:
        """Release the connection."""
        self._engine.dispose()


class SQLTransaction:
    """``Transaction`` on one open connection."""

    def __init__(self, connection: Connection) -> None:
        """Write through ``connection``; its owner commits."""
        self._connection = connection

    def revision(self) -> int:
        """Return the last log position, the transaction's own writes included."""
        return _revision(self._connection)

    def snapshot(self) -> Snapshot:
        """Return everything, the transaction's own writes included."""
        return _snapshot(self._connection)

    def put_memories(self, memories: Sequence[StoredMemory]) -> None:
        """Insert memories, or replace those with the same id."""
        self._name(item.memory.id for item in memories)
        self._put(memory, map(_memory_row, memories), key="id")

    def put_edges(self, edges: Sequence[Edge]) -> None:
        """Insert edges, or replace those with the same key."""
        self._name(end for item in edges for end in (item.source, item.target))
        self._put(edge, map(_edge_row, edges))

    def drop_edges(self, keys: Iterable[tuple[str, str, str, str]]) -> None:
        """Remove edges by key."""
        rows = [dict(zip(("s", "t", "k", "p"), key, strict=True)) for key in keys]
        if not rows:
            return
        columns = (edge.c.source, edge.c.target, edge.c.type, edge.c.proposition)
        match = (column == sa.bindparam(name) for column, name in zip(columns, "stkp", strict=True))
        self._connection.execute(sa.delete(edge).where(*match), rows)

    def put_ruling(self, given: Ruling) -> None:
        """Insert a ruling."""
        self._connection.execute(
            sa.insert(ruling),
            {
                "sequence": given.sequence,
                "target": given.target,
                "action": given.action,
                "probability": given.probability,
                "reason": given.reason,
                "time": given.time.isoformat(),
            },
        )

    def put_asked(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Record (source, target) pairs as verified."""
        rows = [{"source": source, "target": target} for source, target in pairs]
        if rows:
            self._connection.execute(sa.insert(asked), rows)

    def drop_asked(self, id: str) -> None:
        """Let every pair with this id be asked again."""
        self._connection.execute(sa.delete(asked).where(sa.or_(asked.c.source == id, asked.c.target == id)))

    def bury(self, given: Tombstone, *, edges: Iterable[tuple[str, str, str, str]]) -> None:
        """Erase a memory, what was logged of its text, and the given edges; leave the tombstone."""
        self._connection.execute(sa.delete(memory).where(memory.c.id == given.id))
        self._connection.execute(sa.delete(ruling).where(ruling.c.target == given.id))
        self.drop_edges(edges)
        self.drop_asked(given.id)
        # Reasons and details were written by people and may quote the text.
        self._connection.execute(
            sa.update(log).where(log.c.subject == given.id), {"reason": "", "detail": {}}
        )
        self.unbury(given.id)
        self._connection.execute(
            sa.insert(tombstone),
            asdict(given) | {"time": given.time.isoformat()},
        )

    def unbury(self, id: str) -> None:
        """Remove a tombstone, so that the id may be used again."""
        self._connection.execute(sa.delete(tombstone).where(tombstone.c.id == id))

    def append_lines(self, lines: Sequence[LogLine]) -> list[int]:
        """Append lines to the log, in this order, and return their positions."""
        if not lines:
            return []
        if len(lines) > 1 and self._connection.dialect.name == "sqlite":
            # There is one writer at a time and positions count up, so that none need be asked back.
            self._insert(sa.insert(log), map(_log_row, lines))
            last = self.revision()
            return list(range(last - len(lines) + 1, last + 1))
        numbered = sa.insert(log).returning(log.c.sequence, sort_by_parameter_order=True)
        return [int(position) for position in self._connection.scalars(numbered, [*map(_log_row, lines)])]

    def _name(self, ids: Iterable[str]) -> None:
        self._put(node, ({"id": id} for id in dict.fromkeys(ids)))

    def _put(self, table: sa.Table, rows: Iterable[dict[str, Any]], *, key: str = "") -> None:
        self._insert(_upsert(table, self._connection.dialect.name, key), rows)

    def _insert(self, statement: sa.Insert, rows: Iterable[dict[str, Any]]) -> None:
        # A part at a time: rows that pile up cost more in garbage collection than in the database.
        waiting = iter(rows)
        while part := list(itertools.islice(waiting, _PART)):
            self._connection.execute(statement, part)


@lru_cache
def _upsert(table: sa.Table, dialect: str, key: str) -> Any:  # noqa: ANN401  the dialects share no type
    """Return the statement that inserts a row, or replaces the one of the same ``key`` (default: primary)."""
    statement = (sqlite if dialect == "sqlite" else postgresql).insert(table)
    names = [key] if key else [column.name for column in table.primary_key]
    values = {name: value for name, value in statement.excluded.items() if name not in names}
    if not values:
        return statement.on_conflict_do_nothing()
    return statement.on_conflict_do_update(index_elements=names, set_=values)


def _snapshot(connection: Connection) -> Snapshot:
    return Snapshot(
        revision=_revision(connection),
        memories=tuple(_read_memories(connection)),
        edges=tuple(_read_edges(connection)),
        rulings=tuple(_read_rulings(connection)),
        tombstones=tuple(_read_tombstones(connection)),
        asked=frozenset((row.source, row.target) for row in connection.execute(sa.select(asked))),
    )


def _revision(connection: Connection) -> int:
    return int(connection.scalar(sa.select(sa.func.coalesce(sa.func.max(log.c.sequence), 0))) or 0)


def _log_row(line: LogLine) -> dict[str, Any]:
    return {
        "time": line.time.isoformat(),
        "action": line.action,
        "subject": line.subject,
        "reason": line.reason,
        "detail": dict(line.detail),
    }


def _memory_row(item: StoredMemory) -> dict[str, Any]:
    given = item.memory
    return {
        "sequence": item.sequence,
        "id": given.id,
        "text": given.text,
        "time": None if given.time is None else given.time.isoformat(),
        "domain": given.domain,
        "namespace": given.namespace,
        "trust": given.trust,
        "channel": given.channel,
        "premise": given.premise,
        "meta": dict(given.meta),
        "context": given.context,
        "added": item.added.isoformat(),
    }


def _edge_row(item: Edge) -> dict[str, Any]:
    return {
        "source": item.source,
        "target": item.target,
        "type": item.type,
        "proposition": item.proposition,
        "weight": item.weight,
        "kind": item.kind,
        "justification": item.justification,
        "evidence": None if item.evidence is None else asdict(item.evidence),
        "inferred": item.inferred,
    }


def _read_memories(connection: Connection) -> Iterator[StoredMemory]:
    for row in connection.execute(sa.select(memory).order_by(memory.c.sequence)):
        values = row._asdict()
        sequence, added = values.pop("sequence"), _time(values.pop("added"))
        yield StoredMemory(sequence, added, Memory(**values | {"time": parse_time(values["time"])}))


def _read_edges(connection: Connection) -> Iterator[Edge]:
    order = (edge.c.target, edge.c.source, edge.c.type, edge.c.proposition)
    for row in connection.execute(sa.select(edge).order_by(*order)):
        values = row._asdict()
        parts = values.pop("evidence")
        yield Edge(**values, evidence=None if parts is None else Evidence(**parts))


def _read_rulings(connection: Connection) -> Iterator[Ruling]:
    for row in connection.execute(sa.select(ruling).order_by(ruling.c.sequence)):
        yield Ruling(
            target=row.target,
            action=row.action,
            probability=row.probability,
            reason=row.reason,
            time=_time(row.time),
            sequence=row.sequence,
        )


def _read_tombstones(connection: Connection) -> Iterator[Tombstone]:
    for row in connection.execute(sa.select(tombstone)):
        yield Tombstone(row.id, row.namespace, _time(row.time), row.reason, row.digest)


def _time(value: str) -> datetime:
    return datetime.fromisoformat(value)
