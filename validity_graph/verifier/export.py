"""From a trained pair network to the files that ship: quantised ONNX, tokenizer, manifest.

The cheap head's weights become int8, with 4-bit embeddings where it is to be compact, a second head's 4 bits;
activations are quantised while running.  The exported model is then asked about validation pairs and
calibrated as it is, since quantisation moves single logits; a second head is calibrated together with the
cheap one.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validity_graph.errors import MissingExtraError
from validity_graph.verifier.calibrator import (
    Calibrator,
    bucket,
    expected_calibration_error,
    fit,
    fit_gate,
    kind_of_text,
)
from validity_graph.verifier.evidence import EVIDENCE, evidence_logits, strongest
from validity_graph.verifier.gate import DualEvidenceGate
from validity_graph.verifier.heads import OnnxHead, read_manifest
from validity_graph.verifier.pairs import Pair
from validity_graph.verifier.router import Route, Router
from validity_graph.verifier.scoring import Verifier
from validity_graph.verifier.second import JOINT

try:
    import onnx
    import torch
    from torch import nn

    from validity_graph.verifier.network import EXPORTED, OUTPUTS, PairNetwork
    from validity_graph.verifier.quantize import quantize_compact, quantize_int4, quantize_int8
except ImportError:
    raise MissingExtraError("exporting weights", needs="torch and onnx", extra="train") from None

MODEL = "pair_head_int8.onnx"
SECOND_MODEL = "pair_head_int4.onnx"
#: Kinds of text that a second head reads where nothing else is said.
SECOND_READS = ("cjk", "english", "other_latin")
#: Fewer pairs than this calibrate nothing: then the settled ones help.
FEWEST_ASKED = 500
INPUTS = ("input_ids", "attention_mask", "token_type_ids")


class _Exported(nn.Module):
    """The network without the heads that only training uses: the logits named ``outputs``, in that order."""

    def __init__(self, network: PairNetwork, outputs: Sequence[str]) -> None:
        super().__init__()
        self.network = network
        self.columns = [OUTPUTS.index(name) for name in outputs]

    def forward(self, ids: torch.Tensor, mask: torch.Tensor, sides: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.network(ids, mask, sides)
        return logits[:, self.columns]


def export_int8(network: PairNetwork, path: str | Path, *, outputs: Sequence[str] = EXPORTED) -> None:
    """Write ``network`` as int8 ONNX with inputs ``INPUTS`` ``(batch, length)`` and output ``logits``."""
    _export(network, path, outputs=outputs, quantize=quantize_int8)


def export_compact(network: PairNetwork, path: str | Path, *, outputs: Sequence[str] = EXPORTED) -> None:
    """Write ``network`` as int8 ONNX with 4-bit embeddings, otherwise as ``export_int8``."""
    _export(network, path, outputs=outputs, quantize=quantize_compact)


def export_int4(network: PairNetwork, path: str | Path, *, outputs: Sequence[str] = EXPORTED) -> None:
    """Write ``network`` as 4-bit ONNX, otherwise as ``export_int8``."""
    _export(network, path, outputs=outputs, quantize=quantize_int4)


def _export(
    network: PairNetwork,
    path: str | Path,
    *,
    outputs: Sequence[str],
    quantize: Callable[[Path, str | Path], None],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "float.onnx"
        export_float(network, whole, outputs=outputs)
        quantize(whole, path)


def export_float(network: PairNetwork, path: str | Path, *, outputs: Sequence[str] = EXPORTED) -> None:
    """Write ``network`` as float32 ONNX, any batch and length."""
    was_training = network.training
    network.eval()
    example = torch.ones((2, 8), dtype=torch.long)
    sides = torch.zeros((2, 8), dtype=torch.long)
    sides[:, 4:] = 1
    axes = {name: {0: "batch", 1: "length"} for name in INPUTS} | {"logits": {0: "batch"}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            _Exported(network, outputs), (example, example, sides), str(path), input_names=list(INPUTS),
            output_names=["logits"], dynamic_axes=axes, opset_version=18, dynamo=False,
        )  # fmt: skip
    network.train(was_training)


def write_weights(
    network: PairNetwork,
    output: str | Path,
    *,
    tokenizer: str | Path,
    validation: Sequence[Pair],
    form: str,
    max_length: int,
    about: Mapping[str, Any],
    outputs: Sequence[str] = EXPORTED,
    export: Callable[..., None] = export_int8,
    threads: int = 2,
) -> dict[str, Any]:
    """Export, calibrate on ``validation`` and write a weights folder; returns its manifest.

    ``tokenizer`` is the folder of the base's ``tokenizer.json``; ``about`` (data, seed, settings, ...) is
    copied into the manifest; ``outputs`` are the logits to export; ``export`` is ``export_int8`` or
    ``export_compact``.
    """
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    export(network, folder / MODEL, outputs=outputs)
    shutil.copyfile(Path(tokenizer) / "tokenizer.json", folder / "tokenizer.json")
    manifest: dict[str, Any] = {
        "model": MODEL, "outputs": list(outputs), "rendering": form, "max_length": max_length, **about,
    }  # fmt: skip
    _write(folder, manifest)
    head = OnnxHead.load(folder, threads=threads)
    calibrator, metrics = calibrate(head, validation)
    manifest["calibration"] = calibrator.to_json()
    manifest["metrics"] = {**manifest.get("metrics", {}), **metrics}
    return _sealed(folder, manifest)


def write_second(
    network: PairNetwork,
    output: str | Path,
    *,
    name: str,
    tokenizer: str | Path,
    validation: Sequence[Pair],
    form: str,
    max_length: int,
    about: Mapping[str, Any],
    reads: Collection[str] = SECOND_READS,
    outputs: Sequence[str] = EXPORTED,
    threads: int = 2,
) -> dict[str, Any]:
    """Put ``network`` beside the cheap head of the weights folder ``output``, as the second head ``name``.

    It will be asked about the kinds of text in ``reads`` (``calibrator.kind_of_text``); where several second
    heads read a pair, the one that was put there first is asked.  Calibrates it together with the cheap head
    on those ``validation`` pairs that it would be asked about; the other arguments are those of
    ``write_weights``.  Returns the second head's manifest.
    """
    read = [pair for pair in validation if kind_of_text(f"{pair.source} {pair.target}") in reads]
    asked = unsettled(output, read, threads=threads)
    beside = Path(output) / name
    beside.mkdir(parents=True, exist_ok=True)
    export_int4(network, beside / SECOND_MODEL, outputs=outputs)
    shutil.copyfile(Path(tokenizer) / "tokenizer.json", beside / "tokenizer.json")
    manifest: dict[str, Any] = {
        "model": SECOND_MODEL, "outputs": list(outputs), "rendering": form, "max_length": max_length,
        "reads": sorted(reads), **about,
    }  # fmt: skip
    _write(beside, manifest)
    cheap, second = (OnnxHead.load(folder, threads=threads) for folder in (output, beside))
    calibrator, metrics = calibrate_jointly(cheap, second, asked)
    manifest |= {"calibration": calibrator.to_json(), "metrics": metrics}
    found = _sealed(beside, manifest)
    whole = read_manifest(output)
    _write(Path(output), whole | {"second": list(dict.fromkeys([*whole.get("second", []), name]))})
    return found


def unsettled(weights: str | Path, pairs: Sequence[Pair], *, threads: int) -> list[Pair]:
    """Those of ``pairs`` that the router would not settle at the cheap head, all where they are few.

    A second head sees nothing else, and a calibration that also has to fit what the cheap head settles is
    worse where it matters.
    """
    # Not Verifier.load: a second head whose writing was broken off must not keep it from being written anew.
    cheap = Verifier(
        OnnxHead.load(weights, threads=threads), Calibrator.from_json(read_manifest(weights)["calibration"])
    )
    scores = cheap.score([pair.source for pair in pairs], [pair.target for pair in pairs])
    plan = Router().plan(
        gate=scores.gate, slot=scores.slot_mini, event=scores.event, operation=scores.operation
    )
    asked = [pair for pair, route in zip(pairs, plan, strict=True) if route is Route.ASK]
    return asked if len(asked) >= FEWEST_ASKED else list(pairs)


def _sealed(folder: Path, manifest: dict[str, Any]) -> dict[str, Any]:
    """Write ``manifest`` with the versions and the hashes of the files that it speaks of."""
    manifest["versions"] = versions()
    manifest["files"] = {
        name: {"sha256": sha256(folder / name), "bytes": (folder / name).stat().st_size}
        for name in (manifest["model"], "tokenizer.json")
    }
    _write(folder, manifest)
    return manifest


def calibrate_jointly(
    cheap: OnnxHead, second: OnnxHead, validation: Sequence[Pair]
) -> tuple[Calibrator, dict[str, float]]:
    """Fit both slots and the operation so that the product of [V3] Eq. 1 and 3 is calibrated."""
    first, _ = _evidence(cheap, validation)
    reread, buckets = _evidence(second, validation)
    logits = np.column_stack([first[:, 0], reread])
    own = evidence_labels(validation)
    labels = np.column_stack([own[:, 0], own])
    start = fit(logits, labels, buckets=buckets, outputs=JOINT)
    calibrator = fit_gate(logits, labels, buckets=buckets, start=start, slots=2)
    gate, plain = (
        DualEvidenceGate().combine(
            slot_mini=p[:, 0], slot_nli=p[:, 1], event=p[:, 2], operation=p[:, 3]
        )
        for p in (calibrator.apply(logits, buckets), Calibrator.identity(JOINT).apply(logits, buckets))
    )  # fmt: skip
    return calibrator, _measures(gate, plain=plain, truth=own[:, 0])


def _evidence(head: OnnxHead, pairs: Sequence[Pair]) -> tuple[NDArray[np.float64], list[str]]:
    """Evidence log-odds ``(n, 4)`` and the calibration bucket of every pair."""
    sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
    raw = head.logits(sources, targets, domains=[pair.domain for pair in pairs])
    every = evidence_logits(raw.logits, outputs=head.outputs)
    best = strongest(raw.pair, every[:, 0], pairs=len(pairs))
    tokens = raw.tokens[best]
    return every[best], [
        bucket(s, t, tokens=int(n)) for s, t, n in zip(sources, targets, tokens, strict=True)
    ]


def calibrate(head: OnnxHead, validation: Sequence[Pair]) -> tuple[Calibrator, dict[str, float]]:
    """Fit a calibrator on validation pairs; measure accuracy and calibration error on them."""
    if not validation:
        return Calibrator.identity(EVIDENCE), {}
    logits, buckets = _evidence(head, validation)
    labels = evidence_labels(validation)
    alone = fit(logits, labels, buckets=buckets, outputs=EVIDENCE)
    calibrator = fit_gate(logits, labels, buckets=buckets, start=alone)
    fitted, plain = (found.apply(logits, buckets) for found in (calibrator, Calibrator.identity(EVIDENCE)))
    return calibrator, _measures(_gate(fitted), plain=_gate(plain), truth=labels[:, 0])


def evidence_labels(pairs: Sequence[Pair]) -> NDArray[np.float64]:
    """Labels of ``scoring.EVIDENCE``, shape ``(n, 4)``; NaN where unknown."""
    labels = np.full((len(pairs), len(EVIDENCE)), np.nan)
    for i, pair in enumerate(pairs):
        labels[i, 0] = np.nan if pair.overturn is None else pair.overturn
        labels[i, 1] = np.nan if pair.event is None else pair.event
        if pair.operation is not None:
            labels[i, 2] = pair.operation in ("supersedes", "retracts")
            labels[i, 3] = pair.operation == "confirms"
    return labels


def _measures(
    gate: NDArray[np.float64], *, plain: NDArray[np.float64], truth: NDArray[np.float64]
) -> dict[str, float]:
    known = ~np.isnan(truth)
    if not known.any():
        return {}
    return {
        "validation_pairs": float(known.sum()),
        "gate_accuracy": float(np.mean((gate[known] >= 0.5) == truth[known])),
        "calibration_error_before": expected_calibration_error(plain[known], truth[known]),
        "calibration_error": expected_calibration_error(gate[known], truth[known]),
    }


def _gate(probability: NDArray[np.float64]) -> NDArray[np.float64]:
    slot, event, operation, _ = probability.T
    nobody = np.full(len(slot), np.nan)
    return DualEvidenceGate().combine(slot_mini=slot, slot_nli=nobody, event=event, operation=operation)


def sha256(path: str | Path) -> str:
    """Hash of a file, in hex."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def versions() -> dict[str, str]:
    """Versions of what made the weights."""
    import onnxruntime
    import tokenizers
    import transformers

    modules = {"torch": torch, "transformers": transformers, "onnx": onnx, "onnxruntime": onnxruntime}
    return {name: str(module.__version__) for name, module in {**modules, "tokenizers": tokenizers}.items()}


def _write(folder: Path, manifest: Mapping[str, Any]) -> None:
    text = json.dumps(manifest, indent=1, ensure_ascii=False, sort_keys=True)
    (folder / "manifest.json").write_text(text + "\n", encoding="utf-8")
