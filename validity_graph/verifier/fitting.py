"""The training loop of the pair network: loss, steps, looks at held-out pairs, checkpoints.

Weighted binary cross-entropy per head and weighted cross-entropy for the operation ([V3] section 6.2); AdamW
with linear warm-up and decay; early stopping; a checkpoint every few minutes from which a run that was
broken off goes on.  Needs torch.
"""

from __future__ import annotations

import logging
import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from validity_graph.errors import InputError, MissingExtraError
from validity_graph.verifier.pairs import BINARY, OPERATIONS

try:
    import torch

    from validity_graph.verifier.batching import Encoded, Settings, batches, collate
    from validity_graph.verifier.network import OUTPUTS, PairNetwork
    from validity_graph.verifier.precision import mixed_precision
except ImportError:
    raise MissingExtraError("training the verifier", needs="torch and transformers", extra="train") from None

LOG = logging.getLogger(__name__)
#: Loss weight of each head, in the order of ``pairs.BINARY``, and of the operation head.
BINARY_SHARE = (1.0, 0.5, 0.3, 0.5, 0.3, 1.0)
OPERATION_SHARE = 0.5


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
