"""How direct evidence moves with each statement: section 2 of SEMANTICS differentiated.

The formulas of ``direct``, statement by statement, with one sweep back through them: channels and their
maximum, confirmations in order of time, retractions from the last to the first.  Products of the others
are built without dividing, so derivatives are right where a factor is exactly 0 (law 12).  Arrays in,
arrays out, in the caller's numbering; one Python step a statement, for the cone of one memory.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter

import numpy as np
from numpy.typing import NDArray

from validity_graph.kernels.direct import force
from validity_graph.topology import CONFIRMING, RETRACTING, DirectEvidence

Values = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Claim:
    """All that one source says in one sense about one target: ``edges``, together worth ``score``."""

    source: int
    confirms: bool
    age: int
    channel: int
    edges: tuple[int, ...]
    score: float


@dataclass(frozen=True, slots=True)
class Testimony:
    """Claims by target, latest first, and retractions by whom they silence, retractors' own first."""

    evidence: DirectEvidence
    claims: dict[int, list[Claim]]
    retractions: list[tuple[int, list[Claim]]]
    force: Values


@dataclass(frozen=True, slots=True)
class StatementGradient:
    """What a weighted sum of direct evidence owes to whom.

    ``by_weight`` (k,): its derivative by each edge's weight; ``by_source`` (n,): how much the claims of
    each source move it, each by itself, were they not there.
    """

    by_weight: Values
    by_source: Values


def gather(evidence: DirectEvidence, node_count: int) -> Testimony:
    """Sort the statements of ``evidence`` into claims.  Raises as ``direct.force`` does."""
    strength = force(evidence, node_count)
    said: dict[tuple[int, int, bool], list[int]] = defaultdict(list)
    taken_back: dict[tuple[int, int, bool], list[int]] = defaultdict(list)
    rows = zip(evidence.target.tolist(), evidence.source.tolist(), evidence.kind.tolist(), strict=True)
    for e, (target, source, kind) in enumerate(rows):
        said[target, source, kind == CONFIRMING].append(e)
        if kind == RETRACTING:
            taken_back[target, source, False].append(e)
    claims, silencing = _by_target(evidence, said), _by_target(evidence, taken_back)
    order = TopologicalSorter({s: [item.source for item in silencing[s]] for s in silencing})
    return Testimony(
        evidence=evidence,
        claims=claims,
        retractions=[(s, silencing[s]) for s in order.static_order() if s in silencing],
        force=strength,
    )


def statement_gradient(testimony: Testimony, gain: Values) -> StatementGradient:
    """Differentiate ``sum(gain * direct_evidence)``; ``gain`` (n,).  Linear in the statements."""
    ledger = _Ledger(testimony)
    for target, claims in testimony.claims.items():
        if gain[target] != 0.0:
            _differentiate_target(claims, testimony.force, float(gain[target]), ledger)
    trust = testimony.evidence.trust
    for silenced, claims in reversed(testimony.retractions):
        share = float(ledger.by_force[silenced] * trust[silenced])
        if share != 0.0:
            _differentiate_force(claims, testimony.force, share, ledger)
    return StatementGradient(by_weight=ledger.by_weight, by_source=ledger.by_source)


def statement_credit(testimony: Testimony, share: Values) -> tuple[Values, Values]:
    """Hand ``share`` (n,), what enters at each target, to edges (k,) and sources (n,) by what they say.

    Of each channel to its strongest claim, in proportion to what force and confirmations leave of it.
    """
    by_edge, by_source = np.zeros(testimony.evidence.weight.size), np.zeros(share.size)
    for target, claims in testimony.claims.items():
        value, _ = _values(claims, testimony.force)
        strongest = _strongest(claims, value)
        whole = sum(value[i] for i in strongest)
        if share[target] == 0.0 or whole == 0.0:
            continue
        for i in strongest:
            part = float(share[target]) * value[i] / whole
            by_source[claims[i].source] += part
            by_edge[list(claims[i].edges)] += part
    return by_edge, by_source


