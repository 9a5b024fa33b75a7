"""Real multi-hop facts: an edit must find the fact that it overturns, and what rests on it must fall.

    python -m benchmarks.mquake --data DIR --json OUT

One graph over all cases of MQuAKE: facts are nodes by their text, conclusions are contiguous sub-chains of
at least two hops and require all their facts.  One edit at a time; the fact that it overturns is *not*
given: candidates propose among all facts, the verifier scores, given structure propagates.  Expected: the
edited fact and every conclusion that holds it fall, all else stands.

``invalid_found`` counts conclusions that must fall; ``wrongly_hit`` counts conclusions of the edit's own
case that must stand, the nearest controls (all of them where the edit is off the chain);
``wrongly_hit_anywhere`` counts every memory of the graph that must stand.  A missed conclusion is put down
to where it first went wrong: the pair was not proposed, the verifier scored it low, or propagation.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import reporting, structure
from benchmarks.chain_study import Judge
from validity_graph import kernels
from validity_graph.candidates import CandidateIndex
from validity_graph.records import Memory
from validity_graph.verification import EVIDENCE_FLOOR

DECISION = 0.5
PLACES = ("candidate", "verifier", "propagation")
Row = dict[str, Any]


@dataclass
class Tally:
    """Counts by hop length: what must fall, what of it fell, and why the rest did not."""

    invalid: Counter[int] = field(default_factory=Counter)
    found: Counter[int] = field(default_factory=Counter)
    valid: Counter[int] = field(default_factory=Counter)
    hit: Counter[int] = field(default_factory=Counter)
    place: Counter[tuple[str, int]] = field(default_factory=Counter)
    anywhere: Counter[str] = field(default_factory=Counter)
    facts: Counter[str] = field(default_factory=Counter)


def proposals(facts: Sequence[str], edits: Sequence[str]) -> dict[str, list[str]]:
    """Return for each edit the facts that the candidates propose, all facts being older."""
    index = CandidateIndex()
    index.extend((k, Memory(str(k), text)) for k, text in enumerate(facts))
    found = {}
    for text in dict.fromkeys(edits):
        index.add(len(facts), Memory("edit", text))
        found[text] = [facts[k] for k in index.targets(len(facts))]
        index.remove(len(facts))
    return found


def strengths(proposed: Mapping[str, Sequence[str]], judge: Judge) -> dict[tuple[str, str], float]:
    """Return the evidence of every proposed (edit, fact) pair; 0 where the scores make no edge."""
    pairs = [(edit, fact) for edit, facts in proposed.items() for fact in facts]
    scores = judge.score([edit for edit, _ in pairs], [fact for _, fact in pairs], domains=[""] * len(pairs))
    acts = (scores.gate >= EVIDENCE_FLOOR) & (scores.gate >= scores.confirms)
    return dict(zip(pairs, np.where(acts, scores.gate, 0.0).tolist(), strict=True))


def measure(cases: Sequence[Mapping[str, Any]], judge: Judge) -> Tally:
    """Apply every edit by itself and compare each memory with what it must be."""
    study = structure.mquake(cases)
    number = study.structure.number
    facts = [name for name in number if isinstance(name, str)]
    edits = [(case, edit) for case in cases for edit in case["edits"]]
    proposed = proposals(facts, [edit["new_text"] for _, edit in edits])
    strength = strengths(proposed, judge)
    topology = study.structure.topology()
    fact_nodes = np.array([number[text] for text in facts])
    hops = [len(name) if isinstance(name, tuple) else 1 for name in number]
    tally = Tally()
    for (case, edit), trial in zip(edits, study.trials, strict=True):
        direct = np.zeros(len(number))
        for fact in proposed[edit["new_text"]]:
            direct[number[fact]] = strength[edit["new_text"], fact]
        outdated = kernels.propagate(topology, direct).invalidity >= DECISION
        _count_missed(
            tally,
            edit,
            [(node, hops[node]) for node, kind in trial.kind.items() if kind == "invalid"],
            outdated=outdated,
            direct=direct[number[edit["old_text"]]] if trial.kind else 0.0,
            proposed=proposed[edit["new_text"]],
        )
        _count_own(tally, case, trial, number=number, outdated=outdated)
        standing = np.ones(len(number), dtype=np.bool_)
        standing[list(trial.kind)] = False
        tally.anywhere["valid"] += int(standing.sum())
        tally.anywhere["hit"] += int((outdated & standing).sum())
        tally.facts["edits"] += 1
        wrong = fact_nodes[outdated[fact_nodes] & standing[fact_nodes]]
        tally.facts["edits that hit another fact"] += bool(len(wrong))
    return tally


def _count_missed(
    tally: Tally,
    edit: Mapping[str, Any],
    invalid: Sequence[tuple[int, int]],
    *,
    outdated: NDArray[np.bool_],
    direct: float,
    proposed: Sequence[str],
) -> None:
    """Count conclusions (node, hops) that must fall; ``direct`` is the evidence against the edited fact."""
    for node, hops in invalid:
        tally.invalid[hops] += 1
        if outdated[node]:
            tally.found[hops] += 1
        elif edit["old_text"] not in proposed:
            tally.place["candidate", hops] += 1
        else:
            tally.place["verifier" if direct < DECISION else "propagation", hops] += 1


def _count_own(
    tally: Tally,
    case: Mapping[str, Any],
    trial: structure.Trial,
    *,
    number: Mapping[Any, int],
    outdated: NDArray[np.bool_],
) -> None:
    """Count the conclusions of the edit's own case that must stand."""
    texts = [hop["text"] for hop in case["hops"]]
    for first in range(len(texts) - 1):
        for last in range(first + 2, len(texts) + 1):
            node = number[tuple(texts[first:last])]
            if node not in trial.kind:
                tally.valid[last - first] += 1
                tally.hit[last - first] += bool(outdated[node])


