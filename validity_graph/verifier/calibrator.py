"""Calibration: from a head's logits to probabilities, per kind of text and per length.

Each bucket holds two slopes and a shift per output, ``p = sigmoid(scale * log(1 + exp(logit)) - below *
log(1 + exp(-logit)) + shift)``: beta calibration (Kull et al., 2017), which is Platt's (1999) where the
slopes are equal.  A head is mostly overconfident on hard pairs, yet right about pairs that have nothing to
do with each other; one slope would make the latter's many small scores large, and a noisy-or adds them up.
Fitted on validation pairs with the exported int8 model, because quantisation moves single logits.  A bucket
with few pairs leans on the fit over all pairs.  Knows no model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize

#: A bucket's own fit counts as n / (n + SHRINKAGE) against the fit over all pairs.
SHRINKAGE = 300.0
#: Tokens of a rendered pair from which it counts as long.
LONG = 40
GENERAL = "all"
#: What a bucket holds per output, and the values that change nothing.
PARAMETERS = ("scale", "below", "shift")
UNCHANGED = (1.0, 1.0, 0.0)

_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_LETTER = re.compile(r"[^\W\d_]")
_ASCII_LETTER = re.compile(r"[A-Za-z]")
_ENGLISH = frozenset(
    "the a an i is are was were am be been my we our you he she it they his her of to in on at for with "
    "and not no has have had do does did will from this that as by any now".split()
)
_OTHER_LATIN = frozenset(
    "el la los las un una y que en es no mi con por para se su der die das ein eine und ist ich wir nicht "
    "mein auf mit zu im den von le les des une et je est pas mon ma nous sur dans pour il che di non sono "
    "ho per o os um uma em meu minha de".split()
)


def bucket(source: str, target: str, *, tokens: int) -> str:
    """Name of the bucket of a pair: its kind of text and its length, such as ``english/short``."""
    return f"{kind_of_text(f'{source} {target}')}/{'long' if tokens >= LONG else 'short'}"


def kind_of_text(text: str) -> str:
    """``cjk``, ``other_script``, ``other_latin`` or ``english``, by letters and frequent words."""
    if _CJK.search(text):
        return "cjk"
    letters = len(_LETTER.findall(text))
    if letters and len(_ASCII_LETTER.findall(text)) < 0.6 * letters:
        return "other_script"
    words = re.findall(r"[^\W\d_]+", text.lower())
    english = sum(word in _ENGLISH for word in words)
    return "other_latin" if sum(word in _OTHER_LATIN for word in words) > english else "english"


def sigmoid(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """``1 / (1 + exp(-x))`` element-wise, without overflow."""
    return np.exp(-np.logaddexp(0.0, -x))


def _bent(logits: NDArray[np.float64], point: NDArray[np.float64]) -> NDArray[np.float64]:
    """Calibrated log-odds of ``logits`` ``(..., k)`` by ``point`` ``(..., k, 3)``: scale, below, shift."""
    over, under = np.logaddexp(0.0, logits), np.logaddexp(0.0, -logits)
    return point[..., 0] * over - point[..., 1] * under + point[..., 2]


@dataclass(frozen=True, slots=True)
class Calibrator:
    """Slopes above and below logit 0, and shift, per bucket and output; an empty one is the plain sigmoid."""

    outputs: tuple[str, ...]
    scale: Mapping[str, tuple[float, ...]]
    below: Mapping[str, tuple[float, ...]]
    shift: Mapping[str, tuple[float, ...]]

    @classmethod
    def identity(cls, outputs: Sequence[str]) -> Calibrator:
        """Return a calibrator that changes nothing."""
        return cls(tuple(outputs), {}, {}, {})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Calibrator:
        """Rebuild a calibrator from what ``to_json`` wrote; without ``below``, it is Platt's."""
        whole = {"below": data["scale"], **data}
        parts = ({name: tuple(row) for name, row in whole[key].items()} for key in PARAMETERS)
        return cls(tuple(data["outputs"]), *parts)

    def to_json(self) -> dict[str, Any]:
        """Plain lists and numbers for the manifest."""
        rows = {key: {name: list(row) for name, row in getattr(self, key).items()} for key in PARAMETERS}
        return {"outputs": list(self.outputs), **rows}

    def apply(self, logits: NDArray[np.float64], buckets: Sequence[str]) -> NDArray[np.float64]:
        """Probabilities of ``logits``, both ``(n, outputs)``; ``buckets`` has length n.

        A bucket that was never fitted uses the fit over all pairs.
        """
        point = np.empty((*logits.shape, len(PARAMETERS)))
        for k, (key, plain) in enumerate(zip(PARAMETERS, UNCHANGED, strict=True)):
            own = getattr(self, key)
            general = own.get(GENERAL, (plain,) * len(self.outputs))
            for i, name in enumerate(buckets):
                point[i, :, k] = own.get(name, general)
        return sigmoid(_bent(logits, point))


