"""Possible worlds: sampling and enumeration against the oracle, on acyclic and cyclic graphs."""

from __future__ import annotations

import numpy as np
import oracle
import pytest
from edge_arrays import topology_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from validity_graph.errors import CycleError, InputError
from validity_graph.kernels.worlds import exact, worlds
from validity_graph.topology import DirectEvidence

KINDS = ("supersedes", "retracts", "confirms")
WEIGHT = st.sampled_from([0.125, 0.3, 0.5, 0.75, 1.0, 1.0])
QUICK = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def evidence_of(nodes, evidence, trust=None):
    source, target, weight, kind, age, channel = (
        (list(column) for column in zip(*evidence, strict=True)) if evidence else ([],) * 6
    )
    return DirectEvidence(
        source=np.array(source, dtype=np.int32),
        target=np.array(target, dtype=np.int32),
        weight=np.array(weight, dtype=np.float64),
        kind=np.array([KINDS.index(k) for k in kind], dtype=np.uint8),
        age=np.array(age, dtype=np.int64),
        channel=np.array(channel, dtype=np.int32),
        trust=np.ones(nodes) if trust is None else np.array(trust, dtype=np.float64),
    )


def uncertain(weights, most):
    return sum(0 < w < 1 for w in weights) <= most


@st.composite
def graphs(draw, cyclic=True, kinds=("requires", "supports"), most_nodes=6, most_edges=9):
    """``(nodes, edges, direct, premise)`` with at most 9 uncertain numbers."""
    nodes = draw(st.integers(1, most_nodes))
    ends = st.tuples(st.integers(0, nodes - 1), st.integers(0, nodes - 1)).filter(
        lambda pair: pair[0] != pair[1] if cyclic else pair[0] < pair[1]
    )
    edge = st.tuples(ends, WEIGHT, st.sampled_from(kinds), st.sampled_from([-1, -1, 0, 1]))
    edges = draw(st.lists(edge, max_size=most_edges)) if nodes > 1 else []
    edges = [(s, t, w, kind, group) for (s, t), w, kind, group in edges]
    direct = draw(st.lists(st.sampled_from([0.0, 0.0, 0.3, 0.5, 1.0]), min_size=nodes, max_size=nodes))
    premise = draw(st.lists(st.booleans(), min_size=nodes, max_size=nodes)) if draw(st.booleans()) else None
    if not uncertain([e[2] for e in edges] + direct, 9):
        edges = [(s, t, 1.0, kind, group) for s, t, _, kind, group in edges]
    return nodes, edges, direct, premise


@st.composite
def spoken(draw, nodes):
    """Evidence tuples and trust over ``nodes`` memories; retractions run from larger to smaller numbers."""
    ends = st.tuples(st.integers(0, nodes - 1), st.integers(0, nodes - 1)).filter(
        lambda pair: pair[0] > pair[1]
    )
    statement = st.tuples(ends, WEIGHT, st.sampled_from(KINDS))
    said = draw(st.lists(statement, max_size=5)) if nodes > 1 else []
    channel = draw(st.lists(st.sampled_from([-1, -1, 0, 1]), min_size=nodes, max_size=nodes))
    # Some sources are equally old, so that "strictly older" is put to the test.
    age = draw(st.lists(st.integers(0, 3), min_size=nodes, max_size=nodes))
    trust = draw(st.lists(st.sampled_from([1.0, 1.0, 0.5, 0.0]), min_size=nodes, max_size=nodes))
    return [(s, t, w, kind, age[s], channel[s]) for (s, t), w, kind in said], trust


@st.composite
def told_graphs(draw):
    nodes, edges, _, premise = draw(graphs(most_edges=5))
    evidence, trust = draw(spoken(nodes))
    if not uncertain([e[2] for e in edges] + [e[2] for e in evidence] + trust, 9):
        edges = [(s, t, 1.0, kind, group) for s, t, _, kind, group in edges]
    return nodes, edges, evidence, trust, premise


@QUICK
@given(graphs())
def test_exact_is_the_enumeration_of_the_oracle(graph):
    nodes, edges, direct, premise = graph
    topology = topology_of(nodes, edges, premise)
    wanted = oracle.worlds_invalidity(nodes, edges, direct=direct, premise=premise)
    assert [exact(topology, direct, v) for v in range(nodes)] == pytest.approx(wanted, abs=1e-12)


