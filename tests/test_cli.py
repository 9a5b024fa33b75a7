"""The command line: each command, its JSON, its refusals and its exit codes."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import typer
from typer.testing import CliRunner

from validity_graph import ValidityGraph
from validity_graph.cli import app, main

ROOT = Path(__file__).parent.parent
TOY = [
    {"id": "job", "text": "I work at Acme as an analyst"},
    {"id": "porto", "text": "I grew up in Porto"},
    {"id": "cilantro", "text": "I like cilantro"},
    {"id": "list", "text": "Shopping list: milk, eggs, bread"},
    {"id": "commute", "text": "I commute to Acme HQ every day"},
    {"id": "pass", "text": "I bought a monthly pass for the line to Acme HQ"},
    {"id": "cello", "text": "My sister plays the cello"},
    {"id": "dentist", "text": "The dentist is on Friday"},
    {"id": "quit", "text": "I quit Acme, I work at Globex now"},
    {"id": "hate", "text": "I can't stand cilantro any more"},
    {"id": "eggs", "text": "Take eggs off the shopping list"},
    {"id": "miso", "text": "Our cat is called Miso"},
    {"source": "job", "target": "commute", "type": "requires"},
    {"source": "commute", "target": "pass", "type": "requires"},
]


@pytest.fixture
def run(monkeypatch, capsysbinary):
    """Run the command in this process, as a pipe would see it: (exit code, stdout, stderr)."""

    def go(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["validity-graph", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        out, err = capsysbinary.readouterr()
        return code, out.decode(), err.decode()

    return go


def lines(path: Path, items: list[dict[str, object]]) -> Path:
    path.write_text("".join(json.dumps(item) + "\n" for item in items), encoding="utf-8")
    return path


@pytest.fixture
def toy(tmp_path) -> Path:
    return lines(tmp_path / "toy.jsonl", TOY)


def test_the_toy_flags_exactly_what_fell(run, toy):
    code, out, err = run("check", toy, "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    schema = json.loads((ROOT / "validity_graph" / "check.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(document, schema)
    found = {item["id"]: item for item in document["memories"]}
    fell = {id for id, item in found.items() if item["status"] != "valid"}
    assert fell == {"job", "cilantro", "list", "commute", "pass"}
    assert all(item["status"] == "outdated" for id, item in found.items() if id in fell)
    # The verifier may also see by itself that the commute is over; the pass falls by structure.
    for id in ("commute", "pass"):
        hops = found[id]["hops"]
        assert found[id]["path"] == ["quit", *(hop["target"] for hop in hops)]
        assert found[id]["path"][-1] == id
        assert all(0.0 < hop["weight"] <= 1.0 for hop in hops)
    assert found["pass"]["hops"][-1]["source"] == "commute"
    assert [item["invalidity"] for item in document["memories"]] == sorted(
        (item["invalidity"] for item in document["memories"]), reverse=True
    )


def test_the_toy_table_shows_every_hop(run, toy):
    code, out, _ = run("check", toy)
    assert code == 0
    row = " ".join(line for line in out.split("pass ", 1)[1].splitlines()[:3])
    assert "overturns" in row
    assert "requires 1.00" in row


def test_the_trap(run, tmp_path):
    trap = [
        {"id": "bob", "text": "Bob works at Acme"},
        {"id": "stock", "text": "I own Acme stock"},
        {"id": "ana", "text": "I met Ana at Acme in 2019"},
        {"id": "quit", "text": "I quit Acme"},
    ]
    _, out, _ = run("check", lines(tmp_path / "trap.jsonl", trap), "--json")
    assert {item["status"] for item in json.loads(out)["memories"]} == {"valid"}


def test_the_demo_prints_a_multi_hop_finding_and_its_path(run):
    code, out, _ = run("demo")
    assert code == 0
    assert "Why pass fell, hop by hop" in out
    assert "requires 1.00 -> I bought a monthly pass for the line to Acme HQ" in out


def test_a_database_from_first_to_last(run, tmp_path):
    db = str(tmp_path / "m.db")
    assert run("add", "m1", "Alice works at Acme", "--db", db, "--time", "2025-01-10")[0] == 0
    assert run("add", "m2", "Alice takes the train to Acme", "--db", db, "--depends-on", "m1")[0] == 0
    assert run("add", "m3", "x", "--db", db, "--supported-by", "m1,m2", "--supported-by", "m1")[0] == 0
    assert run("add", "m4", "Alice left Acme", "--db", db, "--supersedes", "m1")[0] == 0
    code, out, _ = run("check", "--db", db, "--no-verify", "--json")
    assert {item["id"]: item["status"] for item in json.loads(out)["memories"]} == {
        "m1": "outdated",
        "m2": "outdated",
        "m3": "outdated",
        "m4": "valid",
    }
    assert "m4 -overturns 1.00-> m1 -requires 1.00-> m2" in run("explain", "m2", "--db", db)[1]
    assert json.loads(run("explain", "m2", "--db", db, "--json")[1])["verdict"]["status"] == "outdated"
    assert "without m4: 1.00 -> 0.00" in run("explain", "m2", "--db", db)[1]
    assert run("confirm", "m1", "--db", db, "--reason", "she is back")[0] == 0
    assert run("blast-radius", "m1", "--db", db)[1].splitlines() == ["m2: 0.00 -> 1.00", "m3: 0.00 -> 1.00"]
    assert run("check", "--db", db, "--no-verify", "--fail-on", "possibly_outdated")[0] == 0
    assert run("invalidate", "m2", "--db", db, "--probability", "0.4")[0] == 0
    assert run("check", "--db", db, "--no-verify", "--fail-on", "possibly_outdated")[0] == 1
    assert run("check", "--db", db, "--no-verify", "--fail-on", "outdated")[0] == 0
    assert run("check", "--db", db, "--no-verify", "--fail-on", "outdated", "--threshold", "0.35")[0] == 1
    assert "she is back" in run("history", "m1", "--db", db)[1]
    assert [entry["action"] for entry in json.loads(run("history", "--db", db, "--json")[1])["entries"]][
        -1
    ] == ("invalidate")
    exported = run("export", "--db", db)[1]
    again = tmp_path / "again.jsonl"
    again.write_text(exported, encoding="utf-8")
    assert run("check", again, "--no-verify")[0] == 0
    assert run("forget", "m1", "--db", db)[0] == 0
    code, _, err = run("explain", "m1", "--db", db)
    assert (code, err.count("\n")) == (2, 1)
    assert "was forgotten" in err


def test_verify_asks_each_pair_once(run, tmp_path, toy):
    db = str(tmp_path / "m.db")
    with ValidityGraph.open(db) as graph:
        for item in TOY[:12]:
            graph.add(str(item["id"]), str(item["text"]))
    first = json.loads(run("verify", "--db", db, "--json")[1])
    assert first["pairs"] > 0
    assert first["overturns"] >= 3
    assert json.loads(run("verify", "--db", db, "--json")[1])["pairs"] == 0


def test_retrieve_annotates_and_keeps_the_order(run, tmp_path, toy):
    db = str(tmp_path / "m.db")
    assert run("check", toy, "--db", db)[0] == 0
    plain = json.loads(run("retrieve", "where do I work", "--db", db, "--mode", "off", "--json")[1])[
        "results"
    ]
    found = json.loads(run("retrieve", "where do I work", "--db", db, "--json")[1])["results"]
    assert [item["memory"]["id"] for item in found] == [item["memory"]["id"] for item in plain]
    assert "Acme" in run("retrieve", "where do I work", "--db", db, "--mode", "demote")[1]
    assert run("retrieve", "x", "--db", db, "--mode", "guess")[0] == 2


def test_score_takes_pairs_and_gives_parts(run, tmp_path):
    pairs = [
        {"id": "p", "source": "I quit Acme, I work at Globex now", "target": "I work at Acme as an analyst"},
        {"source": "Our cat is called Miso", "target": "I like cilantro", "domain": "food"},
    ]
    code, out, _ = run("score", lines(tmp_path / "p.jsonl", pairs))
    first, second = (json.loads(line) for line in out.splitlines())
    assert code == 0
    assert set(first) == {"id", "overturn", "slot_mini", "slot_nli", "event", "operation"}
    assert first["id"] == "p"
    assert first["overturn"] > 0.5 > second["overturn"]
    assert run("score", lines(tmp_path / "q.jsonl", [{"source": "x"}]))[0] == 2


def test_a_memory_does_not_fall_for_what_its_context_says(run, tmp_path):
    db = str(tmp_path / "m.db")
    named = "Please change the price of the Harbour Lights menu from $30 to $35."
    assert run("add", "price", named, "--db", db, "--time", "2025-01-01")[0] == 0
    added = run(
        "add",
        "music",
        "Also add live music to the programme.",
        "--context",
        named,
        "--db",
        db,
        "--time",
        "2025-01-02",
    )
    assert added[0] == 0
    later = "Please change the price of the Harbour Lights menu from $35 to $42."
    assert run("add", "raise", later, "--db", db, "--time", "2025-01-03")[0] == 0
    found = json.loads(run("check", "--db", db, "--json")[1])["memories"]
    assert {item["id"]: item["status"] for item in found} == {
        "price": "outdated",
        "music": "valid",
        "raise": "valid",
    }
    assert json.loads(run("export", "--db", db)[1].splitlines()[1])["context"] == named


BAD = {
    "weight": '{"id": "b", "text": "y"}\n{"source": "b", "target": "a", "type": "overturns", "weight": 1.4}',
    "nan": '{"id": "b", "text": "y"}\n{"source": "b", "target": "a", "type": "overturns", "weight": NaN}',
    "unknown": '{"source": "a", "target": "nobody", "type": "requires"}',
    "self-loop": '{"source": "a", "target": "a", "type": "requires"}',
    "earlier": '{"id": "b", "text": "y", "time": "2020-01-01"}\n'
    '{"source": "b", "target": "a", "type": "overturns"}',
    "malformed": '{"id": "b", "text": "y"}\n{"id": "c", "te',
    "empty": "",
    "binary": "\x7fELF\x02\x01\x00\x00",
    "duplicate": '{"id": "b", "text": "y"}\n{"id": "a", "text": "other"}',
    "namespaces": '{"id": "b", "text": "y", "namespace": "n"}\n'
    + '{"source": "b", "target": "a", "type": "cites"}',
    "long": '{"id": "b", "text": "' + "y" * 10_000_000 + '"}',
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_line_exit_2_and_an_unchanged_store(run, tmp_path, name):
    db = tmp_path / "m.db"
    assert run("add", "a", "x", "--db", db, "--time", "2025-01-01")[0] == 0
    before = run("export", "--db", db)[1], run("history", "--db", db)[1]
    bad = tmp_path / "bad.jsonl"
    bad.write_text(BAD[name], encoding="utf-8")
    code, out, err = run("check", bad, "--db", db)
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert "bad.jsonl" in err
    assert len(err) < 400
    assert (run("export", "--db", db)[1], run("history", "--db", db)[1]) == before


def test_allow_missing_keeps_and_counts_dangling_edges(run, tmp_path):
    path = lines(
        tmp_path / "m.jsonl", [{"id": "a", "text": "x"}, {"source": "a", "target": "z", "type": "requires"}]
    )
    code, out, _ = run("check", path, "--no-verify", "--allow-missing", "--json")
    assert code == 0
    assert json.loads(out)["summary"]["inert_edges"] == 1


def test_as_of_on_the_command_line(run, tmp_path):
    items = [
        {"id": "a", "text": "x", "time": "2025-01-01"},
        {"id": "b", "text": "not x", "time": "2025-02-01"},
        {"source": "b", "target": "a", "type": "overturns"},
    ]
    path = lines(tmp_path / "m.jsonl", items)
    _, out, _ = run("check", path, "--no-verify", "--as-of", "2025-01-15", "--json")
    assert [item["status"] for item in json.loads(out)["memories"]] == ["valid"]
    assert run("check", path, "--as-of", "soon")[0] == 2


def test_what_cannot_be_read_is_named(run, tmp_path):
    assert "cannot be read" in run("check", tmp_path / "none.jsonl")[2]
    assert "there is no database" in run("history", "--db", tmp_path / "none.db")[2]
    assert not (tmp_path / "none.db").exists()
    assert "nothing to check" in run("check")[2]


def test_stdin_and_a_pipe(tmp_path, toy):
    done = subprocess.run(
        [sys.executable, "-c", "from validity_graph.cli import main; main()", "check", "-", "--no-verify"],
        input=toy.read_bytes(),
        capture_output=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert done.returncode == 0
    assert done.stderr == b""
    assert b"12 memories" in done.stdout


def test_hostile_text_reaches_no_terminal(run, tmp_path):
    path = lines(tmp_path / "m.jsonl", [{"id": "a", "text": "\x1b[2J [bold]hi[/bold]"}])
    out = run("check", path, "--no-verify")[1]
    assert "\x1b" not in out
    assert "[bold]hi[/bold]" in out


def test_every_command_is_documented():
    group = typer.main.get_command(app)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for name, command in group.commands.items():
        assert command.help, name
        assert f"`{name}" in readme or f"validity-graph {name}" in readme, f"README says nothing of {name}"


def test_commands_mirror_methods():
    methods = {name for name, _ in inspect.getmembers(ValidityGraph, inspect.isfunction)}
    group = typer.main.get_command(app)
    programs = {"demo", "score", "train", "mcp", "export"}
    assert {name.replace("-", "_") for name in group.commands} - programs <= methods


def test_help_works():
    assert CliRunner().invoke(app, ["--help"]).exit_code == 0
