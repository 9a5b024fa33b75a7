"""Direct evidence: what ``overturns`` and ``confirms`` edges say about each memory by themselves.

Arrays in, arrays out, in the caller's numbering; never imports records.  Formulas: SEMANTICS section 2,
noisy-or of [V3] Eq. 4.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from validity_graph.errors import CycleError, InputError
from validity_graph.topology import CONFIRMING, RETRACTING, DirectEvidence

Values = NDArray[np.float64]
Positions = NDArray[np.int64]


def direct_evidence(evidence: DirectEvidence, node_count: int, *, name: Callable[[int], str] = str) -> Values:
    """Direct invalidity ``d`` of every memory, float64[node_count] in [0, 1].

    Edges of one source combine first; then sources, each scaled by its force and by the confirmations
    that are strictly later than it; sources of one channel count once, by their maximum.  ``name`` gives
    memories their names in errors.  Raises ``InputError`` and ``CycleError`` as ``force`` does.
    SEMANTICS section 2.
    """
    strength = force(evidence, node_count, name=name)
    says = evidence.kind != CONFIRMING
    claim = _by_source(evidence, says)
    score = strength[claim.source] * claim.score
    _clear(score, claim, _by_source(evidence, ~says), strength)
    return 1.0 - _survival(claim, score, node_count)


def force(evidence: DirectEvidence, node_count: int, *, name: Callable[[int], str] = str) -> Values:
    """Force ``f`` of every memory as a source, float64[node_count] in [0, 1].

    ``f_s = trust_s * (1 - r_s)``, where ``r_s`` is the noisy-or of the retractions of s by force.
    O(edges), no recursion.  Raises ``InputError`` for arrays that do not fit, ``CycleError`` that names
    the cycle where retractions form one.  SEMANTICS section 2.
    """
    _check(evidence, node_count)
    strength = evidence.trust.astype(np.float64)
    claim = _by_source(evidence, evidence.kind == RETRACTING)
    row = np.searchsorted(claim.target, np.unique(claim.target))
    waiting = np.bincount(claim.target, minlength=node_count)
    by_source = np.argsort(claim.source, kind="stable")
    ends = np.searchsorted(claim.source[by_source], np.arange(node_count + 1))
    ready = [int(v) for v in np.unique(claim.source) if waiting[v] == 0]
    first = dict(zip(claim.target[row].tolist(), row.tolist(), strict=True))
    last = np.searchsorted(claim.target, claim.target[row], side="right")
    stop = dict(zip(claim.target[row].tolist(), last.tolist(), strict=True))
    while ready:
        u = ready.pop()
        if u in first:
            part = slice(first[u], stop[u])
            strength[u] *= _channel_survival(
                strength[claim.source[part]] * claim.score[part], claim.channel[part]
            )
        for i in by_source[ends[u] : ends[u + 1]]:
            v = int(claim.target[i])
            waiting[v] -= 1
            if waiting[v] == 0:
                ready.append(v)
    if waiting.any():
        raise _cycle(claim, waiting, name)
    return strength


class _Claims:
    """What each source says about each target: unique (target, source), sorted by target, then age."""

    __slots__ = ("age", "channel", "score", "source", "target")

    def __init__(self, evidence: DirectEvidence, kept: Positions) -> None:
        order = kept[
            np.lexsort(
                (evidence.weight[kept], evidence.source[kept], evidence.age[kept], evidence.target[kept])
            )
        ]
        source, target = evidence.source[order], evidence.target[order]
        fresh = np.ones(order.size, dtype=bool)
        fresh[1:] = (source[1:] != source[:-1]) | (target[1:] != target[:-1])
        start = np.flatnonzero(fresh)
        self.source = source[start]
        self.target = target[start]
        self.age = evidence.age[order][start]
        self.channel = evidence.channel[order][start]
        absent = 1.0 - evidence.weight[order]
        product = np.multiply.reduceat(absent, start) if start.size else np.empty(0)
        # A single edge keeps its weight to the last bit.
        single = np.diff(start, append=order.size) == 1
        self.score = np.where(single, evidence.weight[order][start], 1.0 - product)


def _by_source(evidence: DirectEvidence, kept: NDArray[np.bool_]) -> _Claims:
    return _Claims(evidence, np.flatnonzero(kept))


def _clear(score: Values, claim: _Claims, confirmation: _Claims, strength: Values) -> None:
    """Scale ``score`` in place by the confirmations of each target that are later than the source."""
    start = np.searchsorted(claim.target, confirmation.target)
    end = np.searchsorted(claim.target, confirmation.target, side="right")
    kept = 1.0 - strength[confirmation.source] * confirmation.score
    for i in range(confirmation.target.size):
        older = start[i] + np.searchsorted(claim.age[start[i] : end[i]], confirmation.age[i])
        score[start[i] : older] *= kept[i]


def _survival(claim: _Claims, score: Values, node_count: int) -> Values:
    """``prod (1 - score)`` over the channels that speak against each memory, float64[node_count]."""
    # A source without a channel is a channel of its own.
    group = np.where(claim.channel < 0, -1 - np.arange(score.size), claim.channel)
    order = np.lexsort((claim.source, group, claim.target))
    target, group = claim.target[order], group[order]
    fresh = np.ones(order.size, dtype=bool)
    fresh[1:] = (group[1:] != group[:-1]) | (target[1:] != target[:-1])
    start = np.flatnonzero(fresh)
    survival = np.ones(node_count)
    if start.size == 0:
        return survival
    strongest = np.maximum.reduceat(score[order], start)
    rows = np.flatnonzero(np.diff(target[start], prepend=-1))
    survival[target[start[rows]]] = np.multiply.reduceat(1.0 - strongest, rows)
    return survival


def _channel_survival(score: Values, channel: NDArray[np.integer]) -> float:
    """``_survival`` for the sources of one memory."""
    strongest: dict[int, float] = {}
    for i, (value, group) in enumerate(zip(score.tolist(), channel.tolist(), strict=True)):
        key = group if group >= 0 else -1 - i
        strongest[key] = max(strongest.get(key, 0.0), value)
    survival = 1.0
    for value in strongest.values():
        survival *= 1.0 - value
    return survival


def _cycle(claim: _Claims, waiting: Positions, name: Callable[[int], str]) -> CycleError:
    """Describe one cycle among the memories that are still ``waiting`` for their retractors."""
    retractor: dict[int, int] = {}
    for u, v in zip(claim.source.tolist(), claim.target.tolist(), strict=True):
        if waiting[v] and waiting[u]:
            retractor[v] = u
    seen: dict[int, None] = {}
    v = next(iter(retractor))
    while v not in seen:
        seen[v] = None
        v = retractor[v]
    walk = list(seen)
    cycle = [v, *reversed(walk[walk.index(v) :])]
    path = " -> ".join(name(i) for i in cycle)
    return CycleError(f"{name(cycle[0])} retracts {name(cycle[1])} in a cycle ({path}); remove one")


def _check(evidence: DirectEvidence, node_count: int) -> None:
    if evidence.trust.shape != (node_count,):
        raise InputError(
            f"trust has shape {evidence.trust.shape}; it needs one number for each of {node_count} memories"
        )
    _refuse(~((evidence.trust >= 0) & (evidence.trust <= 1)), "trust of memory", "must lie in [0, 1]")
    for field in ("target", "weight", "kind", "age", "channel"):
        if getattr(evidence, field).shape != evidence.source.shape:
            raise InputError(
                f"{field} has shape {getattr(evidence, field).shape}; source has {evidence.source.shape}"
            )
    weight = evidence.weight
    _refuse(~((weight >= 0) & (weight <= 1)), "weight of edge", "must lie in [0, 1]")
    for field in ("source", "target"):
        end = getattr(evidence, field)
        _refuse((end < 0) | (end >= node_count), f"{field} of edge", f"must lie in [0, {node_count})")
    _refuse(evidence.kind > CONFIRMING, "kind of edge", "must be 0 supersedes, 1 retracts or 2 confirms")


def _refuse(wrong: NDArray[np.bool_], what: str, why: str) -> None:
    if wrong.any():
        raise InputError(f"{what} {int(np.argmax(wrong))} {why}")
