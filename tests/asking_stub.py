"""A stand-in for asking the verifier, and scores that can be told apart."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from validity_graph.verifier.router import RoutingReport
from validity_graph.verifier.scoring import Scores


def scores_of(gate: Sequence[float]) -> Scores:
    """Scores whose every part is the gate, so that rows can be told apart."""
    part = np.array(gate, dtype=np.float64)
    return Scores(
        slot_mini=part, slot_nli=part, event=part, operation=part, confirms=part,
        kind=np.array(["none"] * len(part), dtype="<U10"), gate=part, routing=RoutingReport({}),
    )  # fmt: skip


class Asked:
    """Answers by a table from (source, target) to a score, and remembers what it was asked."""

    def __init__(self, table: dict[tuple[str, str], float]) -> None:
        self.table = table
        self.rows: list[int] = []

    def __call__(self, rows: list[int], sources: Sequence[str], targets: Sequence[str]) -> Scores:
        self.rows += rows
        return scores_of([self.table[pair] for pair in zip(sources, targets, strict=True)])