@QUICK
@given(told_graphs())
def test_exact_shares_evidence_as_the_oracle_does(graph):
    nodes, edges, evidence, trust, premise = graph
    topology = topology_of(nodes, edges, premise)
    wanted = oracle.worlds_invalidity(nodes, edges, evidence=evidence, trust=trust, premise=premise)
    given_edges = evidence_of(nodes, evidence, trust)
    assert [exact(topology, given_edges, v) for v in range(nodes)] == pytest.approx(wanted, abs=1e-12)


def within_four_errors(result, wanted):
    wanted = np.array(wanted)
    error = np.sqrt(wanted * (1 - wanted) / result.samples)
    # A certain memory must be hit in every world or in none, up to rounding of the oracle's sum.
    return np.abs(result.invalidity - wanted) <= 4 * error + 1e-12


@settings(QUICK, derandomize=True)
@given(graphs(), st.integers(0, 2**32))
def test_worlds_agree_with_exact_within_four_errors(graph, seed):
    nodes, edges, direct, premise = graph
    topology = topology_of(nodes, edges, premise, dtype=np.float32)
    wanted = [exact(topology, direct, v) for v in range(nodes)]
    result = worlds(topology, direct, samples=20_000, seed=seed)
    assert result.samples == 20_000
    assert within_four_errors(result, wanted).all()


@settings(QUICK, derandomize=True)
@given(told_graphs(), st.integers(0, 2**32))
def test_worlds_share_evidence_within_four_errors(graph, seed):
    nodes, edges, evidence, trust, premise = graph
    topology = topology_of(nodes, edges, premise)
    wanted = oracle.worlds_invalidity(nodes, edges, evidence=evidence, trust=trust, premise=premise)
    result = worlds(topology, evidence_of(nodes, evidence, trust), samples=20_000, seed=seed)
    assert within_four_errors(result, wanted).all()


@QUICK
@given(graphs(cyclic=False, kinds=("requires",)))
def test_on_requirements_strongest_path_exact_and_noisy_or_are_in_order(graph):
    nodes, edges, direct, _ = graph
    topology = topology_of(nodes, edges)
    value = np.array([exact(topology, direct, v) for v in range(nodes)])
    assert (np.array(oracle.strongest_path(nodes, edges, direct)) <= value + 1e-12).all()
    assert (value <= np.array(oracle.mean_field(nodes, edges, direct)) + 1e-12).all()


@QUICK
@given(graphs(), st.integers(0, 2**32))
def test_no_evidence_no_invalidity(graph, seed):
    nodes, edges, _, premise = graph
    topology = topology_of(nodes, edges, premise)
    result = worlds(topology, np.zeros(nodes), samples=200, seed=seed)
    assert not result.invalidity.any() and not result.standard_error.any()
    assert all(exact(topology, np.zeros(nodes), v) == 0 for v in range(nodes))


def random_graph(nodes, seed, cyclic):
    rng = np.random.default_rng(seed)
    edges = []
    for _ in range(3 * nodes):
        s, t = (int(v) for v in rng.integers(0, nodes, 2))
        if s != t and (cyclic or s < t):
            kind = "requires" if rng.random() < 0.3 else "supports"
            edges.append((s, t, float(rng.random()), kind, int(rng.integers(-1, 3))))
    return edges, np.where(rng.random(nodes) < 0.2, rng.random(nodes), 0.0)


@pytest.mark.parametrize("cyclic", [False, True])
def test_the_number_of_threads_changes_nothing(cyclic):
    edges, direct = random_graph(300, 5, cyclic)
    topology = topology_of(300, edges)
    one = worlds(topology, direct, samples=40_001, seed=11, threads=1)
    three = worlds(topology, direct, samples=40_001, seed=11, threads=3)
    other = worlds(topology, direct, samples=40_001, seed=12, threads=3)
    np.testing.assert_array_equal(one.invalidity, three.invalidity)
    assert (one.invalidity != other.invalidity).any()


