"""A resident graph equals a whole pass over the same edges after any edits, and touches only the cone."""

from __future__ import annotations

import numpy as np
import pytest

from synthetic.graphs import cyclic, layered, random_dag
from validity_graph import kernels, resident
from validity_graph.errors import InputError
from validity_graph.resident import ResidentGraph
from validity_graph.topology import build_topology


def whole(node_count, edges, direct):
    return kernels.propagate(build_topology(node_count, **edges, dtype=np.float64), direct).invalidity


def reachable(node_count, edges, roots):
    """Nodes that ``roots`` lead to, themselves included."""
    following = [[] for _ in range(node_count)]
    for u, v in zip(edges["source"].tolist(), edges["target"].tolist(), strict=True):
        following[u].append(v)
    seen, waiting = set(roots), list(roots)
    while waiting:
        new = set(following[waiting.pop()]) - seen
        seen |= new
        waiting += new
    return seen


def poison(graph, nodes):
    """Put a value that no formula gives where nothing may be computed again."""
    graph._state.invalidity[sorted(nodes)] = 0.123


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("draw", [cyclic, random_dag])
def test_only_descendants_are_computed(draw, seed):
    rng = np.random.default_rng(seed)
    drawn = draw(400, 420, rng=rng, supports=0.5, group_size=2)
    edges = drawn.edges()
    direct = np.where(rng.random(400) < 0.05, rng.random(400), 0)
    graph = ResidentGraph.from_arrays(400, **edges, direct=direct)
    start = graph.invalidity.copy()
    for v in rng.integers(0, 400, 10).tolist():
        cone = reachable(400, edges, [v])
        outside = set(range(400)) - cone
        poison(graph, outside)
        graph.set_direct(v, 1.0)
        direct[v] = 1.0
        assert set(graph.changed.tolist()) <= cone
        assert (graph.invalidity[sorted(outside)] == 0.123).all()
        start[sorted(cone)] = whole(400, edges, direct)[sorted(cone)]
        graph._state.invalidity[:400] = start
    assert np.array_equal(start, whole(400, edges, direct))


def test_a_value_that_comes_out_the_same_wakes_nobody():
    graph = ResidentGraph.from_arrays(
        3,
        source=[0, 1],
        target=[1, 2],
        weight=[0.5, 0.5],
        supports=[False, False],
        justification=[-1, -1],
        direct=[0.0, 1.0, 0.0],
    )
    poison(graph, {2})
    graph.set_direct(0, 0.7)
    assert graph.changed.tolist() == [0]
    assert graph.invalidity.tolist() == [0.7, 1.0, 0.123]


def test_an_edit_inside_a_cycle_computes_all_of_it():
    graph = ResidentGraph()
    graph.append_many(3, source=[0, 1, 2], target=[1, 2, 0], weight=0.5)
    poison(graph, {0, 1, 2})
    graph.set_direct(1, 0.0)
    assert graph.invalidity.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("seed", range(3))
def test_edges_against_the_order_so_far(seed):
    """Edges of an acyclic graph in random order: levels must be repaired again and again."""
    rng = np.random.default_rng(seed)
    drawn = layered(30, 10, 3, rng=rng, supports=0.4)
    shuffled = rng.permutation(drawn.source.size)
    name = rng.permutation(300).astype(np.int32)
    edges = {key: column[shuffled] for key, column in drawn.edges().items()}
    edges["source"], edges["target"] = name[edges["source"]], name[edges["target"]]
    direct = np.where(rng.random(300) < 0.1, rng.random(300), 0)
    graph = ResidentGraph()
    graph.append_many(300, direct=direct)
    for first in range(0, shuffled.size, 29):
        part = {key: column[: first + 29] for key, column in edges.items()}
        graph.add_edges(**{key: column[first : first + 29] for key, column in edges.items()})
        assert np.array_equal(graph.invalidity, whole(300, part, direct))


