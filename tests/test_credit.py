"""Min-form credit: laws (i) to (iv) of SEMANTICS section 6, in numpy and torch; the sum form breaks two."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from validity_graph.credit import min_credit, sum_credit
from validity_graph.errors import InputError

QUICK = settings(max_examples=100, deadline=None)
#: Few distinct values, so that equal scores are common.
SCORE = st.one_of(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.floats(0, 1))
EPISODES = st.lists(st.lists(SCORE, max_size=6), max_size=5)


def flat(episodes):
    return np.array([p for episode in episodes for p in episode], dtype=np.float64), np.cumsum(
        [0, *map(len, episodes)]
    )


@st.composite
def one_operation(draw):
    """An episode and the position of one of its operations."""
    scores = draw(st.lists(SCORE, min_size=1, max_size=8))
    return np.array(scores), draw(st.integers(0, len(scores) - 1))


def credit(scores, form=min_credit):
    return form(scores, [0, len(scores)])


@QUICK
@given(EPISODES)
def test_each_form_is_its_definition(episodes):
    scores, offsets = flat(episodes)
    lowest = [min(episode[t:]) for episode in episodes for t in range(len(episode))]
    total = [sum(episode[t:]) for episode in episodes for t in range(len(episode))]
    assert min_credit(scores, offsets).tolist() == lowest
    assert sum_credit(scores, offsets) == pytest.approx(total, abs=1e-12)


@QUICK
@given(EPISODES)
def test_law_1_credit_is_at_most_the_score(episodes):
    scores, offsets = flat(episodes)
    assert (min_credit(scores, offsets) <= scores).all()


@QUICK
@given(st.lists(st.tuples(SCORE, SCORE), min_size=1, max_size=8))
def test_law_2_credit_moves_no_more_than_the_scores(pairs):
    p, other = np.array(pairs).T
    assert np.abs(credit(p) - credit(other)).max() <= np.abs(p - other).max()


def gap(scores, j):
    """How far operation j lies above the minimum of every suffix that it is in (0: it is one's minimum)."""
    return min(scores[j] - scores[t:].min() for t in range(j + 1))


@QUICK
@given(one_operation(), st.floats(0.001, 0.999))
def test_law_3_a_score_above_every_minimum_moves_no_credit(operation, share):
    scores, j = operation
    room = gap(scores, j)
    assume(room > 1e-6)
    for step in (share * room, -share * room):
        moved = scores.copy()
        moved[j] += step
        np.testing.assert_array_equal(credit(moved), credit(scores))


@QUICK
@given(one_operation(), st.floats(0.001, 10))
def test_law_4_only_raising_the_weakest_operation_of_a_suffix_raises_the_sum(operation, raised):
    scores, j = operation
    moved = scores.copy()
    moved[j] += raised
    gained = (credit(moved) - credit(scores)).sum() > 0
    # It is the only weakest one of the suffix that starts with it.
    weakest = bool((scores[j] < scores[j + 1 :]).all())
    assert gained == weakest


def test_the_sum_form_breaks_laws_3_and_4():
    scores = np.array([0.2, 0.9, 0.3])
    assert gap(scores, 1) == pytest.approx(0.6)
    moved = scores + [0.0, 0.5, 0.0]
    np.testing.assert_array_equal(credit(moved), credit(scores))
    assert credit(moved, sum_credit).tolist() != credit(scores, sum_credit).tolist()
    assert credit(moved, sum_credit).sum() == pytest.approx(credit(scores, sum_credit).sum() + 2 * 0.5)


@QUICK
@given(EPISODES)
def test_tensors_agree_and_the_gradient_goes_to_the_minimum_only(episodes):
    torch = pytest.importorskip("torch")
    scores, offsets = flat(episodes)
    p = torch.tensor(scores, requires_grad=True)
    lowest = min_credit(p, torch.as_tensor(offsets))
    np.testing.assert_array_equal(lowest.detach().numpy(), min_credit(scores, offsets))
    lowest.sum().backward()
    wanted = np.zeros(scores.size)
    for start, end in zip(offsets[:-1], offsets[1:], strict=True):
        for t in range(start, end):
            wanted[t + np.argmin(scores[t:end])] += 1
    np.testing.assert_array_equal(p.grad.numpy(), wanted)

    p = torch.tensor(scores, requires_grad=True)
    total = sum_credit(p, offsets)
    np.testing.assert_allclose(total.detach().numpy(), sum_credit(scores, offsets), atol=1e-12)
    total.sum().backward()
    np.testing.assert_allclose(
        p.grad.numpy(), [t + 1 for episode in episodes for t in range(len(episode))], atol=1e-12
    )


@pytest.mark.parametrize("form", [min_credit, sum_credit])
def test_plain_and_compiled_loops_agree_and_keep_the_dtype(form):
    rng = np.random.default_rng(0)
    scores = rng.random(50_000).astype(np.float32)
    offsets = np.concatenate([[0], np.sort(rng.integers(0, 50_001, 999)), [50_000]])
    whole = form(scores, offsets)
    assert whole.dtype == np.float32
    for start, end in zip(offsets[:-1:97], offsets[1::97], strict=True):
        part = form(scores[start:end], [0, end - start])
        np.testing.assert_array_equal(whole[start:end], part)


def test_bad_input_is_refused():
    with pytest.raises(InputError, match=r"scores\[1\]=nan"):
        min_credit([0.5, np.nan], [0, 2])
    with pytest.raises(InputError, match="shape"):
        min_credit([[0.5]], [0, 1])
    for offsets in ([0, 1], [1, 2], [0, 2, 1, 2]):
        with pytest.raises(InputError, match="rise from 0 to the number of scores, 2"):
            sum_credit([0.5, 0.5], offsets)
    with pytest.raises(InputError, match="offsets must be int"):
        min_credit([0.5], [])
    assert min_credit([], [0, 0]).tolist() == []