@pytest.mark.parametrize("cyclic", [False, True])
def test_large_worlds_match_the_oracle_world_by_world(cyclic):
    """With certain numbers only there is one world: graphs too large to enumerate are compared in full."""
    for seed in range(30):
        edges, direct = random_graph(60, seed, cyclic)
        rng = np.random.default_rng(seed)
        edges = [e[:2] + (1.0,) + e[3:] for e in edges if rng.random() < 0.6]
        overturned = {int(v) for v in np.flatnonzero(direct)}
        stands = oracle.standing(60, edges, overturned, component=oracle.components(60, edges))
        result = worlds(topology_of(60, edges), (direct > 0).astype(float), samples=64)
        assert {v for v in range(60) if result.invalidity[v] == 0} == stands


def test_words_of_one_coin_are_fair_and_independent():
    """Shares over many coins, and between pairs of coins, spread as independent fair draws would."""
    count, samples = 4_000, 32_768
    probability = np.random.default_rng(3).random(count)
    result = worlds(topology_of(count, []), probability, samples=samples, seed=8)
    z = (result.invalidity - probability) / np.sqrt(probability * (1 - probability) / samples)
    assert abs(z.mean()) < 4 / np.sqrt(count) and abs(z.var() - 1) < 4 * np.sqrt(2 / count)
    # Conjunctions of two neighbouring coins: a memory that requires 2i fails, or 2i + 1 fails.
    pairs = count // 2
    edges = [(2 * i + side, count + i, 1.0, "supports", -1) for i in range(pairs) for side in (0, 1)]
    both = probability[0::2] * probability[1::2]
    direct = np.concatenate([probability, np.zeros(pairs)])
    result = worlds(topology_of(count + pairs, edges), direct, samples=samples, seed=9)
    z = (result.invalidity[count:] - both) / np.sqrt(both * (1 - both) / samples)
    assert abs(z.mean()) < 4 / np.sqrt(pairs) and abs(z.var() - 1) < 4 * np.sqrt(2 / pairs)


def test_small_probabilities_are_met_too():
    probability = np.array([2.0**-12, 1e-4, 1 - 2.0**-12])
    result = worlds(topology_of(3, []), probability, samples=1 << 22, seed=4)
    assert within_four_errors(result, probability).all()


def test_it_stops_at_the_wanted_precision():
    topology = topology_of(2, [(0, 1, 0.5, "requires", -1)])
    result = worlds(topology, [0.5, 0.0], samples=10**8, precision=0.002)
    assert result.standard_error.max() <= 0.002 and result.samples < 200_000
    assert result.invalidity == pytest.approx([0.5, 0.25], abs=0.01)


def test_the_standard_error_is_honest():
    """Over many seeds the share of estimates within two standard errors is about 95 percent."""
    topology = topology_of(2, [(0, 1, 0.3, "requires", -1)])
    inside = 0
    for seed in range(400):
        result = worlds(topology, [0.4, 0.0], samples=1_000, seed=seed)
        inside += abs(result.invalidity[1] - 0.12) <= 2 * result.standard_error[1]
    assert 0.92 <= inside / 400 <= 0.985


def test_a_cone_at_the_limit_and_one_beyond_it():
    def star(leaves):
        edges = [(v, leaves, 0.5, "requires", -1) for v in range(leaves)]
        return topology_of(leaves + 1, edges), np.append(np.full(leaves, 0.25), 0.0)

    topology, direct = star(12)
    assert exact(topology, direct, 12) == pytest.approx(1 - (1 - 0.125) ** 12, abs=1e-12)
    topology, direct = star(13)
    with pytest.raises(InputError, match=r"26 uncertain coins, more than limit=24.*worlds"):
        exact(topology, direct, 13)
    # What evidence cannot reach needs no coin.
    direct[1:] = 0.0
    assert exact(topology, direct, 13) == pytest.approx(0.125, abs=1e-15)


def test_shared_evidence_is_counted_once():
    """One uncertain source against two prerequisites: mean field takes them for independent."""
    topology = topology_of(4, [(0, 2, 1.0, "supports", -1), (1, 2, 1.0, "supports", -1)])
    evidence = evidence_of(
        4, [(3, 0, 1.0, "supersedes", 1, -1), (3, 1, 1.0, "supersedes", 1, -1)], trust=[1, 1, 1, 0.5]
    )
    assert exact(topology, evidence, 2) == 0.5


