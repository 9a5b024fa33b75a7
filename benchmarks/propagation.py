"""How fast one full pass of propagation is: against memory bandwidth and against its peers.

``python -m benchmarks.propagation [--seeds 0] [--repeats 5] [--quick] [--json OUT]`` runs random and local
DAGs of 1e5, 1e6 and 1e7 memories with five requirements each, the same with half of the edges supports, and
a chain of 1e6.  Every memory carries direct evidence.  Each side runs once to warm up, then ``repeats``
times (numba and the floor three times as often); times are medians, ``lowest`` and ``highest`` the spread.

* numba: of a random graph beyond the cache the topology holds requirements twice, the second time by blocks
  of sources (``validity_graph.blocking``); "bytes an edge" and "plan seconds" count both;
* floor: the time to stream once the arrays that a pass node by node reads and writes, on as many threads as
  the pass uses, measured in turn with it; ``over floor`` is the ratio of the medians;
* peers run on requirements only and keep their own plan, made beforehand like our topology: level-sliced
  GraphBLAS (one ``mxv`` a level on a semiring of ``times`` and ``1 - w * I``), level-sliced torch_geometric
  (one multiplying ``MessagePassing`` a level), DuckDB (recursive CTE, level by level), a loop over networkx;
* ``worst error`` is the largest distance of a side's result from the numba pass; over 1e-6 ends the run;
* ``a vector`` is the time of one of many evidence vectors on the same topology.

Every graph is made and measured in a process of its own: what an earlier graph left in the allocator decides
whether the next one lies on large pages, which moved the floor of one and the same graph by half.

Slow sides stop at the size given in ``LIMIT``.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from statistics import median
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from benchmarks import reporting
from benchmarks.propagation_peers import SIDES, Values
from synthetic import graphs
from synthetic.graphs import Graph
from validity_graph.compiled import compiled
from validity_graph.kernels import on_numba
from validity_graph.topology import Topology, build_topology

Row = dict[str, Any]
Words = NDArray[np.int32]
TOLERANCE = 1e-6
#: A side runs on graphs of up to so many (edges, levels).
LIMIT: dict[str, tuple[float, float]] = {
    "numpy": (1e8, 2e6),
    "torch": (1e8, 2e4),
    "graphblas": (1e8, 2e5),
    "torch_geometric": (1e8, 2e5),
    "duckdb": (1e6, 100),
    "networkx": (1e6, 2e6),
}


# --- floor -------------------------------------------------------------------------------------------


@compiled
def _stream_edges(source: Words, weight: Words, opens: Words) -> int:
    """Read every word; an exclusive or, so that nothing of it can be left out."""
    total = np.int32(0)
    for i in range(source.size):
        total ^= source[i] ^ weight[i]
    for i in range(opens.size):
        total ^= opens[i]
    return total


@compiled
def _stream_nodes(indptr: Words, requires_end: Words, direct: Words, out: Words) -> int:
    total = np.int32(0)
    for i in range(direct.size):
        total ^= indptr[i] ^ requires_end[i]
        out[i] = direct[i]
    return total


def stream(topology: Topology, direct: Values, out: Values, *, threads: int) -> None:
    """Read the arrays of a pass and write its result once, each thread an equal part of each array.

    ``opens`` is read only where there are supports, as the pass does.  Arrays side by side in one loop:
    that is faster than one after the other.
    """
    opens = topology.opens[: topology.opens.size // 4 * 4 if topology.opens.any() else 0]
    edge = [array.view(np.int32) for array in (topology.source, topology.weight, opens)]
    node = [array.view(np.int32) for array in (topology.indptr[1:], topology.requires_end, direct, out)]

    def part(i: int) -> None:
        for loop, arrays in ((_stream_edges, edge), (_stream_nodes, node)):
            loop(*(a[a.size * i // threads : a.size * (i + 1) // threads] for a in arrays))

    if threads == 1:
        part(0)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(part, range(threads)))


# --- measuring ---------------------------------------------------------------------------------------


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def spread(seconds: Sequence[float]) -> Row:
    return {
        "milliseconds": 1e3 * median(seconds),
        "lowest": 1e3 * min(seconds),
        "highest": 1e3 * max(seconds),
    }


def numba_rows(head: Row, topology: Topology, direct: Values, *, repeats: int) -> tuple[list[Row], Values]:
    """Time the numba pass and its floor in turn, on one thread and on all; and one of many vectors."""
    rows = []
    out, sink = np.empty_like(direct), np.empty_like(direct)
    for threads in sorted({1, on_numba.threads_used(topology)}):
        settle = partial(on_numba.noisy_or, topology, direct, out=out, threads=threads)
        floor = partial(stream, topology, direct, sink, threads=threads)
        settle(), floor()
        pairs = [(timed(settle), timed(floor)) for _ in range(3 * repeats)]
        taken, least = ([pair[i] for pair in pairs] for i in range(2))
        ratio = median(taken) / median(least)
        rows.append({**head, "side": "numba", "threads": threads, **spread(taken), "over floor": ratio})
        rows.append({**head, "side": "floor", "threads": threads, **spread(least)})
    result = out.copy()
    many = [np.roll(direct, shift) for shift in range(repeats)]
    start = time.perf_counter()
    for vector in many:
        on_numba.noisy_or(topology, vector, out=out)
    each = (time.perf_counter() - start) / len(many)
    rows[-2]["a vector"] = 1e3 * each
    return rows, result


def peer_row(head: Row, side: str, topology: Topology, direct: Values, expected: Values, repeats: int) -> Row:
    """One other side: warm, repeated while it takes less than a minute, compared with ours."""
    start = time.perf_counter()
    run = SIDES[side](topology, direct)
    plan = time.perf_counter() - start
    error = float(np.abs(run() - expected).max())
    if error > TOLERANCE or math.isnan(error):
        raise SystemExit(f"{side} is {error} away from numba on {head}: they must agree to {TOLERANCE}")
    taken: list[float] = []
    while len(taken) < repeats and sum(taken) < 60:
        taken.append(timed(run))
    return {**head, "side": side, **spread(taken), "plan seconds": plan, "worst error": error}


def array_bytes(topology: Topology) -> Row:
    """Bytes of the topology by edge, with its blocks, and by node, with evidence and result."""
    edge = [topology.source, topology.weight, topology.opens]
    if topology.blocks is not None:
        fields = (getattr(topology.blocks, name) for name in topology.blocks.__slots__)
        edge += [array for array in fields if isinstance(array, np.ndarray)]
    node = (topology.indptr, topology.requires_end, topology.order, topology.rank, topology.level_indptr)
    values = 2 * topology.weight.itemsize
    return {
        "bytes an edge": sum(a.nbytes for a in edge) / max(1, topology.source.size),
        "bytes a node": sum(a.nbytes for a in node) / topology.order.size + values,
    }


def measured(name: str, graph: Graph, rng: Generator, *, seed: int, repeats: int, peers: bool) -> list[Row]:
    head: Row = {"graph": name, "seed": seed, "nodes": graph.node_count, "edges": graph.source.size}
    start = time.perf_counter()
    topology = build_topology(graph.node_count, **graph.edges())
    built = time.perf_counter() - start
    head["levels"] = topology.level_indptr.size - 1
    direct = rng.random(graph.node_count, dtype=np.float32)
    rows, expected = numba_rows(head, topology, direct, repeats=repeats)
    rows[0] |= {"plan seconds": built, **array_bytes(topology)}
    if not peers:
        return rows
    for side, (edges, levels) in LIMIT.items():
        if graph.source.size <= edges and head["levels"] <= levels:
            rows.append(peer_row(head, side, topology, direct, expected, repeats))
    return rows


def distinct(graph: Graph) -> Graph:
    """Drop parallel edges (under 1 %): the matrix of a peer has one weight for each pair."""
    key = graph.source.astype(np.int64) * graph.node_count + graph.target
    kept = np.sort(np.unique(key, return_index=True)[1])
    del key
    return Graph(graph.node_count, **{name: column[kept] for name, column in graph.edges().items()})


#: How each family of graphs is made from a number of memories.
FAMILIES: dict[str, Callable[[int, Generator], Graph]] = {
    "local": lambda nodes, rng: distinct(graphs.local_dag(nodes, 5 * nodes, rng=rng)),
    "random": lambda nodes, rng: distinct(graphs.random_dag(nodes, 5 * nodes, rng=rng)),
    "local, half supports": lambda nodes, rng: graphs.local_dag(nodes, 5 * nodes, rng=rng, supports=0.5),
    "random, half supports": lambda nodes, rng: graphs.random_dag(nodes, 5 * nodes, rng=rng, supports=0.5),
    # A weak link now and then, so that what reaches the end is not 1 all along.
    "chain": lambda nodes, rng: graphs.chain(nodes, rng=rng, low=0.5),
}


def measure(name: str, nodes: int, *, seed: int, repeats: int) -> list[Row]:
    """Make one graph and time every side on it."""
    rng = np.random.default_rng(seed)
    graph = FAMILIES[name](nodes, rng)
    return measured(name, graph, rng, seed=seed, repeats=repeats, peers="supports" not in name)


def measure_apart(name: str, nodes: int, *, seed: int, repeats: int) -> list[Row]:
    """``measure`` in a fresh process."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measure, name, nodes, seed=seed, repeats=repeats).result()


