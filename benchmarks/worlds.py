"""How fast possible worlds are sampled, and how far each answer to "how invalid?" is from the exact one.

``python -m benchmarks.worlds [--seeds 0 1 2] [--quick] [--json OUT]`` prints four tables:

* rate: edge-worlds a second (edges times sampled worlds over wall time, warm, median of repeats) on random
  and local graphs, requirements and supports, with evidence on every memory and on one in ten;
* peers: the same small graph in ProbLog (sampling and exact) and pgmpy (forward sampling and variable
  elimination over noisy-or tables); ``worst error`` is against our own enumeration;
* agreement: sampled against enumerated invalidity in standard errors, over many small graphs;
* mean field: distance of noisy-or from the exact value by graph family, and how often the interval
  [strongest path, noisy-or] holds that value: always, on requirements only (SEMANTICS section 4).

In ``summary``, ``edge_worlds_per_s`` is the lowest rate of the first table and ``speedup_problog`` our rate
over that of ProbLog's sampler on the graph that both ran.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from benchmarks import reporting
from synthetic import graphs
from synthetic.graphs import Graph
from validity_graph import kernels
from validity_graph.credit import min_credit
from validity_graph.kernels.worlds import exact, worlds
from validity_graph.topology import Topology, build_topology

Row = dict[str, Any]
Values = NDArray[np.float64]
Family = Callable[..., Graph]
#: Small enough to enumerate: at most 24 uncertain numbers.
FAMILIES: dict[str, Family] = {
    "tree": partial(graphs.tree, 14),
    "layered": partial(graphs.layered, 3, 3, 2),
    "diamond-rich": partial(graphs.diamonds, 3, 3),
}


def built(graph: Graph) -> Topology:
    return build_topology(graph.node_count, **graph.edges(), dtype=np.float64)


def evidence(graph: Graph, share: float, rng: Generator) -> Values:
    """Independent direct evidence on about ``share`` of the memories."""
    return np.where(rng.random(graph.node_count) < share, rng.random(graph.node_count), 0.0)


def cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def seconds(work: Callable[[], object], *, repeats: int) -> float:
    """Median wall time of ``work``, after one run that warms it up."""
    work()
    taken = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return median(taken)


def rates(seed: int, *, nodes: int, repeats: int) -> list[Row]:
    rows = []
    edges, samples = 5 * nodes, 8_192
    for name, family in (("random", graphs.random_dag), ("local", graphs.local_dag)):
        for role, supports in (("requires", 0.0), ("half supports", 0.5)):
            rng = np.random.default_rng(seed)
            graph = family(nodes, edges, rng=rng, supports=supports, group_size=2)
            topology = built(graph)
            for share in (1.0, 0.1):
                direct = evidence(graph, share, rng)
                for threads in sorted({1, cores()}):
                    run = partial(worlds, topology, direct, samples=samples, seed=seed, threads=threads)
                    taken = seconds(run, repeats=repeats)
                    rows.append(
                        {
                            "graph": name,
                            "edges are": role,
                            "seed": seed,
                            "nodes": nodes,
                            "edges": edges,
                            "evidence on": share,
                            "threads": threads,
                            "worlds": samples,
                            "seconds": taken,
                            "edge_worlds_per_s": edges * samples / taken,
                        }
                    )
    return rows


def problog_program(graph: Graph, direct: Values) -> str:
    """Return the requires-only graph and its evidence as a ProbLog program that queries every memory."""
    facts = [f"{p!r}::direct({v})." for v, p in enumerate(direct.tolist()) if p > 0]
    triples = zip(graph.source.tolist(), graph.target.tolist(), graph.weight.tolist(), strict=True)
    # The number tells parallel edges apart.
    facts += [f"{w!r}::edge({e},{s},{t})." for e, (s, t, w) in enumerate(triples)]
    rules = ["fails(V) :- direct(V).", "fails(V) :- edge(_,U,V), fails(U)."]
    return "\n".join([*facts, *rules, *(f"query(fails({v}))." for v in range(graph.node_count))])


def by_memory(answer: dict[Any, float], count: int) -> Values:
    """Probability by memory from ProbLog's answer; what it does not mention cannot fail."""
    values = np.zeros(count)
    for term, probability in answer.items():
        values[int(term.args[0])] = float(probability)
    return values


def problog_sampled(graph: Graph, direct: Values, *, samples: int) -> tuple[float, Values]:
    from problog.program import PrologString
    from problog.tasks import sample

    program = PrologString(problog_program(graph, direct))
    start = time.perf_counter()
    drawn = sample.sample(program, n=samples, format="dict")
    count = np.zeros(graph.node_count)
    for world in drawn:
        count += by_memory({term: bool(value) for term, value in world.items()}, graph.node_count)
    return time.perf_counter() - start, count / samples


