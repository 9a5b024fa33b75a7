"""Why a memory is invalid: evidence paths, reasons and verdicts.

Reads the arrays of one moment and the invalidity that a kernel found on them; propagates nothing itself.
A path runs from the memory that speaks, over the edge with which it speaks, along requirements and
supports.  Its strength is the product of its weights, its bottleneck the weakest (SEMANTICS section 6).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from validity_graph.encode import EncodedGraph
from validity_graph.paths import Ground, strongest_paths, widest_path
from validity_graph.records import (
    CONFIRMS,
    RETRACTS,
    RULING,
    Edge,
    Explanation,
    Path,
    Reason,
    Source,
    Status,
    Verdict,
)
from validity_graph.trails import Inflow, Said, Trails

Values = NDArray[np.float64]


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
    said, trails = contributions(findings), Trails()
    everything = np.arange(encoded.node_count)
    trails.retrace(everything, said=said, inflow=_inflow(findings), count=encoded.node_count)
    return {
        encoded.ids[v]: verdict(Account.of(findings, v), said.get(v, {}), trails, v, thresholds=thresholds)
        for v in encoded.memory
    }


def explanation(ground: Ground, target: int, *, verdict: Verdict, count: int) -> Explanation:
    """Return the ``count`` strongest evidence paths to node ``target``, and the widest."""
    paths = strongest_paths(ground, target, count=count)
    return Explanation(
        verdict=verdict,
        paths=tuple(paths),
        strength=tuple(path.strength for path in paths),
        bottleneck=tuple(path.bottleneck for path in paths),
        widest=widest_path(ground, target),
    )


def ground_of(findings: Findings) -> Ground:
    """Return what paths to any node lead over."""
    return Ground.of(contributions(findings), _inflow(findings))


def contributions(findings: Findings) -> dict[int, dict[int, Said]]:
    """Return what each source says against each target: target -> source -> what is left of its word."""
    evidence = findings.encoded.evidence
    by_target: dict[int, list[tuple[int, int, Edge]]] = defaultdict(list)
    for k, item in enumerate(findings.encoded.spoken):
        by_target[int(evidence.target[k])].append((int(evidence.source[k]), int(evidence.age[k]), item))
    heard = ((target, left_of(words, findings.force)) for target, words in by_target.items())
    return {target: said for target, said in heard if said}


def left_of(words: Iterable[tuple[int, int, Edge]], force: Sequence[float] | Values) -> dict[int, Said]:
    """Return what is left of the ``words`` about one target, ``(source, age, edge)`` each, by source.

    ``f_s * source_score(s, t) * prod_c (1 - f_c w_ct)`` of SEMANTICS section 2, scores over 0 only.
    """
    spoken: dict[tuple[int, int], list[Edge]] = defaultdict(list)
    cleared: list[tuple[int, float]] = []
    for source, age, item in sorted(words, key=lambda word: (word[1], word[2].key)):
        if item.type == CONFIRMS:
            cleared.append((age, 1.0 - float(force[source]) * item.weight))
        else:
            spoken[source, age].append(item)
    said = {}
    for (source, age), items in spoken.items():
        score = float(force[source]) * (1.0 - math.prod(1.0 - item.weight for item in items))
        score *= math.prod(kept for later, kept in cleared if later > age)
        if score > 0.0:
            said[source] = Said(score, max(items, key=lambda item: item.weight), age)
    return said


@dataclass(frozen=True, slots=True)
class Account:
    """What one verdict is made of; the fields as in ``Findings``, of one memory."""

    id: str
    invalidity: float
    direct: float
    requirement: float
    support: float
    bounds: tuple[float, float] | None
    ids: Sequence[str]

    @classmethod
    def of(cls, findings: Findings, v: int) -> Account:
        """Return that of node ``v``."""
        bounds = None
        if findings.low is not None and findings.high is not None:
            bounds = (float(findings.low[v]), float(findings.high[v]))
        return cls(
            id=findings.encoded.ids[v],
            invalidity=float(findings.invalidity[v]),
            direct=float(findings.direct[v]),
            requirement=float(findings.requirement[v]),
            support=float(findings.support[v]),
            bounds=bounds,
            ids=findings.encoded.ids,
        )


def verdict(
    account: Account, said: Mapping[int, Said], trails: Trails, v: int, *, thresholds: Thresholds
) -> Verdict:
    """Return the verdict on node ``v``: ``said`` against it by source, and the trails that lead to it."""
    path = trails.path(v)
    ranked = sorted(said.items(), key=lambda item: (-item[1].score, item[1].age))
    return Verdict(
        id=account.id,
        status=thresholds.status(account.invalidity),
        reason=_reason(account, [item.edge for _, item in ranked]),
        invalidity=account.invalidity,
        direct=account.direct,
        inherited=1.0 - (1.0 - account.requirement) * (1.0 - account.support),
        interval=_interval(account, path, requires_only=trails.requires_only(v)),
        sources=tuple(Source(account.ids[s], item.score) for s, item in ranked),
        hops=path,
    )


def _reason(account: Account, edges: Sequence[Edge]) -> Reason:
    if account.invalidity == 0.0:
        return Reason.NONE
    if account.direct >= max(account.requirement, account.support) and edges:
        if edges[0].source.startswith(RULING):
            return Reason.RULED
        return Reason.RETRACTED if edges[0].kind == RETRACTS else Reason.SUPERSEDED
    return Reason.LOST_REQUIREMENT if account.requirement >= account.support else Reason.LOST_SUPPORT


def _interval(account: Account, path: Path | tuple[()], *, requires_only: bool) -> tuple[float, float]:
    """Bounds of SEMANTICS section 4: strongest path and noisy-or where only requirements lead here.

    Elsewhere, without bounds from the method, what is certain is only that direct evidence counts.
    """
    if account.bounds is not None:
        return account.bounds
    if account.invalidity == 0.0:
        return (0.0, 0.0)
    if requires_only:
        strength = path.strength if isinstance(path, Path) else 0.0
        return (min(strength, account.invalidity), account.invalidity)
    return (account.direct, 1.0)


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


def _inflow(findings: Findings) -> Inflow:
    encoded = findings.encoded
    e = _live(findings)
    structure = encoded.structure
    return Inflow(
        source=encoded.source[e].astype(np.int64),
        target=encoded.target[e].astype(np.int64),
        weight=encoded.weight[e],
        support=encoded.supports[e],
        edge=lambda k: structure[e[k]],
    )
