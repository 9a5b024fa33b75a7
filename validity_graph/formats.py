"""JSON lines in and out: memories and edges as people write them, with errors that name the line.

A line with ``text`` is a memory, a line with ``source``, ``target`` and ``type`` is an edge.  A file is
read whole or refused whole.  Knows ``records`` and ``errors``; what an edge may connect is the graph's
to judge.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any, TypeVar

import msgspec

from validity_graph.errors import InputError
from validity_graph.records import (
    OVERTURNS,
    RETRACTS,
    SUPERSEDES,
    Edge,
    Evidence,
    Memory,
    parse_time,
    probability,
)

#: Longest line taken, in bytes: no memory is a megabyte of text, a broken export often is.
LONGEST_LINE = 1_000_000

#: Texts that a line of ``read_pairs`` may have beside its source and target.
_PAIR_TEXTS = ("domain", "source_context", "target_context")
_MEMORY_FIELDS = (
    "id", "text", "time", "domain", "namespace", "trust", "channel", "premise", "meta", "context",
)  # fmt: skip
_EDGE_FIELDS = (
    "source",
    "target",
    "type",
    "weight",
    "kind",
    "justification",
    "proposition",
    "evidence",
    "inferred",
)
_EVIDENCE_FIELDS = ("slot_mini", "slot_nli", "event", "operation")


@dataclass(frozen=True, slots=True)
class Record:
    """One memory or edge and the place it was read from, as ``file:line``."""

    place: str
    item: Memory | Edge


Item = TypeVar("Item", Memory, Edge)


def placed(records: Iterable[Record], kind: type[Item]) -> Iterator[tuple[str, Item]]:
    """Yield (place, item) of the records of one kind, in order."""
    for record in records:
        if isinstance(record.item, kind):
            yield record.place, record.item


def read_jsonl(stream: IO[bytes], *, name: str) -> list[Record]:
    """Return the memories and edges of one JSON lines stream, in order.

    ``name`` stands for the stream in errors.  Blank lines are passed over.  Raises ``InputError`` that
    names file, line, field and mend at the first thing that is wrong; then nothing is returned.
    """
    records = [Record(place, _record(document, place)) for place, document in _documents(stream, name)]
    if not records:
        raise InputError(f'{name}: holds no memories; a line looks like {{"id": "m1", "text": "..."}}')
    return records


def read_pairs(stream: IO[bytes], *, name: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON lines stream, each with its ``source`` and ``target`` texts.

    One without an ``id`` gets the number of its line, one without ``domain``, ``source_context`` or
    ``target_context`` the empty text.  Raises ``InputError`` as ``read_jsonl`` does.
    """
    for place, document in _documents(stream, name):
        if not all(isinstance(document.get(end), str) for end in ("source", "target")):
            raise InputError(f'{place}: needs "source" and "target" as strings')
        for name in _PAIR_TEXTS:
            if not isinstance(document.get(name, ""), str):
                raise InputError(f'{place}: "{name}" must be a string or left out, not {document[name]!r}')
        yield {"id": int(place.rpartition(":")[2])} | dict.fromkeys(_PAIR_TEXTS, "") | document


def write_jsonl(items: Iterable[Memory | Edge]) -> Iterator[str]:
    """Yield one JSON line an item, without the fields that say what their absence says."""
    for item in items:
        fields = _memory_fields(item) if isinstance(item, Memory) else _edge_fields(item)
        yield json.dumps(fields, ensure_ascii=False)


def memory_from(fields: Mapping[str, Any]) -> Memory:
    """Return the memory that these fields describe.  Raises ``InputError`` that names the field."""
    _only(fields, _MEMORY_FIELDS, kind="a memory", hint='; put data of your own under "meta"')
    id = _text(fields, "id", required=True)
    trust = fields.get("trust")
    meta = fields.get("meta")
    if meta is not None and not isinstance(meta, Mapping):
        raise InputError(f"meta of memory {id!r} must be an object, not {meta!r}")
    return Memory(
        id=id,
        text=_text(fields, "text", required=True),
        time=parse_time(fields.get("time"), what=f"time of memory {id!r}"),
        domain=_text(fields, "domain"),
        namespace=_text(fields, "namespace"),
        trust=1.0 if trust is None else probability(trust, what=f"trust of memory {id!r}"),
        channel=_text(fields, "channel"),
        premise=_flag(fields, "premise"),
        meta=dict(meta or {}),
        context=_text(fields, "context"),
    )


def edge_from(fields: Mapping[str, Any]) -> Edge:
    """Return the edge that these fields describe.  Raises ``InputError`` that names the field."""
    _only(fields, _EDGE_FIELDS, kind="an edge", hint="")
    source, target = _text(fields, "source", required=True), _text(fields, "target", required=True)
    type, name = _text(fields, "type", required=True), f"edge {source} -> {target}"
    evidence = _evidence(fields.get("evidence"), name=name)
    weight = fields.get("weight")
    if weight is None:
        weight = 1.0 if evidence is None else evidence.gate
    return Edge(
        source=source,
        target=target,
        type=type,
        weight=probability(weight, what=f"weight of {name}"),
        kind=_kind(fields, type=type, name=name),
        justification=_text(fields, "justification"),
        proposition=_text(fields, "proposition"),
        evidence=evidence,
        inferred=_flag(fields, "inferred"),
    )


