"""Free-form pairs and conversational pairs: the format is strict, and labels follow from what is claimed."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synthetic import conversations, written_pairs
from synthetic.conversation_phrases import GONE, Statement
from synthetic.conversations import SCENES, overturns


def block_file(folder: Path, text: str) -> Path:
    path = folder / "made_up.txt"
    path.write_text(text, encoding="utf-8")
    return path


def test_marks_become_labels(tmp_path: Path) -> None:
    path = block_file(
        tmp_path,
        "# a comment\nA: I keep bees.\nB: I keep hens.\n"
        "+A =B: Sold the hives, the hens stay.\n!B: Those were ducks.\n"
        "-: My uncle keeps goats.\n?A: The bees look ill.\n",
    )
    found = {(row["source"][:5], row["target"]): row for row in written_pairs.pairs([path])}
    assert found["Sold ", "I keep bees."]["operation"] == "supersedes"
    assert found["Sold ", "I keep hens."]["operation"] == "confirms"
    assert found["Those", "I keep hens."]["operation"] == "retracts"
    assert found["Those", "I keep bees."]["operation"] == "none"
    assert found["My un", "I keep bees."]["overturn"] == 0
    assert ("The b", "I keep bees.") not in found and ("The b", "I keep hens.") in found
    assert all(row["overturn"] == (row["operation"] in ("supersedes", "retracts")) for row in found.values())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A: a\nA: b\n-: c", "made_up.txt:2: target A"),
        ("A: a\n-: c\nB: b", "made_up.txt:3: target B"),
        ("A: a\n+B: c", "made_up.txt:2: the block has no target B"),
        ("A: a\n* c", "made_up.txt:2: neither"),
    ],
)
def test_bad_blocks_name_file_and_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        list(written_pairs.pairs([block_file(tmp_path, text)]))


def test_the_files_of_the_project_read_and_have_both_labels() -> None:
    rows = list(written_pairs.pairs())
    share = sum(row["overturn"] for row in rows) / len(rows)
    assert 0.15 < share < 0.5
    assert {row["lang"] for row in rows} >= {"", "ja", "zh"}


statements = st.dictionaries(
    st.sampled_from("abc"), st.frozensets(st.sampled_from("xyz"), min_size=1), max_size=3
).map(lambda claims: Statement("", claims))


@given(statements, statements)
def test_statements_overturn_each_other_when_no_world_satisfies_both(one: Statement, two: Statement) -> None:
    worlds = (dict(zip("abc", values, strict=True)) for values in itertools.product("xyz", repeat=3))
    both = any(
        all(world[thing] in values for side in (one, two) for thing, values in side.claims.items())
        for world in worlds
    )
    assert overturns(one, two) == (not both)


@given(st.integers(0, 2**32), st.sampled_from([build for build, _ in SCENES]))
def test_every_scene_has_both_kinds_of_pair_and_no_gap(seed: int, build: object) -> None:
    scene = build(random.Random(seed))  # type: ignore[operator]
    labels = {overturns(source, target) for source in scene.sources for target in scene.targets}
    assert labels == {True, False}
    texts = [statement.text for statement in (*scene.sources, *scene.targets)]
    assert not any("{" in text or "}" in text for text in texts)
    assert all(GONE not in values for target in scene.targets for values in target.claims.values())


def test_generation_is_repeatable_and_balanced() -> None:
    rows = list(conversations.generate(5, 3000))
    assert rows == list(conversations.generate(5, 3000))
    assert rows != list(conversations.generate(6, 3000))
    assert 0.33 < sum(row["overturn"] for row in rows) / len(rows) < 0.45
