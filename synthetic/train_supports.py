"""Trains the scorer of support edges (``validity_graph.supports``) and writes its weights.

``python -m synthetic.train_supports --data DIR -o validity_graph/support_weights.npz``

Trains on the chains of the ``train`` split (worlds of their own) and on EntailmentBank's train trees under
DIR; one world in four and one tree in ten are held out to stop early and to calibrate.  Never reads a test
world or a dev tree.  Needs torch; a minute on one core.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.structure import records
from synthetic.chain_stage import Case
from synthetic.chain_worlds import worlds
from synthetic.chains import cases
from synthetic.harder_chains import harder
from synthetic.overlap import Index, common_phrases, strings
from validity_graph.candidates import CandidateIndex
from validity_graph.records import Memory
from validity_graph.supports import features

TREES = "entailment_bank"
SEEDS = (101, 102)
HIDDEN = 24
EPOCHS = 60
FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Examples:
    """Features ``(n, features)``, labels ``(n,)``, weights ``(n,)`` and which rows are held out."""

    feature: FloatArray
    label: FloatArray
    weight: FloatArray
    held: NDArray[np.bool_]


def proposals(texts: Sequence[str]) -> list[tuple[int, int]]:
    """Return (reason, conclusion) places: for each text the earlier ones that the candidates propose."""
    index = CandidateIndex()
    index.extend((k, Memory(str(k), text)) for k, text in enumerate(texts))
    return [(earlier, later) for later, earlier in index.pairs(range(len(texts)))]


def of_texts(
    listed: Iterable[tuple[Sequence[str], set[tuple[int, int]], bool]], *, weight: float
) -> Examples:
    """Return the examples of groups of texts, each with its true (reason, conclusion) places."""
    blocks: list[FloatArray] = []
    labels: list[float] = []
    held: list[bool] = []
    for texts, truth, out in listed:
        pairs = proposals(texts)
        if pairs:
            blocks.append(features([texts[a] for a, _ in pairs], [texts[b] for _, b in pairs]))
            labels += [float(pair in truth) for pair in pairs]
            held += [out] * len(pairs)
    label = np.array(labels)
    return Examples(np.concatenate(blocks), label, np.full(len(label), weight), np.array(held))


def of_case(case: Case) -> tuple[list[str], set[tuple[int, int]], bool]:
    """Return the texts of a case, its structure as places, and whether it is held out."""
    held = any(world.domain == case.domain for world in worlds("validation"))
    place = {memory.id: k for k, memory in enumerate(case.memories)}
    truth = {(place[edge.source], place[edge.target]) for edge in case.structure}
    return [memory.text for memory in case.memories], truth, held


def of_tree(tree: Mapping[str, Any], *, held: bool) -> tuple[list[str], set[tuple[int, int]], bool]:
    """Return the texts of a tree in an order in which each comes after its premises."""
    names = [*tree["leaves"], *(head for _, head in tree["steps"])]
    place = {name: k for k, name in enumerate(names)}
    said = {**tree["leaves"], **tree["nodes"]}
    truth = {(place[p], place[head]) for premises, head in tree["steps"] for p in premises if p in place}
    return [said[name] for name in names], truth, held


def dev_trees(data: Path) -> list[Mapping[str, Any]]:
    """Return the trees that only measure."""
    return [tree for tree in records(data / TREES) if tree["split"] != "train"]


def train_trees(data: Path) -> list[Mapping[str, Any]]:
    """Return the train trees that share no sentence and no run of eight words with a dev tree.

    Both splits draw their leaves from one store of facts, so about half of the train trees fall away.
    """
    measured = Index(common_phrases())
    measured.add("dev", (text for tree in dev_trees(data) for text in strings(tree)))
    train = (tree for tree in records(data / TREES) if tree["split"] == "train")
    return [tree for tree in train if not measured.findings(strings(tree))]


def joined(parts: Sequence[Examples]) -> Examples:
    """Return all examples together."""
    return Examples(
        *(np.concatenate([getattr(p, n) for p in parts]) for n in ("feature", "label", "weight", "held"))
    )


def fit(examples: Examples, *, seed: int) -> dict[str, FloatArray]:
    """Train the network, keep the epoch with the least held-out loss, and set its temperature."""
    import torch

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    mean = examples.feature[~examples.held].mean(axis=0)
    scale = examples.feature[~examples.held].std(axis=0) + 1e-6
    given = torch.tensor((examples.feature - mean) / scale, dtype=torch.float32)
    label, weight = (torch.tensor(part, dtype=torch.float32) for part in (examples.label, examples.weight))
    held = torch.tensor(examples.held)
    network = torch.nn.Sequential(
        torch.nn.Linear(given.shape[1], HIDDEN), torch.nn.ReLU(), torch.nn.Linear(HIDDEN, 1)
    )
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3, weight_decay=1e-2)

    def loss(rows: torch.Tensor) -> torch.Tensor:
        each = torch.nn.functional.binary_cross_entropy_with_logits(
            network(given[rows]).squeeze(1), label[rows], weight=weight[rows]
        )
        return each

    train, best, kept = (~held).nonzero().squeeze(1), float("inf"), network.state_dict()
    for _ in range(EPOCHS):
        for rows in train[torch.randperm(len(train))].split(256):  # type: ignore[no-untyped-call]
            optimizer.zero_grad()
            loss(rows).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        with torch.no_grad():
            now = float(loss(held.nonzero().squeeze(1)))
        if now < best:
            best, kept = now, {name: value.clone() for name, value in network.state_dict().items()}
    network.load_state_dict(kept)
    with torch.no_grad():
        logit = network(given[held]).squeeze(1).double().numpy()
    factor = temperature(logit, examples.label[examples.held], examples.weight[examples.held])
    print(f"held-out loss {best:.4f}, temperature {1 / factor:.3f}")
    values = {name: value.double().numpy() for name, value in kept.items()}
    return {
        "mean": mean,
        "scale": scale,
        "inner": values["0.weight"].T,
        "inner_bias": values["0.bias"],
        "outer": values["2.weight"][0] * factor,
        "outer_bias": values["2.bias"] * factor,
    }


def temperature(logit: FloatArray, label: FloatArray, weight: FloatArray) -> float:
    """Return the factor on the logits with the least weighted log loss."""
    from scipy.optimize import minimize_scalar

    sign = np.where(label > 0.5, 1.0, -1.0)

    def loss(log_factor: float) -> float:
        return float((weight * np.logaddexp(0.0, -sign * logit * np.exp(log_factor))).mean())

    return float(np.exp(minimize_scalar(loss, bounds=(-2.0, 2.0), method="bounded").x))


def main() -> None:
    parser = argparse.ArgumentParser(prog="synthetic.train_supports", description="Train support edges.")
    parser.add_argument("--data", type=Path, required=True, help="folder that holds entailment_bank")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    seeds = [*((seed, "train") for seed in SEEDS), (SEEDS[0], "validation")]
    listed = [c for seed, split in seeds for c in (*cases(seed, split=split), *harder(seed, split=split))]
    chains = of_texts((of_case(case) for case in listed), weight=1.0)
    rng = random.Random(options.seed)
    trees = of_texts(
        (of_tree(tree, held=rng.random() < 0.1) for tree in train_trees(options.data)), weight=1.0
    )
    # Either kind of text counts the same, however many pairs it has.
    share = len(chains.label) / len(trees.label)
    trees = Examples(trees.feature, trees.label, trees.weight * share, trees.held)
    print(f"{len(chains.label)} pairs of chains, {len(trees.label)} pairs of trees")
    weights = fit(joined([chains, trees]), seed=options.seed)
    small: dict[str, Any] = {name: value.astype(np.float32) for name, value in weights.items()}
    np.savez(options.output, **small)


if __name__ == "__main__":
    main()
