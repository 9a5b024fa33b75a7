"""The feedback loop's program on made-up pairs, and the arithmetic of the recipe over seeds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import failure_patterns, recipe
from benchmarks.failure_patterns import Judged, judged, pattern, rows_of
from synthetic.verifier_recipe import Shares

PAIRS = [
    {"source": "I no longer keep bees", "target": "I keep bees", "overturn": 1, "stratum": "bees"},
    {"source": "I no longer keep hens", "target": "I keep hens", "overturn": 1, "stratum": "bees"},
    {"source": "The sun is out", "target": "I keep bees", "overturn": 0, "stratum": "weather"},
    {"source": "a", "target": "b", "contradiction": 1},
]


def test_a_pattern_says_nothing_of_the_topic() -> None:
    first, second = (pattern(f"I no longer keep {x}", f"I keep {x}", kind="k", overturn=True) for x in "ab")
    assert first == second == "overturns (k), change word, repeats most"
    assert pattern("Rain.", "I moved", kind="k", overturn=False) == (
        "stands (k), no change word, repeats little, target is a change"
    )


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.booleans()), max_size=30))
def test_every_error_is_in_one_row_and_nothing_is_gained_that_was_not_lost(
    marks: list[tuple[str, bool, bool]],
) -> None:
    pairs = [Judged("s", "t", True, name) for name, _, _ in marks]
    now, before = (np.array([mark[k] for mark in marks], dtype=np.bool_) for k in (1, 2))
    rows = rows_of(pairs, now, before)
    assert sum(row["pairs"] for row in rows) == len(marks)
    assert sum(row["wrong"] for row in rows) == now.sum()
    assert sum(row["broken"] - row["mended"] for row in rows) == int(now.sum()) - int(before.sum())
    assert [row["wrong"] for row in rows] == sorted((row["wrong"] for row in rows), reverse=True)


class Cue:
    """Judges by the words "no longer"; the worse one calls everything valid."""

    def __init__(self, *, blind: bool) -> None:
        self.blind = blind

    def score(self, sources: list[str], targets: list[str]) -> Any:
        gate = [float("no longer" in source and not self.blind) for source in sources]
        return type("Found", (), {"gate": np.array(gate)})


def test_the_program_compares_two_verifiers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, out = tmp_path / "pairs.jsonl", tmp_path / "out.json"
    path.write_text("".join(json.dumps(row) + "\n" for row in PAIRS))
    monkeypatch.setattr(failure_patterns, "opened", lambda name: Cue(blind=name == "worse"))
    failure_patterns.main(["--pairs", str(path), "--against", "worse", "--json", str(out)])
    summary = json.loads(out.read_text())["summary"]
    assert summary == {"pairs": 3, "wrong": 0, "mended": 2, "broken": 0}
    with pytest.raises(SystemExit):
        failure_patterns.main([])


def test_pairs_of_a_file_keep_their_stratum_and_lose_what_has_no_label(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in PAIRS))
    found = list(failure_patterns.own(path))
    assert found == [
        judged(row["source"], row["target"], kind=str(row["stratum"]), overturn=bool(row["overturn"]))
        for row in PAIRS[:3]
    ]


@given(st.integers(1_000, 200_000))
def test_shares_keep_the_proportions_of_the_recipe(pairs: int) -> None:
    found, whole = recipe.shares(pairs), Shares()
    assert found.repeats == 1
    assert found.generated / max(1, found.real) == pytest.approx(whole.generated / whole.real, rel=0.02)


def test_the_recipe_reports_mean_and_deviation_and_keeps_the_packaged_head_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recipe, "groups", lambda data, period: [])
    monkeypatch.setattr(recipe, "trained", lambda data, folder, *, seed, pairs: seed)
    monkeypatch.setattr(recipe.Verifier, "load", lambda: 100)
    monkeypatch.setattr(
        recipe, "judge", lambda verifier, listed: dict.fromkeys(recipe.FIGURES, float(verifier))
    )
    recipe.main(["--data", str(tmp_path), "--seeds", "1", "3", "--json", str(tmp_path / "out.json")])
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["summary"]["memora_ap/mean"] == 2.0
    assert found["summary"]["memora_ap/deviation"] == pytest.approx(2**0.5)
    assert [row["memora_ap"] for row in found["rows"]] == [1.0, 3.0, 100.0]
