"""Which pairs the second head is worth asking about ([V3] section 13, and influence beyond it).

A pair whose cheap score is so low, or so high and so unanimous, that the second head practically never
disagrees, or whose verdict moves nothing downstream, is settled by the cheap head.
Arrays in, a plan out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from validity_graph.errors import InputError
from validity_graph.records import probability


class Route(str, Enum):
    """Why a pair stopped at the cheap head, or that it goes on."""

    REJECT = "reject"  #: the cheap score is low
    ACCEPT = "accept"  #: the cheap score is high and every part of its evidence agrees
    NO_INFLUENCE = "no_influence"  #: the graph says that the verdict moves less than anyone would notice
    UNREADABLE = "unreadable"  #: the second head's vocabulary lacks the script
    ASK = "ask"  #: the second head decides


@dataclass(frozen=True, slots=True)
class RoutingReport:
    """How many pairs went which way; ``stopped_cheap`` is the fraction that the second head never saw."""

    count: Mapping[Route, int]

    @property
    def pairs(self) -> int:
        """Pairs routed in all."""
        return sum(self.count.values())

    @property
    def stopped_cheap(self) -> float:
        """Fraction in [0, 1] that stopped at the cheap head; 1 where there were no pairs."""
        return 1.0 - self.count.get(Route.ASK, 0) / self.pairs if self.pairs else 1.0


@dataclass(frozen=True, slots=True)
class Router:
    """Thresholds of the routing rule, each in [0, 1].

    ``reject``: a cheap gate score under it stays; that the second head would make an overturn of it is rare.
    ``accept`` and ``agreement``: a gate score of at least ``accept`` whose slot, event and operation are all
    at least ``agreement`` is settled.  ``influence_floor``: the least change of any memory's invalidity that
    is worth a second opinion.  The first three were chosen on validation pairs and on weekly Memora so that
    60% of the latter stop at a loss of 0.3 points of accuracy or less (``benchmarks.routing``).
    """

    reject: float = 0.125
    accept: float = 0.985
    agreement: float = 0.99
    influence_floor: float = 0.02

    def __post_init__(self) -> None:
        """Raise ``InputError`` where a threshold lies outside [0, 1] or the band is empty."""
        for name in ("reject", "accept", "agreement", "influence_floor"):
            probability(getattr(self, name), what=f"Router.{name}")
        if self.reject > self.accept:
            raise InputError(f"Router.reject={self.reject} must not exceed Router.accept={self.accept}")

    def plan(
        self,
        *,
        gate: ArrayLike,
        slot: ArrayLike,
        event: ArrayLike,
        operation: ArrayLike,
        influence: ArrayLike | None = None,
        readable: ArrayLike | None = None,
    ) -> list[Route]:
        """Return one route per pair.

        All arrays are ``(n,)`` in [0, 1].  ``influence[i]`` is the most by which any memory's invalidity
        would change if pair i's edge went from certain to absent; a second verdict moves at most
        ``influence`` of it.  ``readable`` (bool, default all true) says which pairs the second head can read.
        """
        score = np.asarray(gate, dtype=np.float64)
        least = np.minimum(np.minimum(slot, event), operation)
        reach = np.ones_like(score) if influence is None else np.asarray(influence, dtype=np.float64)
        if reach.shape != score.shape or not bool(np.all((reach >= 0) & (reach <= 1))):
            raise InputError("influence must hold one number in [0, 1] per pair")
        known = (
            np.ones(score.shape, dtype=np.bool_) if readable is None else np.asarray(readable, dtype=np.bool_)
        )
        rules: list[tuple[Route, NDArray[np.bool_]]] = [
            (Route.UNREADABLE, ~known),
            (Route.REJECT, score < self.reject),
            (Route.NO_INFLUENCE, reach < self.influence_floor),
            (Route.ACCEPT, (score >= self.accept) & (least >= self.agreement)),
        ]
        return [next((route for route, holds in rules if holds[i]), Route.ASK) for i in range(len(score))]


def report(plan: list[Route]) -> RoutingReport:
    """Count the routes of a plan."""
    return RoutingReport({route: plan.count(route) for route in Route})
