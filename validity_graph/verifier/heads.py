"""Heads: models that read a (source, target) pair.

``OnnxHead`` runs the exported pair network (slot, event and operation in one pass); ``SlotHead`` asks any
sequence-classification checkpoint or ONNX file for the slot probability alone, with the rendering of [V3]
section 5.1.  Pairs run one at a time, several at once: dynamic int8 quantisation takes its range from the
whole input, so in a batch one pair would move another's score, and padding would be paid for.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from validity_graph.errors import InputError, MissingExtraError
from validity_graph.verifier import exact_products
from validity_graph.verifier.calibrator import sigmoid
from validity_graph.verifier.reading import Window, load_tokenizer, read_windows

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

Progress = Callable[[int, int], None]
#: Windows that one worker takes at a time.
CHUNK = 16
#: Pairs that are tokenised at a time, which bounds memory.
BLOCK = 4096


class Slot(Protocol):
    """Anything that gives the probability that each source directly and specifically overturns its target."""

    def slot(
        self, sources: Sequence[str], targets: Sequence[str], *, domains: Sequence[str] | None = None
    ) -> NDArray[np.float64]:
        """Slot probability per pair, shape ``(n,)``, in [0, 1]."""
        ...


@dataclass(frozen=True, slots=True)
class WindowLogits:
    """Raw outputs per window: ``logits`` ``(w, outputs)``, ``pair`` ``(w,)`` and ``tokens`` ``(w,)``."""

    logits: NDArray[np.float64]
    pair: NDArray[np.int64]
    tokens: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class OnnxHead:
    """The exported pair network: an ONNX session, its tokenizer and what its manifest says."""

    session: InferenceSession
    tokenizer: Tokenizer
    outputs: tuple[str, ...]
    form: str
    max_length: int
    threads: int

    @classmethod
    def load(cls, folder: str | Path, *, threads: int | None = None) -> OnnxHead:
        """Load ``manifest.json``, its ONNX file and ``tokenizer.json`` from ``folder``.

        ``threads`` pairs are scored at once (default: the cores this process may use).  Raises
        ``InputError`` where a file is missing or the manifest lacks a field.
        """
        manifest = read_manifest(folder)
        count = threads if threads is not None else usable_cores()
        if count < 1:
            raise InputError(f"threads={count} must be at least 1")
        return cls(
            session=open_session(Path(folder) / manifest["model"], unpack=True),
            tokenizer=load_tokenizer(folder),
            outputs=tuple(manifest["outputs"]),
            form=manifest["rendering"],
            max_length=int(manifest["max_length"]),
            threads=count,
        )

    def logits(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        domains: Sequence[str] | None = None,
        progress: Progress | None = None,
    ) -> WindowLogits:
        """Raw outputs of every window of every pair; the same for a pair whatever else is asked.

        ``progress(done, total)`` is called with counts of pairs.
        """
        rows: list[NDArray[np.float32]] = []
        pair: list[int] = []
        tokens: list[int] = []
        for start in range(0, len(sources), BLOCK):
            part = slice(start, start + BLOCK)
            windows = read_windows(
                sources[part],
                targets[part],
                domains=None if domains is None else domains[part],
                tokenizer=self.tokenizer,
                form=self.form,
                max_length=self.max_length,
            )
            for chunk, found in run_windows(self.session, windows, threads=self.threads):
                rows += found
                if progress is not None:
                    progress(start + chunk[-1].pair + 1, len(sources))
            pair += [start + window.pair for window in windows]
            tokens += [len(window.ids) for window in windows]
        return WindowLogits(
            logits=np.array(rows, dtype=np.float64).reshape(len(rows), len(self.outputs)),
            pair=np.array(pair, dtype=np.int64),
            tokens=np.array(tokens, dtype=np.int64),
        )


def read_manifest(folder: str | Path) -> dict[str, Any]:
    """Read ``manifest.json`` of a weights folder.

    Raises ``InputError`` where it is missing, is not JSON or lacks a field that scoring needs.
    """
    path = Path(folder) / "manifest.json"
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{folder} has no manifest.json; name a folder that training wrote") from None
    except json.JSONDecodeError as error:
        raise InputError(f"{path} is not JSON ({error})") from None
    lacking = [key for key in ("model", "outputs", "rendering", "max_length") if key not in manifest]
    if lacking:
        raise InputError(f"{path} lacks {', '.join(lacking)}")
    if not (path.parent / manifest["model"]).is_file():
        raise InputError(f"{path} names {manifest['model']}, which is not beside it")
    return dict(manifest)


def open_session(path: str | Path, *, unpack: bool = False) -> InferenceSession:
    """Open an ONNX file on the CPU, one thread a run: parallelism is over pairs, which needs no barriers.

    With ``unpack``, weights that are stored in fewer bits are unpacked now and not again by every run.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    exact_products.require(options)
    if unpack:
        options.add_session_config_entry("session.disable_quant_qdq", "1")
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def usable_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_windows(
    session: InferenceSession, windows: Sequence[Window], *, threads: int
) -> Iterator[tuple[Sequence[Window], list[NDArray[np.float32]]]]:
    """Run every window by itself, ``threads`` at once; yields chunks of windows with their rows, in order."""
    names = [given.name for given in session.get_inputs()]

    def run(chunk: Sequence[Window]) -> list[NDArray[np.float32]]:
        return [session.run(None, _feed(window, names))[0][0] for window in chunk]

    chunks = [windows[i : i + CHUNK] for i in range(0, len(windows), CHUNK)]
    if threads == 1 or len(chunks) < 2:
        yield from zip(chunks, map(run, chunks), strict=True)
        return
    with ThreadPoolExecutor(max_workers=threads) as pool:
        yield from zip(chunks, pool.map(run, chunks), strict=True)