def problog_exact(graph: Graph, direct: Values) -> tuple[float, Values]:
    from problog import get_evaluatable
    from problog.program import PrologString

    program = PrologString(problog_program(graph, direct))
    start = time.perf_counter()
    answer = get_evaluatable("ddnnf").create_from(program).evaluate()
    return time.perf_counter() - start, by_memory(answer, graph.node_count)


def pgmpy_network(graph: Graph, direct: Values) -> Any:
    """Return the requires-only graph as a Bayesian network of noisy-or tables, state 1 = failed."""
    from pgmpy.factors.discrete import TabularCPD
    from pgmpy.models import DiscreteBayesianNetwork

    network = DiscreteBayesianNetwork()
    network.add_nodes_from(str(v) for v in range(graph.node_count))
    for v in range(graph.node_count):
        into = np.flatnonzero(graph.target == v)
        cause = np.unique(graph.source[into])
        stands = np.array([1.0 - direct[v]])
        for u in cause:
            # Parallel edges are one cause of their joint strength.
            kept = np.prod(1.0 - graph.weight[into[graph.source[into] == u]].astype(np.float64))
            stands = np.outer(stands, [1.0, kept]).ravel()
        network.add_edges_from((str(u), str(v)) for u in cause)
        parents = (
            {"evidence": [str(u) for u in cause], "evidence_card": [2] * cause.size} if cause.size else {}
        )
        network.add_cpds(TabularCPD(str(v), 2, np.stack([stands, 1.0 - stands]), **parents))
    return network


def pgmpy_sampled(graph: Graph, direct: Values, *, samples: int) -> tuple[float, Values]:
    from pgmpy.sampling import BayesianModelSampling

    network = pgmpy_network(graph, direct)
    start = time.perf_counter()
    drawn = BayesianModelSampling(network).forward_sample(size=samples, show_progress=False)
    failed = drawn[[str(v) for v in range(graph.node_count)]].to_numpy().astype(np.float64)
    return time.perf_counter() - start, failed.mean(axis=0)


def pgmpy_exact(graph: Graph, direct: Values) -> tuple[float, Values]:
    from pgmpy.inference import VariableElimination

    network = pgmpy_network(graph, direct)
    start = time.perf_counter()
    inference = VariableElimination(network)
    answer = [inference.query([str(v)], show_progress=False).values[1] for v in range(graph.node_count)]
    return time.perf_counter() - start, np.array(answer)


def peers(seed: int, *, samples: int) -> list[Row]:
    """One graph that everyone can do: four layers of four memories, evidence on the first."""
    rng = np.random.default_rng(seed)
    graph = graphs.layered(4, 4, 2, rng=rng)
    direct = np.where(np.arange(graph.node_count) < 4, rng.random(graph.node_count), 0.0)
    topology = built(graph)
    everyone = range(graph.node_count)
    start = time.perf_counter()
    wanted = np.array([exact(topology, direct, v, limit=28) for v in everyone])
    enumerated = time.perf_counter() - start
    many = 1 << 24
    ours = seconds(partial(worlds, topology, direct, samples=many, seed=seed), repeats=3)
    reached = worlds(topology, direct, samples=many, seed=seed).invalidity
    few = 100 * samples
    edges = graph.source.size
    found: list[tuple[str, float, Values, int | None]] = [
        ("validity_graph worlds", ours, reached, many),
        ("validity_graph exact", enumerated, wanted, None),
        ("problog sample", *problog_sampled(graph, direct, samples=samples), samples),
        ("problog exact (d-DNNF)", *problog_exact(graph, direct), None),
        ("pgmpy forward sampling", *pgmpy_sampled(graph, direct, samples=few), few),
        ("pgmpy variable elimination", *pgmpy_exact(graph, direct), None),
    ]
    return [
        {
            "engine": engine,
            "seed": seed,
            "nodes": graph.node_count,
            "edges": edges,
            "worlds": drawn,
            "seconds": taken,
            "edge_worlds_per_s": edges * drawn / taken if drawn else None,
            "worst error": float(np.abs(values - wanted).max()),
        }
        for engine, taken, values, drawn in found
    ]


def agreement(seeds: Sequence[int], *, graph_count: int, samples: int) -> list[Row]:
    rows = []
    for name, family in FAMILIES.items():
        for role, supports in (("requires", 0.0), ("half supports", 0.5)):
            z = []
            for number in range(graph_count):
                rng = np.random.default_rng([*seeds, number])
                graph = family(rng=rng, supports=supports)
                topology, direct = built(graph), roots(graph, rng)
                sampled = worlds(topology, direct, samples=samples, seed=rng)
                for v in range(graph.node_count):
                    value = exact(topology, direct, v, limit=28)
                    error = np.sqrt(value * (1 - value) / samples)
                    if error > 0:
                        z.append(abs(sampled.invalidity[v] - value) / error)
            rows.append(
                {
                    "family": name,
                    "edges are": role,
                    "graphs": graph_count,
                    "memories": len(z),
                    "worlds": samples,
                    "within 1 error": float(np.mean(np.array(z) <= 1)),
                    "within 2": float(np.mean(np.array(z) <= 2)),
                    "within 4": float(np.mean(np.array(z) <= 4)),
                    "most errors off": float(np.max(z)),
                }
            )
    return rows