def test_levels_stay_bounded(monkeypatch):
    """Two chains that take turns in coming first push each other up; the levels are made dense again."""
    monkeypatch.setattr(resident, "_LEVEL_LIMIT", 40)
    graph = ResidentGraph()
    source, target = [*range(9), *range(10, 19)], [*range(1, 10), *range(11, 20)]
    graph.append_many(20, source=source, target=target, weight=0.9)
    graph.set_direct([0, 10], [0.5, 0.25])
    pair = (9, 10), (19, 0)
    for turn in range(30):
        source, target = pair[turn % 2]
        edge = graph.add_edges(source=[source], target=[target], weight=[0.8])
        assert graph.invalidity[target] == pytest.approx(
            1 - (1 - graph.direct[target]) * (1 - 0.8 * graph.invalidity[source])
        )
        graph.remove_edges(edge)
    assert graph._state.node["level"][:20].max() <= 60


def test_a_component_that_does_not_settle_says_so():
    edges = {
        "source": [0, 1],
        "target": [1, 0],
        "weight": [1.0, 1.0],
        "supports": [False, False],
        "justification": [-1, -1],
    }
    graph = ResidentGraph.from_arrays(2, **edges, direct=[1e-6, 0.0])
    expected = kernels.propagate(build_topology(2, **edges, dtype=np.float64), [1e-6, 0.0])
    assert not expected.converged
    assert not graph.converged
    graph.set_direct(0, 2e-6)
    assert not graph.converged
    graph.remove_edges(1)
    assert graph.converged
    assert graph.add_edges(source=1, target=0).tolist() == [2]
    assert not graph.converged
    graph.set_direct(0, 0.5)
    assert graph.converged


@pytest.mark.parametrize("outward", [True, False])
def test_a_hub_grows(outward):
    rng = np.random.default_rng(5)
    hub, leaf = np.zeros(3000, dtype=np.int32), np.arange(1, 3001, dtype=np.int32)
    source, target = (hub, leaf) if outward else (leaf, hub)
    weight, direct = rng.random(3000) * 0.01, rng.random(3001)
    graph = ResidentGraph()
    graph.append(direct=direct[0])
    for i in range(3000):
        graph.append_many(1, source=source[i], target=target[i], weight=weight[i], direct=direct[i + 1])
    edges = {
        "source": source,
        "target": target,
        "weight": weight,
        "supports": np.zeros(3000, dtype=bool),
        "justification": np.full(3000, -1),
    }
    assert np.array_equal(graph.invalidity, whole(3001, edges, direct))


