"""Calibration: from a head's logits to probabilities, per kind of text and per length.

Each bucket holds a scale and a shift per output, ``p = sigmoid(scale * logit + shift)`` (Platt, 1999;
temperature scaling where the shift is 0), fitted on validation pairs with the exported int8 model, because
quantisation moves single logits.  A bucket with few pairs leans on the fit over all pairs.  Knows no
model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

#: A bucket's own fit counts as n / (n + SHRINKAGE) against the fit over all pairs.
SHRINKAGE = 300.0
#: Tokens of a rendered pair from which it counts as long.
LONG = 40
GENERAL = "all"

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


@dataclass(frozen=True, slots=True)
class Calibrator:
    """Scale and shift per bucket and output; an empty one is the plain sigmoid."""

    outputs: tuple[str, ...]
    scale: Mapping[str, tuple[float, ...]]
    shift: Mapping[str, tuple[float, ...]]

    @classmethod
    def identity(cls, outputs: Sequence[str]) -> Calibrator:
        """Return a calibrator that changes nothing."""
        return cls(tuple(outputs), {}, {})

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Calibrator:
        """Rebuild a calibrator from what ``to_json`` wrote."""
        lists = {key: {name: tuple(row) for name, row in data[key].items()} for key in ("scale", "shift")}
        return cls(tuple(data["outputs"]), lists["scale"], lists["shift"])

    def to_json(self) -> dict[str, Any]:
        """Plain lists and numbers for the manifest."""
        rows = {
            key: {name: list(row) for name, row in getattr(self, key).items()} for key in ("scale", "shift")
        }
        return {"outputs": list(self.outputs), **rows}

    def apply(self, logits: NDArray[np.float64], buckets: Sequence[str]) -> NDArray[np.float64]:
        """Probabilities of ``logits``, both ``(n, outputs)``; ``buckets`` has length n.

        A bucket that was never fitted uses the fit over all pairs.
        """
        width = len(self.outputs)
        scale, shift = np.ones(logits.shape), np.zeros(logits.shape)
        for i, name in enumerate(buckets):
            scale[i] = self.scale.get(name, self.scale.get(GENERAL, (1.0,) * width))
            shift[i] = self.shift.get(name, self.shift.get(GENERAL, (0.0,) * width))
        return sigmoid(scale * logits + shift)


def fit(
    logits: NDArray[np.float64],
    labels: NDArray[np.float64],
    *,
    buckets: Sequence[str],
    outputs: Sequence[str],
) -> Calibrator:
    """Fit on validation pairs: ``logits`` and ``labels`` are ``(n, outputs)``, labels 0, 1 or NaN."""
    names = np.asarray(buckets)
    scale: dict[str, tuple[float, ...]] = {}
    shift: dict[str, tuple[float, ...]] = {}
    general = [_fit_one(logits[:, k], labels[:, k], toward=(1.0, 0.0)) for k in range(len(outputs))]
    scale[GENERAL], shift[GENERAL] = tuple(a for a, _ in general), tuple(b for _, b in general)
    for name in sorted(set(buckets)):
        rows = names == name
        own = [_fit_one(logits[rows, k], labels[rows, k], toward=general[k]) for k in range(len(outputs))]
        scale[name], shift[name] = tuple(a for a, _ in own), tuple(b for _, b in own)
    return Calibrator(tuple(outputs), scale, shift)


def _fit_one(
    logit: NDArray[np.float64], label: NDArray[np.float64], *, toward: tuple[float, float]
) -> tuple[float, float]:
    """Scale and shift of one output: log loss plus a pull of ``SHRINKAGE`` pairs' strength to ``toward``."""
    known = ~np.isnan(label)
    x, y = logit[known], label[known]
    if len(x) == 0 or y.min() == y.max():
        return toward

    def loss(point: NDArray[np.float64]) -> float:
        z = np.exp(point[0]) * x + point[1]
        pull = (point[0] - np.log(toward[0])) ** 2 + 0.25 * (point[1] - toward[1]) ** 2
        return float(np.sum(np.logaddexp(0.0, z) - y * z) + 0.1 * SHRINKAGE * pull)

    found = minimize(loss, np.array([np.log(toward[0]), toward[1]]), method="Nelder-Mead")
    return float(np.exp(found.x[0])), float(found.x[1])


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
    scale = {name: list(row) for name, row in start.scale.items()}
    shift = {name: list(row) for name, row in start.shift.items()}
    general = np.array([[1.0, 0.0]] * len(fitted))
    for name in [GENERAL, *sorted(set(buckets))]:
        rows = known if name == GENERAL else known & (names == name)
        found = _fit_product(logits[rows][:, fitted], label[rows], event=event[rows], toward=general)
        general = found if name == GENERAL else general
        for column, (a, b) in zip(fitted, found, strict=True):
            scale[name][column], shift[name][column] = float(a), float(b)
    return Calibrator(
        start.outputs,
        {name: tuple(row) for name, row in scale.items()},
        {name: tuple(row) for name, row in shift.items()},
    )


def _fit_product(
    logits: NDArray[np.float64],
    label: NDArray[np.float64],
    *,
    event: NDArray[np.float64],
    toward: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Scale and shift ``(k, 2)`` of slots and operation ``(n, k)``, the operation last.

    The pull to ``toward`` is that of ``_fit_one``.
    """
    if len(label) == 0 or label.min() == label.max():
        return toward
    center = np.column_stack([np.log(toward[:, 0]), toward[:, 1]])

    def gate(point: NDArray[np.float64]) -> NDArray[np.float64]:
        factor = sigmoid(np.exp(point[:, 0]) * logits + point[:, 1])
        product: NDArray[np.float64] = factor[:, :-1].prod(axis=1) * np.minimum(event, factor[:, -1])
        return np.clip(product, 1e-6, 1 - 1e-6)

    def loss(flat: NDArray[np.float64]) -> float:
        point = flat.reshape(center.shape)
        pull = float(np.sum((point - center) ** 2 * np.array([1.0, 0.25])))
        score = gate(point)
        fit_of = float(-np.sum(label * np.log(score) + (1 - label) * np.log1p(-score)))
        return fit_of + 0.1 * SHRINKAGE * pull

    found = minimize(loss, center.ravel(), method="Nelder-Mead", options={"maxiter": 3000}).x
    point = found.reshape(center.shape)
    return np.column_stack([np.exp(point[:, 0]), point[:, 1]])


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
