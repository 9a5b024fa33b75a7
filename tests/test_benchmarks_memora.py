"""The Memora and FactConsolidation programs on small made-up files of the same layout."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import candidate_recall, factconsolidation_pairs, memora_export, memora_roles
from benchmarks.memora_data import conversation, groups, said

#: A busy machine is no reason to fail.
unhurried = settings(deadline=None)

GOLD = ("value", "key", "kind", "final_active")


def node(id, session, turn, text, **more):
    return {
        "id": id,
        "period": "tiny",
        "persona": id.split("/")[1],
        "session": session,
        "date": f"2025-06-0{session}",
        "kind": "preference",
        "key": ["GOLD"],
        "value": "GOLD",
        "turns": [[turn, text]] if text else [],
        "text": text,
        "final_active": False,
        **more,
    }


def event(id, session, op, source, targets, *, source_node=None, protected=(), sharing=(), **more):
    return {
        "id": id,
        "persona": id.split("/")[1],
        "session": session,
        "date": f"2025-06-0{session}",
        "op": op,
        "kind": "GOLD",
        "source": source,
        "source_text": source,
        "source_turns": [[9, source]],
        "source_node": source_node,
        "targets": targets,
        "protected_same": list(protected),
        "protected_same_item_other_subcat": [],
        "protected_other_doc": [],
        "protected_log": [],
        "protected_sharing_target_text": list(sharing),
        **more,
    }


NODES = [
    node("t/ada/1/0", 1, 5, "I like cilantro in soup."),
    node("t/ada/1/1", 1, 3, "I like opera."),
    node("t/ada/2/2", 2, 1, "The budget is $800.", context="The proposal is titled Atlas."),
    node("t/ada/2/3", 2, 2, "The proposal is titled Atlas.", context="The proposal is titled Atlas."),
    node("t/ada/2/4", 2, 2, "", context="The proposal is titled Atlas."),
    node("t/ada/3/5", 3, 4, "The budget of Atlas is $900 now.", context="About Atlas."),
    node("t/bob/1/0", 1, 1, "Bob likes tea."),
]
EVENTS = [
    event(
        "t/ada/4/e0", 4, "delete", "I can't stand cilantro any more.", ["t/ada/1/0"], protected=["t/ada/1/1"]
    ),
    event(
        "t/ada/3/e1",
        3,
        "budget_revised",
        "The budget of Atlas is $900 now.",
        ["t/ada/2/2"],
        source_node="t/ada/3/5",
        protected=["t/ada/2/3", "t/ada/3/5"],
        source_context="About Atlas.",
    ),
    event(
        "t/ada/4/e2", 4, "delete", "No opera.", ["t/ada/1/1"], protected=["t/ada/1/0"], sharing=["t/ada/1/0"]
    ),
]


def write(path, records):
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8") as out:
        out.writelines(json.dumps(record) + "\n" for record in records)


@pytest.fixture
def data(tmp_path):
    write(tmp_path / "memora/derived/tiny.nodes.jsonl.gz", NODES)
    write(tmp_path / "memora/derived/tiny.events.jsonl.gz", EVENTS)
    write(tmp_path / "memora/derived/tiny.groups.jsonl.gz", EVENTS)
    facts = [
        [0, "Alma", "home", "Oslo", "Alma lives in Oslo."],
        [1, "Alma", "work", "Acme", "Alma works at Acme."],
        [2, "Ben", "home", "Rome", "Ben lives in Rome."],
        [3, "Alma", "home", "Bergen", "Alma lives in Bergen."],
        [4, "Cy", "home", "Oslo", "Cy lives in Oslo."],
        [5, "Alma", "home", "Bergen", "Alma lives in Bergen."],
    ]
    write(tmp_path / "factconsolidation/facts.jsonl.gz", [{"size": "tiny", "facts": facts}])
    return tmp_path


def test_export_has_ids_texts_and_times_in_order_and_nothing_gold(data, capsys):
    memora_export.main(["--data", str(data / "memora"), "--period", "tiny", "--persona", "ada"])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert all(set(line) - {"context"} == {"id", "text", "time"} for line in lines)
    assert [line["id"] for line in lines] == [
        "t/ada/1/1",
        "t/ada/1/0",
        "t/ada/2/2",
        "t/ada/2/3",
        "t/ada/3/5",
        "t/ada/4/e0",
        "t/ada/4/e2",
    ]
    text = {line["id"]: (line["text"], line.get("context")) for line in lines}
    assert text["t/ada/2/2"] == ("The budget is $800.", "The proposal is titled Atlas.")
    assert text["t/ada/2/3"] == ("The proposal is titled Atlas.", None)
    assert lines[0]["time"] == "2025-06-01"
    assert "GOLD" not in json.dumps(lines)


def test_export_to_a_file_equals_export_to_standard_output(data, tmp_path, capsys):
    arguments = ["--data", str(data), "--period", "tiny", "--persona", "ada"]
    memora_export.main(arguments)
    memora_export.main([*arguments, "-o", str(tmp_path / "out.jsonl")])
    assert (tmp_path / "out.jsonl").read_text(encoding="utf-8") == capsys.readouterr().out


def test_unknown_period_and_persona_name_what_there_is(data):
    with pytest.raises(SystemExit, match="tiny"):
        groups(data, period="yearly")
    with pytest.raises(SystemExit, match="ada, bob"):
        conversation(data, period="tiny", persona="eve")


def test_groups_keep_earlier_sessions_and_know_what_is_clean(data):
    found = {group.id: group for group in groups(data, period="tiny")}
    assert [node.id for node in found["t/ada/3/e1"].candidates] == ["t/ada/2/2", "t/ada/2/3"]
    assert found["t/ada/3/e1"].source == "The budget of Atlas is $900 now."
    assert found["t/ada/3/e1"].source_reading == "About Atlas. The budget of Atlas is $900 now."
    assert found["t/ada/3/e1"].targets[0].reading == "The proposal is titled Atlas. The budget is $800."
    assert found["t/ada/3/e1"].clean and found["t/ada/4/e0"].clean and not found["t/ada/4/e2"].clean


def test_context_is_told_once():
    assert said("text", None) == said("text", "") == said("text", "text") == said("", "text") == ("text", "")
    assert said("text", "title") == ("text", "title")


def knows(sources, targets, **_):
    """A scorer that is right on the clean groups and wrong on the third."""
    return np.array([0.9 if "cilantro" in target or "$800" in target else 0.1 for target in targets])


def test_roles_count_a_group_right_only_when_every_candidate_is(data):
    rows, summary = memora_roles.measure(groups(data, period="tiny"), knows)
    cell = {(row["judge"], row["stratum"]): row for row in rows}
    assert cell["verifier", "clean"]["groups"] == 2 and cell["verifier", "all"]["groups"] == 3
    assert summary["clean_all_correct"] == 1.0 and summary["pair_ap"] == 1.0
    assert cell["verifier", "all"]["all_correct"] == pytest.approx(2 / 3)
    assert cell["verifier", "all"]["accuracy"] == pytest.approx(4 / 6)
    assert summary["overlap_all_correct"] == 1.0
    assert summary["budget_revised_all_correct"] == 1.0
    _, worse = memora_roles.measure(groups(data, period="tiny"), lambda s, t, **_: np.ones(len(t)))
    assert (
        worse["clean_all_correct"] == 0.0 and worse["pair_recall"] == 1.0 and worse["pair_precision"] == 0.5
    )


def test_every_fixed_name_is_there_and_baselines_alone_leave_the_verifier_out(data, tmp_path):
    _, summary = memora_roles.measure(groups(data, period="tiny"), knows)
    fixed = {"clean_all_correct", "pair_ap", "overlap_all_correct", "newest_all_correct"}
    assert fixed <= set(summary)
    memora_roles.main(
        ["--data", str(data), "--period", "tiny", "--baselines", "--json", str(tmp_path / "out.json")]
    )
    written = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert written["benchmark"] == "memora_roles" and "clean_all_correct" not in written["summary"]
    assert "newest_all_correct" in written["summary"]


@unhurried
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 4)), min_size=1, max_size=12))
def test_average_precision_is_the_mean_precision_at_each_positive(pairs):
    truth = np.array([label for label, _ in pairs])
    score = np.array([float(value) for _, value in pairs])
    found = memora_roles.average_precision(truth, score)
    if not truth.any():
        assert np.isnan(found)
        return
    each = [truth[score >= score[k]].mean() for k in np.flatnonzero(truth)]
    assert found == pytest.approx(float(np.mean(each)))


def test_facts_pair_the_same_slot_against_the_nearest_others(data):
    (facts,) = factconsolidation_pairs.read(data)
    pairs = {(pair.kind, pair.source, pair.target) for pair in factconsolidation_pairs.pairs(facts)}
    assert pairs == {
        ("same slot", "Alma lives in Bergen.", "Alma lives in Oslo."),
        ("other subject", "Cy lives in Oslo.", "Alma lives in Oslo."),
        ("other relation", "Alma works at Acme.", "Alma lives in Oslo."),
    }


def test_facts_accuracy_counts_all_kinds_alike(data):
    listed = [
        pair for facts in factconsolidation_pairs.read(data) for pair in factconsolidation_pairs.pairs(facts)
    ]
    assert len(listed) == 6
    _, right = factconsolidation_pairs.measure(
        listed, lambda s, t: np.array([float("Bergen" in source) for source in s])
    )
    assert right["accuracy"] == 1.0 and right["accuracy/other_subject"] == 1.0
    _, blind = factconsolidation_pairs.measure(listed, lambda s, t: np.ones(len(s)))
    assert blind["accuracy"] == pytest.approx(1 / 3)


def test_candidate_recall_asks_only_what_was_told_before(data):
    places = candidate_recall.memora_places(data, period="tiny")
    assert {name: len(listed) for name, listed in places.items()} == {"delete": 2, "budget_revised": 1}
    assert all(place < candidate_recall.CAP for listed in places.values() for place in listed)
    rows = candidate_recall.rows_of("tiny", {"delete": [0, 8], "goal": [5]})
    assert [(row["stratum"], row["recall@8"]) for row in rows] == [
        ("delete", 0.5),
        ("goal", 1.0),
        ("all", 2 / 3),
    ]
    assert rows[1]["recall@4"] == 0.0


def test_text_only_overturns_are_those_that_no_edge_explains():
    case = {
        "category": "dependents",
        "memories": [
            {"id": id, "text": text} for id, text in (("a", "Acme job"), ("b", "train"), ("c", "left Acme"))
        ],
        "edges": [{"source": "a", "target": "b", "type": "requires"}],
        "expect": {"a": "outdated", "b": "outdated", "c": "valid"},
    }
    assert list(candidate_recall.overturned_by_text(case)) == ["a"]
    assert candidate_recall.case_places([case]) == {"dependents": [0]}
    case["edges"].append({"source": "c", "target": "a", "type": "overturns"})
    assert list(candidate_recall.overturned_by_text(case)) == []
