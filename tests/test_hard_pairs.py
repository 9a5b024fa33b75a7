"""Which pairs a second head learns from: all that the cheap one gets wrong, fewer of the others."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from synthetic.hard_pairs import HIGH, LOW, SETTLED, UNSURE, kept

scores = st.floats(0, 1)


@given(st.lists(st.tuples(st.sampled_from([0, 1, None]), scores), max_size=30), st.integers(0, 9))
def test_what_the_cheap_head_gets_wrong_is_always_kept_in_order(
    listed: list[tuple[int | None, float]], seed: int
) -> None:
    rows = [{"overturn": over, "at": i} for i, (over, _) in enumerate(listed)]
    found = list(kept(rows, np.array([score for _, score in listed]), random.Random(seed)))
    places = [row["at"] for row in found]
    assert places == sorted(set(places))
    wrong = [i for i, (over, score) in enumerate(listed) if over is not None and over != int(score >= 0.5)]
    assert set(wrong) <= set(places)


def test_settled_pairs_are_kept_more_rarely_than_unsure_ones() -> None:
    count = 4000
    for over, settled, unsure in ((1, (HIGH + 1) / 2, 0.6), (0, LOW / 2, 0.3), (None, LOW / 2, 0.3)):
        rows = [{"overturn": over}] * count
        for score, share in ((settled, SETTLED), (unsure, UNSURE)):
            found = len(list(kept(rows, np.full(count, score), random.Random(1))))
            assert abs(found / count - share) < 5 * (share * (1 - share) / count) ** 0.5
