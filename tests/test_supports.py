"""The scorer of support edges, and the entailment benchmark on a tree whose answers are known."""

from __future__ import annotations

import itertools
import math
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import entailment
from synthetic import support_pairs
from synthetic.chain_worlds import worlds
from synthetic.chains import cases
from validity_graph.errors import InputError
from validity_graph.records import OVERTURNS, Edge, Memory
from validity_graph.store import StoredMemory
from validity_graph.support_features import features
from validity_graph.supports import FLOOR, NO_RIVAL, SupportScorer, grounds, joined, reading
from validity_graph.verification import INFERRED, inferred_edges, stood_then
from validity_graph.verifier.calibrator import sigmoid
from validity_graph.verifier.scoring import PACKAGED

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


def test_only_what_the_words_do_not_rule_out_is_read() -> None:
    reasons = ["The cellar is at Dover Street.", "My aunt sings.", "The cellar has a door at Dover Street."]
    conclusions = ["So Kim brings the crates to the cellar at Dover Street by bike."] * 3
    asked: list[str] = []

    def reader(one: Sequence[str], other: Sequence[str], progress: object) -> np.ndarray:
        assert set(other) <= set(conclusions)
        asked.extend(one)
        return np.linspace(-3.0, 3.0, len(one))

    packaged = SupportScorer.load(reader=reader)
    # Moved so that the likeliest pair lies over the floor and the least likely one under it.
    least, *_, most = sorted(packaged.by_words(reasons, conclusions))
    assert least < most
    bar = math.log(FLOOR / (1 - FLOOR))
    scorer = replace(packaged, outer_bias=packaged.outer_bias + bar - (least + most) / 2)
    by_words = sigmoid(scorer.by_words(reasons, conclusions))
    score = scorer.score(reasons, conclusions)
    assert asked == [text for text, share in zip(reasons, by_words, strict=True) if share >= FLOOR]
    assert 0 < len(asked) < len(reasons)
    assert np.array_equal(score[by_words < FLOOR], by_words[by_words < FLOOR])
    assert len(scorer.score([], [])) == 0


def test_a_reader_without_the_output_is_named() -> None:
    with pytest.raises(InputError, match="english was trained without pairs labelled rests_on"):
        reading(PACKAGED / "english")(["a"], ["b"], None)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from("xyz"), st.sampled_from([-9.0, -1.0, 0.5, 2.0])),
        min_size=1,
    )
)
def test_rivals_are_the_other_pairs_of_the_same_side(pairs: list[tuple[str, str, float]]) -> None:
    reasons, conclusions, read = zip(*pairs, strict=True)
    found = joined(reasons, conclusions, words=np.zeros(len(pairs)), read=np.array(read))
    for k, own in enumerate(read):
        others = [i for i in range(len(pairs)) if i != k]
        by_conclusion = max([NO_RIVAL, *(read[i] for i in others if conclusions[i] == conclusions[k])])
        by_reason = max([NO_RIVAL, *(read[i] for i in others if reasons[i] == reasons[k])])
        assert found[k].tolist() == [own, 0.0, own - by_conclusion, own - by_reason]


TREE_GROUP = support_pairs.Group(
    "tree",
    ("iron is a metal", "metals conduct heat", "snow is cold", "iron conducts heat"),
    frozenset({(0, 3), (1, 3)}),
    held=False,
)


def test_training_pairs_follow_the_reasons_and_leave_out_what_is_held_out() -> None:
    chains = list(support_pairs.chain_groups([3], split="validation"))
    assert all(group.held for group in chains)
    rows = list(support_pairs.rows([TREE_GROUP, *chains], random.Random(0)))
    true = {(TREE_GROUP.texts[a], TREE_GROUP.texts[b]) for a, b in TREE_GROUP.reasons}
    assert {(row["target"], row["source"]) for row in rows if row["rests_on"]} == true
    assert not {(row["target"], row["source"]) for row in rows if not row["rests_on"]} & true
    assert {row["source"] for row in rows} <= set(TREE_GROUP.texts)


def test_what_is_said_of_something_else_in_the_same_words_is_no_reason() -> None:
    texts = (
        "The red tram is in the shed.",
        "The blue tram is in the yard.",
        "Ann airs the shed for the red tram.",
        "The red tram is still in the shed.",
        "Lunch is at noon.",
    )
    group = support_pairs.Group("trams", texts, frozenset({(0, 2)}), held=False)
    for seed in range(20):
        rows = support_pairs.rows([group], random.Random(seed))
        pairs = [(row["target"], row["source"]) for row in rows if not row["rests_on"]]
        assert (texts[1], texts[2]) in pairs
        # What was said later is no reason either, but it repeats one: nothing to learn from.
        assert (texts[3], texts[2]) not in pairs


def test_training_pairs_of_chains_are_mostly_none_and_come_from_training_worlds() -> None:
    groups = list(support_pairs.chain_groups([3], split="train"))
    rows = list(support_pairs.rows(groups, random.Random(0)))
    share = sum(row["rests_on"] for row in rows) / len(rows)
    assert 0.2 < share < 0.35
    domains = {case.domain for case in cases(3, split="train")}
    assert not domains & {world.domain for split in ("test", "validation") for world in worlds(split)}


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
from validity_graph.support_features import features
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


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.sampled_from([0.25, 0.5, 1.0])), max_size=4),
    st.integers(1, 5),
    st.sampled_from([1.0, 0.5]),
)
def test_a_reason_stands_where_none_of_its_overturns_before_the_conclusion_happens(
    overturns: list[tuple[int, float]], conclusion: int, trust: float
) -> None:
    now = datetime(2025, 1, 1, tzinfo=timezone.utc)
    stored = [StoredMemory(k, now, Memory(str(k), "x", trust=trust)) for k in range(6)]
    chosen = {source: weight for source, weight in overturns if source not in (0, conclusion)}
    edges = [Edge(str(source), "0", OVERTURNS, weight) for source, weight in chosen.items()]
    memories = {item.memory.id: item for item in stored}
    found = stood_then([(stored[0], stored[conclusion])], edges, memories)
    before = [weight * trust for source, weight in chosen.items() if source < conclusion]
    worlds = itertools.product(*[[(True, weight), (False, 1 - weight)] for weight in before])
    stands = sum(
        math.prod(share for _, share in world) for world in worlds if not any(hit for hit, _ in world)
    )
    assert found == pytest.approx([stands])


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
