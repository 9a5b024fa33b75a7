"""Training pairs of facts: what a label means, read back from the sentences alone."""

from __future__ import annotations

import random
import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synthetic import facts

EVERY = facts.relations()
PATTERNS = [
    (
        relation.name,
        re.compile(re.escape(phrasing).replace(r"\{s\}", "(?P<s>.+)").replace(r"\{o\}", "(?P<o>.+)"), re.I),
    )
    for relation in EVERY
    for phrasing in relation.phrasings
]
#: What stands before a fact that is not asserted.
FRAMES = tuple(text.partition("{fact}")[0] for text in (*facts.ENDED, *facts.UNCERTAIN))


def readings(sentence: str) -> set[tuple[str, str, str]]:
    """Return every (relation, subject, object) that a sentence can be read to assert, by its phrasings."""
    if sentence.startswith(FRAMES):
        return set()
    found = ((name, pattern.fullmatch(sentence)) for name, pattern in PATTERNS)
    return {(name, match["s"].lower(), match["o"].lower()) for name, match in found if match}


@given(st.integers(0, 2**32), st.sampled_from(EVERY))
def test_labels_follow_from_the_sentences(seed: int, relation: facts.Relation) -> None:
    for source, target, kind in facts.scene(relation, random.Random(seed)):
        assert source != "" and target != "" and "{" not in source + target
        said = {(name, who): value for name, who, value in readings(target)}
        later = readings(source)
        clash = any(said.get((name, who), value) != value for name, who, value in later)
        same = bool(later & readings(target))
        if kind == "supersedes":
            assert clash, (source, target)
        if kind == "confirms":
            assert same, (source, target)
        if kind == "none":
            assert not clash, (source, target)
        if kind == "retracts":
            assert source.startswith(FRAMES[: len(facts.ENDED)])


def test_every_relation_has_names_and_phrasings() -> None:
    assert len(EVERY) >= 60
    assert all("{s}" in text and "{o}" in text for relation in EVERY for text in relation.phrasings)
    rng = random.Random(1)
    for kind in {kind for relation in EVERY for kind in (relation.subject, relation.object)}:
        assert len({facts.named(kind, rng) for _ in range(200)}) >= 5, kind


def test_generation_is_repeatable_and_spares_most_targets() -> None:
    rows = facts.generate(5, 3000)
    assert len(rows) == 3000 and rows == facts.generate(5, 3000) and rows != facts.generate(6, 3000)
    share = Counter(row["overturn"] for row in rows)[1] / len(rows)
    assert 0.25 < share < 0.45
    assert len({row["group"].split("-")[2] for row in rows}) == len(EVERY)


@pytest.mark.parametrize("kind", ["person", "work", "club"])
def test_other_subjects_often_share_a_name(kind: str) -> None:
    rng = random.Random(3)
    shared = 0
    for _ in range(200):
        name = facts.named(kind, rng)
        other = facts.namesake(name, kind, rng)
        assert other != name
        shared += bool(set(other.split()) & set(name.split()))
    assert shared > 100
