"""Reads Memora's derived files: memories, and groups of candidates for one overturning event each.

The gold fields (``key``, ``value``, ``kind``, ``final_active``) are never read.  A candidate and an
event's source come with their document context where there is one.  A group keeps only candidates
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

from validity_graph.records import in_context

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
    """One memory as an agent would hold it; ``session`` and ``turn`` say when it was said.

    ``context`` is the turn that names the document that ``text`` is about, "" for none.
    """

    id: str
    persona: str
    session: int
    turn: int
    date: str
    text: str
    context: str = ""

    @property
    def reading(self) -> str:
        """The text behind its context."""
        return in_context(self.text, self.context)


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
    source_context: str = ""

    @property
    def candidates(self) -> tuple[Node, ...]:
        """Every candidate, targets first."""
        return self.targets + self.protected

    @property
    def source_reading(self) -> str:
        """The source behind its context."""
        return in_context(self.source, self.source_context)


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


def said(text: str, context: str | None) -> tuple[str, str]:
    """Return text and context apart, "" for no context; a context without a text is the text."""
    if not text:
        return context or "", ""
    return text, "" if context is None or context == text else context


def nodes(data: Path, *, period: str) -> dict[str, Node]:
    """Return every memory that says something, by id, in the order in which they were said."""
    found = [
        Node(
            record["id"], record["persona"], record["session"], record["turns"][0][0], record["date"],
            *said(record["text"], record.get("context")),
        )
        for record in read(data, period=period, kind="nodes")
        if record["text"].strip()
    ]  # fmt: skip
    return {node.id: node for node in sorted(found, key=lambda node: (node.persona, node.session, node.turn))}


def groups(data: Path, *, period: str) -> list[Group]:
    """Return every group that has a candidate from an earlier session."""
    node = nodes(data, period=period)
    found = []
    for record in read(data, period=period, kind="groups"):
        protected = [id for name in PROTECTED for id in record[name]]

        def earlier(ids: list[str], before: int = record["session"]) -> tuple[Node, ...]:
            return tuple(node[id] for id in dict.fromkeys(ids) if id in node and node[id].session < before)

        source, context = said(record["source"], record.get("source_context"))
        group = Group(
            id=record["id"],
            persona=record["persona"],
            session=record["session"],
            operation=record["op"],
            source=source,
            source_context=context,
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
                    record["id"], persona, record["session"], record["source_turns"][0][0], record["date"],
                    *said(record["source_text"], context.get(record["id"])),
                )
            )  # fmt: skip
    if not told:
        known = sorted({item.persona for item in nodes(data, period=period).values()})
        raise SystemExit(f"no persona {persona!r} in {period}; personas: {', '.join(known)}")
    return sorted(told, key=lambda item: (item.session, item.turn))