class _Ledger:
    """What the sweep back has gathered so far."""

    __slots__ = ("_weight", "by_force", "by_source", "by_weight")

    def __init__(self, testimony: Testimony) -> None:
        self._weight = testimony.evidence.weight
        self.by_weight = np.zeros(self._weight.size)
        self.by_source = np.zeros(testimony.force.size)
        self.by_force = np.zeros(testimony.force.size)

    def book(self, claim: Claim, by_score: float) -> None:
        self.by_source[claim.source] += abs(by_score * claim.score)
        absent = [1.0 - float(self._weight[e]) for e in claim.edges]
        for e, others in zip(claim.edges, _others(absent), strict=True):
            self.by_weight[e] += by_score * others


def _by_target(
    evidence: DirectEvidence, grouped: dict[tuple[int, int, bool], list[int]]
) -> dict[int, list[Claim]]:
    """Claims of each target, latest first; of one age what is said against it comes first."""
    claims: dict[int, list[Claim]] = defaultdict(list)
    for (target, source, confirms), edges in grouped.items():
        claim = Claim(
            source=source,
            confirms=confirms,
            age=int(evidence.age[edges[0]]),
            channel=int(evidence.channel[edges[0]]),
            edges=tuple(edges),
            score=1.0 - math.prod(1.0 - float(evidence.weight[e]) for e in edges),
        )
        claims[target].append(claim)
    for said in claims.values():
        said.sort(key=lambda claim: (-claim.age, claim.confirms))
    return dict(claims)


def _values(claims: Sequence[Claim], strength: Values) -> tuple[list[float], list[float]]:
    """Weight of each claim (0 for a confirmation), and what later confirmations leave of it."""
    value, left = [], []
    kept = 1.0
    for claim in claims:
        left.append(kept)
        acts = float(strength[claim.source]) * claim.score
        value.append(0.0 if claim.confirms else acts * kept)
        if claim.confirms:
            kept *= 1.0 - acts
    return value, left


def _strongest(claims: Sequence[Claim], value: Sequence[float]) -> list[int]:
    """Positions of the claims that count: the strongest of each channel."""
    best: dict[int, int] = {}
    for i, claim in enumerate(claims):
        if claim.confirms:
            continue
        # A source without a channel is a channel of its own.
        key = claim.channel if claim.channel >= 0 else -1 - i
        if key not in best or value[i] > value[best[key]]:
            best[key] = i
    return list(best.values())


def _differentiate_target(claims: Sequence[Claim], strength: Values, gain: float, ledger: _Ledger) -> None:
    value, left = _values(claims, strength)
    strongest = _strongest(claims, value)
    others = _others([1.0 - value[i] for i in strongest])
    by_value = dict(zip(strongest, others, strict=True))
    by_left = 0.0
    for i in range(len(claims) - 1, -1, -1):
        claim, acts = claims[i], float(strength[claims[i].source])
        if claim.confirms:
            share = -by_left * left[i]
            by_left *= 1.0 - acts * claim.score
        else:
            step = gain * by_value.get(i, 0.0)
            by_left += step * acts * claim.score
            share = step * left[i]
        ledger.book(claim, share * acts)
        ledger.by_force[claim.source] += share * claim.score


def _differentiate_force(claims: Sequence[Claim], strength: Values, share: float, ledger: _Ledger) -> None:
    """Book what the retractions of one source do to its force, on which ``share`` depends."""
    value = [float(strength[claim.source]) * claim.score for claim in claims]
    strongest = _strongest(claims, value)
    for i, others in zip(strongest, _others([1.0 - value[i] for i in strongest]), strict=True):
        step = -share * others
        ledger.book(claims[i], step * float(strength[claims[i].source]))
        ledger.by_force[claims[i].source] += step * claims[i].score


def _others(factor: Sequence[float]) -> list[float]:
    """For each factor the product of the others."""
    behind = [1.0] * len(factor)
    for i in range(len(factor) - 2, -1, -1):
        behind[i] = behind[i + 1] * factor[i + 1]
    before = 1.0
    for i, here in enumerate(factor):
        behind[i] *= before
        before *= here
    return behind
