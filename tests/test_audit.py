"""The leak audit finds planted leaks, allows common phrases, and passes on the direction challenge."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from benchmarks.direction_pairs import direction_pairs
from benchmarks.directions import accuracy, baseline_gate
from synthetic.audit import EVALUATION, direction_texts, generated_texts, texts_under
from synthetic.overlap import Index, runs, sentences, words


def test_words_ignore_case_punctuation_and_width() -> None:
    assert words("Don't  STOP, Ａnna!") == ("don", "t", "stop", "anna")
    assert words("茶が好き") == ("茶", "が", "好", "き")


def test_runs_cover_every_window_of_eight_words() -> None:
    assert len(list(runs(tuple("abcdefghij")))) == 3
    assert list(runs(tuple("abcdefg"))) == []


def test_short_sentences_are_not_compared() -> None:
    assert sentences("Good morning. The heron stood by the weir.") == sentences(
        "Good morning. The heron stood by the weir."
    )
    assert words("Good morning") not in sentences("Good morning. The heron stood by the weir.")


def test_planted_sentence_and_planted_run_are_found() -> None:
    index = Index(frozenset())
    index.add("train", ["The heron stood by the weir.", "so we all went down to the old mill pond together"])
    found = index.findings(
        ["Yesterday. The heron stood by the weir!", "they went down to the old mill pond together, twice"]
    )
    assert set(found) == {"train"}
    assert ("the", "heron", "stood", "by", "the", "weir") in found["train"]
    assert any(len(phrase) == 8 for phrase in found["train"])
    assert not index.findings(["A stork sat on the roof of the barn all day long."])


def test_allowed_phrase_is_no_finding_but_a_longer_text_around_it_is() -> None:
    index = Index(frozenset({words("thank you very much for your help")}))
    index.add(
        "train",
        ["Thank you very much for your help.", "Thank you very much for your help with Osric's stolen boat."],
    )
    assert not index.findings(["Thank you very much for your help."])
    assert index.findings(["Thank you very much for your help with Osric's stolen boat."])


def test_direction_challenge_shares_no_phrase_with_the_generator() -> None:
    index = Index(frozenset())
    index.add("generator", generated_texts([7], 6_000))
    assert index.findings(direction_texts()) == {}


def test_direction_challenge_has_enough_pairs_of_both_labels_in_every_stratum() -> None:
    pairs = direction_pairs()
    sizes = Counter(pair.stratum for pair in pairs)
    assert len(pairs) >= 400 and len(sizes) >= 12 and min(sizes.values()) >= 34
    assert len({(pair.source, pair.target) for pair in pairs}) == len(pairs)
    for stratum in sizes:
        share = np.mean([pair.overturn for pair in pairs if pair.stratum == stratum])
        assert 0.2 < share < 0.8, stratum


def test_cue_and_overlap_baseline_is_far_from_the_bar() -> None:
    pairs = direction_pairs()
    gate = baseline_gate([pair.source for pair in pairs], [pair.target for pair in pairs])
    per_stratum = accuracy(pairs, gate)
    assert np.mean(list(per_stratum.values())) < 0.75 and min(per_stratum.values()) < 0.6
    assert set(accuracy(pairs, np.array([float(p.overturn) for p in pairs])).values()) == {1.0}


@pytest.mark.parametrize(
    ("text", "code"), [("The heron of Gatwick Weir wears a red ribbon today.", 0), (None, 1)]
)
def test_program_exits_with_one_on_a_leak(tmp_path: Path, text: str | None, code: int) -> None:
    for name in (*EVALUATION, "training"):
        (tmp_path / "data" / name).mkdir(parents=True)
    (tmp_path / "cases").mkdir()
    planted = "Quentin sold the blue windmill to a circus in Ghent."
    with gzip.open(tmp_path / "data" / "training" / "set.jsonl.gz", "wt", encoding="utf-8") as file:
        file.write(json.dumps({"source": planted, "target": "Quentin owns a windmill."}) + "\n")
    (tmp_path / "cases" / "cases.jsonl").write_text(
        json.dumps({"memories": [{"text": text or planted}]}) + "\n"
    )
    command = [sys.executable, "-m", "synthetic.audit", "--data", str(tmp_path / "data"), "--count", "50"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parent.parent)
    assert done.returncode == code, done.stdout + done.stderr
    assert (planted.split()[0].lower() in done.stdout) == bool(code)


def test_texts_under_reads_nested_strings_and_names_a_broken_line(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"x": [{"y": "two words"}, "single"]}))
    assert list(texts_under(tmp_path)) == ["two words"]
    (tmp_path / "b.jsonl").write_text('{"x": "ok then"}\n{broken\n')
    with pytest.raises(ValueError, match=r"b\.jsonl:2"):
        list(texts_under(tmp_path))
