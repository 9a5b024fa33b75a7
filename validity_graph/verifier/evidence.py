"""From a head's raw outputs to the log-odds of the evidence, and from windows to pairs.  Arrays only."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from validity_graph.verifier.pairs import OPERATIONS

#: Columns of the evidence that one head gives.
EVIDENCE = ("overturn", "event", "operation", "confirms")
CONFIRMS_KIND = "confirms"
NO_KIND = "none"

Floats = NDArray[np.float64]


def evidence_logits(logits: Floats, *, outputs: Sequence[str]) -> Floats:
    """Log-odds of ``EVIDENCE``, shape ``(n, 4)``, from a head's outputs ``(n, outputs)``.

    The operation is an overturn when it supersedes or retracts; both log-odds come from one softmax.
    """
    column = {name: logits[:, k] for k, name in enumerate(outputs)}
    supersedes, retracts, confirms, none = operation_logits(logits, outputs=outputs).T
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


def operation_logits(logits: Floats, *, outputs: Sequence[str]) -> Floats:
    """Return the columns of the operation head among a head's outputs ``(n, outputs)``, shape ``(n, 4)``.

    In the order of ``pairs.OPERATIONS``.
    """
    return logits[:, [outputs.index(f"operation_{kind}") for kind in OPERATIONS]]


def strongest(pair: NDArray[np.int64], score: Floats, *, pairs: int) -> NDArray[np.int64]:
    """Index ``(pairs,)`` of each pair's window with the highest ``score``, the first where equal."""
    order = np.lexsort((np.arange(len(score)), -score, pair))
    first = np.searchsorted(pair[order], np.arange(pairs))
    return np.asarray(order[first], dtype=np.int64) if pairs else np.zeros(0, dtype=np.int64)
