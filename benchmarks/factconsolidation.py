"""Real facts in a stream: the current value of each slot, and the chains that rest on a stale one.

    python -m benchmarks.factconsolidation --data DIR --json OUT

The numbered sentences of FactConsolidation (MemoryAgentBench) arrive in order; nobody says which one
overturns which.  Candidates propose, the verifier scores, and a fact is current while its invalidity is
below 0.5.  A slot (subject, relation) is right when exactly the value of its last sentence is current.

Chains: for the start and the relations of each question's path, every walk over all the facts, stale ones
too, is a conclusion that requires its facts.  One with a stale fact must fall, the others must stand; a
fact is stale when a later sentence of its slot has another value and no later one repeats its own.  A
missed chain is put down to where its stale fact first went wrong: not proposed, scored low, propagation.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import reporting
from benchmarks.chain_study import Judge
from benchmarks.factconsolidation_pairs import Fact, read
from benchmarks.structure import Structure
from validity_graph import kernels
from validity_graph.candidates import propose
from validity_graph.encode import encode
from validity_graph.inference import findings
from validity_graph.records import OVERTURNS, Memory
from validity_graph.store import Snapshot, StoredMemory
from validity_graph.verification import edges_from, without_retraction_cycles

DECISION = 0.5
NOW = datetime(2030, 1, 1, tzinfo=timezone.utc)
Pair = tuple[int, int]
Row = dict[str, Any]
#: A conclusion: the places of the facts that it requires, in order.
Walk = tuple[int, ...]


@dataclass(frozen=True)
class Stream:
    """What became of the facts: invalidity by place, pairs proposed, and the strength of each edge made."""

    invalidity: NDArray[np.float64]
    proposed: frozenset[Pair]
    strength: Mapping[Pair, float]


def questions(data: Path) -> Iterator[dict[str, Any]]:
    """Yield the questions with their paths."""
    folder = data / "factconsolidation"
    path = (folder if folder.is_dir() else data) / "questions.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from (json.loads(line) for line in lines)


def stream(facts: Sequence[Fact], judge: Judge) -> Stream:
    """Let the facts arrive in order; return what the graph makes of them."""
    memories = [Memory(str(fact.serial), fact.sentence) for fact in facts]
    stored = tuple(StoredMemory(k, NOW, memory) for k, memory in enumerate(memories))
    pairs = propose(memories)
    scores = judge.score(
        [facts[s].sentence for s, _ in pairs],
        [facts[t].sentence for _, t in pairs],
        domains=[""] * len(pairs),
    )
    edges = without_retraction_cycles(
        edges_from([(stored[s], stored[t]) for s, t in pairs], scores), given={}
    )
    found = findings(encode(Snapshot(0, stored, tuple(edges), (), (), frozenset()), now=NOW), "noisy_or")
    place = {memory.id: k for k, memory in enumerate(memories)}
    return Stream(
        invalidity=np.asarray(found.invalidity, dtype=np.float64),
        proposed=frozenset(pairs),
        strength={
            (place[item.source], place[item.target]): item.weight for item in edges if item.type == OVERTURNS
        },
    )


def slots(facts: Sequence[Fact]) -> dict[tuple[str, str], list[int]]:
    """Return the places of the facts of each slot, oldest first."""
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    for k, fact in enumerate(facts):
        found[fact.subject, fact.relation].append(k)
    return dict(found)


def is_right(places: Sequence[int], facts: Sequence[Fact], invalidity: NDArray[np.float64]) -> bool:
    """Tell whether exactly the last value of a slot is current."""
    current = {facts[k].object for k in places if invalidity[k] < DECISION}
    return current == {facts[places[-1]].object}


def stale(facts: Sequence[Fact]) -> set[int]:
    """Return the places of the facts whose value is not the last of their slot."""
    return {
        k for places in slots(facts).values() for k in places if facts[k].object != facts[places[-1]].object
    }


def walks(facts: Sequence[Fact], paths: Iterable[Sequence[Sequence[str]]]) -> list[Walk]:
    """Return every walk that starts at a path's subject and follows its relations over all facts."""
    by_slot = slots(facts)
    asked = dict.fromkeys((path[0][0], tuple(step[1] for step in path)) for path in paths if len(path) > 1)
    found: dict[Walk, None] = {}
    for start, relations in asked:
        frontier: list[tuple[Walk, str]] = [((), start)]
        for relation in relations:
            frontier = [
                ((*walk, k), facts[k].object)
                for walk, subject in frontier
                for k in by_slot.get((subject, relation), ())
            ]
        found |= dict.fromkeys(walk for walk, _ in frontier)
    return list(found)


