"""build_topology against networkx and plain counting, on graphs with cycles and parallel edges."""

from __future__ import annotations

from collections import Counter

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthetic import graphs
from validity_graph import ordering
from validity_graph.errors import InputError
from validity_graph.topology import build_topology

# The first call of a compiled loop compiles it.
settings.register_profile("compiled", deadline=None)
settings.load_profile("compiled")

WEIGHTS = [0.0, 0.25, 0.5, 0.75, 1.0]


@st.composite
def edge_lists(draw, most_nodes=9, most_edges=24):
    node_count = draw(st.integers(1, most_nodes))
    node = st.integers(0, node_count - 1)
    edge = st.tuples(node, node, st.sampled_from(WEIGHTS), st.booleans(), st.integers(-1, 2))
    edges = draw(st.lists(edge.filter(lambda e: e[0] != e[1]), max_size=most_edges))
    premise = draw(st.lists(st.booleans(), min_size=node_count, max_size=node_count))
    return node_count, edges, premise


def columns(edges):
    source, target, weight, supports, justification = zip(*edges, strict=True) if edges else ((),) * 5
    return {
        "source": np.array(source, dtype=np.int64),
        "target": np.array(target, dtype=np.int64),
        "weight": np.array(weight, dtype=np.float64),
        "supports": np.array(supports, dtype=bool),
        "justification": np.array(justification, dtype=np.int64),
    }


def rows(topology):
    """Per caller's node: the list of its requirements and the list of its justifications, as stored."""
    result = {}
    for v, caller in enumerate(topology.order):
        start, middle, end = topology.indptr[v], topology.requires_end[v], topology.indptr[v + 1]
        source = topology.order[topology.source[start:end]].tolist()
        pair = list(zip(source, topology.weight[start:end].tolist(), strict=True))
        justifications = []
        for e in range(middle, end):
            if topology.opens[e]:
                justifications.append([])
            justifications[-1].append(pair[e - start])
        result[int(caller)] = (pair[: middle - start], justifications)
    return result


@given(edge_lists())
def test_rows_hold_exactly_the_given_edges(graph):
    node_count, edges, premise = graph
    stored = rows(build_topology(node_count, **columns(edges), premise=premise))
    for v in range(node_count):
        requirements = [(s, w) for s, t, w, supports, _ in edges if t == v and not supports]
        groups = {}
        for number, (s, t, w, supports, group) in enumerate(edges):
            if t == v and supports and not premise[v]:
                groups.setdefault((group, -1 if group >= 0 else number), []).append((s, w))
        assert stored[v][0] == sorted(requirements)
        assert Counter(map(tuple, stored[v][1])) == Counter(tuple(sorted(g)) for g in groups.values())
        named = [sorted(g) for (group, _), g in sorted(groups.items()) if group >= 0]
        single = sorted(g for (group, _), g in groups.items() if group < 0)
        assert stored[v][1] == single + named


@given(edge_lists())
def test_levels_and_components_match_networkx(graph):
    node_count, edges, premise = graph
    topology = build_topology(node_count, **columns(edges), premise=premise)
    kept = [(s, t) for s, t, _, supports, _ in edges if not (supports and premise[t])]
    whole = networkx.DiGraph(kept)
    whole.add_nodes_from(range(node_count))
    condensed = networkx.condensation(whole)
    level = {}
    for c in networkx.topological_sort(condensed):
        level[c] = max((level[p] + 1 for p in condensed.predecessors(c)), default=0)
    widths = np.diff(topology.level_indptr)
    stored_level = np.repeat(np.arange(widths.size), widths)
    for v in range(node_count):
        assert stored_level[topology.rank[v]] == level[condensed.graph["mapping"][v]]
    expected = sorted(sorted(c) for c in networkx.strongly_connected_components(whole) if len(c) > 1)
    bounds = zip(topology.component_start, topology.component_end, strict=True)
    members = [topology.order[start:end].tolist() for start, end in bounds]
    assert sorted(members) == expected
    assert all(part == sorted(part) for part in members)
    assert np.all(np.diff(topology.component_start) > 0)