def _feed(window: Window, names: Sequence[str]) -> dict[str, NDArray[np.int64]]:
    given = {
        "input_ids": window.ids[None],
        "attention_mask": np.ones((1, len(window.ids)), dtype=np.int64),
        "token_type_ids": window.sides[None],
    }
    return {name: given[name] for name in names}


def overturn_probability(logits: NDArray[np.float64], *, positive: int = -1) -> NDArray[np.float64]:
    """P(overturn) per row of ``(n, classes)`` logits: sigmoid of one class, else softmax."""
    if logits.shape[1] == 1:
        return sigmoid(logits[:, 0])
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(shifted[:, positive] / shifted.sum(axis=1), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class SlotHead:
    """The slot probability from any sequence-classification model, rendered as [V3] section 5.1 writes it.

    ``run`` maps one window to its class logits ``(classes,)``; ``positive`` is the class that means overturn.
    Long pairs are read in windows and take their highest probability.
    """

    run: Callable[[Window], NDArray[np.float64]]
    tokenizer: Tokenizer
    positive: int = -1
    form: str = "paper"
    max_length: int = 256

    @classmethod
    def from_onnx(
        cls,
        model: str | Path,
        *,
        tokenizer: str | Path | None = None,
        positive: int = -1,
        form: str = "paper",
    ) -> SlotHead:
        """Open an ONNX file; ``tokenizer`` is the folder of its ``tokenizer.json`` (default: beside it).

        Raises ``InputError`` where a file is missing.
        """
        path = Path(model)
        if not path.is_file():
            raise InputError(f"{path} is not a file")
        session = open_session(path)
        names = [given.name for given in session.get_inputs()]

        def run(window: Window) -> NDArray[np.float64]:
            return np.asarray(session.run(None, _feed(window, names))[0][0], dtype=np.float64)

        return cls(run, load_tokenizer(tokenizer or path.parent), positive=positive, form=form)

    @classmethod
    def from_checkpoint(cls, checkpoint: str | Path, *, form: str = "paper") -> SlotHead:
        """Load a Hugging Face sequence-classification checkpoint: a folder or a hub name.

        A three-way inference head is replaced by a binary one ([V3] section 5.1), see ``binary_head``.
        Raises ``MissingExtraError`` without torch and transformers.
        """
        try:
            import torch
            from transformers import AutoModelForSequenceClassification, AutoTokenizer
        except ImportError:
            raise MissingExtraError(
                "SlotHead.from_checkpoint", needs="torch and transformers", extra="torch"
            ) from None
        model = AutoModelForSequenceClassification.from_pretrained(str(checkpoint)).eval()
        names = {index: str(label).lower() for index, label in model.config.id2label.items()}
        collapse = binary_head(names)
        wants_sides = getattr(model.config, "type_vocab_size", 0) > 1

        def run(window: Window) -> NDArray[np.float64]:
            given = {"input_ids": torch.from_numpy(window.ids[None])}
            if wants_sides:
                given["token_type_ids"] = torch.from_numpy(window.sides[None])
            with torch.inference_mode():
                row = model(**given).logits[0].double().numpy()
            return collapse(row)

        fast = AutoTokenizer.from_pretrained(str(checkpoint), use_fast=True).backend_tokenizer
        fast.no_padding()
        fast.no_truncation()
        return cls(run, fast, form=form)

    def slot(
        self, sources: Sequence[str], targets: Sequence[str], *, domains: Sequence[str] | None = None
    ) -> NDArray[np.float64]:
        """Slot probability per pair, ``(n,)`` in [0, 1]; the highest over a long pair's windows."""
        windows = read_windows(
            sources,
            targets,
            domains=domains,
            tokenizer=self.tokenizer,
            form=self.form,
            max_length=self.max_length,
        )
        result = np.zeros(len(sources))
        for window in windows:
            probability = overturn_probability(self.run(window)[None], positive=self.positive)[0]
            result[window.pair] = max(result[window.pair], probability)
        return result


def binary_head(label: dict[int, str]) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    """Replace an inference head's three classes by two: (keeps, overturns).

    ``label`` names the class of each logit.  ``contradiction`` becomes the overturn logit and the others
    join by log-sum-exp, so the softmax of the two equals the three-way probability of contradiction; it is
    where fine-tuning starts.  Heads of one or two classes stay as they are.
    """
    if len(label) != 3:
        return lambda row: row
    at = next((index for index, name in label.items() if name.startswith("contra")), None)
    if at is None:
        raise InputError(f"no class of {sorted(label.values())} is a contradiction; rename them in id2label")

    def collapse(row: NDArray[np.float64]) -> NDArray[np.float64]:
        others = np.delete(row, at)
        top = float(others.max())
        return np.array([top + math.log(float(np.exp(others - top).sum())), row[at]])

    return collapse
