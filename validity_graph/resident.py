"""A graph that stays in memory and is edited: only what an edit can have changed is computed again.

Arrays and integer node numbers; knows nothing of records or stores.  After any sequence of edits
``invalidity`` equals, bit for bit in float64, a whole pass (``kernels.propagate``) over
``build_topology`` of the same edges listed by edge number (law 10 of SEMANTICS section 5).  Formulas:
SEMANTICS section 3; how the cone is found and ordered: ``kernels.cone``, ``kernels.dynamic_order``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from validity_graph import kernels
from validity_graph.errors import InputError
from validity_graph.kernels import adjacency, cone, laying, reading
from validity_graph.kernels.adjacency import (
    EDGES,
    IN_USED,
    NODES,
    OUT_USED,
    STALLED,
    TOP_LEVEL,
    Edges,
)
from validity_graph.topology import build_topology

#: Levels are made dense again when one passes this.
_LEVEL_LIMIT = 1 << 30


class ResidentGraph:
    """Memories and their ``requires`` and ``supports`` edges, kept settled through every edit.

    A memory is its number, an edge too: both count up from 0 in the order they were added, and a
    removed edge's number is not used again.  ``ResidentGraph()`` is empty; ``from_arrays`` starts from a
    whole graph.  Every edit checks its input first and raises ``InputError`` with nothing changed.  A
    call costs what changes: the cone until values come out the same, a cyclic component always as
    a whole, and where an edge points against the order so far, the nodes in between.
    """

    __slots__ = ("_state",)

    def __init__(self) -> None:
        """Start without memories."""
        self._state = laying.allocated(0, 0)

    @classmethod
    def from_arrays(
        cls,
        node_count: int,
        *,
        source: ArrayLike,
        target: ArrayLike,
        weight: ArrayLike,
        supports: ArrayLike,
        justification: ArrayLike,
        premise: ArrayLike | None = None,
        direct: ArrayLike | None = None,
    ) -> ResidentGraph:
        """Take over ``node_count`` memories and m edges, numbered by position, and settle them.

        Arguments as for ``topology.build_topology``; ``direct`` [node_count] in [0, 1] is the direct
        evidence d_v, 0 if not given.  O(n + m).  Raises ``InputError`` as ``build_topology`` does.
        """
        evidence = np.zeros(node_count) if direct is None else np.asarray(direct, dtype=np.float64)
        topology = build_topology(
            node_count,
            source=source,
            target=target,
            weight=weight,
            supports=supports,
            justification=justification,
            premise=premise,
            dtype=np.float64,
        )
        result = kernels.propagate(topology, evidence)
        graph = cls()
        edges = Edges(
            np.ascontiguousarray(source, dtype=np.int32),
            np.ascontiguousarray(target, dtype=np.int32),
            np.ascontiguousarray(weight, dtype=np.float64),
            np.ascontiguousarray(supports, dtype=np.uint8),
            np.ascontiguousarray(justification, dtype=np.int64),
        )
        graph._state = state = laying.allocated(node_count, edges.source.size)
        if premise is not None:
            state.node["premise"][:node_count] = np.asarray(premise, dtype=bool)
        state.direct[:node_count] = evidence
        state.invalidity[:node_count] = result.invalidity
        laying.lay_order(state, topology, all_settled=result.converged)
        del topology, result
        laying.lay_edges(state, edges, node_count)
        cone.settle(state)
        return graph

    @property
    def node_count(self) -> int:
        """Memories so far; the next one gets this number."""
        return int(self._state.counter[NODES])

    @property
    def edge_count(self) -> int:
        """Edge numbers given so far, removed edges included; the next edge gets this number."""
        return int(self._state.counter[EDGES])

    @property
    def invalidity(self) -> NDArray[np.float64]:
        """Invalidity of every memory, float64[n] in [0, 1]; a read-only view.

        It follows edits, until one adds memories.
        """
        return _frozen(self._state.invalidity[: self._state.counter[NODES]])

    @property
    def direct(self) -> NDArray[np.float64]:
        """Direct evidence of every memory, float64[n] in [0, 1]; a read-only view as ``invalidity``."""
        return _frozen(self._state.direct[: self._state.counter[NODES]])

    @property
    def changed(self) -> NDArray[np.int32]:
        """The memories whose invalidity the last edit changed (a new one from 0), in the order computed."""
        return self._state.changed[: self._state.counter[adjacency.CHANGED]].copy()

    @property
    def converged(self) -> bool:
        """Whether every cyclic component settled to 1e-9 within 10,000 rounds."""
        return int(self._state.counter[STALLED]) == 0

    def append(
        self,
        source: ArrayLike = (),
        *,
        weight: ArrayLike = 1.0,
        supports: ArrayLike = False,
        justification: ArrayLike = -1,
        direct: float = 0.0,
        premise: bool = False,
    ) -> int:
        """Add one memory with edges from ``source`` int[k]; return its number.

        ``weight``, ``supports``, ``justification``: one value, or one for each edge; ``direct`` in [0, 1].
        """
        number = int(self._state.counter[NODES])
        ends = _column("source", source, None, np.int32)
        target = np.full(ends.size, number, dtype=np.int32)
        edges = self._checked(number + 1, ends, target, weight, supports, justification)
        return self._append(1, edges, direct, premise)

    def append_many(
        self,
        count: int,
        *,
        source: ArrayLike = (),
        target: ArrayLike = (),
        weight: ArrayLike = 1.0,
        supports: ArrayLike = False,
        justification: ArrayLike = -1,
        direct: ArrayLike = 0.0,
        premise: ArrayLike = False,
    ) -> int:
        """Add ``count`` memories and edges ``source`` -> ``target`` int[k] in one call.

        Returns the number of the first.  The ends may be old or new memories.  The other edge arguments as
        for ``append``; ``direct`` and ``premise``: one value, or one for each new memory.
        """
        if count < 0:
            raise InputError(f"count={count} must not be negative")
        edges = self._checked(self.node_count + count, source, target, weight, supports, justification)
        return self._append(count, edges, direct, premise)

    def add_edges(
        self,
        *,
        source: ArrayLike,
        target: ArrayLike,
        weight: ArrayLike = 1.0,
        supports: ArrayLike = False,
        justification: ArrayLike = -1,
    ) -> NDArray[np.int64]:
        """Add edges ``source`` -> ``target`` int[k]; return their numbers, int64[k].

        ``weight``, ``supports``, ``justification``: one value, or one for each edge.
        """
        edges = self._checked(self.node_count, source, target, weight, supports, justification)
        first = self.edge_count
        self._reserve(0, edges.source.size)
        self._finish(edges, cone.add_edges(self._state, edges, 0), settled=False)
        return np.arange(first, self.edge_count)

    def set_weight(self, edge: ArrayLike, weight: ArrayLike) -> None:
        """Give the edges ``edge`` int[k] the weights ``weight`` in [0, 1], one value or one for each."""
        number = self._present(edge)
        cone.set_weight(self._state, number, _probability("weight", weight, number.size))

    def remove_edges(self, edge: ArrayLike) -> None:
        """Remove the edges ``edge`` int[k], each named once."""
        number = self._present(edge)
        if number.size > 1 and np.unique(number).size < number.size:
            raise InputError("an edge is named twice; name each edge to remove once")
        cone.remove_edges(self._state, number)

    def set_direct(self, node: ArrayLike, direct: ArrayLike) -> None:
        """Give the memories ``node`` int[k] direct evidence in [0, 1], one value or one for each."""
        number = _column("node", node, None, np.int64)
        i = cone.wrong_number(number, self.node_count)
        if i >= 0:
            raise InputError(f"node[{i}]={number[i]} must lie in [0, {self.node_count})")
        cone.set_direct(self._state, number, _probability("direct", direct, number.size))

    def below(self, start: NDArray[np.int64], alive: NDArray[np.bool_]) -> NDArray[np.int64]:
        """List the memories ``start`` and what is reached from them over edges out of ``alive`` [n]."""
        return reading.below(self._state, start, alive.view(np.uint8))

    def above(self, node: int) -> NDArray[np.int64]:
        """List memory ``node`` and those from which invalidity reaches it."""
        return reading.above(self._state, node)

    def into(self, node: NDArray[np.int64]) -> tuple[NDArray[Any], ...]:
        """Return the edges into the memories ``node`` int64[k] as columns.

        Source, target, weight, whether a support, and number, of every edge that acts.
        """
        return reading.into(self._state, node)

    def losses(self, node: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return q and l of SEMANTICS section 3 of the memories ``node`` int64[k], [k] each."""
        return reading.losses(self._state, node)

    def _checked(self, node_count: int, *columns: ArrayLike) -> Edges:
        """Return the columns of ``Edges`` as arrays of one length, each edge possible."""
        source = _column("source", columns[0], None, np.int32)
        target = _column("target", columns[1], source.size, np.int32)
        weight = _column("weight", columns[2], source.size, np.float64)
        supports = _column("supports", columns[3], source.size, np.uint8)
        justification = _column("justification", columns[4], source.size, np.int64)
        edges = Edges(source, target, weight, supports, justification)
        i = cone.wrong_edge(edges, node_count)
        if i >= 0:
            raise InputError(
                f"edge {i} ({source[i]} -> {target[i]}, weight={weight[i]}): both ends must lie in "
                f"[0, {node_count}) and differ, and the weight must lie in [0, 1]"
            )
        return edges

    def _present(self, edge: ArrayLike) -> NDArray[np.int64]:
        number = _column("edge", edge, None, np.int64)
        i = cone.absent_edge(self._state, number)
        if i >= 0:
            raise InputError(
                f"edge[{i}]={number[i]} is not in the graph: it was removed, or its number is not in "
                f"[0, {self.edge_count})"
            )
        return number

    def _append(self, count: int, edges: Edges, direct: ArrayLike, premise: ArrayLike) -> int:
        evidence = _probability("direct", direct, count)
        kept = _column("premise", premise, count, np.uint8)
        first = self.node_count
        self._reserve(count, edges.source.size)
        self._finish(edges, cone.append(self._state, edges, evidence, kept), settled=True)
        return first

    def _finish(self, edges: Edges, done: int, *, settled: bool) -> None:
        """Add what did not fit in the pools, and settle unless that was done."""
        if settled and done == edges.source.size:
            return
        while done < edges.source.size:
            self._repack(int(edges.source[done]), int(edges.target[done]))
            done = cone.add_edges(self._state, edges, done)
        if self._state.counter[TOP_LEVEL] > _LEVEL_LIMIT:
            self._compress_levels()
        cone.settle(self._state)

    def _reserve(self, nodes: int, edges: int) -> None:
        """Make room for more nodes, more edge numbers and the first blocks of the new nodes."""
        state = self._state
        counter = state.counter
        if counter[NODES] + nodes > state.direct.size:
            self._grow(laying.BY_NODE, int(counter[NODES]), int(counter[NODES]) + nodes)
            fresh = {
                name: np.empty(self._state.direct.size, laying.DTYPE.get(name, np.int32))
                for name in laying.SCRATCH
            }
            self._state = self._state._replace(**fresh)
        if counter[EDGES] + edges > state.edge_target.size:
            self._grow(("edge_target",), int(counter[EDGES]), int(counter[EDGES]) + edges)
        if nodes and counter[IN_USED] + edges > state.source.size:
            self._repack_in(edges)

    def _grow(self, names: tuple[str, ...], used: int, needed: int) -> None:
        """Copy the first ``used`` places of the arrays ``names`` into larger ones."""
        capacity = laying.capacity(needed)
        for name in names:
            old = getattr(self._state, name)
            new = np.zeros(capacity, old.dtype) if name == "node" else np.empty(capacity, old.dtype)
            new[:used] = old[:used]
            self._state = self._state._replace(**{name: new})

    def _repack(self, u: int, v: int) -> None:
        """Make room in the pools for an edge u -> v."""
        state = self._state
        more_in = 2 * int(state.node["count"][v]) + 2
        more_out = 2 * int(state.node["out_count"][u]) + 2
        if state.counter[IN_USED] + more_in > state.source.size:
            self._repack_in(more_in)
        if state.counter[OUT_USED] + more_out > state.out_target.size:
            self._repack_out(more_out)

    def _repack_in(self, more: int) -> None:
        node = self._state.node[: self.node_count]
        capacity = laying.capacity(int(node["count"].sum(dtype=np.int64)) + more)
        for name in laying.IN_POOL:
            pool = adjacency.repacked(getattr(self._state, name), node["start"], node["count"], capacity)
            self._state = self._state._replace(**{name: pool})
        self._state.counter[IN_USED] = adjacency.renumber_blocks(node["start"], node["count"], node["room"])

    def _repack_out(self, more: int) -> None:
        node = self._state.node[: self.node_count]
        capacity = laying.capacity(int(node["out_count"].sum(dtype=np.int64)) + more)
        pool = adjacency.repacked(self._state.out_target, node["out_start"], node["out_count"], capacity)
        self._state = self._state._replace(out_target=pool)
        self._state.counter[OUT_USED] = adjacency.renumber_blocks(
            node["out_start"], node["out_count"], node["out_room"]
        )

    def _compress_levels(self) -> None:
        """Make the levels dense again; their order stays."""
        level = self._state.node["level"][: self.node_count]
        dense, place = np.unique(level, return_inverse=True)
        level[:] = place
        self._state.counter[TOP_LEVEL] = dense.size


def _frozen(view: NDArray[np.float64]) -> NDArray[np.float64]:
    view.setflags(write=False)
    return view


def _column(name: str, values: ArrayLike, count: int | None, dtype: Any) -> NDArray[Any]:  # noqa: ANN401
    """``values`` as a contiguous array [count] of ``dtype``; one value stands for all."""
    array = np.asarray(values)
    if array.dtype.kind not in ("biuf" if dtype is np.float64 else "biu") and array.size:
        raise InputError(f"{name} has dtype {array.dtype}; it needs {np.dtype(dtype).name}")
    if count is None:
        count = array.size
        array = array.reshape(-1) if array.ndim == 0 else array
    if array.ndim == 0:
        return np.full(count, array, dtype=dtype)
    if array.shape != (count,):
        raise InputError(f"{name} has shape {array.shape}; it needs one value, or one for each of {count}")
    return np.ascontiguousarray(array, dtype=dtype)


def _probability(name: str, values: ArrayLike, count: int) -> NDArray[np.float64]:
    array = _column(name, values, count, np.float64)
    i = cone.wrong_probability(array)
    if i >= 0:
        raise InputError(f"{name}[{i}]={array[i]} must lie in [0, 1]")
    return array
