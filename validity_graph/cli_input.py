"""What the commands read: databases that are there, JSON lines files, stdin."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

from validity_graph.errors import InputError
from validity_graph.formats import Record, read_jsonl, read_pairs
from validity_graph.graph import ValidityGraph


@contextmanager
def existing(db: str) -> Iterator[ValidityGraph]:
    """Open a database that is there: a reading command must not leave an empty file behind a typing error."""
    if "://" not in db and not Path(db).is_file():
        raise InputError(f'there is no database at "{db}"; make one with add or check --db')
    with ValidityGraph.open(db) as graph:
        yield graph


@contextmanager
def _stream(name: str) -> Iterator[IO[bytes]]:
    with ExitStack() as stack:
        if name == "-":
            yield sys.stdin.buffer
            return
        try:
            yield stack.enter_context(open(name, "rb"))
        except OSError as problem:
            raise InputError(f"{name}: cannot be read ({problem.strerror})") from None


def read_records(name: str) -> list[Record]:
    """Read memories and edges of a JSON lines file; ``-`` is stdin."""
    with _stream(name) as stream:
        return read_jsonl(stream, name="stdin" if name == "-" else name)


def listed_pairs(name: str) -> list[dict[str, Any]]:
    """Read pairs of source and target of a JSON lines file; ``-`` is stdin."""
    with _stream(name) as stream:
        return list(read_pairs(stream, name="stdin" if name == "-" else name))
