"""The committed figures are what the committed runs say."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import reporting

ROOT = Path(__file__).parent.parent
RUNS = sorted((ROOT / "benchmarks" / "results").glob("*.json"))


def test_the_page_is_made_from_the_runs():
    done = subprocess.run([sys.executable, "-m", "benchmarks.results", "--check"], cwd=ROOT, check=False)
    assert done.returncode == 0


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.stem)
def test_each_run_says_where_it_comes_from(path):
    run = json.loads(path.read_text(encoding="utf-8"))
    assert {"benchmark", "commit", "machine", "versions", "rows", "summary"} <= run.keys()
    assert run["rows"]
    assert all(isinstance(value, (int, float)) for value in run["summary"].values())


def test_a_run_says_which_instructions_its_processor_has(monkeypatch):
    told = "processor : 0\nmodel name : Some CPU: fast\nflags : fpu avx2 avx_vnni\n\nflags : fpu\n"
    monkeypatch.setattr(reporting.Path, "read_text", lambda *_, **__: told)
    found = reporting.machine()
    assert (found["processor"], found["instructions"]) == ("Some CPU: fast", ["avx2", "avx_vnni"])

    def absent(*_, **__):
        raise OSError

    monkeypatch.setattr(reporting.Path, "read_text", absent)
    assert reporting.machine()["instructions"] == []


def test_a_written_run_reads_back(tmp_path):
    path = tmp_path / "out" / "run.json"
    reporting.write(path, benchmark="b", rows=[{"x": 1}], summary={"y": 2.0}, seeds=[7])
    run = json.loads(path.read_text(encoding="utf-8"))
    assert (run["rows"], run["summary"], run["seeds"]) == ([{"x": 1}], {"y": 2.0}, [7])
