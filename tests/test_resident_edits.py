"""A resident graph under any edits, side by side with a plain model of it."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from validity_graph import kernels
from validity_graph.resident import ResidentGraph
from validity_graph.topology import build_topology

PROBABILITY = st.one_of(st.sampled_from([0.0, 0.01, 0.3, 0.5, 0.99, 1.0]), st.floats(0, 1))


EVIDENCE = st.one_of(st.just(0.0), PROBABILITY)


ROLE = st.tuples(st.booleans(), st.integers(-1, 2))


MOST_NODES = 14


class Model:
    """What the graph should hold, as plain lists; the whole pass is its oracle."""

    def __init__(self):
        self.edges, self.direct, self.premise = {}, [], []

    def columns(self):
        return arrays([self.edges[e] for e in sorted(self.edges)])

    def whole_pass(self):
        topology = build_topology(
            len(self.direct), **self.columns(), premise=np.array(self.premise, dtype=bool), dtype=np.float64
        )
        return kernels.propagate(topology, np.array(self.direct))


def arrays(edges):
    columns = list(zip(*edges, strict=True)) or [()] * 5
    names = ("source", "target", "weight", "supports", "justification")
    kinds = (np.int32, np.int32, np.float64, bool, np.int64)
    return {name: np.array(x, dtype=kind) for name, x, kind in zip(names, columns, kinds, strict=True)}


class Edits(RuleBasedStateMachine):
    """Edit a resident graph and a model side by side."""

    def __init__(self):
        super().__init__()
        self.model = Model()
        self.graph = ResidentGraph()
        self.before = np.zeros(0)

    def draw_edges(self, data, count, *, first_target=0):
        """Edges into nodes from ``first_target`` on, in any direction."""
        edges = []
        for _ in range(data.draw(st.integers(0, 3))):
            target = data.draw(st.integers(first_target, count - 1))
            source = data.draw(st.integers(0, count - 2))
            edges.append((source + (source >= target), target, data.draw(PROBABILITY), *data.draw(ROLE)))
        return edges

    def note(self, edges):
        self.model.edges.update(enumerate(edges, start=self.edge_count))
        self.edge_count += len(edges)

    @initialize(data=st.data())
    def start(self, data):
        count = data.draw(st.integers(0, 8))
        edges = []
        for _ in range(4 if count > 1 else 0):
            edges += self.draw_edges(data, count)
        self.edge_count = 0
        self.model.direct = [data.draw(EVIDENCE) for _ in range(count)]
        self.model.premise = [data.draw(st.booleans()) for _ in range(count)]
        self.graph = ResidentGraph.from_arrays(
            count, **arrays(edges), premise=self.model.premise, direct=self.model.direct
        )
        self.note(edges)
        self.before = self.graph.invalidity.copy()

    @precondition(lambda self: len(self.model.direct) < MOST_NODES)
    @rule(data=st.data(), direct=EVIDENCE, premise=st.booleans())
    def append(self, data, direct, premise):
        number = len(self.model.direct)
        edges = self.draw_edges(data, number + 1, first_target=number) if number else []
        given = arrays(edges)
        del given["target"]
        assert self.graph.append(given.pop("source"), **given, direct=direct, premise=premise) == number
        self.model.direct.append(direct)
        self.model.premise.append(premise)
        self.note(edges)

    @precondition(lambda self: len(self.model.direct) < MOST_NODES)
    @rule(data=st.data(), count=st.integers(1, 3))
    def append_many(self, data, count):
        number = len(self.model.direct)
        edges = self.draw_edges(data, number + count) if number + count > 1 else []
        direct = [data.draw(EVIDENCE) for _ in range(count)]
        premise = [data.draw(st.booleans()) for _ in range(count)]
        assert self.graph.append_many(count, **arrays(edges), direct=direct, premise=premise) == number
        self.model.direct += direct
        self.model.premise += premise
        self.note(edges)

    @precondition(lambda self: len(self.model.direct) > 1)
    @rule(data=st.data())
    def add_edges(self, data):
        edges = self.draw_edges(data, len(self.model.direct))
        first = self.edge_count
        assert self.graph.add_edges(**arrays(edges)).tolist() == list(range(first, first + len(edges)))
        self.note(edges)

    @precondition(lambda self: len(self.model.direct) > 1)
    @rule(data=st.data(), supports=st.booleans(), weight=PROBABILITY)
    def close_a_cycle(self, data, supports, weight):
        nodes = st.integers(0, len(self.model.direct) - 1)
        ring = data.draw(st.lists(nodes, min_size=2, max_size=6, unique=True))
        edges = [(u, v, weight, supports, -1) for u, v in zip(ring, ring[1:] + ring[:1], strict=True)]
        self.graph.add_edges(**arrays(edges))
        self.note(edges)

    @precondition(lambda self: self.model.edges)
    @rule(data=st.data())
    def remove_edges(self, data):
        present = st.sampled_from(sorted(self.model.edges))
        gone = data.draw(st.lists(present, min_size=1, max_size=4, unique=True))
        self.graph.remove_edges(gone)
        for e in gone:
            del self.model.edges[e]

    @precondition(lambda self: self.model.edges)
    @rule(data=st.data(), weight=PROBABILITY)
    def set_weight(self, data, weight):
        e = data.draw(st.sampled_from(sorted(self.model.edges)))
        source, target, _, *role = self.model.edges[e]
        self.graph.set_weight(e, weight)
        self.model.edges[e] = (source, target, weight, *role)

    @precondition(lambda self: self.model.direct)
    @rule(data=st.data(), direct=EVIDENCE)
    def set_direct(self, data, direct):
        v = data.draw(st.integers(0, len(self.model.direct) - 1))
        self.graph.set_direct(v, direct)
        self.model.direct[v] = direct

    @invariant()
    def equals_a_whole_pass(self):
        whole = self.model.whole_pass()
        assert self.graph.invalidity.tolist() == whole.invalidity.tolist()
        assert self.graph.converged == whole.converged
        assert self.graph.direct.tolist() == self.model.direct
        assert self.graph.node_count == len(self.model.direct)

    @invariant()
    def says_what_changed(self):
        now = self.graph.invalidity
        old = np.zeros(now.size)
        old[: self.before.size] = self.before
        assert sorted(self.graph.changed.tolist()) == np.flatnonzero(now != old).tolist()
        self.before = now.copy()


TestEdits = Edits.TestCase


TestEdits.settings = settings(
    max_examples=60,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
