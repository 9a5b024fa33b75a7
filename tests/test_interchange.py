"""Interchange: every format gives back what went in, foreign graphs are checked, extras are named."""

from __future__ import annotations

import io
import sys
from datetime import datetime, timezone

import networkx
import pyarrow
import pyarrow.parquet
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

from validity_graph import interchange
from validity_graph.errors import InputError, MissingExtraError, UnknownMemoryError
from validity_graph.kernels.message_passing import NoisyOr
from validity_graph.records import Edge, Evidence, Memory

PROBABILITY = st.floats(0, 1)
TEXT = st.text(max_size=8)
NAME = st.text(min_size=1, max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
TIME = st.none() | st.datetimes(timezones=st.just(timezone.utc))
EVIDENCE = st.none() | st.builds(Evidence, PROBABILITY, st.none() | PROBABILITY, PROBABILITY, PROBABILITY)


@st.composite
def graphs(draw):
    """Memories and edges in which every field takes every kind of value; edges are unique by key."""
    ids = draw(st.lists(NAME, min_size=1, max_size=5, unique=True))
    memories = [
        Memory(
            id=id,
            text=draw(NAME),
            time=draw(TIME),
            domain=draw(TEXT),
            namespace=draw(TEXT),
            trust=draw(PROBABILITY),
            channel=draw(TEXT),
            premise=draw(st.booleans()),
            meta=draw(st.dictionaries(TEXT, JSON, max_size=2)),
            context=draw(TEXT),
        )
        for id in ids
    ]
    edges = {}
    for _ in range(draw(st.integers(0, 6))):
        type = draw(st.sampled_from(["requires", "supports", "overturns", "confirms", "cites", "tea"]))
        kind = draw(st.sampled_from(["supersedes", "retracts"])) if type == "overturns" else ""
        edge = Edge(
            source=draw(st.sampled_from(ids)),
            target=draw(st.sampled_from(ids)),
            type=type,
            weight=draw(PROBABILITY),
            kind=kind,
            justification=draw(TEXT),
            proposition=draw(TEXT),
            evidence=draw(EVIDENCE),
            inferred=draw(st.booleans()),
        )
        edges[edge.key] = edge
    return memories, list(edges.values())


def by_key(edges):
    return {edge.key: edge for edge in edges}


@given(graph=graphs())
@settings(max_examples=100, deadline=None)
def test_networkx_round_trip(graph):
    memories, edges = graph
    found_memories, found_edges = interchange.from_networkx(interchange.to_networkx(memories, edges))
    assert found_memories == memories
    assert by_key(found_edges) == by_key(edges)
    assert len(found_edges) == len(edges)


@given(graph=graphs())
@settings(max_examples=100, deadline=None)
def test_pyg_round_trip(graph):
    data = interchange.to_pyg(*graph)
    assert data.validate()
    assert interchange.from_pyg(data) == graph


@given(graph=graphs())
@settings(max_examples=100, deadline=None)
def test_arrow_round_trip(graph):
    tables = interchange.to_arrow(*graph)
    assert interchange.from_arrow(*tables) == graph
    assert interchange.from_arrow(*(through_parquet(table) for table in tables)) == graph


def through_parquet(table):
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(table, buffer)
    buffer.seek(0)
    return pyarrow.parquet.read_table(buffer)


def test_nothing_at_all():
    assert interchange.from_networkx(interchange.to_networkx([], [])) == ([], [])
    assert interchange.from_pyg(interchange.to_pyg([], [])) == ([], [])
    assert interchange.from_arrow(*interchange.to_arrow([], [])) == ([], [])


MEMORIES = [Memory("a", "A"), Memory("b", "B"), Memory("c", "C"), Memory("d", "D", premise=True)]
EDGES = [
    Edge("a", "b", "requires", 0.5),
    Edge("a", "c", "supports", 0.9, justification="j"),
    Edge("b", "c", "supports", 1.0, justification="j"),
    Edge("c", "d", "supports", 1.0),
    Edge("d", "a", "cites"),
]


def test_pyg_data_feeds_the_layer():
    data = interchange.to_pyg(MEMORIES, EDGES)
    # Three groups of edges: a requirement, one justification of two, one of its own; and one inert edge.
    assert data.edge_group.tolist() == [-1, 0, 0, -1, -1]
    structural = data.edge_type <= interchange.EDGE_TYPES.index("supports")
    found = NoisyOr(rounds=3)(
        torch.tensor([1.0, 0.0, 0.0, 0.0], dtype=torch.float64),
        data.edge_index[:, structural],
        data.edge_weight[structural],
        supports=data.edge_type[structural] == interchange.EDGE_TYPES.index("supports"),
        justification=data.edge_group[structural],
        premise=data.premise,
    )
    # b = 0.5; c falls with either antecedent: 1 - (1 - 0.9)(1 - 0.5); d is a premise.
    torch.testing.assert_close(found, torch.tensor([1.0, 0.5, 0.95, 0.0], dtype=torch.float64))


def test_equal_justification_names_of_two_targets_are_two_groups():
    edges = [Edge("a", "b", "supports", justification="j"), Edge("a", "c", "supports", justification="j")]
    assert interchange.to_pyg(MEMORIES, edges).edge_group.tolist() == [0, 1]


def test_groups_name_the_justifications_that_have_no_name():
    data = Data(
        id=["a", "b", "c"],
        text=["A", "B", "C"],
        edge_index=torch.tensor([[0, 1, 0], [2, 2, 1]]),
        edge_type=torch.tensor([1, 1, 0]),
        edge_group=torch.tensor([0, 0, -1]),
    )
    memories, edges = interchange.from_pyg(data)
    assert [memory.id for memory in memories] == ["a", "b", "c"]
    assert edges == [
        Edge("a", "c", "supports", justification="0"),
        Edge("b", "c", "supports", justification="0"),
        Edge("a", "b", "requires"),
    ]


def test_a_later_record_of_the_same_edge_replaces_the_earlier():
    edges = [Edge("a", "b", "requires", 0.2), Edge("b", "c", "requires"), Edge("a", "b", "requires", 0.7)]
    graph = interchange.to_networkx(MEMORIES, edges)
    assert graph["a"]["b"]["requires", ""] == {"type": "requires", "weight": 0.7}
    assert interchange.to_pyg(MEMORIES, edges).edge_weight.tolist() == [0.7, 1.0]


def test_a_plain_networkx_graph_from_elsewhere():
    graph = networkx.DiGraph()
    graph.add_node("a", text="A", time="2025-01-02")
    graph.add_node("b", text="B")
    graph.add_edge("a", "b", type="requires", weight=0.25)
    memories, edges = interchange.from_networkx(graph)
    assert memories == [Memory("a", "A", time=datetime(2025, 1, 2, tzinfo=timezone.utc)), Memory("b", "B")]
    assert edges == [Edge("a", "b", "requires", 0.25)]


def node(**attributes):
    graph = networkx.DiGraph()
    graph.add_node("a", **attributes)
    return graph


def edge(**attributes):
    graph = networkx.DiGraph()
    graph.add_nodes_from(["a", "b"], text="T")
    graph.add_edge("a", "b", **attributes)
    return graph


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (networkx.Graph(), "undirected"),
        (networkx.path_graph(1, create_using=networkx.DiGraph), "relabel_nodes"),
        (node(), "node 'a': \"text\" must be"),
        (node(text="A", colour="red"), 'unknown field "colour"'),
        (node(text="A", trust=2), "trust of memory 'a' must lie in"),
        (edge(), 'edge a -> b: "type" must be'),
        (edge(type="requires", weight=1.4), "weight of edge a -> b must lie in"),
    ],
)
def test_bad_networkx_graphs_are_refused(graph, message):
    with pytest.raises(InputError, match=message):
        interchange.from_networkx(graph)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"text": None}, "no 'text'"),
        ({"text": ["A"]}, "'text' has 1 entries and needs 4"),
        ({"edge_index": torch.tensor([[9] * 5, [0] * 5])}, "edge_index 9 -> 0 is outside"),
        ({"edge_type": torch.tensor([7] * 5)}, "edge_type 7 has no name"),
        ({"edge_weight": torch.tensor([1.5] * 5)}, "edge 0: weight of edge a -> b must lie in"),
    ],
)
def test_bad_pyg_data_is_refused(change, message):
    data = interchange.to_pyg(MEMORIES, EDGES)
    for field, value in change.items():
        data[field] = value
    with pytest.raises(InputError, match=message):
        interchange.from_pyg(data)


