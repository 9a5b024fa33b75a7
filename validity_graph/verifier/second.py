"""Second heads that the weights carry: larger pair networks, opened when the first pair is routed to them.

Each is asked about the kinds of text that it was trained for.  It reads slot, event and operation itself;
with the cheap head's slot they make [V3] Eq. 1 and 3.  The joint calibration fits both slots and the
operation so that the product is calibrated: the cheap head's slot, read alone, is too unsure to be
multiplied in as it stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from validity_graph.verifier.calibrator import Calibrator, bucket, kind_of_text
from validity_graph.verifier.evidence import evidence_logits, operation_logits, strongest
from validity_graph.verifier.heads import OnnxHead, read_manifest

#: Outputs of the joint calibration.
JOINT = ("slot_mini", "slot_nli", "event", "operation", "confirms")

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SecondReading:
    """Evidence of n pairs that both heads read.

    ``probability`` ``(n, 5)`` in the order of ``JOINT``; ``kinds`` ``(n, 4)`` are
    ``evidence.operation_logits``.
    """

    probability: Floats
    kinds: Floats


@dataclass(frozen=True, slots=True)
class SecondHead:
    """A folder of weights, opened on first use, and its joint calibration with the cheap head."""

    folder: Path
    calibrator: Calibrator
    #: Kinds of text (``calibrator.kind_of_text``) that it was trained on.
    reads: frozenset[str]
    threads: int | None = None

    @classmethod
    def find(cls, folder: str | Path, *, threads: int | None = None) -> SecondHead:
        """Read what the manifest in ``folder`` says, without opening the model.

        Raises ``InputError`` where the folder is not what ``export.write_second`` writes.
        """
        manifest = read_manifest(folder)
        return cls(
            folder=Path(folder),
            calibrator=Calibrator.from_json(manifest["calibration"]),
            reads=frozenset(manifest["reads"]),
            threads=threads,
        )

    @property
    def head(self) -> OnnxHead:
        """The opened model; the same one for every reader of a folder."""
        return _opened(self.folder, self.threads)

    def readable(self, sources: Sequence[str], targets: Sequence[str]) -> NDArray[np.bool_]:
        """Which pairs are of a kind that it was trained on, shape ``(n,)``."""
        return np.array(
            [kind_of_text(f"{s} {t}") in self.reads for s, t in zip(sources, targets, strict=True)],
            dtype=np.bool_,
        )

    def read(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        cheap_slot: Floats,
        domains: Sequence[str] | None = None,
    ) -> SecondReading:
        """Read the pairs; ``cheap_slot`` ``(n,)`` are the cheap head's raw slot logits."""
        raw = self.head.logits(sources, targets, domains=domains)
        every = evidence_logits(raw.logits, outputs=self.head.outputs)
        best = strongest(raw.pair, every[:, 0], pairs=len(sources))
        buckets = [
            bucket(s, t, tokens=int(n)) for s, t, n in zip(sources, targets, raw.tokens[best], strict=True)
        ]
        joined = np.column_stack([cheap_slot, every[best]])
        return SecondReading(
            self.calibrator.apply(joined, buckets),
            operation_logits(raw.logits[best], outputs=self.head.outputs),
        )


def reader(heads: Sequence[SecondHead], sources: Sequence[str], targets: Sequence[str]) -> NDArray[np.int64]:
    """Index ``(n,)`` of the first of ``heads`` that reads each pair, -1 where none does."""
    found = np.full(len(sources), -1, dtype=np.int64)
    for k in reversed(range(len(heads))):
        found[heads[k].readable(sources, targets)] = k
    return found


@lru_cache(maxsize=4)
def _opened(folder: Path, threads: int | None) -> OnnxHead:
    return OnnxHead.load(folder, threads=threads)