def fit(
    logits: NDArray[np.float64],
    labels: NDArray[np.float64],
    *,
    buckets: Sequence[str],
    outputs: Sequence[str],
) -> Calibrator:
    """Fit on validation pairs: ``logits`` and ``labels`` are ``(n, outputs)``, labels 0, 1 or NaN."""
    names = np.asarray(buckets)
    columns = range(len(outputs))
    general = np.array([_fit_one(logits[:, k], labels[:, k], toward=UNCHANGED) for k in columns])
    points = {GENERAL: general}
    for name in sorted(set(buckets)):
        rows = names == name
        points[name] = np.array(
            [_fit_one(logits[rows, k], labels[rows, k], toward=general[k]) for k in columns]
        )
    return _of_points(outputs, points)


def _of_points(outputs: Sequence[str], points: Mapping[str, NDArray[np.float64]]) -> Calibrator:
    """Return the calibrator with ``points``, ``(outputs, 3)`` by bucket."""
    parts = (
        {name: tuple(point[:, k].tolist()) for name, point in points.items()} for k in range(len(PARAMETERS))
    )
    return Calibrator(tuple(outputs), *parts)


def _fit_one(
    logit: NDArray[np.float64], label: NDArray[np.float64], *, toward: ArrayLike
) -> NDArray[np.float64]:
    """Scale, below and shift ``(3,)`` of one output: log loss plus ``_pull`` to ``toward``."""
    known = ~np.isnan(label)
    x, y = logit[known], label[known]
    center = np.asarray(toward, dtype=np.float64)
    if len(x) == 0 or y.min() == y.max():
        return center

    def loss(flat: NDArray[np.float64]) -> float:
        z = _bent(x, _slopes(flat))
        return float(np.sum(np.logaddexp(0.0, z) - y * z)) + _pull(flat, _logs(center))

    return _slopes(minimize(loss, _logs(center), method="L-BFGS-B").x)


def _logs(point: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``point`` ``(..., 3)`` with the logarithms of the slopes, in which a fit moves."""
    return np.concatenate([np.log(point[..., :2]), point[..., 2:]], axis=-1)


def _slopes(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Undo ``_logs``."""
    return np.concatenate([np.exp(logs[..., :2]), logs[..., 2:]], axis=-1)


def _pull(logs: NDArray[np.float64], center: NDArray[np.float64]) -> float:
    """Return what a distance from ``center`` costs: ``SHRINKAGE`` pairs' strength."""
    return float(0.1 * SHRINKAGE * np.sum((logs - center) ** 2 * np.array([0.5, 0.5, 0.25])))


def fit_gate(
    logits: NDArray[np.float64],
    labels: NDArray[np.float64],
    *,
    buckets: Sequence[str],
    start: Calibrator,
    slots: int = 1,
) -> Calibrator:
    """Refit slots and operation of ``start`` together, so that the gate score itself is calibrated.

    ``logits`` and ``labels`` are ``(n, slots + 3)`` in the order slots, event, operation, confirms.  The
    factors of [V3] Eq. 1 and 3 are far from independent, so a product of factors that are calibrated one by
    one is too small; here scale and shift of slots and operation minimise the log loss of ``product of slots
    * min(event, operation)`` against the last slot's label.
    """
    label = labels[:, slots - 1]
    known = ~np.isnan(label)
    names = np.asarray(buckets)
    event = start.apply(logits, buckets)[:, slots]
    fitted = [*range(slots), slots + 1]
    points = {
        name: np.column_stack([getattr(start, key)[name] for key in PARAMETERS]) for name in start.scale
    }
    general = np.array([UNCHANGED] * len(fitted))
    for name in [GENERAL, *sorted(set(buckets))]:
        rows = known if name == GENERAL else known & (names == name)
        found = _fit_product(logits[rows][:, fitted], label[rows], event=event[rows], toward=general)
        general = found if name == GENERAL else general
        points[name][fitted] = found
    return _of_points(start.outputs, points)


def _fit_product(
    logits: NDArray[np.float64],
    label: NDArray[np.float64],
    *,
    event: NDArray[np.float64],
    toward: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Scale, below and shift ``(k, 3)`` of slots and operation ``(n, k)``, the operation last.

    The pull to ``toward`` is that of ``_fit_one``.
    """
    if len(label) == 0 or label.min() == label.max():
        return toward
    center = _logs(toward)

    def loss(flat: NDArray[np.float64]) -> float:
        logs = flat.reshape(center.shape)
        factor = sigmoid(_bent(logits, _slopes(logs)))
        product = factor[:, :-1].prod(axis=1) * np.minimum(event, factor[:, -1])
        score = np.clip(product, 1e-6, 1 - 1e-6)
        return float(-np.sum(label * np.log(score) + (1 - label) * np.log1p(-score))) + _pull(logs, center)

    return _slopes(minimize(loss, center.ravel(), method="L-BFGS-B").x.reshape(center.shape))


def expected_calibration_error(
    probability: NDArray[np.float64], label: NDArray[np.float64], *, bins: int = 10
) -> float:
    """Mean gap of probability and frequency over equal-width bins (Naeini et al., 2015)."""
    place = np.minimum((probability * bins).astype(int), bins - 1)
    gaps = [
        np.mean(place == k) * abs(probability[place == k].mean() - label[place == k].mean())
        for k in range(bins)
        if np.any(place == k)
    ]
    return float(np.sum(gaps))
