"""Calibration of the evidence: kinds of text, slopes, buckets, the gate as a whole."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from validity_graph.verifier.calibrator import (
    Calibrator,
    bucket,
    expected_calibration_error,
    fit,
    fit_gate,
    kind_of_text,
)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("I moved to Oslo", "english"),
        ("Ich wohne nicht mehr in Kassel", "other_latin"),
        ("Trabajo en una farmacia", "other_latin"),
        ("我搬到了成都", "cjk"),
        ("東京に引っ越した", "cjk"),
        ("서울로 이사했다", "cjk"),
        ("Я живу в Москве", "other_script"),
        ("", "english"),
    ],
)
def test_kind_of_text(text: str, kind: str) -> None:
    assert kind_of_text(text) == kind


def test_buckets_tell_short_from_long() -> None:
    assert bucket("a cat", "the dog", tokens=5) == "english/short"
    assert bucket("a cat", "the dog", tokens=80) == "english/long"


def test_calibration_undoes_overconfidence_and_a_shift() -> None:
    rng = np.random.default_rng(3)
    truth = rng.normal(size=8000) * 2
    label = (rng.random(8000) < 1 / (1 + np.exp(-truth))).astype(float)
    logits = np.stack([4 * truth + 3, truth], axis=1)
    names = ["english/short"] * 8000
    fitted = fit(logits, np.stack([label, label], axis=1), buckets=names, outputs=("a", "b"))
    before = Calibrator.identity(("a", "b")).apply(logits, names)
    after = fitted.apply(logits, names)
    assert expected_calibration_error(before[:, 0], label) > 0.08
    assert expected_calibration_error(after[:, 0], label) < 0.03
    assert np.abs(after[:, 0] - 1 / (1 + np.exp(-truth))).max() < 0.05
    # It never turns an order round.
    order = np.argsort(logits[:, 0])
    assert np.all(np.diff(after[order, 0]) >= 0)


def test_calibration_is_as_sure_of_easy_negatives_as_they_are_rare() -> None:
    rng = np.random.default_rng(5)
    logit = np.concatenate([rng.normal(size=4000), rng.normal(-5, 1, size=4000)])
    chance = np.where(logit > -2, 1 / (1 + np.exp(-0.5 * logit)), 0.001)
    label = (rng.random(8000) < chance).astype(float)
    names = ["english/short"] * 8000
    fitted = fit(logit[:, None], label[:, None], buckets=names, outputs=("a",))
    found = fitted.apply(np.array([[-6.0], [1.5]]), names[:2])[:, 0]
    assert found[0] < 0.01
    assert found[1] == pytest.approx(1 / (1 + math.exp(-0.75)), abs=0.06)


def test_a_small_bucket_leans_on_all_and_an_unknown_one_uses_all() -> None:
    rng = np.random.default_rng(4)
    logit = rng.normal(size=(2000, 1))
    label = (rng.random((2000, 1)) < 1 / (1 + np.exp(-2 * logit))).astype(float)
    # Two pairs that say the opposite must not bend their bucket much.
    names = ["english/short"] * 1998 + ["cjk/short"] * 2
    label[-2:], logit[-2:] = [[1.0], [0.0]], [[-1.0], [1.0]]
    fitted = fit(logit, label, buckets=names, outputs=("a",))
    point = np.array([[1.0]])
    general = fitted.apply(point, ["nobody/short"])[0, 0]
    assert abs(fitted.apply(point, ["cjk/short"])[0, 0] - general) < 0.1
    assert general == pytest.approx(1 / (1 + math.exp(-2)), abs=0.05)


def test_the_gate_is_calibrated_although_its_factors_are_not_independent() -> None:
    rng = np.random.default_rng(8)
    truth = rng.normal(size=6000) * 1.5
    label = (rng.random(6000) < 1 / (1 + np.exp(-truth))).astype(float)
    # Slot and operation read the same evidence; the event is nearly certain.
    logits = np.stack([3 * truth, np.full(6000, 4.0), 3 * truth, -truth], axis=1)
    labels = np.stack([label, np.ones(6000), label, 1 - label], axis=1)
    names = ["english/short"] * 6000
    alone = fit(logits, labels, buckets=names, outputs=("overturn", "event", "operation", "confirms"))
    together = fit_gate(logits, labels, buckets=names, start=alone)

    def error(calibrator: Calibrator) -> float:
        slot, event, operation, _ = calibrator.apply(logits, names).T
        return expected_calibration_error(slot * np.minimum(event, operation), label)

    assert error(alone) > 0.1
    assert error(together) < 0.03
    assert np.array_equal(together.apply(logits, names)[:, 1], alone.apply(logits, names)[:, 1])


def test_calibrator_survives_json() -> None:
    logits = np.array([[1.0, -2.0], [0.3, 4.0]])
    fitted = fit(logits, np.array([[1.0, 0.0], [0.0, 1.0]]), buckets=["x", "y"], outputs=("a", "b"))
    written = json.loads(json.dumps(fitted.to_json()))
    again = Calibrator.from_json(written)
    assert np.array_equal(again.apply(logits, ["x", "y"]), fitted.apply(logits, ["x", "y"]))
    # What was written with one slope is read as Platt's calibration.
    del written["below"]
    platt = 1 / (1 + np.exp(-np.array(fitted.scale["x"]) * logits[0] - np.array(fitted.shift["x"])))
    assert Calibrator.from_json(written).apply(logits[:1], ["x"])[0] == pytest.approx(platt)
