"""The laws of SEMANTICS section 5 where there are cycles, with edges of weight 0 among them, on every kernel.

Laws 1 to 5 and 11 on cyclic graphs: ``test_kernels``, ``test_worlds``, ``test_conformance``; 8 and 9:
``test_kernels`` and ``test_graph``; 10: ``test_resident``; 12 by torch: ``test_torch``.
"""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import datetime, timedelta, timezone

import numpy as np
import oracle
import pytest
from edge_arrays import columns, topology_of
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from validity_graph import ValidityGraph, kernels
from validity_graph.kernels.adjoint import gradient
from validity_graph.kernels.worlds import exact, worlds
from validity_graph.resident import ResidentGraph
from validity_graph.topology import build_topology

COARSE = st.sampled_from([0.0, 0.0, 0.1, 0.3, 0.5, 0.8, 1.0])
LAWS = settings(max_examples=120, deadline=None)


def by_backend(backend):
    def solve(n, edges, direct, premise=None):
        return kernels.propagate(topology_of(n, edges, premise), direct, backend=backend).invalidity

    return solve


def by_exact(n, edges, direct, premise=None):
    topology = topology_of(n, edges, premise)
    return np.array([exact(topology, direct, v) for v in range(n)])


def by_worlds(n, edges, direct, premise=None):
    return worlds(topology_of(n, edges, premise), direct, samples=64).invalidity


def resident(n, edges, direct, premise=None):
    """The edges come one by one, at first with the weight that they do not have; then d comes."""
    graph = ResidentGraph()
    graph.append_many(n, premise=[False] * n if premise is None else premise)
    for s, t, w, kind, group in edges:
        added = graph.add_edges(
            source=[s], target=[t], weight=1.0 - w, supports=kind == "supports", justification=group
        )
        graph.set_weight(added, w)
    graph.set_direct(np.arange(n), direct)
    return graph.invalidity


def resident_at_once(n, edges, direct, premise=None):
    return ResidentGraph.from_arrays(n, **columns(edges), premise=premise, direct=direct).invalidity


KERNELS = {
    "numpy": by_backend("numpy"),
    "numba": by_backend("numba"),
    "torch": by_backend("torch"),
    "exact": by_exact,
    "worlds": by_worlds,
    "resident": resident,
    "resident at once": resident_at_once,
}
FIELD = ["numpy", "numba"]


@st.composite
def problems(draw, *, values=COARSE, kinds=("requires", "supports", "supports"), most=6, at_least=0):
    """(node_count, edges as oracle tuples, direct, premise), cycles likely."""
    n = draw(st.integers(2, most))
    node = st.integers(0, n - 1)
    ends = st.tuples(node, node).filter(lambda pair: pair[0] != pair[1])
    role = st.tuples(values, st.sampled_from(kinds), st.sampled_from([-1, -1, 0, 1]))
    raw = draw(st.lists(st.tuples(ends, role), min_size=at_least, max_size=2 * n + 2))
    edges = [(s, t, w, kind, group) for (s, t), (w, kind, group) in raw]
    direct = draw(st.lists(st.one_of(st.just(0.0), values), min_size=n, max_size=n))
    premise = draw(st.lists(st.sampled_from([False, False, True]), min_size=n, max_size=n))
    return n, edges, direct, premise


def certain(edges):
    return [(s, t, 1.0, kind, -1) for s, t, kind in edges]


def supports(*pairs):
    return certain([(s, t, "supports") for s, t in pairs])


#: A loop 0 <-> 1, a loop 2 <-> 3, and 0 as the reason of 2 outside of the second one.
TWO_LOOPS = supports((0, 1), (1, 0), (0, 2), (2, 3), (3, 2))
FIRST_FALLS = [1.0, 0.0, 0.0, 0.0]


# --- what is in a cycle, and what is not -------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS)
@given(problem=problems(values=st.sampled_from([0.0, 1.0, 1.0])))
@example(problem=(4, [*TWO_LOOPS, (3, 0, 0.0, "supports", -1)], FIRST_FALLS, [False] * 4))
@example(problem=(4, [*TWO_LOOPS, (2, 0, 0.0, "requires", -1)], FIRST_FALLS, [False] * 4))
@example(problem=(4, [*TWO_LOOPS, (2, 0, 1.0, "requires", -1)], FIRST_FALLS, [False] * 4))
@settings(max_examples=80, deadline=None)
def test_certain_edges_and_edges_of_weight_0_give_the_standing_set(kernel, problem):
    n, edges, direct, premise = problem
    present = [e for e in edges if e[2] > 0]
    overturned = {v for v in range(n) if direct[v]}
    stands = oracle.standing(n, present, overturned, component=oracle.components(n, edges), premise=premise)
    found = KERNELS[kernel](n, edges, direct, premise)
    assert found.tolist() == [0.0 if v in stands else 1.0 for v in range(n)]


