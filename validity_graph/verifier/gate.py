"""The dual-evidence gate: from the parts of the evidence to one edge score ([V3] section 5).

Pure formulas over arrays and over ``records.Evidence``; knows nothing of models.  A ``slot_nli`` of NaN
means that the second head was not asked; it then counts as 1 (see ``records.Evidence``).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from validity_graph.errors import InputError
from validity_graph.records import Evidence


class GateForm(str, Enum):
    """Which factors of the evidence make the edge score."""

    CONSERVATIVE = "conservative"  #: slot_mini * slot_nli * min(event, operation); [V3] Eq. 1 and 3
    DIAGNOSTIC = "diagnostic"  #: event * operation * slot_mini * slot_nli; [V3] Eq. 2
    SLOT = "slot"  #: slot_mini * slot_nli; [V3] Eq. 1 and the ablation of section 5.5


@dataclass(frozen=True, slots=True)
class DualEvidenceGate:
    """Combines evidence into an edge score in [0, 1]; the default form is [V3] Eq. 3."""

    form: GateForm = GateForm.CONSERVATIVE

    def score(self, evidence: Evidence) -> float:
        """Edge score of one pair's evidence, in [0, 1]."""
        nli = np.nan if evidence.slot_nli is None else evidence.slot_nli
        return float(
            self.combine(
                slot_mini=evidence.slot_mini, slot_nli=nli, event=evidence.event, operation=evidence.operation
            )
        )

    def combine(
        self, *, slot_mini: ArrayLike, slot_nli: ArrayLike, event: ArrayLike, operation: ArrayLike
    ) -> NDArray[np.float64]:
        """Edge scores of many pairs, element-wise, float64 in [0, 1].

        Raises ``InputError`` where a value lies outside [0, 1]; NaN is allowed in ``slot_nli`` alone.
        """
        mini, p_event, p_operation = (
            _checked(value, name=name)
            for name, value in (("slot_mini", slot_mini), ("event", event), ("operation", operation))
        )
        nli = np.asarray(slot_nli, dtype=np.float64)
        slot = mini * _checked(np.where(np.isnan(nli), 1.0, nli), name="slot_nli")
        if self.form is GateForm.SLOT:
            return slot
        if self.form is GateForm.DIAGNOSTIC:
            return slot * p_event * p_operation
        return slot * np.minimum(p_event, p_operation)


def _checked(value: ArrayLike, *, name: str) -> NDArray[np.float64]:
    array = np.asarray(value, dtype=np.float64)
    if array.size and not bool(np.all((array >= 0.0) & (array <= 1.0))):
        raise InputError(f"{name} must lie in [0, 1]")
    return array
