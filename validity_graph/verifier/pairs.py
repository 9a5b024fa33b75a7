"""Training pairs: reading them, and the weight that stratified supervision gives each one.

A pair is one JSON object a line: ``source``, ``target`` and any of the labels below.  A label that is missing
or null trains nothing, so sets that only know part of the answer can be mixed in.  Stratified supervision is
[V3] section 6.2.  Knows nothing of models.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from validity_graph.errors import InputError

#: Kinds that the operation head tells apart, in the order of its logits.
OPERATIONS = ("supersedes", "retracts", "confirms", "none")
#: Label of a reason, and the output that ``supports`` reads.
RESTS_ON = "rests_on"
#: Labels that are one probability each, in the order of the columns of ``binary_labels``.
BINARY = ("overturn", "same_proposition", "event", "contradiction", "entailment", RESTS_ON)
LOW_OVERLAP = 0.2


@dataclass(frozen=True, slots=True)
class Pair:
    """One labelled pair; a label of ``None`` is unknown, ``weight`` multiplies its loss.

    ``rests_on`` says whether the source holds because of the target: the label of ``supports``.
    """

    source: str
    target: str
    overturn: int | None = None
    same_proposition: int | None = None
    event: int | None = None
    operation: str | None = None
    contradiction: int | None = None
    entailment: int | None = None
    rests_on: int | None = None
    domain: str = ""
    lang: str = "en"
    stratum: str = ""
    group: str = ""
    weight: float = 1.0


def read_pairs(path: str | Path) -> list[Pair]:
    """Read the pairs of one JSONL file, gzipped where its name ends in ``.gz``.

    Raises ``InputError`` that names file, line and field.
    """
    pairs = []
    with _open(Path(path)) as lines:
        for number, line in enumerate(lines, start=1):
            if line.strip():
                pairs.append(_pair(line, place=f"{path}, line {number}"))
    if not pairs:
        raise InputError(f"{path} holds no pairs")
    return pairs


def _open(path: Path) -> TextIO:
    if not path.is_file():
        raise InputError(f"{path} is not a file")
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8")
    return path.open(encoding="utf-8")


def _pair(line: str, *, place: str) -> Pair:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise InputError(f"{place}: not JSON ({error.msg})") from None
    if not isinstance(row, dict):
        raise InputError(f"{place}: a pair must be a JSON object")
    for name in ("source", "target"):
        if not isinstance(row.get(name), str) or not row[name].strip():
            raise InputError(f"{place}: {name} must be a text that is not empty")
    label = {name: _binary(row.get(name), place=f"{place}: {name}") for name in BINARY}
    operation = row.get("operation")
    if operation is not None and operation not in OPERATIONS:
        raise InputError(f"{place}: operation {operation!r} is not one of {', '.join(OPERATIONS)}")
    if operation is None and all(value is None for value in label.values()):
        raise InputError(f"{place}: no label; give at least overturn (0 or 1)")
    return Pair(
        source=row["source"],
        target=row["target"],
        overturn=label["overturn"],
        same_proposition=label["same_proposition"],
        event=label["event"],
        operation=operation,
        contradiction=label["contradiction"],
        entailment=label["entailment"],
        rests_on=label["rests_on"],
        domain=str(row.get("domain") or ""),
        lang=str(row.get("lang") or "en"),
        stratum=str(row.get("stratum") or ""),
        group=str(row.get("group") or ""),
        weight=_weight(row.get("weight", 1.0), place=f"{place}: weight"),
    )


def _weight(value: object, *, place: str) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < float("inf"):
        return float(value)
    raise InputError(f"{place} must be a number of at least 0, not {value!r}")


def _binary(value: object, *, place: str) -> int | None:
    if value is None:
        return None
    if isinstance(value, (bool, int, float)) and value in (0, 1):
        return int(value)
    raise InputError(f"{place} must be 0, 1 or null, not {value!r}")


def overlap(source: str, target: str) -> float:
    """Share of the target's tokens that the source repeats, in [0, 1]; CJK counts by character."""
    ours, theirs = set(_tokens(source)), set(_tokens(target))
    return len(ours & theirs) / len(theirs) if theirs else 0.0


def _tokens(text: str) -> Iterator[str]:
    return (
        found.group() for found in re.finditer(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|\w+", text.lower())
    )


def stratified_weight(
    pairs: Sequence[Pair], *, hard_focus_multiplier: float = 4.0, pos_multiplier: float = 3.0
) -> NDArray[np.float64]:
    """Loss weight per pair, shape ``(n,)``, mean 1.  [V3] section 6.2.

    Hard negatives (any token shared with the target, or a stratum that does not start with ``easy``) count
    ``hard_focus_multiplier`` times an easy one, positives that repeat under a fifth of the target's tokens
    ``pos_multiplier`` times; then both classes are scaled to equal mass, so that the multipliers shift
    attention inside a class and not the base rate.  Each pair's own ``weight`` is kept as a factor.
    """
    weight = np.array([pair.weight for pair in pairs], dtype=np.float64)
    label = np.array([-1 if pair.overturn is None else pair.overturn for pair in pairs])
    for i, pair in enumerate(pairs):
        shared = overlap(pair.source, pair.target)
        if pair.overturn == 1 and shared < LOW_OVERLAP:
            weight[i] *= pos_multiplier
        elif pair.overturn == 0 and (shared > 0 or not pair.stratum.startswith("easy")):
            weight[i] *= hard_focus_multiplier
    mass = [weight[label == side].sum() for side in (0, 1)]
    if min(mass) > 0:
        for side in (0, 1):
            weight[label == side] *= sum(mass) / (2 * mass[side])
    unlabelled = label == -1
    if unlabelled.any() and not unlabelled.all():
        weight[~unlabelled] /= weight[~unlabelled].mean()
    mean = weight.mean()
    return weight / mean if mean > 0 else weight


def binary_labels(pairs: Sequence[Pair]) -> NDArray[np.float32]:
    """Labels ``(n, len(BINARY))`` in the order of ``BINARY``; NaN where unknown."""
    rows = [[getattr(pair, name) for name in BINARY] for pair in pairs]
    return np.array([[np.nan if x is None else x for x in row] for row in rows], dtype=np.float32)


def operation_labels(pairs: Sequence[Pair]) -> NDArray[np.int64]:
    """Index into ``OPERATIONS`` per pair, shape ``(n,)``; -100 where unknown."""
    index = {kind: i for i, kind in enumerate(OPERATIONS)}
    return np.array(
        [-100 if pair.operation is None else index[pair.operation] for pair in pairs], dtype=np.int64
    )


def held_out(pairs: Sequence[Pair], *, fraction: float, seed: int) -> NDArray[np.bool_]:
    """Mark the pairs to validate on, shape ``(n,)``; pairs of one group stay together.

    Chosen by a hash of seed and group (or of the texts where there is no group), so the split does not
    depend on the order of the file.
    """
    marks = np.zeros(len(pairs), dtype=np.bool_)
    for i, pair in enumerate(pairs):
        name = pair.group or f"{pair.source}\0{pair.target}"
        digest = hashlib.blake2b(f"{seed}\0{name}".encode(), digest_size=8).digest()
        marks[i] = int.from_bytes(digest, "big") / 2**64 < fraction
    return marks
