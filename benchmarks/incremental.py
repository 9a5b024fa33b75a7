"""Time one edit of a resident graph, and what the size of the graph adds to it.

    python -m benchmarks.incremental [--seeds 0] [--quick] [--json OUT]

The graph is a log of conversations: windows of 16 topics of 1,000 memories each, written in turn; a
memory depends on 5 earlier ones of its topic, a third of the edges supports.  So a cone has at most 1,000
memories, spread over 16,000 numbers.  Timed, one call at a time through the Python interface, on topics
drawn at random and never twice: an overturn of one of the first ten memories of a topic (cones of nearly
1,000), reading every changed value after it, appending a memory with two edges, and the same in calls of
1,000.  At the end every value, old or appended, is compared with a whole pass of the same kernel over a graph
built afresh; one different bit is an error.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from benchmarks import reporting
from synthetic.graphs import Graph, assemble
from validity_graph import kernels
from validity_graph.resident import ResidentGraph
from validity_graph.topology import build_topology

TOPICS, TOPIC_SIZE, FAN_IN = 16, 1000, 5
BATCH = 1000


def conversations(node_count: int, *, rng: Generator) -> Graph:
    """Draw the graph described above; the first memory of a topic depends on nothing."""
    target = np.repeat(np.arange(node_count, dtype=np.int32), FAN_IN)
    place = target % (TOPICS * TOPIC_SIZE) // TOPICS
    target, place = target[place > 0], place[place > 0]
    source = target - TOPICS * (1 + rng.integers(0, place, dtype=np.int32))
    return assemble(node_count, source, target, rng=rng, supports=1 / 3)


def timed(call: Callable[[], object]) -> float:
    """Microseconds that ``call`` takes."""
    start = time.perf_counter_ns()
    call()
    return (time.perf_counter_ns() - start) / 1000


def row(node_count: int, what: str, taken: NDArray[np.float64], **more: Any) -> dict[str, Any]:
    median, ninety, high = np.percentile(taken, (50, 90, 99)).tolist()
    return {
        "nodes": node_count,
        "what": what,
        "calls": taken.size,
        "median_us": median,
        "p90_us": ninety,
        "p99_us": high,
        "max_us": float(taken.max()),
        "mean_us": float(taken.mean()),
        "cone_median": None,
        "cone_max": None,
        **more,
    }


def overturns(graph: ResidentGraph, node_count: int, repeats: int, rng: Generator) -> list[dict[str, Any]]:
    """Overturn memories of different topics; the cone is what changed."""
    window = rng.permutation(node_count // (TOPICS * TOPIC_SIZE))
    start = (window[:, None] * TOPICS * TOPIC_SIZE + np.arange(TOPICS)).ravel()[: repeats + 20]
    memory = start + TOPICS * rng.integers(0, 10, start.size)
    taken, read, cone = [], [], []
    for i, v in enumerate(memory.tolist()):
        overturn = timed(lambda: graph.set_direct(v, 0.9))  # noqa: B023
        query = timed(lambda: graph.invalidity[graph.changed])
        if i >= 20:  # the first ones warm up
            taken.append(overturn)
            read.append(query)
            cone.append(graph.changed.size)
    size = {"cone_median": int(np.median(cone)), "cone_max": max(cone)}
    return [
        row(node_count, "overturn", np.array(taken), **size),
        row(node_count, "read what changed", np.array(read), **size),
    ]


def appends(
    graph: ResidentGraph, node_count: int, repeats: int, rng: Generator
) -> tuple[list[dict[str, Any]], dict[str, NDArray[Any]]]:
    """Append memories with two edges from anywhere, one a call and ``BATCH`` a call; read each first one.

    Returns the rows, and the edges that came.
    """
    source = rng.integers(0, node_count, (repeats, 2), dtype=np.int32)
    weight = rng.random(2)
    one, read = np.empty(repeats), np.empty(repeats)
    for i in range(repeats):
        one[i] = timed(lambda: graph.append(source[i], weight=weight))  # noqa: B023
        read[i] = timed(lambda: graph.invalidity[node_count + i])  # noqa: B023
    batches = np.empty(max(1, repeats // BATCH))
    ends = rng.integers(0, node_count, (batches.size, 2 * BATCH))
    for i in range(batches.size):
        target = np.repeat(np.arange(graph.node_count, graph.node_count + BATCH), 2)
        batches[i] = timed(lambda: graph.append_many(BATCH, source=ends[i], target=target)) / BATCH  # noqa: B023
    rows = [
        row(node_count, "append, 2 edges", one),
        row(node_count, "read its value", read),
        row(node_count, f"append_many, of {BATCH}", batches),
    ]
    count = source.size + ends.size
    added = {
        "source": np.concatenate((source.ravel(), ends.ravel())),
        "target": np.repeat(np.arange(node_count, node_count + count // 2), 2),
        "weight": np.concatenate((np.tile(weight, repeats), np.ones(ends.size))),
        "supports": np.zeros(count, dtype=bool),
        "justification": np.full(count, -1),
    }
    return rows, added


def measure(node_count: int, *, repeats: int, rng: Generator) -> list[dict[str, Any]]:
    drawn = conversations(node_count, rng=rng)
    edges = drawn.edges()
    before = peak_gib()
    start = time.perf_counter()
    graph = ResidentGraph.from_arrays(node_count, **edges)
    built = time.perf_counter() - start
    peak = peak_gib() - before
    rows = overturns(graph, node_count, repeats, rng)
    more, added = appends(graph, node_count, 20 * repeats, rng)
    rows += more
    pass_us = check_and_time_batch(graph, {name: np.append(edges[name], added[name]) for name in added})
    for entry in rows:
        entry |= {"edges": drawn.source.size, "whole_pass_us": pass_us, "build_s": built, "build_gib": peak}
    return rows


def check_and_time_batch(graph: ResidentGraph, edges: dict[str, NDArray[Any]]) -> float:
    """Compare every value with a whole pass over ``edges``; return what that pass took in microseconds."""
    topology = build_topology(graph.node_count, **edges, dtype=np.float64)
    evidence = graph.direct
    kernels.propagate(topology, evidence)
    start = time.perf_counter_ns()
    whole = kernels.propagate(topology, evidence).invalidity
    taken = (time.perf_counter_ns() - start) / 1000
    different = int((whole != graph.invalidity).sum())
    if different:
        raise SystemExit(f"{different} of {graph.node_count} values differ from a whole pass")
    return taken


def peak_gib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def summarise(rows: list[dict[str, Any]]) -> dict[str, float]:
    smallest, largest = min(r["nodes"] for r in rows), max(r["nodes"] for r in rows)
    found = {(r["nodes"], r["what"]): r for r in rows}
    overturn = found[largest, "overturn"]
    return {
        "overturn_median_ms": overturn["median_us"] / 1000,
        "overturn_p99_ms": overturn["p99_us"] / 1000,
        "flatness": overturn["median_us"] / found[smallest, "overturn"]["median_us"],
        "append_us": found[largest, "append, 2 edges"]["mean_us"],
    }


def main() -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--quick", action="store_true", help="1e5 and 1e6 memories only")
    parser.add_argument("--json", default=None)
    options = parser.parse_args()
    sizes = (100_000, 1_000_000) if options.quick else (100_000, 1_000_000, 10_000_000)
    rows = []
    for seed in options.seeds:
        rng = np.random.default_rng(seed)
        # 1e5 memories hold 96 topics, so no size gets more overturns than that.
        for node_count in sizes:
            repeats = 75 if node_count == sizes[0] else 500
            rows += [{"seed": seed, **entry} for entry in measure(node_count, repeats=repeats, rng=rng)]
    reporting.table("One edit of a resident graph", rows)
    summary = summarise(rows)
    reporting.table("Summary", [summary])
    reporting.write(options.json, benchmark="incremental", rows=rows, summary=summary, seeds=options.seeds)


if __name__ == "__main__":
    main()
