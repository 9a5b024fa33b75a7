"""What an archive says at a moment: now, kept current from write to write, or as of a time.

Decides what has to be computed again; how is the business of ``standing`` and ``inference``.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from validity_graph import counterfactual
from validity_graph.archive import Archive
from validity_graph.counterfactual import Fallout
from validity_graph.errors import UnknownMemoryError
from validity_graph.explain import Thresholds, explanation, ground_of
from validity_graph.inference import Moment
from validity_graph.records import Explanation, Verdict
from validity_graph.standing import Standing


class Judge:
    """Verdicts on what ``archive`` holds, now or as of ``as_of``; its lock must be held."""

    def __init__(self, archive: Archive, *, thresholds: Thresholds, as_of: datetime | None) -> None:
        """Judge nothing yet."""
        self._archive = archive
        self._thresholds = thresholds
        self._as_of = as_of
        self._moment: Moment | None = None
        self._moment_of: tuple[int, int] = (-1, -1)
        self._standing: Standing | None = None
        self._generation = -1

    def moment(self) -> Moment:
        """Return the arrays of the moment, for hinges and the other methods."""
        mirror, now = self._archive.current(), self._archive.clock()
        held = self._archive.generation, self._archive.changes
        if self._moment is None or self._moment_of != held or self._moment.is_over(now):
            self._moment = Moment(mirror.snapshot(), now=now, as_of=self._as_of, thresholds=self._thresholds)
            self._moment_of = held
        return self._moment

    def number(self, id: str) -> int:
        """Return the number of memory ``id`` in ``moment``.  Raises ``UnknownMemoryError``."""
        moment = self.moment()
        self._archive.stored(id)
        v = moment.encoded.number.get(id)
        if v is None:
            raise UnknownMemoryError(f'memory "{id}" was not known yet at that time; ask for a later one')
        return v

    def verdicts(self, method: str) -> Mapping[str, Verdict]:
        """Return one verdict a memory by ``method``, in arrival order."""
        if method != "noisy_or" or self._as_of is not None:
            return self.moment().verdicts(method)
        return self._current_standing().verdicts

    def explanation(self, id: str, *, paths: int) -> Explanation:
        """Return the verdict on memory ``id`` by ``noisy_or`` with its strongest evidence paths."""
        if self._as_of is not None:
            v = self.number(id)
            ground = ground_of(self.moment().findings("noisy_or"))
        else:
            standing = self._current_standing()
            self._archive.stored(id)
            v, ground = standing.ground(id)
        return explanation(ground, v, verdict=self.verdicts("noisy_or")[id], count=paths)

    def blast_radius(self, id: str) -> list[Fallout]:
        """Return what would fall if memory ``id`` fell; see ``counterfactual.blast_radius``."""
        if self._as_of is not None:
            return counterfactual.blast_radius(self.moment().findings("noisy_or"), self.number(id))
        standing = self._current_standing()
        self._archive.stored(id)
        return standing.blast_radius(id)

    def edge_counts(self) -> tuple[int, int]:
        """Return how many edges act at the moment, and how many lie inert."""
        if self._as_of is not None:
            encoded = self.moment().encoded
            return encoded.acting_edges, len(encoded.inert)
        standing = self._current_standing()
        return standing.acting_edges, standing.inert_edges

    def _current_standing(self) -> Standing:
        archive = self._archive
        mirror, now = archive.current(), archive.clock()
        unread, archive.unread = archive.unread, []
        standing = self._standing
        if (
            standing is None
            or self._generation != archive.generation
            or standing.is_over(now)
            or not standing.take(unread, now=now)
        ):
            standing = Standing(mirror.snapshot(), now=now, thresholds=self._thresholds)
        archive.followed = True
        self._standing, self._generation = standing, archive.generation
        return standing
