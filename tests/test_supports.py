"""The scorer of support edges, and the entailment benchmark on a tree whose answers are known."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import entailment
from validity_graph.errors import InputError
from validity_graph.records import Memory
from validity_graph.supports import SupportScorer, features, grounds
from validity_graph.verification import INFERRED, inferred_edges

RECORD = {
    "leaves": {
        "a": "iron is a metal",
        "b": "metals conduct heat",
        "c": "a pan is made of iron",
        "d": "snow is cold",
    },
    "nodes": {"i": "iron conducts heat", "h": "the pan conducts heat"},
    "steps": [[["a", "b"], "i"], [["i", "c"], "h"]],
}


def test_scores_are_probabilities_and_prefer_the_reason() -> None:
    reasons = ["The cellar is at Dover Street.", "Snow fell on the old mill.", "My aunt sings."]
    conclusion = "So Kim brings the crates to the cellar at Dover Street by bike."
    score = SupportScorer.load().score(reasons, [conclusion] * 3)
    assert score.shape == (3,) and ((score >= 0) & (score <= 1)).all()
    assert score[0] > 0.5 > max(score[1:])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.text(max_size=30), st.text(max_size=30)), max_size=6), st.randoms())
def test_any_texts_give_finite_features_and_order_does_not_matter(pairs: list[tuple[str, str]], rng) -> None:
    shuffled = rng.sample(range(len(pairs)), len(pairs))
    found = features([a for a, _ in pairs], [b for _, b in pairs])
    again = features([pairs[k][0] for k in shuffled], [pairs[k][1] for k in shuffled])
    assert np.isfinite(found).all()
    assert np.allclose(found[shuffled], again)


def test_scores_do_not_depend_on_the_order_in_which_words_are_gone_through() -> None:
    program = """
from validity_graph.supports import features
one = "the quick brown fox {} jumps over lazy dogs near seven green rivers while nine small boats carry lamps"
texts = [one.format(word) for word in ("never", "always", "often")]
texts += ["copper lamps hang over nine rivers", "seven small dogs carry boats", "quick green lamps near dogs"]
pairs = [(a, b) for a in texts for b in texts]
print(features([a for a, _ in pairs], [b for _, b in pairs]).tobytes().hex())
"""
    root = Path(__file__).parent.parent
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": str(root)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(found) == 1


def test_errors_name_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="2 reasons and 1 conclusions"):
        features(["a", "b"], ["c"])
    with pytest.raises(InputError, match="train_supports"):
        SupportScorer.load(tmp_path / "none.npz")
    np.savez(tmp_path / "some.npz", mean=np.zeros(2))
    with pytest.raises(InputError, match="lacks scale"):
        SupportScorer.load(tmp_path / "some.npz")


HEAD = "Vat Elm holds fish oil."
GUILD = "The guild gave Kim the copper paddle."
STIRS = "So Kim stirs vat Elm with the copper paddle."


def test_reasons_with_nothing_in_common_that_make_up_the_conclusion_are_alternatives() -> None:
    assert grounds([HEAD, GUILD], STIRS) == [0, 1]
    # What has something in common with one of them, or says too little, is no alternative.
    assert grounds([HEAD, "Kim paints vat Elm."], STIRS) == [0, 0]
    assert grounds([HEAD, "Copper is dear."], STIRS) == [0, 0]
    assert grounds(["Iron is a metal.", "Metals conduct heat."], "Iron conducts heat.") == [0, 0]
    assert grounds(
        ["Warm fronts cause rain.", "Raining makes wet weather."], "Warm fronts make wet weather."
    ) == [0, 0]
    # Both are bound together by a third.
    assert grounds([HEAD, GUILD, "Vat Elm needs the copper paddle."], STIRS) == [0, 0, 0]
    # Nor where they leave out a good part of the conclusion.
    assert grounds([HEAD, GUILD], STIRS[:-1] + " while snow falls on roofs.") == [0, 0]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["b c", "d e", "c x", "d e y", "b c z", "x y"]), max_size=5), st.randoms())
def test_which_reasons_stand_together_does_not_depend_on_their_order(reasons: list[str], rng) -> None:
    conclusion = "b c d e"
    order = rng.sample(range(len(reasons)), len(reasons))
    found = grounds(reasons, conclusion)
    again = grounds([reasons[k] for k in order], conclusion)
    together = {(a, b) for a in order for b in order if found[a] == found[b]}
    assert {(order[i], order[k]) for i in order for k in order if again[i] == again[k]} == together
    assert all(found[number] == number <= k for k, number in enumerate(found))


def test_an_alternative_is_a_justification_of_its_own() -> None:
    conclusion = Memory("c", STIRS)
    pairs = [(Memory("h", HEAD), conclusion), (Memory("g", GUILD), conclusion)]
    edges = inferred_edges(pairs, [0.9, 0.8], threshold=0.5)
    assert [(e.source, e.weight, e.justification) for e in edges] == [
        ("h", 0.9, f"{INFERRED}:h"),
        ("g", 0.8, f"{INFERRED}:g"),
    ]
    # Under the threshold it is no reason at all, and what is left stands together.
    assert [e.justification for e in inferred_edges(pairs, [0.9, 0.4], threshold=0.5)] == [INFERRED]


class Knows:
    """A scorer that knows the one tree above."""

    def score(self, reasons: Sequence[str], conclusions: Sequence[str]) -> np.ndarray:
        said = {**RECORD["leaves"], **RECORD["nodes"]}
        true = {(said[p], said[head]) for premises, head in RECORD["steps"] for p in premises}
        return np.array([float(pair in true) for pair in zip(reasons, conclusions, strict=True)])


def test_entailment_on_a_known_tree() -> None:
    one = entailment.tree(RECORD)
    names = {text: k for k, text in enumerate(one.texts)}
    iron, pan = names["iron conducts heat"], names["the pan conducts heat"]
    assert [one.ancestors(leaf) for leaf in range(4)] == [{iron, pan}, {iron, pan}, {pan}, set()]
    assert (one.depth(iron), one.depth(pan)) == (1, 2)
    rows, summary = entailment.measure([one], Knows(), chosen=0.5)
    assert summary["given_right"] == 1.0
    assert summary["predicted_right"] == summary["edge_precision"] == summary["edge_recall"] == 1.0
    assert {row["depth"] for row in rows} == {1, 2, None}


def test_entailment_without_edges_is_right_only_where_nothing_falls() -> None:
    one = entailment.tree(RECORD)

    class Nothing:
        def score(self, reasons: Sequence[str], conclusions: Sequence[str]) -> np.ndarray:
            return np.zeros(len(reasons))

    _, summary = entailment.measure([one], Nothing(), chosen=0.5)
    # Of four leaves and two conclusions, five must fall.
    assert summary["predicted_right"] == pytest.approx(3 / 8)
