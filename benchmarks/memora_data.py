"""Reads Memora's derived files: memories, and groups of candidates for one overturning event each.

The gold fields (``key``, ``value``, ``kind``, ``final_active``) are never read.  A candidate's text has
its document context in front where there is one; so has an event's source.  A group keeps only candidates
from sessions before its event; it is *clean* when it has a protected candidate and none shares the
target's text, counted on the whole lists.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROTECTED = (
    "protected_same",
    "protected_same_item_other_subcat",
    "protected_other_doc",
    "protected_log",
)
#: Operations by what they change; everything else stands for itself.
FAMILY = {
    "delete": "preference",
    "preference_update": "preference",
    "value_update": "preference",
    "goal_update": "goal",
    "budget_revised": "budget",
    "budget_reverted": "budget",
    "todo_delete": "todo",
    "calendar_update": "calendar",
    "calendar_delete": "calendar",
    "doc_remove": "document",
}


@dataclass(frozen=True)
class Node:
    """One memory as an agent would hold it; ``session`` and ``turn`` say when it was said."""

    id: str
    persona: str
    session: int
    turn: int
    date: str
    text: str


@dataclass(frozen=True)
class Group:
    """One event: ``source`` overturns the ``targets`` and none of the ``protected``."""

    id: str
    persona: str
    session: int
    operation: str
    source: str
    source_node: str | None
    targets: tuple[Node, ...]
    protected: tuple[Node, ...]
    clean: bool

    @property
    def candidates(self) -> tuple[Node, ...]:
        """Every candidate, targets first."""
        return self.targets + self.protected


def derived(data: Path) -> Path:
    """Return the folder of the derived files under ``data``, which holds ``memora`` or is it."""
    for folder in (data / "memora" / "derived", data / "derived"):
        if folder.is_dir():
            return folder
    raise SystemExit(f"no memora/derived under {data}; --data is a folder that holds memora")


def periods(data: Path) -> list[str]:
    """Return the periods that have groups, by name."""
    return sorted(path.name.split(".")[0] for path in derived(data).glob("*.groups.jsonl.gz"))


def read(data: Path, *, period: str, kind: str) -> Iterator[dict[str, Any]]:
    """Yield the records of one derived file."""
    path = derived(data) / f"{period}.{kind}.jsonl.gz"
    if not path.is_file():
        raise SystemExit(f"no {path.name} in {path.parent}; periods: {', '.join(periods(data))}")
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def in_context(context: str | None, text: str) -> str:
    """Return ``text`` behind the turn that names its document, once where they are the same turn."""
    if not context or context == text:
        return text
    return f"{context} {text}" if text else context


def nodes(data: Path, *, period: str) -> dict[str, Node]:
    """Return every memory that says something, by id, in the order in which they were said."""
    found = [
        Node(
            id=record["id"],
            persona=record["persona"],
            session=record["session"],
            turn=record["turns"][0][0],
            date=record["date"],
            text=in_context(record.get("context"), record["text"]),
        )
        for record in read(data, period=period, kind="nodes")
        if record["text"].strip()
    ]
    return {node.id: node for node in sorted(found, key=lambda node: (node.persona, node.session, node.turn))}


def groups(data: Path, *, period: str) -> list[Group]:
    """Return every group that has a candidate from an earlier session."""
    node = nodes(data, period=period)
    found = []
    for record in read(data, period=period, kind="groups"):
        protected = [id for name in PROTECTED for id in record[name]]

        def earlier(ids: list[str], before: int = record["session"]) -> tuple[Node, ...]:
            return tuple(node[id] for id in dict.fromkeys(ids) if id in node and node[id].session < before)

        group = Group(
            id=record["id"],
            persona=record["persona"],
            session=record["session"],
            operation=record["op"],
            source=in_context(record.get("source_context"), record["source"]),
            source_node=record["source_node"],
            targets=earlier(record["targets"]),
            protected=earlier(protected),
            clean=bool(protected) and not record["protected_sharing_target_text"],
        )
        if group.candidates:
            found.append(group)
    return found


def conversation(data: Path, *, period: str, persona: str) -> list[Node]:
    """Return all that one persona told, deletions included, in the order in which it was said.

    An event's source that is not a memory of its own (a deletion) appears under the event's id.
    """
    told = [item for item in nodes(data, period=period).values() if item.persona == persona]
    context = {
        record["id"]: record.get("source_context") for record in read(data, period=period, kind="groups")
    }
    for record in read(data, period=period, kind="events"):
        if record["persona"] == persona and record["source_node"] is None and record["source_turns"]:
            told.append(
                Node(
                    id=record["id"],
                    persona=persona,
                    session=record["session"],
                    turn=record["source_turns"][0][0],
                    date=record["date"],
                    text=in_context(context.get(record["id"]), record["source_text"]),
                )
            )
    if not told:
        known = sorted({item.persona for item in nodes(data, period=period).values()})
        raise SystemExit(f"no persona {persona!r} in {period}; personas: {', '.join(known)}")
    return sorted(told, key=lambda item: (item.session, item.turn))
