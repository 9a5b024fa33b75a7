"""Measures how often the memory that an event overturns is among the candidates at all.

``python -m benchmarks.candidate_recall --data DIR`` replays every Memora persona in order (deletions
included) and asks, when an event's source arrives, for its candidates in all that was told before: a
pair never proposed is never found.  With ``--cases FILE``, also the memories that only text overturns:
labelled outdated, without a given edge that explains it; found when a later memory proposes them.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks import reporting
from benchmarks.memora_data import conversation, groups, periods
from validity_graph.candidates import CandidateIndex
from validity_graph.records import Memory, parse_time

CAP = 8
#: Places of the target among the distinct candidate texts that are reported.
DEPTHS = (1, 4, 8)

Places = dict[str, list[int]]


def memora_places(data: Path, *, period: str) -> Places:
    """Return for each operation the place of each target, from 0; ``CAP`` where it is not proposed."""
    places: Places = defaultdict(list)
    by_persona = defaultdict(list)
    for group in groups(data, period=period):
        by_persona[group.persona].append(group)
    for persona, events in by_persona.items():
        waiting = defaultdict(list)
        for event in events:
            waiting[event.source_node or event.id].append(event)
        index, number = CandidateIndex(cap=CAP), {}
        for sequence, node in enumerate(conversation(data, period=period, persona=persona)):
            index.add(sequence, Memory(node.id, node.text, time=parse_time(node.date), context=node.context))
            number[node.id] = sequence
            for event in waiting[node.id]:
                found = index.targets(sequence)
                for target in event.targets:
                    places[event.operation].append(place(found, number[target.id]))
    return places


def place(found: list[int], target: int) -> int:
    """Return the place of ``target``, at most ``CAP - 1`` where restatements push it further down."""
    return min(found.index(target), CAP - 1) if target in found else CAP


def case_places(cases: Iterable[Mapping[str, Any]]) -> Places:
    """Return for each category the best place that a later memory gives each text-only overturn."""
    places: Places = defaultdict(list)
    for case in cases:
        index = CandidateIndex(cap=CAP)
        number = {}
        for sequence, item in enumerate(case["memories"]):
            index.add(sequence, Memory(item["id"], item["text"], time=parse_time(item.get("time"))))
            number[item["id"]] = sequence
        found = {sequence: index.targets(sequence) for sequence in number.values()}
        for id in overturned_by_text(case):
            places[case["category"]].append(min(place(listed, number[id]) for listed in found.values()))
    return places


def overturned_by_text(case: Mapping[str, Any]) -> Iterator[str]:
    """Yield the memories labelled outdated that no given edge explains."""
    outdated = {id for id, label in case["expect"].items() if label == "outdated"}
    explained = {edge["target"] for edge in case["edges"] if edge["type"] == "overturns"}
    explained |= {
        edge["target"]
        for edge in case["edges"]
        if edge["type"] in ("requires", "supports") and edge["source"] in outdated
    }
    held = {item["id"] for item in case["memories"]}
    yield from sorted((outdated - explained) & held)


def rows_of(name: str, places: Places) -> list[dict[str, Any]]:
    """Return one row a stratum and one for all."""
    strata = [*sorted(places.items()), ("all", [k for listed in places.values() for k in listed])]
    return [
        {"data": name, "stratum": stratum, "targets": len(listed)}
        | {f"recall@{depth}": sum(k < depth for k in listed) / len(listed) for depth in DEPTHS}
        for stratum, listed in strata
        if listed
    ]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.candidate_recall", description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder that holds memora")
    parser.add_argument("--period", action="append", help="may be repeated; default: all there are")
    parser.add_argument("--cases", type=Path, help="cases.jsonl, or the folder that holds it")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    rows: list[dict[str, Any]] = []
    for period in options.period or periods(options.data):
        begun = time.perf_counter()
        rows += rows_of(f"memora {period}", memora_places(options.data, period=period))
        print(f"memora {period}: {time.perf_counter() - begun:.1f} s")
    if options.cases:
        path = options.cases / "cases.jsonl" if options.cases.is_dir() else options.cases
        cases = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        rows += rows_of("cases", case_places(cases))
    reporting.table(f"Is the overturned memory among the {CAP} candidates?", rows)
    summary = {f"recall_at_8/{row['data']}": row["recall@8"] for row in rows if row["stratum"] == "all"}
    reporting.write(options.json, benchmark="candidate_recall", rows=rows, summary=summary, cap=CAP)


if __name__ == "__main__":
    main()