def conclusions(invalidity: NDArray[np.float64], found: Sequence[Walk]) -> NDArray[np.bool_]:
    """Propagate to the conclusions; return which of them are outdated, shape ``(len(found),)``."""
    structure = Structure()
    for walk in found:
        for k in dict.fromkeys(walk):
            structure.require(k, walk)
    direct = np.zeros(len(structure.number))
    for name, node in structure.number.items():
        if isinstance(name, int):
            direct[node] = invalidity[name]
    result = kernels.propagate(structure.topology(), direct).invalidity
    return np.array([result[structure.number[walk]] >= DECISION for walk in found], dtype=np.bool_)


def place_of_error(walk: Walk, facts: Sequence[Fact], made: Stream, old: set[int]) -> str:
    """Return where a chain that should have fallen was lost; the most advanced of its stale facts counts."""
    reached = {"candidate": 0, "verifier": 1, "propagation": 2}
    worst = "candidate"
    for k in walk:
        if k not in old:
            continue
        sources = [
            s
            for s in slots(facts)[facts[k].subject, facts[k].relation]
            if s > k and facts[s].object != facts[k].object
        ]
        proposed = [s for s in sources if (s, k) in made.proposed]
        here = "candidate" if not proposed else "verifier"
        if any(made.strength.get((s, k), 0.0) >= DECISION for s in proposed):
            here = "propagation"
        worst = max(worst, here, key=lambda name: reached[name])
    return worst


def measure(facts: Sequence[Fact], asked: Sequence[Mapping[str, Any]], judge: Judge) -> tuple[list[Row], Row]:
    """Return one row a hop length, and the counts of the slots."""
    made, old = stream(facts, judge), stale(facts)
    found = walks(facts, [path for question in asked for path in question["paths"]])
    outdated = conclusions(made.invalidity, found)
    rows: list[Row] = []
    for hops in sorted({len(walk) for walk in found}):
        here = [(walk, fell) for walk, fell in zip(found, outdated, strict=True) if len(walk) == hops]
        must = [(walk, fell) for walk, fell in here if old & set(walk)]
        lost = Counter(place_of_error(walk, facts, made, old) for walk, fell in must if not fell)
        rows.append(
            {
                "hops": hops,
                "must_fall": len(must),
                "fell": sum(bool(fell) for _, fell in must),
                "must_stand": len(here) - len(must),
                "wrongly_hit": sum(bool(fell) for walk, fell in here if not old & set(walk)),
                **{f"lost_{name}": lost[name] for name in ("candidate", "verifier", "propagation")},
            }
        )
    held = slots(facts).values()
    right = [is_right(places, facts, made.invalidity) for places in held]
    changed = [len({facts[k].object for k in places}) > 1 for places in held]
    counts: Row = {
        "slots": len(right),
        "slots_right": sum(right),
        "changed": sum(changed),
        "changed_right": sum(r for r, c in zip(right, changed, strict=True) if c),
    }
    return rows, counts


def summarise(rows: Sequence[Row], counts: Sequence[Row]) -> dict[str, float]:
    """Return the fixed names, and the slots that changed and the chains hit wrongly."""

    def share(listed: Sequence[Row], part: str, whole: str) -> float:
        return float(sum(row[part] for row in listed) / max(1, sum(row[whole] for row in listed)))

    return {
        "slots_right": share(counts, "slots_right", "slots"),
        "changed_slots_right": share(counts, "changed_right", "changed"),
        "chains_found": share(rows, "fell", "must_fall"),
        "chains_wrongly_hit": share(rows, "wrongly_hit", "must_stand"),
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.factconsolidation", description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder that holds factconsolidation")
    parser.add_argument("--quick", action="store_true", help="the first hundred facts of each set")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    from validity_graph.verifier import Verifier

    judge, asked = Verifier.load(), list(questions(options.data))
    rows, counts = [], []
    for number, facts in enumerate(read(options.data)):
        found, count = measure(facts[:100] if options.quick else facts, asked, judge)
        rows += [{"set": number, **row} for row in found]
        counts.append({"set": number, **count})
    reporting.table("FactConsolidation: slots", counts)
    reporting.table("FactConsolidation: chains over stale and current facts", rows)
    summary = summarise(rows, counts)
    print({name: round(value, 4) for name, value in summary.items()})
    reporting.write(options.json, benchmark="factconsolidation", rows=[*counts, *rows], summary=summary)


if __name__ == "__main__":
    main()
