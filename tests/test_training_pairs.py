"""Training pairs: reading them, their weights, and what is held out."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.toy_pairs import row, write
from validity_graph.errors import InputError
from validity_graph.verifier.pairs import (
    OPERATIONS,
    Pair,
    binary_labels,
    held_out,
    operation_labels,
    overlap,
    read_pairs,
    stratified_weight,
)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2: not JSON"),
        ("[]", "line 2: a pair must be"),
        ('{"source": "", "target": "b", "overturn": 1}', "line 2: source"),
        ('{"source": "a", "overturn": 1}', "line 2: target"),
        ('{"source": "a", "target": "b"}', "line 2: no label"),
        ('{"source": "a", "target": "b", "overturn": 2}', "line 2: overturn must be 0, 1 or null"),
        ('{"source": "a", "target": "b", "operation": "replaces"}', "line 2: operation 'replaces'"),
        ('{"source": "a", "target": "b", "overturn": 1, "weight": -1}', "line 2: weight"),
    ],
)
def test_bad_pairs_name_file_line_and_field(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text(json.dumps(row(0)) + "\n" + line + "\n")
    with pytest.raises(InputError, match=message) as caught:
        read_pairs(path)
    assert str(path) in str(caught.value)


def test_pairs_are_read_plain_and_gzipped_with_unknown_labels_kept_unknown(tmp_path: Path) -> None:
    plain = write(
        tmp_path / "a.jsonl", [row(0), {"source": "x", "target": "y", "contradiction": 1, "overturn": None}]
    )
    zipped = tmp_path / "a.jsonl.gz"
    zipped.write_bytes(gzip.compress(plain.read_bytes()))
    found = read_pairs(plain)
    assert found == read_pairs(zipped)
    assert found[1].overturn is None and found[1].contradiction == 1
    assert np.isnan(binary_labels(found)[1]).tolist() == [True, True, True, False, True, True]
    assert operation_labels(found).tolist() == [OPERATIONS.index("supersedes"), -100]
    with pytest.raises(InputError, match="not a file"):
        read_pairs(tmp_path / "missing.jsonl")


@settings(max_examples=50)
@given(st.lists(st.sampled_from([0, 1, None]), min_size=1, max_size=40))
def test_stratified_weights_balance_the_classes(labels: list[int | None]) -> None:
    pairs = [Pair(f"s{i}", f"t{i}", overturn=label, contradiction=0) for i, label in enumerate(labels)]
    weight = stratified_weight(pairs)
    assert np.all(weight > 0) and weight.mean() == pytest.approx(1.0)
    mass = [weight[[label == side for label in labels]].sum() for side in (0, 1)]
    if min(mass) > 0:
        assert mass[0] == pytest.approx(mass[1])


def test_stratified_weights_multiply_inside_a_class() -> None:
    pairs = [
        Pair("the cat sleeps", "the dog sleeps", overturn=0, stratum="easy_unrelated"),  # shares tokens: hard
        Pair("rain again", "the dog sleeps", overturn=0, stratum="easy_unrelated"),
        Pair("it ran off", "we have a dog", overturn=1),  # no token shared
        Pair("we no longer have a dog", "we have a dog", overturn=1),
    ]
    hard, easy, low, high = stratified_weight(pairs)
    assert hard / easy == pytest.approx(4.0)
    assert low / high == pytest.approx(3.0)


@given(st.text(max_size=20))
def test_overlap_with_oneself_is_whole(text: str) -> None:
    assert overlap(text, text) in (0.0, 1.0)
    assert overlap("", text) == 0.0


def test_overlap_counts_cjk_by_character() -> None:
    assert overlap("我住在成都", "我住在杭州") == pytest.approx(3 / 5)


@given(st.permutations(list(range(30))))
def test_held_out_groups_stay_together_whatever_the_order(order: list[int]) -> None:
    pairs = [Pair(f"s{i}", "t", overturn=0, group=f"g{i // 3}") for i in range(30)]
    marks = held_out(pairs, fraction=0.4, seed=5)
    assert len({(pair.group, bool(mark)) for pair, mark in zip(pairs, marks, strict=True)}) == 10
    shuffled = held_out([pairs[i] for i in order], fraction=0.4, seed=5)
    assert shuffled.tolist() == [bool(marks[i]) for i in order]