def roots(graph: Graph, rng: Generator) -> Values:
    """Evidence on the memories that depend on nothing, at most four of them."""
    free = np.setdiff1d(np.arange(graph.node_count), graph.target)[:4]
    direct = np.zeros(graph.node_count)
    direct[free] = rng.random(free.size)
    return direct


def strongest_path(graph: Graph, direct: Values) -> Values:
    """Largest product of a root's evidence and the weights on one path from it; edges run upwards."""
    best = direct.copy()
    for e in np.argsort(graph.target, kind="stable"):
        best[graph.target[e]] = max(best[graph.target[e]], best[graph.source[e]] * graph.weight[e])
    return best


def mean_field(seeds: Sequence[int], *, graph_count: int) -> list[Row]:
    rows = []
    for name, family in FAMILIES.items():
        for role, supports in (("requires", 0.0), ("half supports", 0.5)):
            gap, width, inside = [], [], []
            for number in range(graph_count):
                rng = np.random.default_rng([*seeds, number])
                graph = family(rng=rng, supports=supports)
                topology, direct = built(graph), roots(graph, rng)
                high = kernels.propagate(topology, direct).invalidity
                low = strongest_path(graph, direct)
                for v in np.flatnonzero(high > 0).tolist():
                    value = exact(topology, direct, v, limit=28)
                    gap.append(high[v] - value)
                    width.append(high[v] - low[v])
                    inside.append(low[v] - 1e-9 <= value <= high[v] + 1e-9)
            rows.append(
                {
                    "family": name,
                    "edges are": role,
                    "memories": len(gap),
                    "mean |noisy_or - exact|": float(np.mean(np.abs(gap))),
                    "largest": float(np.max(np.abs(gap))),
                    "mean interval width": float(np.mean(width)),
                    "exact inside": float(np.mean(inside)),
                }
            )
    return rows


def credit_row(*, scores: int, episodes: int, repeats: int) -> Row:
    rng = np.random.default_rng(0)
    score = rng.random(scores)
    offset = np.concatenate([[0], np.sort(rng.integers(0, scores + 1, episodes - 1)), [scores]])
    taken = seconds(partial(min_credit, score, offset), repeats=repeats)
    return {"scores": scores, "episodes": episodes, "min_credit_ms": 1e3 * taken}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--quick", action="store_true", help="smaller graphs, fewer of them")
    parser.add_argument("--json", metavar="OUT")
    parser.add_argument("--data", metavar="DIR", help="accepted like everywhere; nothing is read")
    arguments = parser.parse_args()
    seeds, quick = arguments.seeds, arguments.quick

    rate_seeds = seeds[:1] if quick else seeds
    tables = {
        "Edge-worlds a second": [
            row for seed in rate_seeds for row in rates(seed, nodes=20_000 if quick else 100_000, repeats=3)
        ],
        "The same small graph in other engines": [
            row for seed in rate_seeds for row in peers(seed, samples=20 if quick else 200)
        ],
        "Sampled against enumerated": agreement(seeds, graph_count=3 if quick else 40, samples=100_000),
        "Mean field against exact": mean_field(seeds, graph_count=5 if quick else 60),
        "Min-form credit": [
            credit_row(scores=10**6 if quick else 10**7, episodes=10**4 if quick else 10**5, repeats=5)
        ],
    }
    for title, rows in tables.items():
        reporting.table(title, rows)
    summary = summarise(*list(tables.values())[:2])
    reporting.table("Summary", [summary])
    reporting.write(
        arguments.json,
        benchmark="worlds",
        rows=[{"table": title, **row} for title, rows in tables.items() for row in rows],
        summary=summary,
        seeds=seeds,
        quick=quick,
    )


def summarise(rate: Sequence[Row], engines: Sequence[Row]) -> dict[str, float]:
    """Lowest rate on all cores, and our rate over that of ProbLog's sampler on the same graph."""

    def typical(engine: str) -> float:
        return median(row["edge_worlds_per_s"] for row in engines if row["engine"] == engine)

    return {
        "edge_worlds_per_s": min(row["edge_worlds_per_s"] for row in rate if row["threads"] == cores()),
        "speedup_problog": typical("validity_graph worlds") / typical("problog sample"),
    }


if __name__ == "__main__":
    main()
