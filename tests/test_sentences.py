"""Sentences: where the whole leaves a doubt, a clear pair of sentences speaks for it."""

from __future__ import annotations

import numpy as np
import pytest
from asking_stub import Asked, scores_of
from hypothesis import given
from hypothesis import strategies as st

from validity_graph.verifier.scoring import Verifier
from validity_graph.verifier.sentences import CLEAR, DOUBT, MOST, sentence_pairs, with_clear_sentences

unit = st.floats(0.0, 1.0)


@given(
    st.lists(st.tuples(unit, st.lists(unit, min_size=1, max_size=4), st.booleans()), max_size=6), st.data()
)
def test_only_a_doubt_is_settled_and_only_by_the_clearest_pair(
    drawn: list[tuple[float, list[float], bool]], data: st.DataObject
) -> None:
    sources = [" ".join(f"S{k}.{i}x." for i in range(len(row[1]))) for k, row in enumerate(drawn)]
    targets = [f"T{k}." for k in range(len(drawn))]
    table = {
        (f"S{k}.{i}x.", targets[k]): gate for k, row in enumerate(drawn) for i, gate in enumerate(row[1])
    }
    ask = Asked(table)
    rows = [k for k, row in enumerate(drawn) if row[2]]
    found = with_clear_sentences(scores_of([row[0] for row in drawn]), ask, sources, targets, rows=rows)
    for k, (whole, apart, may) in enumerate(drawn):
        doubted = may and len(apart) > 1 and DOUBT[0] <= whole < DOUBT[1]
        assert (k in ask.rows) == doubted
        assert found.gate[k] == (max(apart) if doubted and max(apart) >= CLEAR else whole)
        assert found.gate[k] >= whole
        assert found.slot_mini[k] == found.operation[k] == found.gate[k]


def test_sentences_meet_each_other_unless_there_is_one_of_each_or_too_many() -> None:
    assert sentence_pairs("One.", "Two.") == []
    assert sentence_pairs("A. B.", "C.") == [("A.", "C."), ("B.", "C.")]
    many = " ".join(f"{k}." for k in range(MOST))
    assert len(sentence_pairs(many, "C.")) == MOST
    assert sentence_pairs(many + " more.", "C.") == []


@pytest.fixture(scope="module")
def verifier() -> Verifier:
    return Verifier.load(threads=2)


def test_talk_around_a_change_does_not_hide_it(verifier: Verifier) -> None:
    source = (
        "Funny how things go. I used to love rowing, but I've completely gone off it. My back complains, the "
        "boat house smells, and on Sundays I'd rather walk along the canal with the dog. It's calmer there!"
    )
    target = "That's a nice picture! I really love rowing. There is nothing like mist on the water at dawn."
    other = "That's a nice picture! I really love baking. There is nothing like the smell of bread at dawn."
    found = verifier.score([source] * 2, [target, other])
    assert found.gate[0] > 0.5 > found.gate[1]


def test_a_sentence_of_a_text_with_a_context_does_not_stand_alone(verifier: Verifier) -> None:
    change = "Please change the rent from 900 to 950 euros. Thank you so much."
    found = verifier.score(
        [change], ["The rent is 900 euros. The key hangs behind the door."],
        source_contexts=["Now to the lease of the boat house."],
        target_contexts=["Now to the lease of the bakery in Lindau."],
    )  # fmt: skip
    assert found.gate[0] < 0.5
    assert np.isfinite(found.gate).all()
