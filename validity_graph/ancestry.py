"""The cone of one memory: all that can move its invalidity, cut out of the arrays of one moment.

What it rests on over requirements and supports, whoever speaks about any of that, and whoever takes
back what those say.  A cone can be computed again with some of it left out: the mean field of SEMANTICS
sections 2 and 3, exactly.  Knows arrays and edges, no store.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from validity_graph import kernels
from validity_graph.encode import KIND, EncodedGraph
from validity_graph.explain import acting
from validity_graph.kernels.direct import direct_evidence
from validity_graph.records import RETRACTS
from validity_graph.topology import DirectEvidence, Topology, build_topology

Values = NDArray[np.float64]
Mask = NDArray[np.bool_]
Positions = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Cone:
    """All that can move the invalidity of one node, in a numbering of its own.

    ``node[i]`` is the encoded number of local node i: 0 is the target, then what it rests on, nearest
    first, then those that only speak.  ``edge`` and ``spoken`` are positions of structure and evidence
    edges in the encoded graph; ``source`` ... ``justification`` describe the former by local number.
    ``place[i]`` is where structure edge i stands in ``topology``.
    """

    node: Positions
    edge: Positions
    source: Positions
    target: Positions
    weight: Values
    supports: Mask
    justification: Positions
    topology: Topology
    place: Positions
    spoken: Positions
    evidence: DirectEvidence

    def invalidity(self, *, gone: Mask | None = None, unsaid: Mask | None = None) -> float:
        """Invalidity of the target without the structure edges ``gone`` and the evidence ``unsaid``."""
        evidence = self.evidence if unsaid is None or not unsaid.any() else _kept(self.evidence, ~unsaid)
        direct = direct_evidence(evidence, self.node.size)
        topology = self.topology if gone is None or not gone.any() else self._thinned(gone)
        return float(kernels.propagate(topology, direct).invalidity[0])

    def without_node(self, v: int) -> float:
        """Invalidity of the target without local node v and all its edges."""
        return self.invalidity(
            gone=(self.source == v) | (self.target == v),
            unsaid=(self.evidence.source == v) | (self.evidence.target == v),
        )

    def without_edge(self, i: int) -> float:
        """Invalidity of the target without structure edge i, or beyond those evidence edge."""
        mask = np.arange(self.edge.size + self.spoken.size) == i
        return self.invalidity(gone=mask[: self.edge.size], unsaid=mask[self.edge.size :])

    def _thinned(self, gone: Mask) -> Topology:
        # An edge of weight 0 is no edge, inside a cycle too.
        weight = self.topology.weight.copy()
        weight[self.place[gone]] = 0.0
        return replace(self.topology, weight=weight)


def cut(encoded: EncodedGraph, target: int) -> Cone:
    """Cut out the cone of node ``target``: one look at every edge, then linear in the cone."""
    below = _rests_on(encoded.topology, target)
    local = np.full(encoded.node_count, -1, dtype=np.int64)
    local[below] = np.arange(below.size)
    edge = np.flatnonzero(acting(encoded) & (local[encoded.target] >= 0))
    spoken = _spoken_about(encoded.evidence, local >= 0)
    voices = np.setdiff1d(encoded.evidence.source[spoken], below)
    node = np.concatenate([below, voices.astype(np.int64)])
    local[voices] = np.arange(below.size, node.size)
    source, sink = local[encoded.source[edge]], local[encoded.target[edge]]
    weight, supports = encoded.weight[edge], encoded.supports[edge]
    justification = _justifications(encoded, edge)
    topology = _built(node.size, source, sink, weight, supports, justification)
    evidence = _kept(encoded.evidence, spoken)
    return Cone(
        node=node,
        edge=edge,
        source=source,
        target=sink,
        weight=weight,
        supports=supports,
        justification=justification,
        topology=topology,
        place=_places(topology, source, sink, weight, supports, justification),
        spoken=spoken,
        evidence=replace(
            evidence,
            source=local[evidence.source].astype(np.int32),
            target=local[evidence.target].astype(np.int32),
            trust=evidence.trust[node],
        ),
    )


def _rests_on(topology: Topology, target: int) -> Positions:
    """``target`` and all it rests on, nearest first."""
    first = int(topology.rank[target])
    seen = {first}
    waiting, found = deque([first]), []
    while waiting:
        v = waiting.popleft()
        found.append(v)
        for u in topology.source[topology.indptr[v] : topology.indptr[v + 1]].tolist():
            if u not in seen:
                seen.add(u)
                waiting.append(u)
    return topology.order[found].astype(np.int64)


def _spoken_about(evidence: DirectEvidence, below: Mask) -> Positions:
    """Evidence against or for ``below`` (n,), and the retractions behind whoever speaks."""
    taken = below[evidence.target]
    heard = set(evidence.source[taken].tolist())
    retraction = np.flatnonzero(evidence.kind == KIND[RETRACTS])
    retraction = retraction[np.argsort(evidence.target[retraction], kind="stable")]
    silenced = evidence.target[retraction]
    waiting = list(heard)
    while waiting and retraction.size:
        v = waiting.pop()
        start, end = np.searchsorted(silenced, [v, v + 1])
        taken[retraction[start:end]] = True
        fresh = set(evidence.source[retraction[start:end]].tolist()) - heard
        heard |= fresh
        waiting += fresh
    return np.flatnonzero(taken)


def _justifications(encoded: EncodedGraph, edge: Positions) -> Positions:
    names: dict[tuple[str, str], int] = {}
    items = (encoded.structure[e] for e in edge)
    number = [
        names.setdefault((item.target, item.justification), len(names)) if item.justification else -1
        for item in items
    ]
    # Of a requirement it means nothing.
    return np.where(encoded.supports[edge], np.array(number, dtype=np.int64), -1)


def _built(
    node_count: int,
    source: Positions,
    target: Positions,
    weight: Values,
    supports: Mask,
    justification: Positions,
) -> Topology:
    # Supports of premises are left out before; they need no mark.
    return build_topology(
        node_count,
        source=source,
        target=target,
        weight=weight,
        supports=supports,
        justification=justification,
        dtype=np.float64,
    )


def _places(
    topology: Topology,
    source: Positions,
    target: Positions,
    weight: Values,
    supports: Mask,
    justification: Positions,
) -> Positions:
    """Where each edge stands in ``topology``, by its canonical order of edges."""
    order = np.lexsort((weight, source, justification, supports, topology.rank[target]))
    place = np.empty(order.size, dtype=np.int64)
    place[order] = np.arange(order.size)
    return place


def _kept(evidence: DirectEvidence, which: Mask | Positions) -> DirectEvidence:
    return replace(
        evidence,
        source=evidence.source[which],
        target=evidence.target[which],
        weight=evidence.weight[which],
        kind=evidence.kind[which],
        age=evidence.age[which],
        channel=evidence.channel[which],
    )
