"""What a verdict hinges on: the same graph, had one memory or one edge never been there.

``without`` answers for one memory or edge, exactly: it computes the target's cone again.  ``hinges``
ranks all of them, screened by gradient and then computed exactly; ``blast_radius`` looks the other way.
Mean field (SEMANTICS section 3), cycles included.  The rest of the moment stays as it was encoded: the
order of the others in time, loops of supersession as they were resolved, and retractions that reached a
record of the same words.  Reads the arrays of one moment; knows no store.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from validity_graph import kernels
from validity_graph.ancestry import Cone, Mask, Values, cut
from validity_graph.encode import FORGOTTEN, PSEUDO, EncodedGraph
from validity_graph.errors import InputError
from validity_graph.explain import Findings
from validity_graph.kernels.direct import direct_evidence
from validity_graph.records import Edge
from validity_graph.topology import DirectEvidence, Topology

#: A change up to this is what rounding and the fixpoint's tolerance leave, not an effect.
TOLERANCE = 1e-8
#: The screen looks at the gradient where the graph is softened, too: weights, trust and all that is said
#: this times as strong, and everybody in doubt by the rest; see ``hinges``.
_SOFT = 0.9


@dataclass(frozen=True, slots=True)
class Hinge:
    """Had ``memory`` (or ``edge``; the other is ``None``) never been there: invalidity before and after."""

    memory: str | None
    edge: Edge | None
    before: float
    after: float

    @property
    def change(self) -> float:
        """``after - before``: below 0 where it speaks against the target, above where it holds it up."""
        return self.after - self.before

    def __str__(self) -> str:
        """Return it as people say it."""
        name = self.memory
        if self.edge is not None:
            name = f"{self.edge.source} -{self.edge.type}-> {self.edge.target}"
        return f"without {name}: {self.before:.2f} -> {self.after:.2f}"


@dataclass(frozen=True, slots=True)
class Fallout:
    """What memory ``id`` would go through: its invalidity before and after another one fell."""

    id: str
    before: float
    after: float

    def __str__(self) -> str:
        """Return it as people say it."""
        return f"{self.id}: {self.before:.2f} -> {self.after:.2f}"


def without(
    encoded: EncodedGraph, target: int, *, memory: int | None = None, edge: Edge | None = None
) -> float:
    """Return the invalidity of node ``target`` had node ``memory``, or ``edge``, never been there.

    Exact, by computing the target's cone again: what it rests on, what speaks about that, and what takes
    back or confirms.  What lies outside changes nothing.  ``edge`` is found by its ``key``.  Linear in the
    cone's edges after one look at all of them.  Raises ``InputError`` unless one of the two is named, for a
    node that is not there or is ``target`` itself, and for an edge that is not there.
    """
    if (memory is None) == (edge is None):
        raise InputError("name either the memory or the edge to leave out, not both or neither")
    _check_node(encoded, target)
    cone = cut(encoded, target)
    if memory is not None:
        _check_node(encoded, memory)
        if memory == target:
            raise InputError(f'"{encoded.ids[target]}" cannot be judged without itself; name another memory')
        inside = np.flatnonzero(cone.node == memory)
        return cone.without_node(int(inside[0])) if inside.size else cone.invalidity()
    assert edge is not None
    structure = np.array([encoded.structure[e].key == edge.key for e in cone.edge], dtype=np.bool_)
    spoken = np.array([encoded.spoken[k].key == edge.key for k in cone.spoken], dtype=np.bool_)
    everything = chain(encoded.structure, encoded.spoken, encoded.inert)
    if not (structure.any() or spoken.any() or any(item.key == edge.key for item in everything)):
        raise InputError(f"there is no {edge.type} edge {edge.source} -> {edge.target} to leave out")
    return cone.invalidity(gone=structure, unsaid=spoken)


def hinges(encoded: EncodedGraph, target: int, *, count: int = 10) -> list[Hinge]:
    """Return the ``count`` memories and edges on which the verdict on ``target`` hinges most.

    Largest change first; of equal changes memories before edges, then what lies farther back.  What
    changes nothing is left out, so a verdict with two sufficient causes may hinge on neither.

    Every change is exact, by ``without``; only which of them are computed, at most ``2 * count`` memories
    and ``2 * count`` edges, is decided by first-order change.  The gradient as it stands would miss joint
    causes: one that acts over two certain ways at once has derivative 0, for each way makes up for the
    other, and yet without it both are gone; so has one that holds up two alternatives.  So half of the
    places go to the largest of gradient and ``credit``, which hands out the invalidity along its ways and
    gives all of it to what all ways lead through, and half to the gradient of a softened graph, where no
    factor is 0.  Linear in the cone's edges, times ``4 * count``.
    Raises ``InputError`` for a node that is not there or a ``count`` below 1.
    """
    _check_node(encoded, target)
    if count < 1:
        raise InputError(f"count={count} must be at least 1")
    cone = cut(encoded, target)
    before = cone.invalidity()
    names = [encoded.ids[v] for v in cone.node]
    edges = [encoded.structure[e] for e in cone.edge] + [encoded.spoken[k] for k in cone.spoken]
    distance = np.concatenate([cone.target, cone.evidence.target])
    is_other = np.array([v > 0 and not name.startswith(FORGOTTEN) for v, name in enumerate(names)])
    by_hand = np.array([not item.source.startswith(PSEUDO) for item in edges], dtype=np.bool_)
    nodes: set[int] = set()
    places: set[int] = set()
    for by_node, by_edge in _screens(cone):
        nodes |= set(_largest(by_node * is_other, np.arange(cone.node.size), count))
        places |= set(_largest(by_edge * by_hand, distance, count))
    # What lies farther back first; the sort is stable, and rounding makes equal changes equal.
    found = [Hinge(names[v], None, before, cone.without_node(v)) for v in sorted(nodes, reverse=True)]
    found += [
        Hinge(None, edges[i], before, cone.without_edge(i))
        for i in sorted(places, key=lambda i: (-int(distance[i]), i))
    ]
    found = [item for item in found if abs(item.change) > TOLERANCE]
    return sorted(found, key=lambda item: -round(abs(item.change), 9))[:count]


def blast_radius(findings: Findings, node: int) -> list[Fallout]:
    """Return what would fall if node ``node`` fell (d = 1), most harmed first.

    Only memories that rest on it can be among them (SEMANTICS law 4); those that stay as they are, and the
    node itself, are left out.  ``findings`` by ``noisy_or``.  One pass of the kernel, exact, cycles
    included.  Raises ``InputError`` for a node that is not there.
    """
    encoded = findings.encoded
    _check_node(encoded, node)
    direct = findings.direct.copy()
    direct[node] = 1.0
    after = kernels.propagate(encoded.topology, direct).invalidity.astype(np.float64)
    hit = fallen(findings.invalidity, after)
    return [
        Fallout(encoded.ids[v], float(findings.invalidity[v]), float(after[v]))
        for v in hit.tolist()
        if v != node and v in encoded.memory
    ]


def fallen(before: Values, after: Values) -> NDArray[np.int64]:
    """Return the nodes whose invalidity rose from ``before`` to ``after``, (n,) each, most harmed first."""
    harm = after - before
    hit = np.flatnonzero(harm > TOLERANCE)
    return hit[np.argsort(-harm[hit], kind="stable")]


def _screens(cone: Cone) -> list[tuple[Values, Values]]:
    """Score every node, and every structure and then evidence edge, by the change that it may make.

    By the larger of gradient and credit, and by the gradient of the softened graph; see ``hinges``.
    """
    from validity_graph.kernels.adjoint import credit
    from validity_graph.kernels.testimony import gather, statement_credit

    direct = direct_evidence(cone.evidence, cone.node.size)
    invalidity = kernels.propagate(cone.topology, direct).invalidity
    steep = _gradient_screen(cone, cone.topology, cone.evidence, direct)
    order, start = cone.topology.order, int(cone.topology.rank[0])
    share = credit(cone.topology, direct[order], invalidity[order], target=start)
    spoken, voice = statement_credit(gather(cone.evidence, cone.node.size), share.direct[cone.topology.rank])
    flow = share.edge[cone.place]
    node = voice + np.bincount(cone.source, weights=flow, minlength=cone.node.size)

    topology = replace(cone.topology, weight=cone.topology.weight * _SOFT)
    evidence = replace(cone.evidence, weight=cone.evidence.weight * _SOFT, trust=cone.evidence.trust * _SOFT)
    direct = 1.0 - _SOFT * (1.0 - direct_evidence(evidence, cone.node.size))
    # A requirement that stands is no cause, even where the softened graph doubts it.
    doubted = cone.supports | (invalidity[cone.source] > 0.0)
    soft = _gradient_screen(cone, topology, evidence, direct, counted=doubted)
    # Around a loop the same credit passes more than once.
    node = np.minimum(node, invalidity[0])
    flow = np.minimum(np.concatenate([flow, spoken]), invalidity[0])
    return [(np.maximum(steep[0], node), np.maximum(steep[1], flow)), soft]


def _gradient_screen(
    cone: Cone, topology: Topology, evidence: DirectEvidence, direct: Values, *, counted: Mask | None = None
) -> tuple[Values, Values]:
    """First-order change, in [0, 1], were each node, and each edge, not there.

    Of the structure edges only those that are ``counted`` (edges,), or all.
    """
    from validity_graph.kernels.adjoint import gradient
    from validity_graph.kernels.testimony import gather, statement_gradient

    invalidity = kernels.propagate(topology, direct).invalidity
    order, start = topology.order, int(topology.rank[0])
    moved = gradient(topology, direct[order], invalidity[order], target=start)
    said = statement_gradient(gather(evidence, cone.node.size), moved.by_direct[topology.rank])
    edge = np.abs(moved.by_weight * topology.weight)[cone.place]
    if counted is not None:
        edge = edge * counted
    node = said.by_source + np.bincount(cone.source, weights=edge, minlength=cone.node.size)
    spoken = np.abs(said.by_weight * evidence.weight)
    return np.minimum(node, 1.0), np.minimum(np.concatenate([edge, spoken]), 1.0)


def _largest(score: Values, distance: NDArray[np.integer], count: int) -> list[int]:
    """Positions of the ``count`` largest scores over 0; of equal ones those with the larger ``distance``."""
    effective = np.flatnonzero(score > 0.0)
    # Scores can be minute behind many ways; rounding their logarithm makes equals equal.
    size = np.round(np.log(score[effective]), 6)
    return [int(i) for i in effective[np.lexsort((-distance[effective], -size))[:count]]]


def _check_node(encoded: EncodedGraph, v: int) -> None:
    if not 0 <= v < encoded.node_count:
        raise InputError(f"node {v} is not in this graph; it must lie in [0, {encoded.node_count})")