@given(problems(values=st.sampled_from([0.0, 0.5, 0.8, 1.0, 1.0]), most=5))
@settings(max_examples=80, deadline=None)
def test_exact_and_worlds_are_those_of_the_oracle_with_edges_of_weight_0(problem):
    n, edges, direct, premise = problem
    assume(sum(0 < w < 1 for w in [e[2] for e in edges] + direct) <= 8)
    wanted = np.array(oracle.worlds_invalidity(n, edges, direct=direct, premise=premise))
    assert by_exact(n, edges, direct, premise) == pytest.approx(wanted, abs=1e-12)
    sampled = worlds(topology_of(n, edges, premise), direct, samples=20_000, seed=1).invalidity
    error = np.sqrt(wanted * (1 - wanted) / 20_000)
    assert np.all(np.abs(sampled - wanted) <= 5 * error + 1e-12)


@pytest.mark.parametrize("backend", ["numpy", "numba", "torch"])
@given(problem=problems())
@settings(max_examples=60, deadline=None)
def test_an_edge_of_weight_0_changes_no_value(backend, problem):
    n, edges, direct, premise = problem
    one = kernels.propagate(topology_of(n, edges, premise), direct, backend=backend)
    other = kernels.propagate(
        topology_of(n, [e for e in edges if e[2] > 0], premise), direct, backend=backend
    )
    assume(one.converged and other.converged)
    assert np.allclose(one.invalidity, other.invalidity, rtol=0, atol=1e-9)


@given(problem=problems(), others=st.data())
@settings(max_examples=60, deadline=None)
def test_one_torch_plan_serves_any_weights(problem, others):
    """Which edges have a weight may change from call to call: zeros become positive and the reverse."""
    import torch

    from validity_graph.kernels import on_torch
    from validity_graph.kernels.torch_plan import Plan

    n, edges, direct, premise = problem
    plan_edges = [(s, t, others.draw(COARSE), kind, group) for s, t, _, kind, group in edges]
    topology = topology_of(n, plan_edges, premise)
    names = columns(edges)
    weight = names.pop("weight")
    order = on_torch.edge_order(topology, **names)
    if len({(s, t, kind, group) for s, t, _, kind, group in edges}) < len(edges):
        return  # Parallel edges stand in the order of their weights.
    given_weight = torch.as_tensor(weight[order])
    found, _, converged = on_torch.noisy_or_rounds(
        Plan(topology), torch.tensor(direct, dtype=torch.float64), weight=given_weight
    )
    wanted = kernels.propagate(topology_of(n, edges, premise), direct)
    assume(converged and wanted.converged)
    assert np.allclose(found.numpy(), wanted.invalidity, rtol=0, atol=1e-9)


@pytest.mark.parametrize("backend", FIELD)
def test_weight_0_leaves_an_acyclic_graph_exact_to_the_last_bit(backend):
    rng = np.random.default_rng(2)
    chain = [(v, v + 1, float(rng.random()), "requires", -1) for v in range(50)]
    direct = np.where(np.arange(51) % 7 == 0, rng.random(51), 0.0)
    wanted = kernels.propagate(topology_of(51, chain), direct, backend=backend).invalidity
    closed = topology_of(51, [*chain, (50, 0, 0.0, "requires", -1)])
    assert kernels.propagate(closed, direct, backend=backend).invalidity.tolist() == wanted.tolist()


# --- laws --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["numpy", "numba", "exact"])
@given(problem=problems(most=5), data=st.data())
@settings(max_examples=100, deadline=None)
def test_law_6_a_requirement_more_never_lowers_any_invalidity(kernel, problem, data):
    n, edges, direct, premise = problem
    u, v = data.draw(st.permutations(range(n)))[:2]
    more = [*edges, (u, v, data.draw(COARSE), "requires", -1)]
    if kernel == "exact":
        assume(sum(0 < w < 1 for w in [e[2] for e in more] + direct) <= 9)
        before, after = by_exact(n, edges, direct, premise), by_exact(n, more, direct, premise)
    else:
        one = kernels.propagate(topology_of(n, edges, premise), direct, backend=kernel)
        other = kernels.propagate(topology_of(n, more, premise), direct, backend=kernel)
        assume(one.converged and other.converged)
        before, after = one.invalidity, other.invalidity
    assert np.all(after >= before - 1e-8)


