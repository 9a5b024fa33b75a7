"""Three answers to "how invalid?" on the arrays of one moment (SEMANTICS section 4).

Runs the kernel that a method names and gathers what explanations need of it.
"""

from __future__ import annotations

from datetime import datetime

import numpy as np

from validity_graph import kernels
from validity_graph.encode import EncodedGraph, encode
from validity_graph.errors import InputError
from validity_graph.explain import Findings, Thresholds, verdicts
from validity_graph.kernels.direct import direct_evidence, force
from validity_graph.records import Verdict
from validity_graph.store import Snapshot

#: Half the width of a sampled interval, in standard errors: about 95 percent of intervals hold the value.
INTERVAL_ERRORS = 1.96


class Moment:
    """A graph at one moment: its arrays, and what each method found on them, computed when first asked.

    ``as_of`` leaves out what was not known by then; see ``encode``.
    """

    def __init__(
        self, snapshot: Snapshot, *, now: datetime, as_of: datetime | None, thresholds: Thresholds
    ) -> None:
        """Encode ``snapshot`` as it stands at ``now``."""
        self.encoded = encode(snapshot, now=now, as_of=as_of)
        times = (item.memory.time for item in snapshot.memories)
        self._ends = min((time for time in times if time and time > now), default=None)
        self._thresholds = thresholds
        self._findings: dict[str, Findings] = {}
        self._verdicts: dict[str, dict[str, Verdict]] = {}

    def is_over(self, now: datetime) -> bool:
        """Tell whether a memory dated in the future has begun to speak by ``now``."""
        return self._ends is not None and now >= self._ends

    def findings(self, method: str) -> Findings:
        """Return what ``method`` found."""
        if method not in self._findings:
            self._findings[method] = findings(self.encoded, method)
        return self._findings[method]

    def verdicts(self, method: str) -> dict[str, Verdict]:
        """Return one verdict a memory by ``method``, in arrival order."""
        if method not in self._verdicts:
            self._verdicts[method] = verdicts(self.findings(method), thresholds=self._thresholds)
        return self._verdicts[method]


def findings(encoded: EncodedGraph, method: str) -> Findings:
    """Return the invalidity of every node by ``method``: ``noisy_or``, ``worlds`` or ``exact``.

    Raises ``InputError`` for another method, and where a cone is too uncertain for ``exact``.
    """
    direct = direct_evidence(encoded.evidence, encoded.node_count)
    low = high = None
    if method == "noisy_or":
        invalidity = kernels.propagate(encoded.topology, direct).invalidity.astype(np.float64)
    elif method == "worlds":
        from validity_graph.kernels.worlds import worlds

        sampled = worlds(encoded.topology, encoded.evidence, seed=0)
        invalidity = sampled.invalidity
        margin = INTERVAL_ERRORS * sampled.standard_error
        low, high = np.clip(invalidity - margin, 0.0, 1.0), np.clip(invalidity + margin, 0.0, 1.0)
    elif method == "exact":
        from validity_graph.kernels.worlds import exact

        invalidity = direct.copy()
        for v in encoded.memory:
            invalidity[v] = exact(encoded.topology, encoded.evidence, v)
        low = high = invalidity
    else:
        raise InputError(f'unknown method "{method}"; use noisy_or, worlds or exact')
    requirement, support = kernels.losses(encoded.topology, invalidity)
    return Findings(
        encoded=encoded,
        invalidity=invalidity,
        direct=direct,
        requirement=requirement,
        support=support,
        force=force(encoded.evidence, encoded.node_count),
        low=low,
        high=high,
    )