def summarise(rows: Sequence[Row]) -> dict[str, float]:
    """Figures on the largest graphs; a peer's speed-up is the smaller of the local and the random one."""
    most = max(row["nodes"] for row in rows if row["graph"] == "random")

    def of(graph: str, side: str, column: str) -> float:
        # The last row of a side has all threads.
        found = [
            row[column]
            for row in rows
            if (row["graph"], row["side"], row["nodes"]) == (graph, side, most) and column in row
        ]
        by_seed = len({row["seed"] for row in rows})
        return median(found[len(found) // by_seed - 1 :: len(found) // by_seed]) if found else math.nan

    def speedup(side: str) -> float:
        ratios = [of(g, side, "milliseconds") / of(g, "numba", "milliseconds") for g in ("local", "random")]
        return min((r for r in ratios if not math.isnan(r)), default=math.nan)

    return {
        "ratio_floor_local": of("local", "numba", "over floor"),
        "ratio_floor_random": of("random", "numba", "over floor"),
        "speedup_graphblas": speedup("graphblas"),
        "speedup_pyg": speedup("torch_geometric"),
        "bytes_per_edge": of("random", "numba", "bytes an edge"),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Time full passes of propagation.")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="1e4 and 1e5 memories only")
    parser.add_argument("--json", help="write the rows and the summary here")
    options = parser.parse_args(arguments)
    sizes = [10_000, 100_000] if options.quick else [100_000, 1_000_000, 10_000_000]
    work = [(name, nodes) for nodes in sizes for name in FAMILIES if name != "chain"]
    work.append(("chain", max(100_000, sizes[-1] // 10)))
    rows: list[Row] = []
    for seed in options.seeds:
        for name, nodes in work:
            found = measure_apart(name, nodes, seed=seed, repeats=options.repeats)
            reporting.table(f"{name}, seed {seed}", [{c: row.get(c) for c in COLUMNS} for row in found])
            rows += found
    summary = summarise(rows)
    reporting.table("summary", [summary])
    reporting.write(options.json, benchmark="propagation", rows=rows, summary=summary, seeds=options.seeds)


COLUMNS = (
    "nodes",
    "edges",
    "levels",
    "side",
    "threads",
    "milliseconds",
    "lowest",
    "highest",
    "over floor",
    "a vector",
    "plan seconds",
    "worst error",
    "bytes an edge",
    "bytes a node",
)

if __name__ == "__main__":
    main()
