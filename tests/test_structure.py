"""The structure benchmark on small data of its own: counts what it must and sees a wrong label."""

from __future__ import annotations

import gzip
import json

import pytest

from benchmarks import structure


def atom(name):
    return [name, "is", "so", True]


#: a and b are asserted; a gives c, b gives c; c gives d, d gives e, e gives d; a and b together give f.
THEORY = {
    "facts": [["A.", atom("a")], ["B.", atom("b")], ["G.", atom("g")]],
    "derived": [atom("c"), atom("d"), atom("e"), atom("f")],
    "supports": [
        [0, [atom("a")], atom("c")],
        [1, [atom("b")], atom("c")],
        [2, [atom("g")], atom("d")],
        [3, [atom("d")], atom("e")],
        [4, [atom("e")], atom("d")],
        [5, [atom("a"), atom("b")], atom("f")],
        [6, [atom("c")], atom("b")],
    ],
    "removals": [
        {
            "fact": atom("a"),
            "invalid": [atom("f")],
            "downstream_survives": [atom("c"), atom("b")],
            "cyclic_traps": [],
            "fact_rederived": False,
        },
        {
            "fact": atom("b"),
            "invalid": [],
            "downstream_survives": [atom("c"), atom("f")],
            "cyclic_traps": [],
            "fact_rederived": True,
        },
        {
            "fact": atom("g"),
            "invalid": [atom("d"), atom("e")],
            "downstream_survives": [],
            "cyclic_traps": [atom("d"), atom("e")],
            "fact_rederived": False,
        },
    ],
}
TREE = {
    "leaves": {"s1": "one", "s2": "two", "s3": "three"},
    "nodes": {"i1": "both", "h": "all"},
    "steps": [[["s1", "s2", "s1"], "i1"], [["i1", "s3"], "h"]],
}
#: The second hop of the first chain is the first hop of the other.
CASES = [
    {
        "hops": [{"text": "p"}, {"text": "q"}, {"text": "r"}],
        "edits": [
            {"old_text": "q", "new_text": "q2", "orig_hop": 1},
            {"old_text": "elsewhere", "new_text": "x", "orig_hop": None},
        ],
    },
    {
        "hops": [{"text": "q"}, {"text": "s"}],
        "edits": [{"old_text": "p", "new_text": "p2", "orig_hop": None}],
    },
]


def write(folder, records, *, name="part.jsonl.gz"):
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(record) + "\n" for record in records)
    (folder / name).write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())


@pytest.fixture
def data(tmp_path):
    write(tmp_path / "proofwriter", [THEORY, THEORY])
    write(tmp_path / "entailment_bank", [TREE], name="part.jsonl")
    write(tmp_path / "mquake", CASES)
    return tmp_path


def pairs_of(rows, data):
    found = {}
    for row in rows:
        if row["data"] == data:
            found[row["kind"], row["depth"]] = row["pairs"]
    return found


@pytest.mark.parametrize("backend", ["numba", "numpy"])
def test_counts_by_kind_and_depth(data, backend):
    rows, summary, lines = structure.measure(data, backend=backend)
    assert lines == []
    assert summary["mismatches"] == 0
    # Twice each: the theory is there twice.  Depth counts edges from the assertion of the removed fact.
    assert pairs_of(rows, "proofwriter") == {
        ("removed", 0): 6,
        ("removed", 1): 4,
        ("rederived", 1): 2,
        ("invalid", 2): 2,
        ("cyclic trap", 2): 2,
        ("cyclic trap", 3): 2,
        ("surviving", 2): 6,
        ("surviving", 3): 2,
        ("elsewhere", -1): 2 * (3 * 10 - 13),
    }
    assert pairs_of(rows, "entailment_bank") == {
        ("removed", 0): 3,
        ("invalid", 1): 3,
        ("invalid", 2): 2,
        ("elsewhere", -1): 15 - 8,
    }
    # Facts p, q, r, s; conclusions pq, pqr, qr, qs.  Edits: q fells all four, p two, elsewhere none.
    assert pairs_of(rows, "mquake") == {
        ("removed", 0): 2,
        ("invalid", 1): 6,
        ("elsewhere", -1): 3 * 8 - 8,
    }
    assert summary["pairs"] == 60 + 15 + 24


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"fact_rederived": True}, "is rederived at depth 1, invalidity 1"),
        ({"invalid": [], "cyclic_traps": []}, "is elsewhere at depth -1, invalidity 1"),
        ({"downstream_survives": [atom("e")], "cyclic_traps": []}, "is surviving at depth 3, invalidity 1"),
        ({"invalid": [atom("c")]}, "is invalid at depth -1, invalidity 0"),
    ],
)
def test_a_wrong_label_is_a_mismatch(tmp_path, change, line):
    removal = {**THEORY["removals"][2], **change}
    write(tmp_path / "proofwriter", [{**THEORY, "removals": [removal]}])
    _, summary, lines = structure.measure(tmp_path, backend="numba")
    assert summary["mismatches"] == len(lines) >= 1
    assert any(line in found for found in lines)


def test_facts_of_their_own_and_self_support(tmp_path):
    # c needs nothing; d is only said to follow from itself and from a.
    theory = {
        "facts": [["A.", atom("a")]],
        "derived": [atom("c"), atom("d")],
        "supports": [[0, [], atom("c")], [1, [atom("d")], atom("d")], [2, [atom("a")], atom("d")]],
        "removals": [
            {
                "fact": atom("a"),
                "invalid": [atom("d")],
                "downstream_survives": [],
                "cyclic_traps": [atom("d")],
                "fact_rederived": False,
            }
        ],
    }
    write(tmp_path / "proofwriter", [theory])
    _, summary, lines = structure.measure(tmp_path, backend="numba")
    assert lines == []
    assert summary["pairs/cyclic trap"] == 1


def test_what_is_missing_is_skipped_and_said(data, capsys, tmp_path):
    (data / "mquake" / "part.jsonl.gz").unlink()
    out = tmp_path / "out" / "structure.json"
    assert structure.main(["--data", str(data), "--json", str(out)]) == 0
    captured = capsys.readouterr()
    assert "skipped mquake: no *.jsonl" in captured.err
    assert "0 mismatches in 75 pairs" in captured.out
    summary = json.loads(out.read_text())["summary"]
    assert (summary["mismatches"], summary["pairs"]) == (0, 75)
    assert structure.main(["--data", str(tmp_path / "nowhere")]) == 2
