"""Why a memory is invalid: evidence paths, reasons and verdicts.

Reads the arrays of one moment and the invalidity that a kernel found on them; propagates nothing itself.
A path runs from the memory that speaks, over the edge with which it speaks, along requirements and
supports.  Its strength is the product of its weights, its bottleneck the weakest (SEMANTICS section 6).
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from validity_graph.encode import EncodedGraph
from validity_graph.records import (
    CONFIRMS,
    RETRACTS,
    RULING,
    Edge,
    Explanation,
    Hop,
    Path,
    Reason,
    Source,
    Status,
    Verdict,
)

# Among equally strong paths the one with fewer hops is shown.
_HOP_COST = 1e-9


@dataclass(frozen=True, slots=True)
class Thresholds:
    """From ``context`` on a memory is possibly outdated, from ``decision`` on it is outdated; in [0, 1]."""

    context: float = 0.3
    decision: float = 0.5

    def status(self, invalidity: float) -> Status:
        """Return what an invalidity in [0, 1] means."""
        if invalidity >= self.decision:
            return Status.OUTDATED
        return Status.POSSIBLY_OUTDATED if invalidity >= self.context else Status.VALID


@dataclass(frozen=True, slots=True)
class Findings:
    """What a kernel found on ``encoded``, all in its numbering, shape ``(node_count,)``.

    ``direct`` is d of SEMANTICS section 2, ``requirement`` and ``support`` are q and l of section 3,
    ``force`` is f of section 2; ``low`` and ``high`` bound the invalidity where the method knows bounds.
    """

    encoded: EncodedGraph
    invalidity: NDArray[np.float64]
    direct: NDArray[np.float64]
    requirement: NDArray[np.float64]
    support: NDArray[np.float64]
    force: NDArray[np.float64]
    low: NDArray[np.float64] | None = None
    high: NDArray[np.float64] | None = None


def verdicts(findings: Findings, *, thresholds: Thresholds) -> dict[str, Verdict]:
    """Return one verdict a memory, in arrival order."""
    encoded = findings.encoded
    spoken = contributions(findings)
    forest = _Forest(findings, spoken)
    return {
        encoded.ids[v]: _verdict(findings, v, spoken.get(v, {}), forest, thresholds)
        for v in range(encoded.memory_count)
    }


def explanation(findings: Findings, target: int, *, verdict: Verdict, count: int) -> Explanation:
    """Return the ``count`` strongest evidence paths to node ``target``, and the widest."""
    paths = strongest_paths(findings, target, count=count)
    return Explanation(
        verdict=verdict,
        paths=tuple(paths),
        strength=tuple(path.strength for path in paths),
        bottleneck=tuple(path.bottleneck for path in paths),
        widest=widest_path(findings, target),
    )


def contributions(findings: Findings) -> dict[int, dict[int, tuple[float, Edge]]]:
    """Return what each source says against each target: target -> source -> (score, strongest edge).

    ``f_s * source_score(s, t) * prod_c (1 - f_c w_ct)`` of SEMANTICS section 2, scores over 0 only.
    """
    encoded, evidence = findings.encoded, findings.encoded.evidence
    said: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    cleared: dict[int, list[int]] = defaultdict(list)
    for k, item in enumerate(encoded.spoken):
        target = int(evidence.target[k])
        if item.type == CONFIRMS:
            cleared[target].append(k)
        else:
            said[target][int(evidence.source[k])].append(k)
    found: dict[int, dict[int, tuple[float, Edge]]] = {}
    for target, sources in said.items():
        for source, positions in sources.items():
            score = findings.force[source] * (1.0 - math.prod(1.0 - evidence.weight[k] for k in positions))
            for c in cleared[target]:
                if evidence.age[c] > evidence.age[positions[0]]:
                    score *= 1.0 - findings.force[evidence.source[c]] * evidence.weight[c]
            if score > 0.0:
                strongest = max(positions, key=lambda k: float(evidence.weight[k]))
                found.setdefault(target, {})[source] = (float(score), encoded.spoken[strongest])
    return found


@dataclass(frozen=True, slots=True)
class _Tail:
    """The end of a path, from node ``v`` on: the edge that leaves v, and the tail behind it."""

    v: int
    edge: int
    behind: _Tail | None

    def holds(self, v: int) -> bool:
        """Whether the path runs through node v already."""
        here: _Tail | None = self
        while here is not None:
            if here.v == v:
                return True
            here = here.behind
        return False


def strongest_paths(findings: Findings, target: int, *, count: int) -> list[Path]:
    """Return up to ``count`` strongest loop-free evidence paths to node ``target``, strongest first.

    A best-first search backwards over the cone that settles each node at most ``count`` times, so it is
    linear in the cone's edges times ``count``, with a heap's logarithm.
    """
    encoded = findings.encoded
    spoken, into, circular = contributions(findings), _structure_into(findings), _circular(encoded)
    settled: dict[int, int] = defaultdict(int)
    found: list[Path] = []
    ticket = itertools.count()
    waiting: list[tuple[float, int, int, _Tail | None, Path | None]] = [(0.0, 0, target, None, None)]
    while waiting and len(found) < count:
        cost, _, v, tail, start = heapq.heappop(waiting)
        if start is not None:
            found.append(_joined(encoded, start, tail))
            continue
        settled[v] += 1
        if settled[v] > count:
            continue
        for score, edge in spoken.get(v, {}).values():
            entry = (cost + _cost(score), next(ticket), v, tail, Path(_hop(edge, weight=score)))
            heapq.heappush(waiting, entry)
        for e in into.get(v, ()):
            u = int(encoded.source[e])
            # Only inside a component can a path come back to where it was.
            if u in circular and (u == v or (tail is not None and tail.holds(u))):
                continue
            step = cost + _cost(float(encoded.weight[e]))
            heapq.heappush(waiting, (step, next(ticket), u, _Tail(v, e, tail), None))
    return found


def widest_path(findings: Findings, target: int) -> Path | tuple[()]:
    """Return the evidence path to node ``target`` whose weakest hop is strongest; empty without evidence.

    Its ``bottleneck`` is the credit of the best explanation, the operator of [PRM] Eq. 8 on the graph
    (SEMANTICS section 6).  Among equally wide ones a short one.  Best first, each node settled once:
    linear in the cone's edges, with a heap's logarithm.
    """
    encoded = findings.encoded
    spoken, into = contributions(findings), _structure_into(findings)
    settled: set[int] = set()
    ticket = itertools.count()
    waiting: list[tuple[float, int, int, int, _Tail | None, Path | None]] = [
        (-1.0, 0, next(ticket), target, None, None)
    ]
    while waiting:
        width, hops, _, v, tail, start = heapq.heappop(waiting)
        if start is not None:
            return _joined(encoded, start, tail)
        if v in settled:
            continue
        settled.add(v)
        for score, edge in spoken.get(v, {}).values():
            entry = (max(width, -score), hops + 1, next(ticket), v, tail, Path(_hop(edge, weight=score)))
            heapq.heappush(waiting, entry)
        for e in into.get(v, ()):
            u = int(encoded.source[e])
            if u not in settled:
                step = max(width, -float(encoded.weight[e]))
                heapq.heappush(waiting, (step, hops + 1, next(ticket), u, _Tail(v, e, tail), None))
    return ()


def _joined(encoded: EncodedGraph, start: Path, tail: _Tail | None) -> Path:
    path = start
    while tail is not None:
        path = Path(_hop(encoded.structure[tail.edge]), path)
        tail = tail.behind
    return path


def _circular(encoded: EncodedGraph) -> set[int]:
    """Nodes inside a strongly connected component of more than one."""
    topology = encoded.topology
    spans = zip(topology.component_start, topology.component_end, strict=True)
    return {int(v) for start, end in spans for v in topology.order[start:end]}


def _verdict(
    findings: Findings,
    v: int,
    spoken: Mapping[int, tuple[float, Edge]],
    forest: _Forest,
    thresholds: Thresholds,
) -> Verdict:
    encoded = findings.encoded
    invalidity = float(findings.invalidity[v])
    direct = float(findings.direct[v])
    inherited = 1.0 - (1.0 - float(findings.requirement[v])) * (1.0 - float(findings.support[v]))
    path = forest.path(v)
    ranked = sorted(spoken.items(), key=lambda item: (-item[1][0], item[0]))
    strength = path.strength if isinstance(path, Path) else 0.0
    return Verdict(
        id=encoded.ids[v],
        status=thresholds.status(invalidity),
        reason=_reason(findings, v, [edge for _, (_, edge) in ranked]),
        invalidity=invalidity,
        direct=direct,
        inherited=inherited,
        interval=_interval(findings, v, strength=strength, forest=forest),
        sources=tuple(Source(encoded.ids[s], score) for s, (score, _) in ranked),
        hops=path,
    )


def _reason(findings: Findings, v: int, edges: Sequence[Edge]) -> Reason:
    requirement, support = findings.requirement[v], findings.support[v]
    if findings.invalidity[v] == 0.0:
        return Reason.NONE
    if findings.direct[v] >= max(requirement, support) and edges:
        if edges[0].source.startswith(RULING):
            return Reason.RULED
        return Reason.RETRACTED if edges[0].kind == RETRACTS else Reason.SUPERSEDED
    return Reason.LOST_REQUIREMENT if requirement >= support else Reason.LOST_SUPPORT


def _interval(findings: Findings, v: int, *, strength: float, forest: _Forest) -> tuple[float, float]:
    """Bounds of SEMANTICS section 4: strongest path and noisy-or where only requirements lead here.

    Elsewhere, without bounds from the method, what is certain is only that direct evidence counts.
    """
    invalidity = float(findings.invalidity[v])
    if findings.low is not None and findings.high is not None:
        return (float(findings.low[v]), float(findings.high[v]))
    if invalidity == 0.0:
        return (0.0, 0.0)
    if forest.requires_only(v):
        return (min(strength, invalidity), invalidity)
    return (float(findings.direct[v]), 1.0)


class _Forest:
    """The strongest evidence path to every invalid node, by one shortest-path run over what is invalid."""

    def __init__(self, findings: Findings, spoken: Mapping[int, Mapping[int, tuple[float, Edge]]]) -> None:
        self._findings = findings
        self._spoken = spoken
        encoded = findings.encoded
        self._live = _live(findings)
        self._origin = encoded.node_count
        self._edge: dict[tuple[int, int], int] = {}
        for e in self._live:
            ends = (int(encoded.source[e]), int(encoded.target[e]))
            if ends not in self._edge or encoded.weight[self._edge[ends]] < encoded.weight[e]:
                self._edge[ends] = int(e)
        self._best = {
            v: max(sources.items(), key=lambda item: item[1][0])
            for v, sources in self._spoken.items()
            if sources
        }
        self._paths: dict[int, Path] = {}
        self._before = self._run()
        self._mixed = self._reached_by_support()

    def _run(self) -> NDArray[np.int32]:
        encoded, size = self._findings.encoded, self._origin + 1
        if not self._best:
            return np.full(size, -1, dtype=np.int32)
        ends = list(self._edge)
        source = [u for u, _ in ends] + [self._origin] * len(self._best)
        target = [v for _, v in ends] + list(self._best)
        weight = [float(encoded.weight[e]) for e in self._edge.values()]
        weight += [score for _, (score, _) in self._best.values()]
        cost = -np.log(np.array(weight)) + _HOP_COST
        graph = csr_array((cost, (source, target)), shape=(size, size))
        _, before = dijkstra(graph, indices=np.array(self._origin), return_predecessors=True)
        return np.asarray(before, dtype=np.int32)

    def _reached_by_support(self) -> set[int]:
        """Nodes whose invalidity may come over a support."""
        encoded = self._findings.encoded
        onward: dict[int, list[int]] = defaultdict(list)
        for e in self._live:
            onward[int(encoded.source[e])].append(int(encoded.target[e]))
        waiting = [int(encoded.target[e]) for e in self._live if encoded.supports[e]]
        reached = set(waiting)
        while waiting:
            for v in onward[waiting.pop()]:
                if v not in reached:
                    reached.add(v)
                    waiting.append(v)
        return reached

    def requires_only(self, v: int) -> bool:
        return v not in self._mixed

    def path(self, v: int) -> Path | tuple[()]:
        if self._before[v] < 0:
            return ()
        steps = [v]
        while steps[-1] not in self._paths and (u := int(self._before[steps[-1]])) != self._origin:
            steps.append(u)
        # The last step is known, or the evidence speaks there.
        for v in reversed(steps):
            if v not in self._paths:
                self._paths[v] = self._lengthened(v)
        return self._paths[steps[0]]

    def _lengthened(self, v: int) -> Path:
        u = int(self._before[v])
        if u == self._origin:
            _, (score, edge) = self._best[v]
            return Path(_hop(edge, weight=score))
        return Path(_hop(self._findings.encoded.structure[self._edge[u, v]]), self._paths[u])


def acting(encoded: EncodedGraph) -> NDArray[np.bool_]:
    """Which structure edges take part in propagation, ``(edges,)``: all but supports of a premise."""
    topology = encoded.topology
    row = topology.rank[encoded.target]
    has_support = topology.requires_end[row] < topology.indptr[row + 1]
    taken: NDArray[np.bool_] = ~encoded.supports | has_support
    return taken


def _live(findings: Findings) -> NDArray[np.int64]:
    """Structure edges over which invalidity comes."""
    encoded = findings.encoded
    failing = findings.invalidity[encoded.source] > 0.0
    return np.flatnonzero(failing & (encoded.weight > 0.0) & acting(encoded))


def _structure_into(findings: Findings) -> dict[int, list[int]]:
    encoded = findings.encoded
    into: dict[int, list[int]] = defaultdict(list)
    for e in _live(findings):
        into[int(encoded.target[e])].append(int(e))
    return into


def _hop(edge: Edge, *, weight: float | None = None) -> Hop:
    """Return the edge as a hop; for evidence ``weight`` is what is left after force and confirmations."""
    return Hop(
        source=edge.source,
        target=edge.target,
        type=edge.type,
        weight=edge.weight if weight is None else weight,
        evidence=edge.evidence,
        inferred=edge.inferred,
    )


def _cost(weight: float) -> float:
    return math.inf if weight <= 0.0 else -math.log(weight) + _HOP_COST
