"""The store: whole records or none, whatever happens."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from datetime import datetime, timezone
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from validity_graph import StoreError, ValidityGraph, schema
from validity_graph.database import SQLStore
from validity_graph.records import Edge, Evidence, Memory
from validity_graph.store import LogLine, StoredMemory

NOW = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=timezone.utc)
texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30)
shares = st.floats(0, 1)


@given(
    memory=st.builds(
        Memory,
        id=texts,
        text=texts,
        time=st.none() | st.just(NOW),
        domain=texts,
        namespace=texts,
        trust=shares,
        channel=texts,
        premise=st.booleans(),
        meta=st.dictionaries(
            texts, st.none() | st.booleans() | st.integers(-9, 9) | texts | shares, max_size=3
        ),
        context=st.just("") | texts,
    ),
    edge=st.builds(
        Edge,
        source=texts,
        target=texts,
        type=texts,
        weight=shares,
        kind=texts,
        justification=texts,
        proposition=texts,
        evidence=st.none() | st.builds(Evidence, shares, st.none() | shares, shares, shares),
        inferred=st.booleans(),
    ),
)
@settings(max_examples=50, deadline=None)
def test_records_come_back_as_they_went_in(memory, edge):
    kept = SQLStore()
    with kept.transaction() as transaction:
        (sequence,) = transaction.append_lines([LogLine(NOW, "add", memory.id, "", {})])
        transaction.put_memories([StoredMemory(sequence, NOW, memory)])
        transaction.put_edges([edge])
    found = kept.snapshot()
    assert found.memories == (StoredMemory(sequence, NOW, memory),)
    assert found.edges == (edge,)


def test_a_block_that_raises_writes_nothing():
    kept = SQLStore()
    with pytest.raises(ZeroDivisionError), kept.transaction() as transaction:
        transaction.append_lines([LogLine(NOW, "add", "a", "", {})])
        transaction.put_memories([StoredMemory(1, NOW, Memory("a", "x"))])
        raise ZeroDivisionError
    assert kept.snapshot().memories == ()
    assert kept.history() == []


@given(counts=st.lists(st.integers(0, 4), max_size=6))
@settings(max_examples=20, deadline=None)
def test_lines_of_the_log_are_numbered_as_history_tells_them(counts):
    kept = SQLStore()
    told = []
    for k, count in enumerate(counts):
        lines = [LogLine(NOW, "add", f"{k}.{i}", "", {"place": i}) for i in range(count)]
        with kept.transaction() as transaction:
            told += list(zip(transaction.append_lines(lines), (line.subject for line in lines), strict=True))
            assert transaction.revision() == len(told)
    assert [(entry.sequence, entry.subject) for entry in kept.history()] == told


def test_putting_again_replaces_what_has_the_same_id_or_key():
    kept = SQLStore()
    old, new = Memory("a", "x", trust=0.5), Memory("a", "y", NOW, meta={"k": 1})
    weak, strong = Edge("a", "b", "requires", 0.2), Edge("a", "b", "requires", 0.9, justification="j")
    other = Edge("a", "b", "requires", 0.3, proposition="p")
    with kept.transaction() as transaction:
        transaction.put_memories([StoredMemory(1, NOW, old)])
        transaction.put_edges([weak, other])
    with kept.transaction() as transaction:
        transaction.put_memories([StoredMemory(1, NOW, new)])
        transaction.put_edges([weak, strong])
    assert kept.snapshot().memories == (StoredMemory(1, NOW, new),)
    assert kept.snapshot().edges == (strong, other)


def test_the_file_is_in_wal_mode_with_foreign_keys(tmp_path):
    path = tmp_path / "m.db"
    kept = SQLStore(str(path))
    with kept.transaction() as transaction:
        connection = transaction._connection.connection
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert connection.execute("PRAGMA foreign_keys").fetchone()[0] == 1
        with pytest.raises(sqlite3.IntegrityError):
            connection.execute("INSERT INTO asked VALUES ('nobody', 'nothing')")


def test_a_newer_schema_is_refused(tmp_path):
    path = str(tmp_path / "m.db")
    SQLStore(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE setting SET value = '99' WHERE name = 'schema'")
    with pytest.raises(StoreError, match=r"has schema 99, this release reads up to \d+; upgrade"):
        SQLStore(path)


def test_an_older_schema_is_lifted_step_by_step(tmp_path, monkeypatch):
    path = str(tmp_path / "m.db")
    ValidityGraph.open(path).add("a", "x")
    steps = []

    def step(connection):
        steps.append(schema.setting.name)
        connection.exec_driver_sql("ALTER TABLE memory ADD COLUMN mood TEXT")

    monkeypatch.setattr(schema, "SCHEMA_VERSION", schema.SCHEMA_VERSION + 1)
    monkeypatch.setattr(schema, "MIGRATIONS", {schema.SCHEMA_VERSION - 1: step})
    assert len(ValidityGraph.open(path)) == 1
    assert len(ValidityGraph.open(path)) == 1
    assert steps == ["setting"]


def test_a_file_of_schema_1_is_read_and_its_memories_have_no_context(tmp_path):
    path = tmp_path / "m.db"
    with ValidityGraph.open(path) as graph:
        graph.add("a", "x", meta={"k": 1})
        graph.add("b", "y", supersedes=["a"])
    with sqlite3.connect(path) as connection:  # what the release before contexts wrote
        connection.execute("ALTER TABLE memory DROP COLUMN context")
        connection.execute("UPDATE setting SET value = '1' WHERE name = 'schema'")
    connection.close()
    with ValidityGraph.open(path) as graph:
        assert graph.memory("a") == Memory("a", "x", meta={"k": 1})
        assert graph.check()["a"].status == "outdated"
        graph.add("c", "z", context="About Atlas.")
    with ValidityGraph.open(path) as graph:
        assert graph.memory("c").context == "About Atlas."


def test_a_failed_migration_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    path = str(tmp_path / "m.db")
    ValidityGraph.open(path).add("a", "x")

    def step(connection):
        connection.exec_driver_sql("ALTER TABLE memory ADD COLUMN mood TEXT")
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr(schema, "SCHEMA_VERSION", schema.SCHEMA_VERSION + 1)
        patch.setattr(schema, "MIGRATIONS", {schema.SCHEMA_VERSION - 1: step})
        with pytest.raises(ZeroDivisionError):
            SQLStore(path)
    with sqlite3.connect(path) as connection:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(memory)")]
    assert "mood" not in columns
    assert len(ValidityGraph.open(path)) == 1


def test_a_file_of_something_else_is_refused(tmp_path):
    path = tmp_path / "m.db"
    path.write_bytes(b"not a database" * 100)
    with pytest.raises(StoreError, match="cannot open"):
        SQLStore(str(path))
    assert path.read_bytes() == b"not a database" * 100


@pytest.mark.parametrize("delay", [0.05, 0.2, 0.45])
def test_kill_at_any_moment_leaves_whole_records(tmp_path, delay):
    path = tmp_path / "m.db"
    program = textwrap.dedent(
        """
        import sys
        from validity_graph import ValidityGraph
        graph = ValidityGraph.open(sys.argv[1])
        graph.add("root", "the root")
        print("ready", flush=True)
        for k in range(100_000):
            graph.add(f"m{k}", f"text {k}", depends_on=["root"], supported_by=[("root",)])
        """
    )
    root = Path(__file__).parent.parent
    writer = subprocess.Popen(
        [sys.executable, "-c", program, str(path)],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(root)},
    )
    assert writer.stdout is not None
    assert writer.stdout.readline() == b"ready\n"
    time.sleep(delay)
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    writer.stdout.close()

    graph = ValidityGraph.open(str(path))
    ids = {item.id for item in graph.memories()} - {"root"}
    assert {item.target for item in graph.edges()} == ids
    assert len(graph.edges()) == 2 * len(ids)
    assert {entry.subject for entry in graph.history() if entry.action == "add"} == ids | {"root"}
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
