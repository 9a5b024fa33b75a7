"""Records as arrays: which edges act at one moment, and as what.

``encode`` numbers memories, tombstones and rulings, drops what has no effect (unknown ends, other edge
types, evidence from the future, supersession loops) and builds the ``Topology`` and ``DirectEvidence``
that the kernels run on.  Formulas: SEMANTICS sections 1, 2 and 7; nothing is propagated here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from validity_graph.admission import find_cycle
from validity_graph.records import (
    CONFIRMS,
    OVERTURNS,
    REQUIRES,
    RETRACTS,
    RULING,
    SUPERSEDES,
    SUPPORTS,
    Edge,
    Ruling,
    same_statement,
)
from validity_graph.store import Snapshot, StoredMemory
from validity_graph.topology import (
    CONFIRMING,
    RETRACTING,
    SUPERSEDING,
    DirectEvidence,
    Topology,
    build_topology,
)

#: ``DirectEvidence.kind`` of an edge.
KIND = {SUPERSEDES: SUPERSEDING, RETRACTS: RETRACTING, CONFIRMS: CONFIRMING}
#: Prefixes of the pseudo-memories through which rulings and forgetting speak.
FORGOTTEN = "forgotten:"
PSEUDO = (RULING, FORGOTTEN)
#: Before every time.
EARLIEST = datetime.min.replace(tzinfo=timezone.utc)
#: What an edge is at one moment; see ``role``.
STRUCTURE, SPOKEN, INERT = "structure", "spoken", "inert"


@dataclass(frozen=True, slots=True)
class EncodedGraph:
    """One moment of a graph as arrays.

    ``ids[v]`` names node v: first tombstones, then memories in arrival order (``memory`` are their numbers),
    then rulings and what speaks for the tombstones.  So a memory more changes nobody's place among what
    others rest on, nor the last bit of what they inherit.  ``structure[e]`` and ``spoken[k]`` are the edges
    behind position e of the structure arrays (caller's order) and position k of ``evidence``.
    ``inert`` lists the edges that have no effect at this moment.
    """

    ids: tuple[str, ...]
    number: Mapping[str, int]
    memory: range
    topology: Topology
    evidence: DirectEvidence
    structure: tuple[Edge, ...]
    spoken: tuple[Edge, ...]
    inert: tuple[Edge, ...]
    source: NDArray[np.int32]
    target: NDArray[np.int32]
    weight: NDArray[np.float64]
    supports: NDArray[np.bool_]
    justification: NDArray[np.int64]
    premise: NDArray[np.bool_]

    @property
    def node_count(self) -> int:
        """Tombstones, memories, rulings and what speaks for the tombstones."""
        return len(self.ids)

    @property
    def acting_edges(self) -> int:
        """Edges that act, those of rulings and of forgetting apart."""
        return sum(not item.source.startswith(PSEUDO) for item in self.structure + self.spoken)


def known_since(stored: Sequence[StoredMemory]) -> list[datetime]:
    """Return when each memory, in arrival order, became known (SEMANTICS section 7.5).

    At its event time.  One without a time was said no earlier than what arrived before it, so it counts
    from the latest event time so far; where none is known yet, from its arrival.
    """
    since: list[datetime] = []
    latest: datetime | None = None
    for item in stored:
        since.append(item.memory.time or latest or item.added)
        if item.memory.time is not None:
            latest = item.memory.time if latest is None else max(latest, item.memory.time)
    return since


def is_later(one: StoredMemory, other: StoredMemory) -> bool:
    """Tell whether ``one`` comes after ``other``.

    By event time where both are known and differ, else by arrival (SEMANTICS section 2).
    """
    a, b = one.memory.time, other.memory.time
    if a is not None and b is not None and a != b:
        return a > b
    return one.sequence > other.sequence


def encode(snapshot: Snapshot, *, now: datetime, as_of: datetime | None = None) -> EncodedGraph:
    """Return the arrays of ``snapshot`` at the moment ``now``.

    With ``as_of``, memories and rulings that were not known by then are left out altogether; without it
    a memory dated after ``now`` is there but does not speak yet.
    """
    moment = as_of or now
    since = known_since(snapshot.memories)
    stored = [
        item for item, start in zip(snapshot.memories, since, strict=True) if as_of is None or start <= as_of
    ]
    rulings = [item for item in snapshot.rulings if item.time <= moment]
    ids = [item.id for item in snapshot.tombstones]
    memory = range(len(ids), len(ids) + len(stored))
    ids += [item.memory.id for item in stored]
    ids += [item.id for item in rulings]
    ids += [FORGOTTEN + item.id for item in snapshot.tombstones]
    number = {id: v for v, id in enumerate(ids)}
    silent = {item.memory.id for item in stored if item.memory.time and item.memory.time > moment}

    edges = [*snapshot.edges, *_of_twins(snapshot.edges, stored)]
    edges += [ruled(item) for item in rulings]
    edges += [Edge(FORGOTTEN + item.id, item.id, OVERTURNS, kind=RETRACTS) for item in snapshot.tombstones]
    structure, spoken, inert = _sorted_out(edges, number, silent)
    age = np.full(len(ids), np.iinfo(np.int64).max, dtype=np.int64)
    for rank, (_, _, v) in enumerate(moments(stored, rulings, first=memory.start)):
        age[v] = rank
    spoken, looped = _without_loops(spoken, number, age)

    arrays = _structure_arrays(structure, number)
    premise = np.zeros(len(ids), dtype=np.bool_)
    premise[memory.start : memory.stop] = [item.memory.premise for item in stored]
    return EncodedGraph(
        ids=tuple(ids),
        number=number,
        memory=memory,
        topology=build_topology(
            len(ids),
            source=arrays.source,
            target=arrays.target,
            weight=arrays.weight,
            supports=arrays.supports,
            justification=arrays.justification,
            premise=premise,
            dtype=np.float64,
        ),
        evidence=_evidence_arrays(spoken, number, age, stored, first=memory.start, node_count=len(ids)),
        structure=tuple(structure),
        spoken=tuple(spoken),
        inert=tuple(inert + looped),
        source=arrays.source,
        target=arrays.target,
        weight=arrays.weight,
        supports=arrays.supports,
        justification=arrays.justification,
        premise=premise,
    )


@dataclass(frozen=True, slots=True)
class _Structure:
    source: NDArray[np.int32]
    target: NDArray[np.int32]
    weight: NDArray[np.float64]
    supports: NDArray[np.bool_]
    justification: NDArray[np.int64]


def _of_twins(edges: Sequence[Edge], stored: Sequence[StoredMemory]) -> list[Edge]:
    """Let a retraction reach every earlier memory that says the very same as the one it names.

    What never held did not hold in another record of it either, so a replayed or doubled write does not
    bring it back (SEMANTICS sections 7.6 to 7.8).  Where that would close a cycle of retractions, what was
    said outright stands.
    """
    by_id = {item.memory.id: item for item in stored}
    twins: dict[str, list[StoredMemory]] = defaultdict(list)
    retractions = [item for item in edges if item.type == OVERTURNS and item.kind == RETRACTS]
    if not retractions:
        return []
    for item in stored:
        twins[same_statement(item.memory)].append(item)
    said = {(item.source, item.target) for item in edges if item.type == OVERTURNS}
    reaching = [
        replace(item, target=twin.memory.id)
        for item in retractions
        if item.source in by_id and item.target in by_id
        for twin in twins[same_statement(by_id[item.target].memory)]
        if (item.source, twin.memory.id) not in said and is_later(by_id[item.source], twin)
    ]
    return _without_cycles(sorted(reaching, key=lambda item: item.key), given=retractions)


def _without_cycles(retractions: Sequence[Edge], *, given: Sequence[Edge]) -> list[Edge]:
    """Return those of ``retractions`` that close no cycle with the ``given`` ones and with each other."""
    following: dict[str, set[str]] = defaultdict(set)
    for item in given:
        if item.weight > 0.0:
            following[item.source].add(item.target)
    kept = []
    for item in retractions:
        fresh = item.target not in following[item.source]
        following[item.source].add(item.target)
        if fresh and find_cycle(item.source, following) is not None:
            following[item.source].discard(item.target)
        else:
            kept.append(item)
    return kept


def ruled(ruling: Ruling) -> Edge:
    """Return the edge by which a ruling speaks."""
    if ruling.action == "confirm":
        return Edge(ruling.id, ruling.target, CONFIRMS, weight=ruling.probability)
    return Edge(ruling.id, ruling.target, OVERTURNS, weight=ruling.probability, kind=SUPERSEDES)


def _sorted_out(
    edges: Sequence[Edge], number: Mapping[str, int], silent: set[str]
) -> tuple[list[Edge], list[Edge], list[Edge]]:
    """Split into structure, evidence and inert edges."""
    sorted_out: dict[str, list[Edge]] = {STRUCTURE: [], SPOKEN: [], INERT: []}
    for item in edges:
        sorted_out[role(item, number, silent)].append(item)
    return sorted_out[STRUCTURE], sorted_out[SPOKEN], sorted_out[INERT]


def role(edge: Edge, number: Container[str], silent: Container[str]) -> str:
    """Return ``STRUCTURE``, ``SPOKEN`` or ``INERT``: what ``edge`` is where ``number`` holds the known ids.

    Those of ``silent`` do not speak yet.
    """
    ends_known = edge.source in number and edge.target in number
    if not ends_known or edge.source == edge.target or edge.weight == 0.0:
        return INERT
    if edge.type in (REQUIRES, SUPPORTS):
        return STRUCTURE
    return SPOKEN if edge.type in (OVERTURNS, CONFIRMS) and edge.source not in silent else INERT


def moments(
    stored: Sequence[StoredMemory], rulings: Sequence[Ruling], *, first: int
) -> list[tuple[datetime, int, int]]:
    """Return ``(time, sequence, number)`` of each memory and ruling in the order of time.

    Numbers count from ``first``.  A memory without a time ranks right behind what arrived before it.
    SEMANTICS section 2 compares pairs; this is the total order that agrees with it wherever those
    comparisons do not contradict each other.
    """
    latest = EARLIEST
    found: list[tuple[datetime, int, int]] = []
    for v, item in enumerate(stored, start=first):
        time = item.memory.time or latest
        latest = max(latest, time)
        found.append((time, item.sequence, v))
    after = first + len(stored)
    found += [(item.time, item.sequence, after + k) for k, item in enumerate(rulings)]
    return sorted(found)


def _without_loops(
    spoken: list[Edge], number: Mapping[str, int], age: NDArray[np.int64]
) -> tuple[list[Edge], list[Edge]]:
    """Take out of each loop of supersession the edges that run against time (SEMANTICS section 7.6).

    Such a loop is possible only among equal or missing times; the latest arrival wins, so that there is
    never a loop with no current fact.
    """
    over = [k for k, item in enumerate(spoken) if item.type == OVERTURNS and item.kind != RETRACTS]
    if not over:
        return spoken, []
    source = np.array([number[spoken[k].source] for k in over])
    target = np.array([number[spoken[k].target] for k in over])
    size = len(age)
    ones = np.ones(len(over), dtype=np.int8)
    _, component = connected_components(
        coo_array((ones, (source, target)), shape=(size, size)), directed=True, connection="strong"
    )
    against = (component[source] == component[target]) & (age[source] < age[target])
    dropped = {over[k] for k in np.flatnonzero(against)}
    kept = [item for k, item in enumerate(spoken) if k not in dropped]
    return kept, [spoken[k] for k in sorted(dropped)]


def _structure_arrays(structure: Sequence[Edge], number: Mapping[str, int]) -> _Structure:
    justification = [justification_number(item) for item in structure]
    return _Structure(
        source=np.array([number[item.source] for item in structure], dtype=np.int32),
        target=np.array([number[item.target] for item in structure], dtype=np.int32),
        weight=np.array([item.weight for item in structure], dtype=np.float64),
        supports=np.array([item.type == SUPPORTS for item in structure], dtype=np.bool_),
        justification=np.array(justification, dtype=np.int64),
    )


def justification_number(edge: Edge) -> int:
    """Return the number of the justification that ``edge`` belongs to: -1 without a name, else by its name.

    So it does not depend on which edge was read first, nor do the last bits of a product over several.
    """
    if not edge.justification:
        return -1
    return int.from_bytes(blake2b(edge.justification.encode(), digest_size=8).digest(), "big") >> 1


def _evidence_arrays(
    spoken: Sequence[Edge],
    number: Mapping[str, int],
    age: NDArray[np.int64],
    stored: Sequence[StoredMemory],
    *,
    first: int,
    node_count: int,
) -> DirectEvidence:
    source = np.array([number[item.source] for item in spoken], dtype=np.int32)
    channels: dict[str, int] = {}
    channel = np.full(node_count, -1, dtype=np.int32)
    trust = np.ones(node_count, dtype=np.float64)
    for v, item in enumerate(stored, start=first):
        trust[v] = item.memory.trust
        if item.memory.channel:
            channel[v] = channels.setdefault(item.memory.channel, len(channels))
    return DirectEvidence(
        source=source,
        target=np.array([number[item.target] for item in spoken], dtype=np.int32),
        weight=np.array([item.weight for item in spoken], dtype=np.float64),
        kind=np.array([kind_code(item) for item in spoken], dtype=np.uint8),
        age=age[source],
        channel=channel[source],
        trust=trust,
    )


def kind_code(item: Edge) -> int:
    """Return ``DirectEvidence.kind`` of an edge."""
    return KIND[CONFIRMS] if item.type == CONFIRMS else KIND[item.kind or SUPERSEDES]