def test_bad_arrow_tables_are_refused():
    memories, edges = interchange.to_arrow(MEMORIES, EDGES)
    bad = pyarrow.table({"id": ["a", "b"], "text": ["A", None]})
    with pytest.raises(InputError, match='memories row 1: "text" must be'):
        interchange.from_arrow(bad, edges)
    with pytest.raises(InputError, match='edges row 0: "type" must be'):
        interchange.from_arrow(memories, pyarrow.table({"source": ["a"], "target": ["b"]}))
    with pytest.raises(InputError, match="memories row 0: meta is not JSON"):
        interchange.from_arrow(pyarrow.table({"id": ["a"], "text": ["A"], "meta": ["{"]}), edges)


@pytest.mark.parametrize("convert", [interchange.to_networkx, interchange.to_pyg])
def test_edges_without_ends_and_ids_that_come_twice_are_refused(convert):
    with pytest.raises(UnknownMemoryError, match="no memory 'x'"):
        convert(MEMORIES, [Edge("a", "x", "requires")])
    with pytest.raises(InputError, match="'a' comes twice"):
        convert([*MEMORIES, Memory("a", "again")], [])


def test_meta_that_is_not_json_is_refused():
    with pytest.raises(InputError, match="is not JSON"):
        interchange.to_networkx([Memory("a", "A", meta={"when": object()})], [])


@pytest.mark.parametrize(
    ("convert", "missing", "extra"),
    [
        (interchange.to_networkx, "networkx", "networkx"),
        (interchange.to_pyg, "torch_geometric", "torch"),
        (interchange.to_arrow, "pyarrow", "arrow"),
    ],
)
def test_a_missing_extra_is_named(monkeypatch, convert, missing, extra):
    for name in list(sys.modules):
        if name.split(".")[0] == missing:
            monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=rf'pip install "validity-graph\[{extra}\]"'):
        convert(MEMORIES, EDGES)
