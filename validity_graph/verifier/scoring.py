"""The verifier that the graph calls: texts in, calibrated evidence and gate scores out.

Joins a head, a calibrator, the gate of [V3] section 5 and, where there is one, a second slot head behind a
router. Knows texts and arrays only, not the graph.  Needs onnxruntime and tokenizers, never torch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from validity_graph.errors import InputError
from validity_graph.records import RETRACTS, SUPERSEDES, Evidence
from validity_graph.verifier.calibrator import Calibrator, bucket
from validity_graph.verifier.gate import DualEvidenceGate
from validity_graph.verifier.heads import OnnxHead, Slot, WindowLogits, read_manifest
from validity_graph.verifier.router import Route, Router, RoutingReport, report

#: Folder of the weights that the package ships.
PACKAGED = Path(__file__).parent / "weights"
#: Columns of the calibrated evidence.
EVIDENCE = ("overturn", "event", "operation", "confirms")
CONFIRMS_KIND = "confirms"
NO_KIND = "none"

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
class Verifier:
    """Scores (source, target) pairs; ``load`` gives the one that the package ships."""

    head: OnnxHead
    calibrator: Calibrator
    gate: DualEvidenceGate = field(default_factory=DualEvidenceGate)
    second: Slot | None = None
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

        ``second`` is a second slot head, asked where ``router`` (default thresholds if ``None``) sends a
        pair. Raises ``InputError`` where the folder is not what training writes.
        """
        folder = PACKAGED if path is None else Path(path)
        manifest = read_manifest(folder)
        known = manifest.get("calibration")
        return cls(
            head=OnnxHead.load(folder, threads=threads),
            calibrator=Calibrator.from_json(known) if known else Calibrator.identity(EVIDENCE),
            second=second,
            router=router or Router(),
        )

    def asking_always(self, second: Slot) -> Verifier:
        """Return this verifier with ``second`` asked about every pair: the full product of [V3] Eq. 1."""
        return replace(self, second=second, router=None)

    def score(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        domains: Sequence[str] | None = None,
        influence: ArrayLike | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Scores:
        """Score how strongly each source overturns its target.

        A pair's scores do not depend on the other pairs.  Long texts are read in windows, and the window
        with the highest gate score speaks for the pair.  ``influence`` ``(n,)`` in [0, 1] says how much
        each verdict can move (see ``Router.plan``); ``progress(done, total)`` counts windows.  Raises
        ``InputError`` where the sequences differ in length or hold something other than texts.
        """
        _texts(sources, what="sources")
        _texts(targets, what="targets")
        raw = self.head.logits(sources, targets, domains=domains, progress=progress)
        probability, logits = self._best_windows(raw, sources, targets)
        slot, event, operation, confirms = probability.T
        nli, routing = self._second_opinion(
            sources, targets, domains=domains, influence=influence, parts=(slot, event, operation)
        )
        return Scores(
            slot_mini=slot, slot_nli=nli, event=event, operation=operation, confirms=confirms,
            kind=_kinds(operation, logits, outputs=self.head.outputs),
            gate=self.gate.combine(slot_mini=slot, slot_nli=nli, event=event, operation=operation),
            routing=routing,
        )  # fmt: skip

    def _best_windows(
        self, raw: WindowLogits, sources: Sequence[str], targets: Sequence[str]
    ) -> tuple[Floats, Floats]:
        """Evidence ``(n, 4)`` and raw outputs ``(n, outputs)`` of the window that speaks for each pair."""
        buckets = [
            bucket(sources[p], targets[p], tokens=int(size))
            for p, size in zip(raw.pair, raw.tokens, strict=True)
        ]
        probability = self.calibrator.apply(evidence_logits(raw.logits, outputs=self.head.outputs), buckets)
        slot, event, operation, confirms = probability.T
        none_asked = np.full(len(slot), np.nan)
        gate = self.gate.combine(slot_mini=slot, slot_nli=none_asked, event=event, operation=operation)
        best = strongest(raw.pair, gate, pairs=len(sources))
        chosen = probability[best]
        # A confirmation may stand in another window than the strongest sign of a change.
        np.maximum.at(chosen[:, 3], raw.pair, confirms)
        return chosen, raw.logits[best]

    def _second_opinion(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        domains: Sequence[str] | None,
        influence: ArrayLike | None,
        parts: tuple[Floats, Floats, Floats],
    ) -> tuple[Floats, RoutingReport]:
        slot, event, operation = parts
        nli = np.full(len(slot), np.nan)
        if self.second is None:
            return nli, report([])
        plan = [Route.ASK] * len(slot)
        if self.router is not None:
            gate = self.gate.combine(slot_mini=slot, slot_nli=nli, event=event, operation=operation)
            plan = self.router.plan(
                gate=gate, slot=slot, event=event, operation=operation, influence=influence
            )
        asked = [i for i, route in enumerate(plan) if route is Route.ASK]
        if asked:
            nli[asked] = self.second.slot(
                [sources[i] for i in asked],
                [targets[i] for i in asked],
                domains=None if domains is None else [domains[i] for i in asked],
            )
        return nli, report(plan)


def evidence_logits(logits: Floats, *, outputs: Sequence[str]) -> Floats:
    """Log-odds of ``EVIDENCE``, shape ``(n, 4)``, from a head's outputs ``(n, outputs)``.

    The operation is an overturn when it supersedes or retracts; both log-odds come from one softmax.
    """
    column = {name: logits[:, k] for k, name in enumerate(outputs)}
    supersedes, retracts, confirms, none = (
        column[f"operation_{kind}"] for kind in (SUPERSEDES, RETRACTS, CONFIRMS_KIND, NO_KIND)
    )
    change = np.logaddexp(supersedes, retracts)
    return np.stack(
        [
            column["overturn"],
            column["event"],
            change - np.logaddexp(confirms, none),
            confirms - np.logaddexp(change, none),
        ],
        axis=1,
    )


def strongest(pair: NDArray[np.int64], score: Floats, *, pairs: int) -> NDArray[np.int64]:
    """Index ``(pairs,)`` of each pair's window with the highest ``score``, the first where equal."""
    order = np.lexsort((np.arange(len(score)), -score, pair))
    first = np.searchsorted(pair[order], np.arange(pairs))
    return np.asarray(order[first], dtype=np.int64) if pairs else np.zeros(0, dtype=np.int64)


def _kinds(operation: Floats, logits: Floats, *, outputs: Sequence[str]) -> NDArray[np.str_]:
    """Kind per pair: the likelier one on the side of 0.5 on which the operation probability lies."""
    at = {name: k for k, name in enumerate(outputs)}
    over = (SUPERSEDES, RETRACTS)
    other = (CONFIRMS_KIND, NO_KIND)
    found = np.full(len(operation), NO_KIND, dtype="<U10")
    for i, probability in enumerate(operation):
        kinds = over if probability >= 0.5 else other
        found[i] = max(kinds, key=lambda kind: logits[i, at[f"operation_{kind}"]])
    return found


def _texts(values: Sequence[str], *, what: str) -> None:
    if isinstance(values, str):
        raise InputError(f"{what} must be a sequence of texts, not one text")
    for i, value in enumerate(values):
        if not isinstance(value, str):
            raise InputError(f"{what}[{i}] must be a text, not {value!r}")
