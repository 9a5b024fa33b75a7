"""Trains the scorer of support edges (``validity_graph.supports``) and writes its weights.

``python -m synthetic.train_supports --data DIR -o validity_graph/support_weights.npz``

Two stages.  The network on words learns from the groups of ``support_pairs`` and stops on those that are held
out.  Then the packaged cheap head, which never saw what is held out either, reads the held-out pairs that the
words do not rule out, and a logistic function of both is fitted there.  Chains and trees count the same,
however many pairs each has.  Needs torch; five minutes on two cores.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synthetic.support_pairs import Group, chain_groups, tree_groups
from validity_graph.support_features import features
from validity_graph.supports import FLOOR, NAMES, SupportScorer, joined, reading
from validity_graph.verifier.scoring import PACKAGED

SEEDS = (101, 102)
HIDDEN = 24
EPOCHS = 60
#: Texts of another group that each group is asked about, so that what has nothing in common is seen too.
STRANGERS = 2
#: Strength of the pull of the last stage's weights to 0.
RIDGE = 1e-3
FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Examples:
    """Labels ``(n,)``, features ``(n, features)``, weights ``(n,)``, which rows are held out, and the texts.

    ``groups`` holds (reason, conclusion) texts of one group each, in the order of the rows.
    """

    feature: FloatArray
    label: FloatArray
    weight: FloatArray
    held: NDArray[np.bool_]
    groups: list[list[tuple[str, str]]]


def examples(groups: Sequence[Group], rng: random.Random) -> Examples:
    """Return the proposed pairs of these groups, and some with texts of strangers, each of weight 1."""
    blocks: list[FloatArray] = []
    labels: list[float] = []
    held: list[bool] = []
    texts: list[list[tuple[str, str]]] = []
    for group in groups:
        pairs = [(group.texts[a], group.texts[b], (a, b) in group.reasons) for a, b in group.proposed()]
        for _ in range(STRANGERS):
            stranger = rng.choice(rng.choice(groups).texts)
            if stranger not in group.texts:
                pairs.append((stranger, rng.choice(group.texts), False))
        if pairs:
            texts.append([(reason, conclusion) for reason, conclusion, _ in pairs])
            blocks.append(features([a for a, _, _ in pairs], [b for _, b, _ in pairs]))
            labels += [float(true) for _, _, true in pairs]
            held += [group.held] * len(pairs)
    label = np.array(labels)
    return Examples(np.concatenate(blocks), label, np.ones(len(label)), np.array(held), texts)


def together(parts: Sequence[Examples]) -> Examples:
    """Return all examples, each part with the same weight in all."""
    share = [len(parts[0].label) / len(part.label) for part in parts]
    weighed = [replace(part, weight=part.weight * factor) for part, factor in zip(parts, share, strict=True)]
    return Examples(
        *(np.concatenate([getattr(p, n) for p in weighed]) for n in ("feature", "label", "weight", "held")),
        groups=[group for part in weighed for group in part.groups],
    )


def fit_words(examples: Examples, *, seed: int) -> dict[str, FloatArray]:
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


def fit_joint(examples: Examples, scorer: SupportScorer) -> FloatArray:
    """Fit the last stage on the held-out pairs that the words do not rule out, shape ``(5,)``."""
    from scipy.optimize import minimize

    blocks, rows = [], []
    start = 0
    for group in examples.groups:
        place = np.arange(start, start + len(group))
        start += len(group)
        if not examples.held[place[0]]:
            continue
        words = scorer.by_words([reason for reason, _ in group], [conclusion for _, conclusion in group])
        worth = np.flatnonzero(words >= np.log(FLOOR / (1 - FLOOR)))
        if len(worth):
            one, other = [group[k][0] for k in worth], [group[k][1] for k in worth]
            blocks.append(joined(one, other, words=words[worth], read=scorer.reader(one, other, None)))
            rows.append(place[worth])
    given = np.column_stack([np.concatenate(blocks), np.ones(sum(map(len, rows)))])
    chosen = np.concatenate(rows)
    sign = np.where(examples.label[chosen] > 0.5, 1.0, -1.0)
    weight = examples.weight[chosen] / examples.weight[chosen].sum()

    def loss(weights: FloatArray) -> tuple[float, FloatArray]:
        margin = sign * (given @ weights)
        slope = -sign * weight / (1.0 + np.exp(np.clip(margin, -40.0, 40.0)))
        value = float(weight @ np.logaddexp(0.0, -margin)) + RIDGE * float(weights[:-1] @ weights[:-1])
        return value, given.T @ slope + 2 * RIDGE * np.append(weights[:-1], 0.0)

    found = minimize(loss, np.array([0.5, 0.5, 0.0, 0.0, 0.0]), jac=True)
    print(f"{len(chosen)} held-out pairs read, loss {found.fun:.4f}, weights {np.round(found.x, 3)}")
    return np.asarray(found.x, dtype=np.float64)


def main() -> None:
    parser = argparse.ArgumentParser(prog="synthetic.train_supports", description="Train support edges.")
    parser.add_argument("--data", type=Path, required=True, help="folder that holds entailment_bank")
    parser.add_argument("--head", type=Path, default=PACKAGED, help="weights folder whose cheap head reads")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    chains = [
        *chain_groups(SEEDS, split="train"),
        *chain_groups(SEEDS[:1], split="validation"),
    ]
    parts = [examples(groups, rng) for groups in (chains, list(tree_groups(options.data)))]
    print(f"{len(parts[0].label)} pairs of chains, {len(parts[1].label)} pairs of trees")
    known = together(parts)
    words = fit_words(known, seed=options.seed)
    scorer = SupportScorer(**words, joint=np.zeros(5), reader=reading(options.head))
    weights = words | {"joint": fit_joint(known, scorer)}
    small: dict[str, Any] = {name: weights[name].astype(np.float32) for name in NAMES}
    np.savez(options.output, **small)


if __name__ == "__main__":
    main()
