"""The verifier that the graph calls: texts in, calibrated evidence and gate scores out.

Joins a head, a calibrator, the gate of [V3] section 5 and second heads behind a router: the packaged ones,
which read all of the evidence anew, or a slot head of the caller's.  Knows texts and arrays only, not the
graph.  Needs onnxruntime and tokenizers, never torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from validity_graph.errors import InputError
from validity_graph.records import RETRACTS, SUPERSEDES, Evidence
from validity_graph.verifier.calibrator import Calibrator, bucket
from validity_graph.verifier.contexts import read_in_context, without_what_contexts_say
from validity_graph.verifier.evidence import (
    CONFIRMS_KIND,
    EVIDENCE,
    NO_KIND,
    evidence_logits,
    operation_logits,
    strongest,
)
from validity_graph.verifier.gate import DualEvidenceGate
from validity_graph.verifier.heads import OnnxHead, Slot, WindowLogits, read_manifest
from validity_graph.verifier.pairs import OPERATIONS
from validity_graph.verifier.router import Route, Router, RoutingReport, report
from validity_graph.verifier.second import SecondHead, reader

#: Folder of the weights that the package ships.
PACKAGED = Path(__file__).parent / "weights"
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Scores:
    """Evidence of n pairs, arrays of shape ``(n,)``.

    float64 in [0, 1]: ``slot_mini``, ``slot_nli`` (NaN where the second head was not asked), ``event``,
    ``operation`` (supersedes or retracts), ``confirms`` and ``gate`` ([V3] Eq. 3).  ``kind`` holds
    ``supersedes``, ``retracts``, ``confirms`` or ``none``.  ``routing`` counts what the second head was
    asked.
    """

    slot_mini: Floats
    slot_nli: Floats
    event: Floats
    operation: Floats
    confirms: Floats
    kind: NDArray[np.str_]
    gate: Floats
    routing: RoutingReport

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.gate)

    def with_rows(self, rows: NDArray[np.int64], other: Scores, taken: NDArray[np.int64]) -> Scores:
        """Return these scores with ``rows`` replaced by the rows ``taken`` of ``other``; routing stays."""
        changed = {}
        for column in fields(self):
            if column.name != "routing":
                values = changed[column.name] = getattr(self, column.name).copy()
                values[rows] = getattr(other, column.name)[taken]
        return replace(self, **changed)

    def evidence(self, i: int) -> Evidence:
        """Evidence of pair ``i`` as a record."""
        nli = float(self.slot_nli[i])
        return Evidence(
            slot_mini=float(self.slot_mini[i]),
            slot_nli=None if np.isnan(nli) else nli,
            event=float(self.event[i]),
            operation=float(self.operation[i]),
        )


@dataclass(frozen=True, slots=True)
class Reading:
    """Evidence of n pairs so far: parts and raw slot ``(n,)``; ``kinds`` ``(n, 4)``: operation logits."""

    slot_mini: Floats
    slot_nli: Floats
    event: Floats
    operation: Floats
    confirms: Floats
    kinds: Floats
    raw_slot: Floats


@dataclass(frozen=True, slots=True)
class Verifier:
    """Scores (source, target) pairs; ``load`` gives the one that the package ships.

    ``packaged`` are the second heads that the weights carry, each for its kinds of text; ``second``, a slot
    head of the caller's, takes their place.  Without a router a second head is asked about every pair.
    """

    head: OnnxHead
    calibrator: Calibrator
    gate: DualEvidenceGate = field(default_factory=DualEvidenceGate)
    second: Slot | None = None
    packaged: tuple[SecondHead, ...] = ()
    router: Router | None = field(default_factory=Router)

    @classmethod
    def load(
        cls,
        path: str | Path | None = None,
        *,
        threads: int | None = None,
        second: Slot | None = None,
        router: Router | None = None,
    ) -> Verifier:
        """Load a weights folder (default: the packaged one).

        ``second`` is a slot head to ask instead of the one in the folder, where ``router`` (default
        thresholds if ``None``) sends a pair. Raises ``InputError`` where the folder is not what training
        writes.
        """
        folder = PACKAGED if path is None else Path(path)
        manifest = read_manifest(folder)
        known = manifest.get("calibration")
        return cls(
            head=OnnxHead.load(folder, threads=threads),
            calibrator=Calibrator.from_json(known) if known else Calibrator.identity(EVIDENCE),
            second=second,
            packaged=tuple(
                SecondHead.find(folder / name, threads=threads) for name in manifest.get("second", [])
            ),
            router=router or Router(),
        )

    def asking_always(self, second: Slot | None = None) -> Verifier:
        """Return this verifier with the second head asked about every pair ([V3] Eq. 1 in full)."""
        return replace(self, second=second or self.second, router=None)

    def asking_never(self) -> Verifier:
        """Return this verifier with the cheap head alone."""
        return replace(self, second=None, packaged=())

    def score(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        source_contexts: Sequence[str] | None = None,
        target_contexts: Sequence[str] | None = None,
        domains: Sequence[str] | None = None,
        influence: ArrayLike | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Scores:
        """Score how strongly each source overturns its target.

        A pair's scores do not depend on the other pairs.  Long texts are read in windows, and the window
        with the highest gate score speaks for the pair.  A context ("" for none) is what was said before a
        text and says what it is about; a target is not overturned for what its context says
        (``contexts``).  ``influence`` ``(n,)`` in [0, 1] says how much each verdict can move (see
        ``Router.plan``); ``progress(done, total)`` counts pairs.  Raises ``InputError`` where the sequences
        differ in length or hold something other than texts.
        """
        for name, texts in (
            ("sources", sources), ("targets", targets),
            ("source_contexts", source_contexts or ()), ("target_contexts", target_contexts or ()),
        ):  # fmt: skip
            _texts(texts, what=name)

        def ask(rows: list[int], sources: Sequence[str], targets: Sequence[str]) -> Scores:
            return self._score(
                sources, targets, domains=None if domains is None else [domains[i] for i in rows],
                influence=None if influence is None else np.asarray(influence)[rows], progress=None,
            )  # fmt: skip

        said = read_in_context(sources, source_contexts, what="source")
        was = read_in_context(targets, target_contexts, what="target")
        found = self._score(said, was, domains=domains, influence=influence, progress=progress)
        return without_what_contexts_say(
            found, ask, sources, targets, source_contexts=source_contexts, target_contexts=target_contexts
        )

    def _score(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        domains: Sequence[str] | None,
        influence: ArrayLike | None,
        progress: Callable[[int, int], None] | None,
    ) -> Scores:
        """Score pairs of texts as they are read."""
        raw = self.head.logits(sources, targets, domains=domains, progress=progress)
        reading = self._cheap(raw, sources, targets)
        plan = self._plan(reading, sources, targets, influence=influence)
        asked = np.array([i for i, route in enumerate(plan) if route is Route.ASK], dtype=np.int64)
        if len(asked):
            ask = self._slot_only if self.second is not None else self._reread
            reading = ask(
                reading, asked, [sources[i] for i in asked], [targets[i] for i in asked],
                None if domains is None else [domains[i] for i in asked],
            )  # fmt: skip
        return Scores(
            slot_mini=reading.slot_mini, slot_nli=reading.slot_nli, event=reading.event,
            operation=reading.operation, confirms=reading.confirms,
            kind=_kinds(reading.operation, reading.kinds),
            gate=self._gate(reading), routing=report(plan),
        )  # fmt: skip

    def _gate(self, reading: Reading) -> Floats:
        return self.gate.combine(
            slot_mini=reading.slot_mini,
            slot_nli=reading.slot_nli,
            event=reading.event,
            operation=reading.operation,
        )

    def _cheap(self, raw: WindowLogits, sources: Sequence[str], targets: Sequence[str]) -> Reading:
        """Read the cheap head's evidence, by the window that speaks for each pair."""
        buckets = [
            bucket(sources[p], targets[p], tokens=int(size))
            for p, size in zip(raw.pair, raw.tokens, strict=True)
        ]
        every = evidence_logits(raw.logits, outputs=self.head.outputs)
        slot, event, operation, confirms = self.calibrator.apply(every, buckets).T
        gate = self.gate.combine(
            slot_mini=slot, slot_nli=np.full(len(slot), np.nan), event=event, operation=operation
        )
        best = strongest(raw.pair, gate, pairs=len(sources))
        # A confirmation may stand in another window than the strongest sign of a change.
        confirmed = confirms[best]
        np.maximum.at(confirmed, raw.pair, confirms)
        return Reading(
            slot_mini=slot[best], slot_nli=np.full(len(best), np.nan), event=event[best],
            operation=operation[best], confirms=confirmed,
            kinds=operation_logits(raw.logits[best], outputs=self.head.outputs), raw_slot=every[best, 0],
        )  # fmt: skip

    def _plan(
        self, reading: Reading, sources: Sequence[str], targets: Sequence[str], *, influence: ArrayLike | None
    ) -> list[Route]:
        """One route per pair; none where there is no second head."""
        if self.second is None and not self.packaged:
            return []
        readable = None if self.second is not None else reader(self.packaged, sources, targets) >= 0
        if self.router is None:
            every = np.ones(len(sources), dtype=np.bool_) if readable is None else readable
            return [Route.ASK if known else Route.UNREADABLE for known in every]
        return self.router.plan(
            gate=self._gate(reading), slot=reading.slot_mini, event=reading.event,
            operation=reading.operation, influence=influence, readable=readable,
        )  # fmt: skip

    def _slot_only(
        self,
        reading: Reading,
        asked: NDArray[np.int64],
        sources: Sequence[str],
        targets: Sequence[str],
        domains: Sequence[str] | None,
    ) -> Reading:
        """Multiply the caller's slot head in ([V3] Eq. 1)."""
        assert self.second is not None
        nli = reading.slot_nli.copy()
        nli[asked] = self.second.slot(sources, targets, domains=domains)
        return replace(reading, slot_nli=nli)

    def _reread(
        self,
        reading: Reading,
        asked: NDArray[np.int64],
        sources: Sequence[str],
        targets: Sequence[str],
        domains: Sequence[str] | None,
    ) -> Reading:
        """Take event and operation from the packaged second heads, both slots by the joint calibration."""
        parts = ("slot_mini", "slot_nli", "event", "operation", "confirms")
        changed = {name: getattr(reading, name).copy() for name in parts}
        kinds = reading.kinds.copy()
        given = reader(self.packaged, sources, targets)
        for k, head in enumerate(self.packaged):
            own = np.flatnonzero(given == k)
            if not len(own):
                continue
            at = own.tolist()
            found = head.read(
                [sources[i] for i in at], [targets[i] for i in at], cheap_slot=reading.raw_slot[asked[own]],
                domains=None if domains is None else [domains[i] for i in at],
            )  # fmt: skip
            for name, column in zip(parts, found.probability.T, strict=True):
                changed[name][asked[own]] = column
            kinds[asked[own]] = found.kinds
        return replace(reading, kinds=kinds, **changed)


def _kinds(operation: Floats, logits: Floats) -> NDArray[np.str_]:
    """Kind per pair: the likelier one on the side of 0.5 on which the operation probability lies."""
    over = (OPERATIONS.index(SUPERSEDES), OPERATIONS.index(RETRACTS))
    other = (OPERATIONS.index(CONFIRMS_KIND), OPERATIONS.index(NO_KIND))
    found = np.full(len(operation), NO_KIND, dtype="<U10")
    for i, probability in enumerate(operation):
        sides = over if probability >= 0.5 else other
        found[i] = OPERATIONS[max(sides, key=lambda side: logits[i, side])]
    return found


def _texts(values: Sequence[str], *, what: str) -> None:
    if isinstance(values, str):
        raise InputError(f"{what} must be a sequence of texts, not one text")
    for i, value in enumerate(values):
        if not isinstance(value, str):
            raise InputError(f"{what}[{i}] must be a text, not {value!r}")
