"""The pairs that are worth a second head's time: those that the cheap head does not settle.

``python -m synthetic.hard_pairs PAIRS.jsonl -o OUT.jsonl [--weights DIR]`` scores the pairs with the
cheap head and keeps all that it gets wrong, ``UNSURE`` of those that it gets right without settling them,
and ``SETTLED`` of the others, so that the second head does not forget what easy pairs look like.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synthetic.json_lines import write

UNSURE, SETTLED = 0.6, 0.15
#: Gate scores under which a pair that stays, and over which one that is overturned, counts as settled.
LOW, HIGH = 0.06, 0.9


def kept(
    rows: Sequence[dict[str, Any]], gate: NDArray[np.floating[Any]], rng: random.Random
) -> Iterator[dict[str, Any]]:
    """Yield the rows to train on; ``gate`` ``(n,)`` in [0, 1] are the cheap head's scores.

    A row whose ``overturn`` is unknown is never wrong, and settled where its score is low.
    """
    for row, score in zip(rows, gate.tolist(), strict=True):
        over = row.get("overturn") == 1
        known = row.get("overturn") is not None
        if known and over != (score >= 0.5):
            yield row
            continue
        settled = score > HIGH if over else score < LOW
        if rng.random() < (SETTLED if settled else UNSURE):
            yield row


def main() -> None:
    """Command line: see the module's first lines."""
    from validity_graph.verifier import Verifier

    parser = argparse.ArgumentParser(description="Keep the pairs that the cheap head does not settle.")
    parser.add_argument("pairs", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--weights", type=Path, help="weights folder (default: the packaged one)")
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    with given.pairs.open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    cheap = Verifier.load(given.weights).asking_never()
    gate = cheap.score([row["source"] for row in rows], [row["target"] for row in rows]).gate
    write(given.output, kept(rows, gate, random.Random(given.seed)))


if __name__ == "__main__":
    main()
