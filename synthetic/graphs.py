"""Seeded generators of dependency graphs, as arrays ready for ``build_topology``.

Each returns ``Graph``; sources come from ``numpy.random.Generator``, so one seed is one graph.  Used by
tests and benchmarks; nothing here is read from a file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Graph:
    """``node_count`` memories and ``m`` edges; the fields mean what ``build_topology``'s arguments mean."""

    node_count: int
    source: NDArray[np.int32]
    target: NDArray[np.int32]
    weight: NDArray[np.float32]
    supports: NDArray[np.bool_]
    justification: NDArray[np.int64]

    def edges(self) -> dict[str, NDArray[Any]]:
        """Return the keyword arguments of ``build_topology``."""
        return {
            "source": self.source,
            "target": self.target,
            "weight": self.weight,
            "supports": self.supports,
            "justification": self.justification,
        }


def assemble(
    node_count: int,
    source: NDArray[np.integer],
    target: NDArray[np.integer],
    *,
    rng: Generator,
    supports: float = 0.0,
    group_size: int = 1,
    low: float = 0.0,
    high: float = 1.0,
) -> Graph:
    """Give edges their role and weight.

    Each is a support with probability ``supports``, in justifications of about ``group_size``
    antecedents; weights are uniform in [low, high).
    """
    count = source.size
    is_support = rng.random(count, dtype=np.float32) < supports
    justification = np.full(count, -1, dtype=np.int64)
    if group_size > 1:
        chosen = np.flatnonzero(is_support)
        fan_in = np.bincount(target[chosen], minlength=node_count)
        group_count = np.maximum(1, fan_in // group_size)
        justification[chosen] = rng.integers(0, group_count[target[chosen]])
    weight = (low + (high - low) * rng.random(count, dtype=np.float32)).astype(np.float32)
    return Graph(
        node_count, source.astype(np.int32), target.astype(np.int32), weight, is_support, justification
    )


def random_dag(
    node_count: int, edge_count: int, *, rng: Generator, supports: float = 0.0, group_size: int = 1
) -> Graph:
    """Edges between uniformly drawn pairs, from the smaller number to the larger."""
    one = rng.integers(0, node_count, edge_count, dtype=np.int32)
    other = rng.integers(0, node_count - 1, edge_count, dtype=np.int32)
    other += other >= one
    source, target = np.minimum(one, other), np.maximum(one, other)
    return assemble(node_count, source, target, rng=rng, supports=supports, group_size=group_size)


def local_dag(
    node_count: int,
    edge_count: int,
    *,
    rng: Generator,
    reach: int = 1000,
    supports: float = 0.0,
    group_size: int = 1,
) -> Graph:
    """Each edge runs to a uniformly drawn node from one of the ``reach`` nodes before it."""
    target = rng.integers(1, node_count, edge_count, dtype=np.int32)
    back = rng.integers(0, np.minimum(reach, target), dtype=np.int32) + 1
    return assemble(node_count, target - back, target, rng=rng, supports=supports, group_size=group_size)


def chain(node_count: int, *, rng: Generator, low: float = 0.0, high: float = 1.0) -> Graph:
    """0 -> 1 -> ... -> node_count - 1, all requirements."""
    source = np.arange(node_count - 1, dtype=np.int32)
    return assemble(node_count, source, source + 1, rng=rng, low=low, high=high)


def star(leaf_count: int, *, rng: Generator, inward: bool = False, supports: float = 0.0) -> Graph:
    """Node 0 and ``leaf_count`` others: edges from the hub, or all into it when ``inward``."""
    leaf = np.arange(1, leaf_count + 1, dtype=np.int32)
    hub = np.zeros(leaf_count, dtype=np.int32)
    source, target = (leaf, hub) if inward else (hub, leaf)
    return assemble(leaf_count + 1, source, target, rng=rng, supports=supports)


def tree(node_count: int, *, rng: Generator, supports: float = 0.0) -> Graph:
    """Each node but 0 depends on one uniformly drawn earlier node: one path from evidence to a node."""
    target = np.arange(1, node_count, dtype=np.int32)
    source = rng.integers(0, target, dtype=np.int32)
    return assemble(node_count, source, target, rng=rng, supports=supports)


def layered(
    layer_count: int,
    width: int,
    fan_in: int,
    *,
    rng: Generator,
    supports: float = 0.0,
    group_size: int = 1,
) -> Graph:
    """Layers of ``width`` nodes; each node depends on ``fan_in`` drawn nodes of the layer before."""
    target = np.repeat(np.arange(width, layer_count * width, dtype=np.int32), fan_in)
    source = (target // width - 1) * width + rng.integers(0, width, target.size, dtype=np.int32)
    return assemble(layer_count * width, source, target, rng=rng, supports=supports, group_size=group_size)


def diamonds(diamond_count: int, width: int, *, rng: Generator, supports: float = 0.0) -> Graph:
    """Chain diamonds: each tip feeds ``width`` nodes that all feed the next tip (shared ancestors)."""
    tip = np.arange(diamond_count, dtype=np.int32) * (width + 1)
    middle = (tip[:, None] + 1 + np.arange(width, dtype=np.int32)).ravel()
    source = np.concatenate([np.repeat(tip, width), middle])
    target = np.concatenate([middle, np.repeat(tip + width + 1, width)])
    return assemble(diamond_count * (width + 1) + 1, source, target, rng=rng, supports=supports)


def cyclic(
    node_count: int, edge_count: int, *, rng: Generator, supports: float = 0.5, group_size: int = 1
) -> Graph:
    """Edges between uniformly drawn pairs in either direction: cycles wherever they fall."""
    source = rng.integers(0, node_count, edge_count, dtype=np.int32)
    target = rng.integers(0, node_count - 1, edge_count, dtype=np.int32)
    target += target >= source
    return assemble(node_count, source, target, rng=rng, supports=supports, group_size=group_size)
