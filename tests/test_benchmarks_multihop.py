"""The multi-hop benchmarks measure what they say, with judges whose answers are known."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import ablation, chain_study, factconsolidation, figures, mquake, multihop
from benchmarks.factconsolidation_pairs import Fact
from synthetic.chains import COUNTS, cases
from synthetic.harder_chains import harder
from validity_graph.records import CONFIRMS, OVERTURNS
from validity_graph.verifier import Scores
from validity_graph.verifier.router import report


@dataclass(frozen=True)
class Known:
    """A judge that knows the answers: ``kind(source, target)`` is an operation."""

    kind: Callable[[str, str], str]

    def score(
        self, sources: Sequence[str], targets: Sequence[str], *, domains: Sequence[str] | None = None
    ) -> Scores:
        kinds = np.array([self.kind(s, t) for s, t in zip(sources, targets, strict=True)], dtype=object)
        change = np.isin(kinds, ["supersedes", "retracts"]).astype(float)
        return Scores(
            slot_mini=change,
            slot_nli=np.full(len(change), np.nan),
            event=change.copy(),
            operation=change.copy(),
            confirms=(kinds == "confirms").astype(float),
            kind=kinds.astype(str),
            gate=change.copy(),
            routing=report([]),
        )


def knowing(listed: Sequence[chain_study.Case]) -> Known:
    """The judge that says what each case says is true."""
    answer = {}
    for case in listed:
        text = {memory.id: memory.text for memory in case.memories}
        for edge in case.truth:
            kind = "confirms" if edge.type == CONFIRMS else edge.kind
            answer[text[edge.source], text[edge.target]] = kind
    return Known(lambda source, target: answer.get((source, target), "none"))


@dataclass(frozen=True)
class KnownReasons:
    """A scorer of support edges that knows the structure."""

    pairs: frozenset[tuple[str, str]]

    def score(self, reasons: Sequence[str], conclusions: Sequence[str]) -> np.ndarray:
        return np.array([float(pair in self.pairs) for pair in zip(reasons, conclusions, strict=True)])


def structure_of(listed: Sequence[chain_study.Case]) -> KnownReasons:
    text = {memory.id: memory.text for case in listed for memory in case.memories}
    return KnownReasons(
        frozenset((text[e.source], text[e.target]) for case in listed for e in case.structure)
    )


@pytest.fixture(scope="module")
def few() -> list[chain_study.Case]:
    return cases(7)[::6]


def test_with_a_judge_that_knows_given_graph_and_oracle_are_right(few: list[chain_study.Case]) -> None:
    judged = multihop.judge_batch(chain_study.lay_out(few), knowing(few), structure_of(few))
    invalid = judged.batch.invalid
    for method in (multihop.GIVEN, multihop.ORACLE, multihop.LEARNED):
        assert (judged.score[method] >= 0.5).tolist() == invalid.tolist(), method
    # No turn speaks about the target itself.
    assert not judged.score[multihop.SINGLE_HOP].any()


def test_the_candidates_propose_every_overturned_head(few: list[chain_study.Case]) -> None:
    batch = chain_study.lay_out(few)
    proposed = set(batch.proposed)
    truth = [
        (batch.number[e.source], batch.number[e.target])
        for case in few
        for e in case.truth
        if e.type == OVERTURNS
    ]
    assert np.mean([pair in proposed for pair in truth]) > 0.97


def test_harder_cases_with_a_judge_that_knows() -> None:
    listed = harder(11)[::3]
    judged = multihop.judge_batch(chain_study.lay_out(listed), knowing(listed), None)
    assert multihop.LEARNED not in judged.score
    wrong = (judged.score[multihop.GIVEN] >= 0.5) != judged.batch.invalid
    assert [listed[k].kind for k in np.flatnonzero(wrong)] == []
    assert ((judged.score[multihop.ORACLE] >= 0.5) == judged.batch.invalid).all()


def test_a_judge_that_knows_nothing_marks_nothing(few: list[chain_study.Case]) -> None:
    judged = multihop.judge_batch(chain_study.lay_out(few), Known(lambda *_: "none"), None)
    assert not judged.score[multihop.GIVEN].any()
    places = multihop.places_of_errors(judged, np.zeros(len(few), dtype=bool))
    missed = int(judged.batch.invalid.sum())
    assert places["verifier"] + places["candidate"] == missed and places["verifier"] > 0.9 * missed
    assert places["wrongly_hit"] == places["propagation"] == 0


def test_propagation_stays_inside_a_case(few: list[chain_study.Case]) -> None:
    batch = chain_study.lay_out(few)
    names = {item.memory.id: item.memory.namespace for item in batch.stored}
    assert all(
        names[batch.stored[s].memory.id] == names[batch.stored[t].memory.id] for s, t in batch.proposed
    )


def test_the_oracle_of_one_case_leaves_the_others_alone(few: list[chain_study.Case]) -> None:
    batch = chain_study.lay_out(few)
    hit = next(k for k, case in enumerate(few) if case.invalid)
    value = chain_study.invalidity(batch, [*chain_study.given(batch), *few[hit].truth])
    assert np.flatnonzero(value).tolist() == [hit]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=2, max_size=30))
def test_no_threshold_beats_the_chosen_one(listed: list[tuple[float, bool]]) -> None:
    score = np.array([s for s, _ in listed])
    invalid = np.array([i for _, i in listed])
    if invalid.all() or not invalid.any():
        return

    def value(threshold: float) -> float:
        right = (score >= threshold) == invalid
        return right.mean() + min(right[invalid].mean(), right[~invalid].mean())

    chosen = value(chain_study.best_threshold(score, invalid))
    inside = [float(s) for s in score if 0 < s < 1]
    assert all(chosen >= value(threshold) - 1e-12 for threshold in [0.5, *inside])


def test_a_threshold_never_sees_its_own_fold() -> None:
    rng = np.random.default_rng(0)
    score, invalid, fold = rng.random(60), rng.random(60) < 0.5, rng.integers(0, 3, 60)
    _, before = chain_study.decide(score, invalid, fold)
    flipped = np.where(fold == 1, ~invalid, invalid)
    _, after = chain_study.decide(score, flipped, fold)
    assert before[1] == after[1]


def test_folds_are_whole_domains(few: list[chain_study.Case]) -> None:
    batch = chain_study.lay_out(few)
    fold = chain_study.folds(batch, count=5, rng=np.random.default_rng(3))
    domains = {}
    for case, k in zip(batch.cases, fold, strict=True):
        assert domains.setdefault(case.domain, k) == k
    assert set(fold) == set(range(5))


def test_rows_and_summary_of_a_seed() -> None:
    listed = cases(7)[::16] + harder(7)[::16]
    rows, hard, sweep = multihop.run_seed(7, knowing(listed), structure_of(listed), every=16)
    summary = multihop.summarise(rows, hard)
    assert {
        "given_overall",
        "learned_overall",
        "learned_false_overturn",
        "single_hop_invalidated",
        "harder_overall",
    } <= set(summary)
    assert summary["given_overall"] == 1.0 and summary["single_hop_invalidated"] == 0.0
    assert {row["edge_threshold"] for row in sweep} == set(multihop.EDGE_THRESHOLDS)
    table = multihop.aggregated(rows)
    assert [row["method"] for row in table] == list(dict.fromkeys(row["method"] for row in rows))


def test_ablation_finds_the_part_that_matters() -> None:
    """Two forms that agree differ by 0; one that is wrong on a third of the cases costs a third."""
    rng = np.random.default_rng(1)
    right = np.ones(300, dtype=bool)
    worse = rng.random(300) > 1 / 3
    rows = ablation.compare({ablation.FULL: right, "same": right, "worse": worse}, rng.random(300) < 0.5)
    by_form = {row["form"]: row for row in rows}
    assert by_form["same"]["low"] == by_form["same"]["high"] == 0.0
    assert by_form["worse"]["high"] < -0.2 < 0.0
    assert by_form["worse"]["low"] <= by_form["worse"]["difference"] <= by_form["worse"]["high"]
    assert by_form["worse"]["difference"] == pytest.approx(worse.mean() - 1.0)


def test_ablation_forms_are_the_formulas() -> None:
    scores = Known(lambda *_: "supersedes").score(["a"], ["b"])
    scores.slot_mini[:], scores.event[:], scores.operation[:] = 0.5, 0.8, 0.4
    scores.slot_nli[:] = 0.5
    value = {name: form(scores)[0] for name, form in (ablation.FORMS | ablation.SECOND_FORMS).items()}
    assert value["full product"] == pytest.approx(0.25 * 0.8 * 0.4)
    assert value["merged min gate"] == pytest.approx(0.25 * 0.4)
    assert value["slot only"] == pytest.approx(0.25)
    assert value["no slot"] == pytest.approx(0.4)
    assert value["second head only"] == pytest.approx(0.2)


# -- real chains, with data of the same layout that is made up here --------------------------------------

HOPS = ("The mayor of Ulm is Ott.", "The cat of Ott is Mio.", "The vet of Mio is Dr Lenz.")


def slot_of(text: str) -> str:
    return text.split(" is ")[0]


def same_slot(source: str, target: str) -> str:
    return "supersedes" if slot_of(source) == slot_of(target) and source != target else "none"


def edit(old: str, new: str) -> dict[str, str]:
    return {"old_text": old, "new_text": new}


MQUAKE = [
    {
        "hops": [{"text": text} for text in HOPS],
        "edits": [
            edit(HOPS[0], "The mayor of Ulm is Braun."),
            edit("The dog of Braun is Rex.", "The dog of Braun is Bello."),
        ],
    },
    {"hops": [{"text": text} for text in (HOPS[1], HOPS[2])], "edits": []},
]


def test_mquake_with_a_judge_that_knows() -> None:
    rows, summary = mquake.summarise(mquake.measure(MQUAKE, Known(same_slot)))
    # The first edit fells the sub-chains with its fact: one of two hops, one of three.
    assert {row["hops"]: row["invalid"] for row in rows} == {2: 1, 3: 1}
    assert summary["invalid_found"] == 1.0 and summary["wrongly_hit"] == 0.0
    assert summary["wrongly_hit_anywhere"] == 0.0
    # The own conclusions that must stand: one after the first edit, three after the second.
    assert sum(row["valid"] for row in rows) == 4


def test_mquake_names_the_place_of_an_error() -> None:
    rows, summary = mquake.summarise(mquake.measure(MQUAKE, Known(lambda *_: "none")))
    assert summary["invalid_found"] == 0.0
    assert sum(row["lost_verifier"] for row in rows) == 2
    rows, summary = mquake.summarise(mquake.measure(MQUAKE, Known(lambda *_: "supersedes")))
    assert summary["wrongly_hit"] == 1.0 and summary["edits_that_hit_another_fact"] == 1.0


FACTS = [
    Fact(0, "Ulm", "mayor", "Ott", HOPS[0]),
    Fact(1, "Ott", "cat", "Mio", HOPS[1]),
    Fact(2, "Braun", "cat", "Tom", "The cat of Braun is Tom."),
    Fact(3, "Ulm", "mayor", "Braun", "The mayor of Ulm is Braun."),
    Fact(4, "Ulm", "river", "Danube", "The river of Ulm is the Danube."),
]
PATHS = [{"paths": [[["Ulm", "mayor", "Braun"], ["Braun", "cat", "Tom"]]]}]


def test_factconsolidation_with_a_judge_that_knows() -> None:
    rows, counts = factconsolidation.measure(FACTS, PATHS, Known(same_slot))
    assert (counts["slots"], counts["slots_right"]) == (4, 4)
    assert (counts["changed"], counts["changed_right"]) == (1, 1)
    # Two walks: over the stale mayor to his cat, over the current one to his.
    assert [(row["hops"], row["must_fall"], row["fell"], row["must_stand"]) for row in rows] == [(2, 1, 1, 1)]
    assert rows[0]["wrongly_hit"] == 0


def test_factconsolidation_names_the_place_of_an_error() -> None:
    rows, counts = factconsolidation.measure(FACTS, PATHS, Known(lambda *_: "none"))
    assert counts["changed_right"] == 0 and counts["slots_right"] == 3
    assert rows[0]["lost_verifier"] == 1 and rows[0]["fell"] == 0


def test_a_repeated_last_value_is_not_stale() -> None:
    back = [*FACTS, Fact(5, "Ulm", "mayor", "Ott", "The mayor of Ulm is Ott again.")]
    assert factconsolidation.stale(FACTS) == {0}
    assert factconsolidation.stale(back) == {3}
    everything = np.zeros(len(back))
    assert not factconsolidation.is_right([0, 3, 5], back, everything)
    everything[3] = 1.0
    assert factconsolidation.is_right([0, 3, 5], back, everything)


def test_questions_are_read_from_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "factconsolidation"
    folder.mkdir()
    with gzip.open(folder / "questions.jsonl.gz", "wt", encoding="utf-8") as lines:
        lines.write(json.dumps(PATHS[0]) + "\n")
    assert list(factconsolidation.questions(tmp_path)) == PATHS


# -- figures ---------------------------------------------------------------------------------------------


def test_intervals_are_those_of_students_t() -> None:
    # Three values with mean 2 and deviation 1: t(0.975, 2) / sqrt(3) = 4.302653 / 1.732051.
    assert figures.mean_and_interval([1.0, 2.0, 3.0]) == pytest.approx((2.0, 2.484138))
    assert figures.mean_and_interval([4.0]) == (4.0, 0.0)


def test_figures_are_drawn_from_rows_and_are_repeatable(tmp_path: Path) -> None:
    cells = {f"{group}/{size}": 0.5 + size / 10 for group in figures.CLASSES for size in COUNTS}
    rows = [
        {"set": "main", "method": method, "seed": s, **cells} for method in figures.METHODS for s in (1, 2)
    ]
    rows += [
        {"set": "edge threshold", "edge_threshold": level, "recall": 1 - level, "false_overturn": level / 2}
        for level in (0.2, 0.6)
    ]
    assert figures.by_edge_threshold(rows) == [(0.2, 10.0, 80.0), (0.6, 30.0, 40.0)]
    for draw in (figures.draw_lengths, figures.draw_harm):
        draw(rows, tmp_path / "once.svg")
        first = (tmp_path / "once.svg").read_bytes()
        draw(rows, tmp_path / "once.svg")
        assert b"</svg>" in first and first == (tmp_path / "once.svg").read_bytes()