@given(edge_lists(), st.randoms(use_true_random=False))
def test_the_order_of_the_edges_does_not_matter(graph, random):
    node_count, edges, premise = graph
    shuffled = list(edges)
    random.shuffle(shuffled)
    one = build_topology(node_count, **columns(edges), premise=premise)
    other = build_topology(node_count, **columns(shuffled), premise=premise)
    for field in one.__slots__:
        assert np.array_equal(getattr(one, field), getattr(other, field)), field


@given(edge_lists())
@settings(max_examples=30)
def test_plain_and_compiled_loops_agree(graph):
    node_count, edges, premise = graph
    plain = build_topology(node_count, **columns(edges), premise=premise)
    limit = ordering.PLAIN_LIMIT
    try:
        ordering.PLAIN_LIMIT = -1
        compiled = build_topology(node_count, **columns(edges), premise=premise)
    finally:
        ordering.PLAIN_LIMIT = limit
    for field in plain.__slots__:
        assert np.array_equal(getattr(plain, field), getattr(compiled, field)), field


def test_arrays_are_frozen_and_narrow():
    graph = graphs.random_dag(50, 200, rng=np.random.default_rng(0))
    topology = build_topology(50, **graph.edges())
    assert topology.blocks is None
    for field in set(topology.__slots__) - {"blocks"}:
        array = getattr(topology, field)
        assert not array.flags.writeable, field
        assert array.dtype in (np.int32, np.uint8, np.float32), field
    edge_bytes = topology.source.nbytes + topology.weight.nbytes + topology.opens.nbytes
    assert edge_bytes <= 24 * 200


@pytest.mark.parametrize("name", ["chain", "star", "inward star", "ring", "parallel"])
def test_a_million_deep_wide_or_round(name):
    n = 1_000_000
    rng = np.random.default_rng(1)
    if name == "chain":
        graph = graphs.chain(n, rng=rng)
    elif name == "star":
        graph = graphs.star(n - 1, rng=rng)
    elif name == "inward star":
        graph = graphs.star(n - 1, rng=rng, inward=True, supports=1.0)
    else:
        source = np.arange(n) if name == "ring" else np.zeros(n, dtype=np.int64)
        target = (source + 1) % n
        graph = graphs.assemble(n, source, target, rng=rng, supports=0.0)
    topology = build_topology(n, **graph.edges())
    depth = {"chain": n, "star": 2, "inward star": 2, "ring": 1, "parallel": 2}[name]
    assert topology.level_indptr.size - 1 == depth
    assert topology.component_start.size == (name == "ring")
    assert topology.source.size == graph.source.size


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": [1, 2, 2]}, "edge 2 .*memory to itself"),
        ({"weight": [0.5, float("nan"), 1.0]}, "edge 1 .*weight must lie"),
        ({"weight": [0.5, 0.5, 1.4]}, r"edge 2 .*weight=1.4.*weight must lie"),
        ({"weight": [0.5, -0.1, 1.0]}, "edge 1 "),
        ({"source": [0, 1, 4]}, r"edge 2 .*source must lie in \[0, 4\)"),
        ({"target": [-1, 2, 3]}, r"edge 0 .*target must lie in \[0, 4\)"),
        ({"supports": [True]}, "supports has shape"),
        ({"premise": [True]}, "premise has shape"),
        ({"dtype": np.int32}, "dtype"),
    ],
)
def test_bad_edges_are_named(change, message):
    edges = {
        "source": [0, 1, 2],
        "target": [1, 2, 3],
        "weight": [0.5, 0.5, 0.5],
        "supports": [False, True, True],
        "justification": [-1, -1, -1],
    }
    build_topology(4, **edges)
    with pytest.raises(InputError, match=message):
        build_topology(4, **{**edges, **change})


def test_nothing_at_all():
    topology = build_topology(0, **columns([]))
    assert topology.order.size == 0
    assert build_topology(3, **columns([])).level_indptr.tolist() == [0, 3]
