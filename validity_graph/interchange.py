"""Memories and edges as networkx graphs, torch_geometric data and Arrow tables, and back, without loss.

Every direction has the fields of JSON lines (``formats``), so that a graph that comes from elsewhere is
checked in the same way and missing fields have the same defaults.  ``meta`` is JSON.  Of edges that are
the same edge (SEMANTICS section 2) the last one counts.  Knows ``records`` and ``formats``, no kernel;
needs the extras ``networkx``, ``torch`` and ``arrow`` only where they are used.
"""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from validity_graph.errors import InputError, MissingExtraError, UnknownMemoryError
from validity_graph.formats import edge_from, memory_from, write_jsonl
from validity_graph.records import CONFIRMS, OVERTURNS, REQUIRES, SUPPORTS, Edge, Memory

if TYPE_CHECKING:
    import networkx
    import pyarrow
    from torch_geometric.data import Data

Record = TypeVar("Record", Memory, Edge)

#: Codes of ``edge_type`` in torch_geometric data; other types follow, see ``to_pyg``.
EDGE_TYPES = (REQUIRES, SUPPORTS, OVERTURNS, CONFIRMS)
_EVIDENCE = ("slot_mini", "slot_nli", "event", "operation")
_MEMORY_LISTS = ("text", "time", "domain", "namespace", "channel", "meta", "context")
_EDGE_LISTS = ("kind", "justification", "proposition")


def to_networkx(memories: Iterable[Memory], edges: Iterable[Edge]) -> networkx.MultiDiGraph:
    """Return a graph from cause to effect: nodes by id, edges keyed by ``(type, proposition)``.

    Attributes are the fields of JSON lines without those that have their default; ``weight`` is always
    there.  Raises ``UnknownMemoryError`` for an edge whose end is no memory, ``InputError`` for an id that
    comes twice, ``MissingExtraError``.
    """
    networkx = _needed("networkx", what="to_networkx", extra="networkx")
    graph = networkx.MultiDiGraph()
    for fields in _fields(_distinct(memories)):
        graph.add_node(fields.pop("id"), **fields)
    for edge in _unique(edges):
        _known(edge, graph)
        (fields,) = _fields([edge])
        source, target = fields.pop("source"), fields.pop("target")
        graph.add_edge(source, target, key=(edge.type, edge.proposition), **fields)
    return graph


def from_networkx(graph: networkx.DiGraph | networkx.MultiDiGraph) -> tuple[list[Memory], list[Edge]]:
    """Return the memories and edges of a directed graph, in its order; the inverse of ``to_networkx``.

    Nodes are strings with the attribute ``text``, edges have ``type``; keys of parallel edges are not
    read.  Raises ``InputError`` that names the node or edge and the attribute.
    """
    if not graph.is_directed():
        raise InputError("the graph is undirected; edges run from cause to effect: use a DiGraph")
    memories = []
    for node, attributes in graph.nodes(data=True):
        if not isinstance(node, str):
            raise InputError(f"node {node!r} is not a string; use networkx.relabel_nodes(graph, str)")
        memories.append(_read(memory_from, {"id": node, **attributes}, place=f"node {node!r}"))
    edges = [
        _read(
            edge_from, {"source": source, "target": target, **attributes}, place=f"edge {source} -> {target}"
        )
        for source, target, attributes in graph.edges(data=True)
    ]
    return memories, list(_unique(edges))