def summarise(tally: Tally) -> tuple[list[Row], dict[str, float]]:
    """Return one row a hop length and the summary."""
    rows: list[Row] = []
    for hops in sorted(tally.invalid | tally.valid):
        rows.append(
            {
                "hops": hops,
                "invalid": tally.invalid[hops],
                "invalid_found": tally.found[hops] / max(1, tally.invalid[hops]),
                "valid": tally.valid[hops],
                "wrongly_hit": tally.hit[hops] / max(1, tally.valid[hops]),
                **{f"lost_{name}": tally.place[name, hops] for name in PLACES},
            }
        )
    summary = {
        "invalid_found": tally.found.total() / max(1, tally.invalid.total()),
        "wrongly_hit": tally.hit.total() / max(1, tally.valid.total()),
        "wrongly_hit_anywhere": tally.anywhere["hit"] / max(1, tally.anywhere["valid"]),
        "edits_that_hit_another_fact": tally.facts["edits that hit another fact"]
        / max(1, tally.facts["edits"]),
    }
    summary |= {f"invalid_found/{row['hops']}": row["invalid_found"] for row in rows}
    return rows, summary


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.mquake", description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder that holds mquake")
    parser.add_argument("--quick", action="store_true", help="the first twenty cases")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    from validity_graph.verifier import Verifier

    folder = options.data / "mquake"
    cases = list(structure.records(folder if folder.is_dir() else options.data))
    if not cases:
        raise SystemExit(f"no mquake/*.jsonl under {options.data}; name the folder that holds the data sets")
    rows, summary = summarise(measure(cases[:20] if options.quick else cases, Verifier.load()))
    reporting.table("MQuAKE: conclusions after one edit, the overturned fact not given", rows)
    print({name: round(value, 5) for name, value in summary.items()})
    reporting.write(options.json, benchmark="mquake", rows=rows, summary=summary)


if __name__ == "__main__":
    main()