def _documents(stream: IO[bytes], name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    number = 0
    while line := stream.readline(LONGEST_LINE + 2):
        number += 1
        place = f"{name}:{number}"
        if len(line.rstrip(b"\r\n")) > LONGEST_LINE:
            raise InputError(
                f"{place}: line is longer than {LONGEST_LINE} bytes; split it into several memories"
            )
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        if line.strip():
            yield place, _object(line, place)


def _object(line: bytes, place: str) -> dict[str, Any]:
    if b"\0" in line:
        raise InputError(f"{place}: holds binary data; expected one JSON object a line")
    try:
        document = msgspec.json.decode(line)
    except UnicodeDecodeError:
        raise InputError(f"{place}: is not UTF-8; save the file as UTF-8 JSON lines") from None
    except (msgspec.DecodeError, RecursionError) as problem:
        raise InputError(f"{place}: is not JSON ({problem}); expected one JSON object a line") from None
    if not isinstance(document, dict):
        raise InputError(f"{place}: expected a JSON object, not {json.dumps(document)[:40]}")
    return document


def _record(document: dict[str, Any], place: str) -> Memory | Edge:
    try:
        if "text" in document:
            return memory_from(document)
        if "source" in document or "target" in document:
            return edge_from(document)
    except InputError as problem:
        raise InputError(f"{place}: {problem}") from None
    raise InputError(
        f'{place}: is neither a memory (needs "id", "text") nor an edge (needs "source", "target", "type")'
    )


def _only(fields: Mapping[str, Any], known: tuple[str, ...], *, kind: str, hint: str) -> None:
    for field in fields:
        if field not in known:
            close = difflib.get_close_matches(field, known, n=1)
            meant = f'; did you mean "{close[0]}"?' if close else hint
            raise InputError(f'unknown field "{field}" of {kind}{meant}')


def _text(fields: Mapping[str, Any], field: str, *, required: bool = False) -> str:
    value = fields.get(field)
    if value is None and not required:
        return ""
    if not isinstance(value, str) or (required and not value):
        raise InputError(f'"{field}" must be a {"non-empty " if required else ""}string, not {value!r}')
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InputError(
            f'"{field}" holds half a surrogate pair and cannot be stored; mend its encoding'
        ) from None
    return value


def _flag(fields: Mapping[str, Any], field: str) -> bool:
    value = fields.get(field, False)
    if not isinstance(value, bool):
        raise InputError(f'"{field}" must be true or false, not {value!r}')
    return value


def _kind(fields: Mapping[str, Any], *, type: str, name: str) -> str:
    kind = _text(fields, "kind")
    if type != OVERTURNS:
        return kind
    if kind not in ("", SUPERSEDES, RETRACTS):
        raise InputError(f'kind of {name} must be "{SUPERSEDES}" or "{RETRACTS}", not {kind!r}')
    return kind or SUPERSEDES


def _evidence(parts: object, *, name: str) -> Evidence | None:
    if parts is None:
        return None
    if not isinstance(parts, Mapping):
        raise InputError(f"evidence of {name} must be an object, not {parts!r}")
    _only(parts, _EVIDENCE_FIELDS, kind="evidence", hint="")
    nli = parts.get("slot_nli")
    scores = {
        part: probability(parts.get(part), what=f"{part} of {name}")
        for part in ("slot_mini", "event", "operation")
    }
    return Evidence(
        slot_mini=scores["slot_mini"],
        slot_nli=None if nli is None else probability(nli, what=f"slot_nli of {name}"),
        event=scores["event"],
        operation=scores["operation"],
    )


def _memory_fields(item: Memory) -> dict[str, Any]:
    fields: dict[str, Any] = {"id": item.id, "text": item.text}
    if item.time is not None:
        fields["time"] = item.time.isoformat()
    optional = {
        "domain": item.domain,
        "namespace": item.namespace,
        "channel": item.channel,
        "meta": dict(item.meta),
        "context": item.context,
    }
    fields |= {field: value for field, value in optional.items() if value}
    if item.trust != 1.0:
        fields["trust"] = item.trust
    return fields | ({"premise": True} if item.premise else {})


def _edge_fields(item: Edge) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "source": item.source,
        "target": item.target,
        "type": item.type,
        "weight": item.weight,
    }
    optional = {"kind": item.kind, "justification": item.justification, "proposition": item.proposition}
    fields |= {field: value for field, value in optional.items() if value}
    if item.evidence is not None:
        fields["evidence"] = {part: getattr(item.evidence, part) for part in _EVIDENCE_FIELDS}
    return fields | ({"inferred": True} if item.inferred else {})