def to_pyg(memories: Iterable[Memory], edges: Iterable[Edge]) -> Data:
    """Return torch_geometric ``Data`` of n memories and m edges, ready for ``NoisyOr``.

    Tensors: ``edge_index`` int64 (2, m) from cause to effect, ``edge_weight`` float64 (m,), ``edge_type``
    int64 (m,) into ``edge_type_name`` (which starts with ``EDGE_TYPES``), ``edge_group`` int64 (m,) numbers
    the named justifications and is -1 elsewhere, ``edge_evidence`` float64 (m, 4) with NaN where there is
    none, ``edge_inferred`` bool (m,), ``trust`` float64 (n,), ``premise`` bool (n,).  Lists of length n:
    ``id``, ``text``, ``time`` (ISO 8601 or ""), ``domain``, ``namespace``, ``channel``, ``meta``,
    ``context``; lists of length m: ``edge_kind``, ``edge_justification``, ``edge_proposition``.

    Raises ``UnknownMemoryError`` for an edge whose end is no memory, ``InputError`` for an id that comes
    twice, ``MissingExtraError``.
    """
    torch = _needed("torch", what="to_pyg", extra="torch")
    data = _needed("torch_geometric.data", what="to_pyg", extra="torch")
    listed, unique = _distinct(memories), _unique(edges)
    number = {memory.id: v for v, memory in enumerate(listed)}
    for edge in unique:
        _known(edge, number)
    name = list(dict.fromkeys([*EDGE_TYPES, *(edge.type for edge in unique)]))
    group = {
        justification: j
        for j, justification in enumerate(
            dict.fromkeys((e.target, e.justification) for e in unique if e.justification)
        )
    }
    ends = [[number[edge.source] for edge in unique], [number[edge.target] for edge in unique]]
    columns = {
        "edge_index": torch.tensor(ends, dtype=torch.int64).reshape(2, len(unique)),
        "edge_weight": torch.tensor([edge.weight for edge in unique], dtype=torch.float64),
        "edge_type": torch.tensor([name.index(edge.type) for edge in unique], dtype=torch.int64),
        "edge_group": torch.tensor(
            [group.get((edge.target, edge.justification), -1) for edge in unique], dtype=torch.int64
        ),
        "edge_evidence": torch.tensor([_scores(e) for e in unique], dtype=torch.float64).reshape(-1, 4),
        "edge_inferred": torch.tensor([edge.inferred for edge in unique], dtype=torch.bool),
        "trust": torch.tensor([memory.trust for memory in listed], dtype=torch.float64),
        "premise": torch.tensor([memory.premise for memory in listed], dtype=torch.bool),
    }
    fields = list(_fields(listed))
    columns |= {field: [row.get(field, "") for row in fields] for field in ("id", *_MEMORY_LISTS)}
    columns["meta"] = [row.get("meta", {}) for row in fields]
    columns |= {f"edge_{field}": [getattr(edge, field) for edge in unique] for field in _EDGE_LISTS}
    graph: Data = data.Data(num_nodes=len(listed), edge_type_name=name, **columns)
    return graph


def from_pyg(data: Data) -> tuple[list[Memory], list[Edge]]:
    """Return the memories and edges of torch_geometric ``Data``; the inverse of ``to_pyg``.

    Needs ``id``, ``text`` and ``edge_type``; ``edge_justification`` stands above ``edge_group``, which counts
    where there are no names.  Raises ``InputError`` that names the field, the memory or the edge.
    """
    for needed in ("id", "text", "edge_index", "edge_type"):
        if data.get(needed) is None:
            raise InputError(f"the data has no {needed!r}; see validity_graph.interchange.to_pyg")
    columns = {field: _listed(data, field) for field in ("id", *_MEMORY_LISTS, "trust", "premise")}
    memories = [
        _read(memory_from, row, place=f"memory {v}") for v, row in enumerate(_rows(columns, len(data.id)))
    ]
    return memories, _unique(_edges_of(data, [memory.id for memory in memories]))


def to_arrow(memories: Iterable[Memory], edges: Iterable[Edge]) -> tuple[pyarrow.Table, pyarrow.Table]:
    """Return a table of memories and a table of edges, a column for each field of JSON lines.

    ``time`` is a UTC timestamp in microseconds, ``meta`` JSON text, ``evidence`` a struct; what is unknown
    is null.  Ends of edges are not looked up.  Raises ``MissingExtraError``.
    """
    pyarrow = _needed("pyarrow", what="to_arrow", extra="arrow")
    listed = list(memories)
    rows = list(_fields(listed))
    for row, memory in zip(rows, listed, strict=True):
        row |= {"time": memory.time, "trust": memory.trust, "premise": memory.premise}
        row["meta"] = json.dumps(row["meta"], ensure_ascii=False) if "meta" in row else None
    score = pyarrow.float64()
    text = dict.fromkeys(("id", *_MEMORY_LISTS), pyarrow.string())
    memory_schema = pyarrow.schema(
        text | {"time": pyarrow.timestamp("us", tz="UTC"), "trust": score, "premise": pyarrow.bool_()}
    )
    text = dict.fromkeys(("source", "target", "type", *_EDGE_LISTS), pyarrow.string())
    edge_schema = pyarrow.schema(
        text
        | {"weight": score, "inferred": pyarrow.bool_()}
        | {"evidence": pyarrow.struct(dict.fromkeys(_EVIDENCE, score).items())}
    )
    edge_rows = [{"inferred": False, **fields} for fields in _fields(edges)]
    return (
        pyarrow.Table.from_pylist(rows, schema=memory_schema),
        pyarrow.Table.from_pylist(edge_rows, schema=edge_schema),
    )