def test_a_chain_of_retractions_alternates():
    count = 2_001
    said = [(v + 1, v, 1.0, "retracts", v, -1) for v in range(count - 1)]
    result = worlds(topology_of(count, []), evidence_of(count, said), samples=64)
    # The last word has force, so the one before it has none, and so on: every memory is spoken against
    # by the next one, and that counts where the next one has force.
    assert result.invalidity.tolist() == [float((count - 1 - v) % 2) for v in range(count)]
    assert exact(topology_of(count, []), evidence_of(count, said), 1) == 1.0


def test_reinstatement_and_confirmation():
    topology = topology_of(4, [(0, 1, 1.0, "requires", -1)])
    said = [(2, 0, 1.0, "supersedes", 1, -1)]
    assert exact(topology, evidence_of(4, said), 1) == 1.0
    retracted = [*said, (3, 2, 1.0, "retracts", 2, -1)]
    assert exact(topology, evidence_of(4, retracted), 1) == 0.0
    confirmed = [*said, (3, 0, 0.75, "confirms", 2, -1)]
    assert exact(topology, evidence_of(4, confirmed), 1) == 0.25
    no_older = [*said, (3, 0, 1.0, "confirms", 1, -1)]
    assert exact(topology, evidence_of(4, no_older), 1) == 1.0


def test_repetition_in_one_channel_is_not_corroboration():
    topology = topology_of(4, [])
    said = [(v, 0, 0.5, "supersedes", 1, 7) for v in (1, 2, 3)]
    assert exact(topology, evidence_of(4, said), 0) == 0.5
    assert exact(topology, evidence_of(4, said, trust=[1, 0.5, 0.5, 0.5]), 0) == 0.25
    alone = [(s, t, w, kind, age, -1) for s, t, w, kind, age, _ in said]
    assert exact(topology, evidence_of(4, alone), 0) == 0.875


@pytest.mark.parametrize("kind", ["requires", "supports"])
def test_a_deep_chain_neither_recurses_nor_blows_up(kind):
    count = 200_000
    edges = [(v, v + 1, 1.0, kind, -1) for v in range(count - 1)]
    direct = np.zeros(count)
    direct[0] = 0.5
    topology = topology_of(count, edges)
    assert exact(topology, direct, count - 1) == 0.5
    result = worlds(topology, direct, samples=64)
    assert (result.invalidity == result.invalidity[0]).all() and 0 < result.invalidity[0] < 1


@pytest.mark.parametrize("kind", ["requires", "supports"])
def test_a_large_cycle_settles(kind):
    count = 50_000
    order = np.random.default_rng(0).permutation(count)
    edges = [(int(order[i - 1]), int(order[i]), 1.0, kind, -1) for i in range(count)]
    direct = np.zeros(count)
    direct[7] = 0.5
    result = worlds(topology_of(count, edges), direct, samples=128)
    assert (result.invalidity == result.invalidity[7]).all() and 0 < result.invalidity[7] < 1


def test_bad_input_is_refused():
    topology = topology_of(2, [(0, 1, 1.0, "requires", -1)])
    with pytest.raises(InputError, match="samples=0"):
        worlds(topology, [0, 0], samples=0)
    with pytest.raises(InputError, match="precision=0"):
        worlds(topology, [0, 0], precision=0)
    with pytest.raises(InputError, match=r"direct\[1\]=1.5"):
        worlds(topology, [0, 1.5])
    with pytest.raises(InputError, match=r"direct\[0\]=nan"):
        exact(topology, [np.nan, 0], 0)
    with pytest.raises(InputError, match="2 memories"):
        exact(topology, [0.0], 0)
    with pytest.raises(InputError, match="node=2"):
        exact(topology, [0, 0], 2)
    loop = [(0, 1, 1.0, "retracts", 0, -1), (1, 0, 1.0, "retracts", 0, -1)]
    with pytest.raises(CycleError, match="cycle"):
        worlds(topology, evidence_of(2, loop))
