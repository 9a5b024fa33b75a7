"""Requirements of wide levels laid out by blocks of sources: nothing changes but the order of reading."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthetic import graphs
from validity_graph import blocking
from validity_graph.kernels import on_numba, on_numpy
from validity_graph.topology import build_topology

# The first call of a compiled loop compiles it.
settings.register_profile("compiled", deadline=None)
settings.load_profile("compiled")


@contextmanager
def small_blocks():
    """Blocks, parts and wide levels for graphs of any size."""
    with pytest.MonkeyPatch.context() as patch:
        sizes = {"_LEAST_NODES": 0, "_LEAST_EDGES": 1, "_PART": 20, "_BLOCK_BITS": 2}
        for name, size in sizes.items():
            patch.setattr(blocking, name, size)
        patch.setattr(blocking, "_pays", lambda edges, *_: edges > 0)
        patch.setattr(on_numba, "_WIDE", 1)
        yield


@given(
    kind=st.sampled_from(["random", "layered", "cyclic"]),
    nodes=st.integers(8, 300),
    degree=st.integers(1, 50),
    supports=st.sampled_from([0.0, 0.3, 1.0]),
    seed=st.integers(0, 1000),
)
@settings(max_examples=150)
def test_blocks_of_sources_change_nothing(kind, nodes, degree, supports, seed):
    rng = np.random.default_rng(seed)
    if kind == "layered":
        graph = graphs.layered(3, nodes, min(degree, nodes), rng=rng, supports=supports)
    else:
        make = graphs.random_dag if kind == "random" else graphs.cyclic
        graph = make(nodes, nodes * min(degree, 8 if kind == "cyclic" else 50), rng=rng, supports=supports)
    with small_blocks():
        topology = build_topology(graph.node_count, **graph.edges())
    fan_in = topology.requires_end - topology.indptr[:-1]
    few = (fan_in > 0) & (fan_in <= blocking.FEW)
    for start, end in zip(topology.component_start, topology.component_end, strict=True):
        few[start:end] = False
    assert (topology.blocks is not None) == few.any()
    direct = rng.random(graph.node_count, dtype=np.float32) * (rng.random(graph.node_count) < 0.5)
    node_by_node = on_numba.noisy_or(replace(topology, blocks=None), direct)
    with small_blocks():
        found = [on_numba.noisy_or(topology, direct, threads=threads) for threads in (1, 2, 3, 20)]
    for invalidity, rounds, converged in found:
        assert np.array_equal(invalidity, found[0][0])
        assert np.abs(invalidity - node_by_node[0]).max() < 1e-6
        assert np.all((invalidity >= 0) & (invalidity <= 1))
        assert converged == node_by_node[2]
        assert (rounds > 0) == (node_by_node[1] > 0)


def test_blocks_hold_each_requirement_of_nodes_with_few():
    graph = graphs.random_dag(400, 8_000, rng=np.random.default_rng(8), supports=0.2)
    with small_blocks():
        topology = build_topology(graph.node_count, **graph.edges())
    blocks = topology.blocks
    assert blocks is not None and blocks.part_start.size > 4
    found = []
    for p, (first, last) in enumerate(zip(blocks.part_start, blocks.part_end, strict=True)):
        assert last - first <= 20
        bounds = blocks.bounds[blocks.bound_start[p] : blocks.bound_start[p + 1]]
        for i, (start, end) in enumerate(zip(bounds[:-1], bounds[1:], strict=True)):
            block, part_slice = divmod(i, blocking.SLICES)
            for e in range(start, end):
                source = (block << 2) + (int(blocks.key[e]) >> blocking.TARGET_BITS)
                target = int(blocks.key[e]) & ((1 << blocking.TARGET_BITS) - 1)
                assert target * blocking.SLICES // (last - first) == part_slice
                found.append((source, int(first) + target, float(blocks.weight[e])))
    fan_in = topology.requires_end - topology.indptr[:-1]
    expected = [
        (int(topology.source[e]), v, float(topology.weight[e]))
        for v in np.flatnonzero(fan_in <= blocking.FEW).tolist()
        for e in range(topology.indptr[v], topology.requires_end[v])
    ]
    assert sorted(found) == sorted(expected)
    assert fan_in.max() > blocking.FEW


def test_blocks_are_laid_out_where_sources_overflow_the_cache(monkeypatch):
    monkeypatch.setattr(blocking, "_CACHE_LINES", 1 << 10)
    rng = np.random.default_rng(9)
    nodes = blocking._LEAST_NODES
    far = graphs.layered(2, nodes // 2, 5, rng=rng)
    assert build_topology(nodes, **far.edges(), dtype=np.float64).blocks is None
    assert build_topology(nodes // 2, **graphs.layered(2, nodes // 4, 5, rng=rng).edges()).blocks is None
    mixed = graphs.layered(2, nodes // 2, 5, rng=rng, supports=0.5)
    assert build_topology(nodes, **mixed.edges()).blocks is None
    near = np.arange(nodes // 2)
    near_graph = graphs.assemble(nodes, near, near + nodes // 2, rng=rng)
    assert build_topology(nodes, **near_graph.edges()).blocks is None
    topology = build_topology(nodes, **far.edges())
    blocks = topology.blocks
    assert blocks is not None and blocks.key.size == topology.source.size
    direct = rng.random(nodes, dtype=np.float32)
    one, two = on_numba.noisy_or(topology, direct)[0], on_numpy.noisy_or(topology, direct)[0]
    assert np.abs(one - two).max() < 1e-6