def from_arrow(memories: pyarrow.Table, edges: pyarrow.Table) -> tuple[list[Memory], list[Edge]]:
    """Return the memories and edges of two tables; the inverse of ``to_arrow``.

    Columns that have a default may be missing.  Raises ``InputError`` that names table, row and field.
    """
    found = []
    for number, row in enumerate(_present(memories)):
        place = f"memories row {number}"
        if "meta" in row:
            row["meta"] = _json(row["meta"], place=place)
        found.append(_read(memory_from, row, place=place))
    return found, [
        _read(edge_from, row, place=f"edges row {number}") for number, row in enumerate(_present(edges))
    ]


def _needed(module: str, *, what: str, extra: str) -> Any:  # noqa: ANN401
    try:
        return importlib.import_module(module)
    except ImportError as problem:
        package = module.split(".")[0].replace("_", "-")
        raise MissingExtraError(what, needs=package, extra=extra) from problem


def _fields(items: Iterable[Memory | Edge]) -> Iterable[dict[str, Any]]:
    for item in items:
        try:
            (line,) = write_jsonl([item])
        except (TypeError, ValueError) as problem:
            raise InputError(f"meta of {item} is not JSON: {problem}") from None
        yield json.loads(line)


def _read(reader: Callable[[Mapping[str, Any]], Record], fields: Mapping[str, Any], *, place: str) -> Record:
    try:
        return reader(fields)
    except InputError as problem:
        raise InputError(f"{place}: {problem}") from None


def _unique(edges: Iterable[Edge]) -> list[Edge]:
    """Return the last of those that are the same edge, in the place of the first."""
    return list({edge.key: edge for edge in edges}.values())


def _distinct(memories: Iterable[Memory]) -> list[Memory]:
    listed = list(memories)
    seen: set[str] = set()
    for memory in listed:
        if memory.id in seen:
            raise InputError(f"memory {memory.id!r} comes twice; keep one of them")
        seen.add(memory.id)
    return listed


def _known(edge: Edge, ids: Container[str]) -> None:
    for end in (edge.source, edge.target):
        if end not in ids:
            place = f"edge {edge.source} -> {edge.target} ({edge.type})"
            raise UnknownMemoryError(f"{place}: there is no memory {end!r}; add it or leave the edge out")


def _scores(edge: Edge) -> list[float]:
    if edge.evidence is None:
        return [math.nan] * len(_EVIDENCE)
    scores = [getattr(edge.evidence, part) for part in _EVIDENCE]
    return [math.nan if score is None else score for score in scores]


def _listed(data: Data, field: str) -> Sequence[Any] | None:
    column: Any = data.get(field)
    listed: Sequence[Any] | None = column.tolist() if hasattr(column, "tolist") else column
    return listed


def _rows(columns: Mapping[str, Sequence[Any] | None], count: int) -> list[dict[str, Any]]:
    for field, column in columns.items():
        if column is not None and len(column) != count:
            raise InputError(f"{field!r} has {len(column)} entries and needs {count}")
    return [
        {field: column[i] for field, column in columns.items() if column is not None} for i in range(count)
    ]


def _edges_of(data: Data, ids: Sequence[str]) -> list[Edge]:
    columns = {
        field: _listed(data, f"edge_{field}") for field in ("weight", "type", "group", "evidence", "inferred")
    }
    columns |= {field: _listed(data, f"edge_{field}") for field in _EDGE_LISTS}
    name = data.get("edge_type_name") or EDGE_TYPES
    edges = []
    for e, row in enumerate(_rows(columns, int(data.edge_index.shape[1]))):
        source, target = (int(end) for end in data.edge_index[:, e])
        group, place = row.pop("group", -1), f"edge {e}"
        if not (0 <= source < len(ids) and 0 <= target < len(ids)):
            raise InputError(f"{place}: edge_index {source} -> {target} is outside the {len(ids)} memories")
        if not 0 <= row["type"] < len(name):
            raise InputError(f"{place}: edge_type {row['type']} has no name among {', '.join(name)}")
        if group >= 0 and "justification" not in row:
            row["justification"] = str(group)
        scores = row.pop("evidence", [math.nan])
        if not math.isnan(scores[0]):
            parts = [None if math.isnan(score) else score for score in scores]
            row["evidence"] = dict(zip(_EVIDENCE, parts, strict=True))
        fields = {**row, "source": ids[source], "target": ids[target], "type": name[row["type"]]}
        edges.append(_read(edge_from, fields, place=place))
    return edges


def _present(table: pyarrow.Table) -> list[dict[str, Any]]:
    """Return the rows without their nulls: an unknown field is an absent one."""
    return [{field: value for field, value in row.items() if value is not None} for row in table.to_pylist()]


def _json(text: str, *, place: str) -> Any:  # noqa: ANN401
    try:
        return json.loads(text)
    except ValueError as problem:
        raise InputError(f"{place}: meta is not JSON ({problem})") from None
