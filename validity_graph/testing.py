"""Hypothesis strategies and a conformance suite for people who test their own graphs and kernels.

    from hypothesis import given
    from validity_graph.testing import dependency_graphs

    @given(dependency_graphs())
    def test_mine(graph): ...

Needs hypothesis: ``pip install "validity-graph[testing]"``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from validity_graph.errors import MissingExtraError
from validity_graph.topology import Topology, build_topology

try:
    from hypothesis import strategies as st
except ModuleNotFoundError as missing:
    raise MissingExtraError("validity_graph.testing", needs="hypothesis", extra="testing") from missing

#: A kernel under test: (topology, direct evidence [n], caller's numbering) -> invalidity [n].
Kernel = Callable[[Topology, NDArray[np.float64]], ArrayLike]

#: Probabilities with the places where formulas break: 0, 1, and what is next to them.
probabilities = st.one_of(
    st.sampled_from([0.0, 1.0, 0.5, 1e-9, 1.0 - 1e-9]),
    st.floats(0.0, 1.0, allow_subnormal=False),
)


@dataclass(frozen=True, slots=True)
class DependencyGraph:
    """A small random graph as edge arrays with direct evidence, as ``build_topology`` takes them.

    Shapes: edges (m,), ``premise`` and ``direct`` (n,).  ``supports[e]`` is False for a requirement;
    ``justification[e]`` groups supports of one target, -1 stands alone.
    """

    node_count: int
    source: NDArray[np.int32]
    target: NDArray[np.int32]
    weight: NDArray[np.float64]
    supports: NDArray[np.bool_]
    justification: NDArray[np.int64]
    premise: NDArray[np.bool_]
    direct: NDArray[np.float64]

    def topology(self) -> Topology:
        """Build the arrays that kernels run on, in float64."""
        return build_topology(
            self.node_count,
            source=self.source,
            target=self.target,
            weight=self.weight,
            supports=self.supports,
            justification=self.justification,
            premise=self.premise,
            dtype=np.float64,
        )

    def with_direct(self, direct: ArrayLike) -> DependencyGraph:
        """Return the same graph with other direct evidence, shape (n,)."""
        return replace(self, direct=np.asarray(direct, dtype=np.float64))


@st.composite
def dependency_graphs(
    draw: st.DrawFn,
    *,
    max_nodes: int = 7,
    max_edges: int = 10,
    cyclic: bool = False,
    supports: bool = True,
    certain: bool = False,
) -> DependencyGraph:
    """Graphs with requirements, supports, justifications, premises and direct evidence.

    Acyclic unless ``cyclic``; requirements only unless ``supports``; with ``certain`` every weight and
    every piece of evidence is 0 or 1.  No self-loops.
    """
    node_count = draw(st.integers(1, max_nodes))
    nodes = st.integers(0, node_count - 1)
    ends = st.tuples(nodes, nodes).filter(lambda pair: pair[0] != pair[1])
    pairs = draw(st.lists(ends, max_size=max_edges, unique=True)) if node_count > 1 else []
    if not cyclic:
        # A random numbering, so that the caller's order is not already topological.
        place = draw(st.permutations(range(node_count)))
        pairs = list(dict.fromkeys((u, v) if place[u] < place[v] else (v, u) for u, v in pairs))
    count = len(pairs)
    values = st.sampled_from([0.0, 1.0]) if certain else probabilities
    lists = st.lists
    return DependencyGraph(
        node_count=node_count,
        source=np.array([u for u, _ in pairs], dtype=np.int32),
        target=np.array([v for _, v in pairs], dtype=np.int32),
        weight=np.array(draw(lists(values, min_size=count, max_size=count)), dtype=np.float64),
        supports=np.array(
            draw(lists(st.booleans(), min_size=count, max_size=count)) if supports else [False] * count,
            dtype=np.bool_,
        ),
        justification=np.array(
            draw(lists(st.integers(-1, 1), min_size=count, max_size=count)), dtype=np.int64
        ),
        premise=np.array(
            draw(lists(st.sampled_from([False, False, True]), min_size=node_count, max_size=node_count)),
            dtype=np.bool_,
        ),
        direct=np.array(draw(lists(values, min_size=node_count, max_size=node_count)), dtype=np.float64),
    )


def check_kernel(kernel: Kernel, graph: DependencyGraph, *, tolerance: float = 1e-9) -> None:
    """Hold ``kernel`` to the definition of propagation and to the laws on one graph.

    Laws of SEMANTICS section 5: range (1), no evidence (2), permutation (3), locality (4), and agreement
    with the definition, ``kernels.on_numpy`` (11).  Raises ``AssertionError`` that names the law.
    """
    from validity_graph.kernels import propagate

    topology = graph.topology()
    found = np.asarray(kernel(topology, graph.direct), dtype=np.float64)
    assert found.shape == (graph.node_count,), f"expected one value a memory, got shape {found.shape}"
    assert np.all((found >= 0.0) & (found <= 1.0)), f"law 1, range: {found}"
    nothing = np.asarray(kernel(topology, np.zeros(graph.node_count)))
    assert np.all(nothing == 0.0), f"law 2, no evidence and no invalidity: {nothing}"
    defined = propagate(topology, graph.direct, backend="numpy").invalidity
    np.testing.assert_allclose(found, defined, atol=tolerance, rtol=0.0, err_msg="law 11, kernels agree")
    _check_permutation(kernel, graph, found, tolerance)
    _check_locality(kernel, graph, found, tolerance)


def _check_permutation(
    kernel: Kernel, graph: DependencyGraph, found: NDArray[np.float64], tolerance: float
) -> None:
    order = np.random.default_rng(0).permutation(graph.node_count)
    edges = np.random.default_rng(1).permutation(graph.source.size)
    place = np.argsort(order).astype(np.int32)
    shuffled = DependencyGraph(
        node_count=graph.node_count,
        source=place[graph.source[edges]],
        target=place[graph.target[edges]],
        weight=graph.weight[edges],
        supports=graph.supports[edges],
        justification=graph.justification[edges],
        premise=graph.premise[order],
        direct=graph.direct[order],
    )
    again = np.asarray(kernel(shuffled.topology(), shuffled.direct), dtype=np.float64)
    np.testing.assert_allclose(again, found[order], atol=tolerance, rtol=0.0, err_msg="law 3, permutation")


def _check_locality(
    kernel: Kernel, graph: DependencyGraph, found: NDArray[np.float64], tolerance: float
) -> None:
    changed = 0
    reached = np.zeros(graph.node_count, dtype=np.bool_)
    reached[changed] = True
    for _ in range(graph.node_count):
        reached[graph.target[reached[graph.source]]] = True
    direct = graph.direct.copy()
    direct[changed] = 1.0 - direct[changed]
    after = np.asarray(kernel(graph.topology(), direct), dtype=np.float64)
    np.testing.assert_allclose(
        after[~reached], found[~reached], atol=tolerance, rtol=0.0, err_msg="law 4, locality"
    )