@pytest.mark.parametrize("kernel", KERNELS)
def test_law_6_where_a_requirement_joins_two_loops(kernel):
    """One component, no premise outside it; and yet the second loop has lost the reason outside of it."""
    assert KERNELS[kernel](4, TWO_LOOPS, FIRST_FALLS).tolist() == [1.0] * 4
    joined = [*TWO_LOOPS, (2, 0, 1.0, "requires", -1)]
    assert KERNELS[kernel](4, joined, FIRST_FALLS).tolist() == [1.0] * 4
    # A support does join them: each is a reason of the other, and nothing outside ever held them up.
    one_loop = [*TWO_LOOPS, *supports((3, 0))]
    assert KERNELS[kernel](4, one_loop, FIRST_FALLS).tolist() == [1.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize("backend", FIELD)
@given(problem=problems(), data=st.data())
@LAWS
def test_law_6_one_certain_valid_support_more(backend, problem, data):
    n, edges, direct, premise = problem
    v = data.draw(st.integers(0, n - 1))
    # Memory n stands for certain and supports v.
    safe = [*edges, (n, v, 1.0, "supports", -1)]
    after = KERNELS[backend](n + 1, safe, [*direct, 0.0], [*premise, True])
    required = oracle.any_of(w * after[s] for s, t, w, kind, _ in edges if t == v and kind == "requires")
    assert math.isclose(after[v], 1 - (1 - direct[v]) * (1 - required), abs_tol=1e-8)


@pytest.mark.parametrize("backend", FIELD)
@given(
    start=st.sampled_from([0.1, 0.5, 1.0]),
    links=st.lists(st.tuples(COARSE, st.booleans()), min_size=1, max_size=8),
    back=st.integers(0, 7),
)
@LAWS
def test_law_7_a_chain_that_leaves_a_cycle(backend, start, links, back):
    """Behind the cycle 0 -> ... -> back -> 0, invalidity is that of its last member times the weights."""
    back = min(back, len(links) - 1) + 1
    n = len(links) + 1
    edges = [(v, v + 1, w, "supports" if role else "requires", -1) for v, (w, role) in enumerate(links)]
    edges.append((back, 0, 0.5, "requires", -1))
    value = KERNELS[backend](n, edges, [start] + [0.0] * (n - 1))
    for k in range(back, n):
        strengths = [value[back], *(w for w, _ in links[back:k])]
        assert math.isclose(value[k], math.prod(strengths), abs_tol=1e-9)
        assert value[k] <= min(strengths) + 1e-9


@given(problem=problems())
@LAWS
def test_law_9_the_same_edge_is_one_edge(problem):
    n, edges, direct, premise = problem
    graph = ValidityGraph.open()
    for v in range(n):
        graph.add(f"m{v}", f"memory {v}", premise=premise[v])
    said = [(f"m{s}", f"m{t}", kind, w, f"p{k}") for k, (s, t, w, kind, _) in enumerate(edges)]
    for source, target, kind, weight, proposition in said:
        graph.connect(source, target, type=kind, weight=weight, proposition=proposition)
    for v in range(n):
        graph.invalidate(f"m{v}", direct[v])
    before = {id: found.invalidity for id, found in graph.check().items()}
    for source, target, kind, weight, proposition in reversed(said):
        graph.connect(source, target, type=kind, weight=weight, proposition=proposition)
    assert {id: found.invalidity for id, found in graph.check().items()} == before


@given(problem=problems(values=st.sampled_from([0.0, 0.1, 0.2]), most=4), data=st.data())
@settings(max_examples=40, deadline=None)
def test_law_12_the_adjoint_equals_differences_to_the_right(problem, data):
    """Weights at 0 included, where they close no loop of supports: there the fixpoint itself jumps."""
    n, edges, direct, premise = problem
    edges = [e for e in edges if not (e[3] == "supports" and premise[e[1]])]
    assume(edges)
    topology = topology_of(n, edges, premise)
    target = data.draw(st.integers(0, n - 1))
    d = np.array(direct)
    order = topology.order
    value = kernels.propagate(topology, d).invalidity
    moved = gradient(topology, d[order], value[order], target=int(topology.rank[target]))
    step = 1e-6
    for v in range(n):
        raised = d.copy()
        raised[v] += step
        difference = (kernels.propagate(topology, raised).invalidity[target] - value[target]) / step
        assert moved.by_direct[topology.rank[v]] == pytest.approx(difference, abs=1e-4)
    loop = oracle.components(n, edges)
    for e in range(topology.weight.size):
        weight = topology.weight.copy()
        weight[e] += step
        row = int(np.searchsorted(topology.indptr, e, side="right")) - 1
        raised = [
            (int(order[topology.source[i]]), int(order[r]), float(weight[i]), kind, -1)
            for r in range(n)
            for i in range(topology.indptr[r], topology.indptr[r + 1])
            for kind in ["requires" if i < topology.requires_end[r] else "supports"]
        ]
        if e >= topology.requires_end[row] and oracle.components(n, raised) != loop:
            continue
        after = kernels.propagate(replace(topology, weight=weight), d).invalidity[target]
        assert moved.by_weight[e] == pytest.approx((after - value[target]) / step, abs=1e-4)


@pytest.mark.parametrize("backend", FIELD)
@given(problem=problems(kinds=("requires",), most=5))
@settings(max_examples=80, deadline=None)
def test_law_13_strongest_path_exact_and_noisy_or_are_in_order(backend, problem):
    n, edges, direct, _ = problem
    assume(sum(0 < w < 1 for w in [e[2] for e in edges] + direct) <= 9)
    found = kernels.propagate(topology_of(n, edges), direct, backend=backend)
    assume(found.converged)
    between = by_exact(n, edges, direct)
    assert np.all(np.array(oracle.strongest_path(n, edges, direct)) <= between + 1e-12)
    assert np.all(between <= found.invalidity + 1e-8)


@given(problem=problems(), weight=st.sampled_from([0.1, 0.5, 1.0]), data=st.data())
@settings(max_examples=60, deadline=None)
def test_law_14_reinstatement_in_a_cycle(problem, weight, data):
    n, edges, direct, premise = problem
    graph = cyclic_store(n, edges, direct, premise)
    before = invalidity(graph)
    graph.add("s", "source", time="2025-03-01")
    graph.connect("s", f"m{data.draw(st.integers(0, n - 1))}", type="overturns", weight=weight)
    graph.add("r", "taken back", time="2025-03-02", retracts=["s"])
    after = invalidity(graph)
    assert {id: after[id] for id in before} == before


@given(problem=problems(), cut=st.integers(0, 7))
@settings(max_examples=60, deadline=None)
def test_law_15_as_of_in_a_cycle(problem, cut):
    n, edges, direct, premise = problem
    graph = cyclic_store(n, edges, direct, premise)
    known = min(cut, n)
    inner = [e for e in edges if e[0] < known and e[1] < known]
    alone = cyclic_store(known, inner, direct, premise)
    moment = datetime(2025, 1, 1, tzinfo=timezone.utc) + timedelta(days=known - 1, hours=1)
    assert invalidity(graph.as_of(moment)) == invalidity(alone.as_of(moment))


def cyclic_store(n, edges, direct, premise):
    graph = ValidityGraph.open()
    for v in range(n):
        time = datetime(2025, 1, 1, tzinfo=timezone.utc) + timedelta(days=v)
        graph.add(f"m{v}", f"memory {v}", time=time, premise=premise[v])
        graph.add(f"e{v}", f"evidence {v}", time=time + timedelta(minutes=1))
        graph.connect(f"e{v}", f"m{v}", type="overturns", weight=direct[v])
    for k, (s, t, w, kind, group) in enumerate(edges):
        name = "" if group < 0 else str(group)
        graph.connect(f"m{s}", f"m{t}", type=kind, weight=w, justification=name, proposition=f"p{k}")
    return graph


def invalidity(graph):
    return {id: found.invalidity for id, found in graph.check().items()}


# --- convergence -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["requires", "supports", "mixed"])
@pytest.mark.parametrize(("backend", "n"), [("numba", 300_000), ("numpy", 30_000)])
def test_a_ring_larger_than_the_rounds_settles_in_a_few(backend, n, kind):
    order = np.random.default_rng(4).permutation(n)
    role = np.full(n, kind == "supports")
    if kind == "mixed":
        role[::2] = True
    topology = build_topology(
        n + 1,
        source=np.append(order, n),
        target=np.append(np.roll(order, -1), order[1]),
        weight=np.ones(n + 1),
        supports=np.append(role, True),
        justification=np.full(n + 1, -1),
        dtype=np.float64,
    )
    direct = np.zeros(n + 1)
    direct[order[n // 3]] = 1.0
    found = kernels.propagate(topology, direct, backend=backend)
    assert found.converged
    assert found.rounds <= 10
    failed = np.ones(n + 1)
    failed[n] = 0.0
    if kind != "requires":
        # The support from outside holds up what lies between it and the place that was hit.
        failed[order[1 : n // 3]] = 0.0
    assert np.array_equal(found.invalidity, failed)
