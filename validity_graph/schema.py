"""The tables of a store, how a database is opened, and how an older one is lifted to this version.

Knows SQLAlchemy and nothing of graphs; ``store`` reads and writes through it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine
from sqlalchemy.pool import StaticPool

from validity_graph.errors import StoreError

SCHEMA_VERSION = 2

tables = sa.MetaData()
setting = sa.Table(
    "setting",
    tables,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)
# Every id that was ever named.  Edges point here, so that an edge may wait for a memory that is still
# missing, and foreign keys hold all the same.
node = sa.Table("node", tables, sa.Column("id", sa.Text, primary_key=True))
memory = sa.Table(
    "memory",
    tables,
    sa.Column("sequence", sa.Integer, primary_key=True),
    sa.Column("id", sa.Text, sa.ForeignKey("node.id"), nullable=False, unique=True),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("time", sa.Text),
    sa.Column("domain", sa.Text, nullable=False),
    sa.Column("namespace", sa.Text, nullable=False),
    sa.Column("trust", sa.Float, nullable=False),
    sa.Column("channel", sa.Text, nullable=False),
    sa.Column("premise", sa.Boolean, nullable=False),
    sa.Column("meta", sa.JSON, nullable=False),
    sa.Column("context", sa.Text, nullable=False),
    sa.Column("added", sa.Text, nullable=False),
)
edge = sa.Table(
    "edge",
    tables,
    sa.Column("source", sa.Text, sa.ForeignKey("node.id"), primary_key=True),
    sa.Column("target", sa.Text, sa.ForeignKey("node.id"), primary_key=True),
    sa.Column("type", sa.Text, primary_key=True),
    sa.Column("proposition", sa.Text, primary_key=True),
    sa.Column("weight", sa.Float, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("justification", sa.Text, nullable=False),
    sa.Column("evidence", sa.JSON),
    sa.Column("inferred", sa.Boolean, nullable=False),
)
ruling = sa.Table(
    "ruling",
    tables,
    sa.Column("sequence", sa.Integer, primary_key=True),
    sa.Column("target", sa.Text, sa.ForeignKey("node.id"), nullable=False),
    sa.Column("action", sa.Text, nullable=False),
    sa.Column("probability", sa.Float, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("time", sa.Text, nullable=False),
)
tombstone = sa.Table(
    "tombstone",
    tables,
    sa.Column("id", sa.Text, sa.ForeignKey("node.id"), primary_key=True),
    sa.Column("namespace", sa.Text, nullable=False),
    sa.Column("time", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    # A keyed digest, so that the forgotten text can be recognised but not read back.
    sa.Column("digest", sa.Text, nullable=False, index=True),
)
# Pairs the verifier was already asked about, so that verifying again asks only what is new.
asked = sa.Table(
    "asked",
    tables,
    sa.Column("source", sa.Text, sa.ForeignKey("node.id"), primary_key=True),
    sa.Column("target", sa.Text, sa.ForeignKey("node.id"), primary_key=True),
)
log = sa.Table(
    "log",
    tables,
    sa.Column("sequence", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("time", sa.Text, nullable=False),
    sa.Column("action", sa.Text, nullable=False),
    sa.Column("subject", sa.Text, nullable=False, index=True),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("detail", sa.JSON, nullable=False),
)


def _add_context(connection: Connection) -> None:
    """Give every memory of schema 1 the empty context."""
    connection.exec_driver_sql("ALTER TABLE memory ADD COLUMN context TEXT NOT NULL DEFAULT ''")


Migration = Callable[[Connection], None]
#: Schema version -> the step that lifts a database from it to the next version.
MIGRATIONS: dict[int, Migration] = {1: _add_context}


def connect(url: str | None) -> Engine:
    """Return an engine on a file path, an SQLAlchemy URL, or memory; SQLite in WAL with foreign keys."""
    if url is not None and "://" in url and not url.startswith("sqlite"):
        return sa.create_engine(url)
    if url is None or url in (":memory:", "sqlite://"):
        engine = sa.create_engine(
            "sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False}
        )
    else:
        path = url if "://" in url else f"sqlite:///{url}"
        engine = sa.create_engine(path, connect_args={"check_same_thread": False, "timeout": 30})
    sa.event.listen(engine, "connect", _configure_sqlite)
    sa.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    return engine


def _configure_sqlite(connection: Any, _record: object) -> None:  # noqa: ANN401  a DB-API connection
    # The driver would otherwise begin late, and two writers could both read before either writes.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.execute("PRAGMA secure_delete=ON")  # forgotten text must not stay behind in free pages
    cursor.close()


def prepare(connection: Connection, *, place: str) -> None:
    """Create the schema, or lift an older one to this version, inside the caller's transaction."""
    tables.create_all(connection)
    if read_setting(connection, "schema", default="") == "":
        connection.execute(sa.insert(setting), {"name": "schema", "value": str(SCHEMA_VERSION)})
        connection.execute(sa.insert(setting), {"name": "salt", "value": secrets.token_hex(32)})
        return
    version = int(read_setting(connection, "schema"))
    if version > SCHEMA_VERSION:
        raise StoreError(
            f"{place} has schema {version}, this release reads up to {SCHEMA_VERSION}; upgrade validity-graph"
        )
    for step in range(version, SCHEMA_VERSION):
        MIGRATIONS[step](connection)
    connection.execute(sa.update(setting).where(setting.c.name == "schema").values(value=str(SCHEMA_VERSION)))


def read_setting(connection: Connection, name: str, *, default: str | None = None) -> str:
    """Return a setting of the database.  Raises ``StoreError`` where it is missing without a default."""
    value = connection.scalar(sa.select(setting.c.value).where(setting.c.name == name))
    if value is None and default is None:
        raise StoreError(f"the database lacks the setting {name!r}; it was not written by validity-graph")
    return str(default if value is None else value)