def test_a_deep_chain_closed_and_opened():
    count = 200_000
    graph = ResidentGraph()
    graph.append_many(count, source=np.arange(count - 1), target=np.arange(1, count))
    graph.set_direct(0, 0.5)
    assert graph.changed.size == count
    assert (graph.invalidity == 0.5).all()
    graph.set_direct(0, 0.0)
    graph.add_edges(source=count - 1, target=0)
    assert (graph.invalidity == 0.0).all()
    graph.remove_edges(count // 2)
    graph.set_direct(count // 2 + 1, 0.25)
    assert graph.changed.size == count
    assert (graph.invalidity == 0.25).all()


def test_copies_are_amortised(monkeypatch):
    copied = []
    grow, repack = ResidentGraph._grow, resident.adjacency.repacked

    def counted_grow(graph, names, used, needed):
        copied.append(used)
        grow(graph, names, used, needed)

    def counted_repack(old, start, count, capacity):
        copied.append(int(count.sum()))
        return repack(old, start, count, capacity)

    monkeypatch.setattr(ResidentGraph, "_grow", counted_grow)
    monkeypatch.setattr(resident.adjacency, "repacked", counted_repack)
    rng = np.random.default_rng(0)
    graph = ResidentGraph()
    for i in range(5000):
        graph.append(rng.integers(0, i, 2) if i else [])
    # Ten arrays grow, each by half as many again: at most 3 copies of a place on average, gaps aside.
    assert 0 < sum(copied) < 10 * 3 * 2 * 10_000


def test_supports_of_a_premise_are_kept_and_do_nothing():
    graph = ResidentGraph.from_arrays(
        2,
        source=[0, 0],
        target=[1, 1],
        weight=[1.0, 0.5],
        supports=[True, False],
        justification=[-1, -1],
        premise=[False, True],
        direct=[1.0, 0.0],
    )
    (edge,) = graph.add_edges(source=0, target=1, supports=True).tolist()
    assert graph.invalidity.tolist() == [1.0, 0.5]
    graph.set_weight([0, edge], 0.7)
    assert graph.changed.tolist() == []
    graph.remove_edges([0, edge])
    assert graph.invalidity.tolist() == [1.0, 0.5]
    with pytest.raises(InputError, match="was removed"):
        graph.remove_edges(0)


def test_parallel_edges_are_their_own():
    graph = ResidentGraph()
    graph.append_many(2, source=[0, 0], target=[1, 1], weight=[0.5, 0.25], direct=[1.0, 0.0])
    assert graph.invalidity[1] == 1 - 0.5 * 0.75
    graph.set_weight(0, 0.125)
    assert graph.invalidity[1] == 1 - 0.875 * 0.75
    graph.remove_edges(1)
    assert graph.invalidity[1] == 0.125


WRONG = [
    (lambda g: g.append([7]), "edge 0 .7 -> 2"),
    (lambda g: g.append([2]), "edge 0 .2 -> 2"),
    (lambda g: g.append([0, 1], weight=[0.5]), "weight has shape"),
    (lambda g: g.append([0], weight=float("nan")), "weight=nan"),
    (lambda g: g.append([0.5]), "source has dtype float64"),
    (lambda g: g.append([0], justification=0.5), "justification has dtype float64"),
    (lambda g: g.append(direct=1.5), "direct.0.=1.5 must lie in"),
    (lambda g: g.append_many(-1), "count=-1"),
    (lambda g: g.append_many(2, source=[0], target=[4]), "edge 0 .0 -> 4"),
    (lambda g: g.add_edges(source=[0, 1], target=[1, 1]), "edge 1 .1 -> 1"),
    (lambda g: g.add_edges(source=[0], target=[2]), r"both ends must lie in \[0, 2\)"),
    (lambda g: g.add_edges(source=[0], target=[1], weight=[1.01]), "weight=1.01"),
    (lambda g: g.add_edges(source=[-1], target=[1]), "edge 0 .-1 -> 1"),
    (lambda g: g.set_weight(1, 0.5), "edge.0.=1 is not in the graph"),
    (lambda g: g.set_weight(0, -0.5), "weight.0.=-0.5"),
    (lambda g: g.remove_edges([0, 0]), "named twice"),
    (lambda g: g.set_direct([0, 2], 0.5), "node.1.=2 must lie in"),
    (lambda g: g.set_direct(0, float("nan")), "direct.0.=nan"),
]


@pytest.mark.parametrize(("edit", "message"), WRONG)
def test_a_wrong_edit_says_why_and_changes_nothing(edit, message):
    graph = ResidentGraph()
    graph.append_many(2, source=[0], target=[1], weight=0.5, direct=[1.0, 0.0])
    with pytest.raises(InputError, match=message):
        edit(graph)
    assert (graph.node_count, graph.edge_count) == (2, 1)
    assert graph.invalidity.tolist() == [1.0, 0.5]
    graph.set_direct(0, 0.5)
    assert graph.invalidity.tolist() == [0.5, 0.25]


def test_from_arrays_refuses_what_build_topology_refuses():
    edges = {"target": [1], "weight": [1.0], "supports": [False], "justification": [-1]}
    with pytest.raises(InputError, match="itself"):
        ResidentGraph.from_arrays(2, source=[1], **edges)
    with pytest.raises(InputError, match="direct"):
        ResidentGraph.from_arrays(2, source=[0], **edges, direct=[0.0, 2.0])


def test_views_cannot_be_written():
    graph = ResidentGraph()
    graph.append()
    for view in (graph.invalidity, graph.direct):
        with pytest.raises(ValueError, match="read-only"):
            view[0] = 1.0
