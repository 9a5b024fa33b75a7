"""Evidence as independent coins, for the possible worlds.

What one source says against one target is one statement: it speaks with the noisy-or of its edges, and
speaks as a retraction with the noisy-or of those that retract.  Statements of one channel against one
target share one uniform number, and sources of one channel share the one that decides whether they are
to be trusted: repetition is not corroboration.  Arrays in, arrays out; never imports records.
SEMANTICS sections 2 and 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from validity_graph.kernels.world_arrays import Testimony
from validity_graph.topology import CONFIRMING, RETRACTING, DirectEvidence

Positions = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Statements:
    """What each source says against each target, unique by source, target, age and channel."""

    source: Positions
    target: Positions
    age: Positions
    channel: Positions
    speaks: NDArray[np.float64]
    retracts: NDArray[np.float64]


def testimony_of_vector(direct: NDArray[np.float64], node: Positions, *, nodes: int) -> Testimony:
    """Coins of plain direct evidence: memory ``node[i]`` of ``nodes`` is overturned with ``direct[i]``."""
    kept = np.flatnonzero(direct > 0)
    kept = kept[np.argsort(node[kept], kind="stable")]
    none = np.empty(0)
    return Testimony(
        trust=_frozen(none, np.float64),
        retract_indptr=_frozen(np.zeros(1), np.int32),
        retract_source=_frozen(none, np.int32),
        retract_threshold=_frozen(none, np.float64),
        event_indptr=_offsets(node[kept], nodes),
        event_source=_frozen(np.full(kept.size, -1), np.int32),
        event_threshold=_frozen(direct[kept], np.float64),
        event_clears=_frozen(np.zeros(kept.size), np.uint8),
        stream=_frozen(node[kept], np.int64),
    )


def testimony_of_edges(evidence: DirectEvidence, rank: Positions, *, nodes: int) -> Testimony:
    """Coins of ``evidence``; ``rank[v]`` is the number, among ``nodes``, of the caller's node v, or -1.

    Only sources whose force matters to one of the ``nodes`` take part.  Retractions must have no cycle.
    """
    said = _statements(evidence)
    confirms = np.flatnonzero((evidence.kind == CONFIRMING) & (evidence.weight > 0))
    against = np.flatnonzero(rank[said.target] >= 0)
    confirms = confirms[rank[evidence.target[confirms]] >= 0]
    retraction = np.flatnonzero(said.retracts > 0)
    needed = np.unique(np.concatenate([said.source[against], evidence.source[confirms]]))
    source, retraction = _force_order(needed, said, retraction, rank.size)
    number = np.full(rank.size, -1, dtype=np.int64)
    number[source] = np.arange(source.size)
    retraction = retraction[np.argsort(number[said.target[retraction]], kind="stable")]

    # Events of a target: latest first; a statement before the confirmations of the same age.
    target = rank[np.concatenate([said.target[against], evidence.target[confirms]])]
    age = np.concatenate([said.age[against], evidence.age[confirms]])
    clears = np.repeat([0, 1], [against.size, confirms.size])
    order = np.lexsort((clears, -age, target))
    # One numbering for all uniforms: statements, then confirmations, then trust.
    dial = _dials(said)
    event_dial = np.concatenate([dial[against], dial.size + np.arange(confirms.size)])
    trust_dial = dial.size + confirms.size + _trust_dials(evidence, source)
    return Testimony(
        trust=_frozen(evidence.trust[source], np.float64),
        retract_indptr=_offsets(number[said.target[retraction]], source.size),
        retract_source=_frozen(number[said.source[retraction]], np.int32),
        retract_threshold=_frozen(said.retracts[retraction], np.float64),
        event_indptr=_offsets(target, nodes),
        event_source=_frozen(
            number[np.concatenate([said.source[against], evidence.source[confirms]])][order], np.int32
        ),
        event_threshold=_frozen(
            np.concatenate([said.speaks[against], evidence.weight[confirms]])[order], np.float64
        ),
        event_clears=_frozen(clears[order], np.uint8),
        stream=_frozen(np.concatenate([trust_dial, dial[retraction], event_dial[order]]), np.int64),
    )


def _statements(evidence: DirectEvidence) -> _Statements:
    """Combine the edges of one source against one target; edges of weight 0 say nothing."""
    kept = np.flatnonzero((evidence.kind != CONFIRMING) & (evidence.weight > 0))
    key = np.stack([evidence.target, evidence.source, evidence.age, evidence.channel]).astype(np.int64)[
        :, kept
    ]
    order = np.lexsort((evidence.weight[kept], *key[::-1]))
    key, kept = key[:, order], kept[order]
    fresh = np.ones(kept.size, dtype=bool)
    fresh[1:] = (key[:, 1:] != key[:, :-1]).any(axis=0)
    start = np.flatnonzero(fresh)
    retracts = evidence.kind[kept] == RETRACTING
    return _Statements(
        target=key[0, start],
        source=key[1, start],
        age=key[2, start],
        channel=key[3, start],
        speaks=_any_of(evidence.weight[kept], start),
        retracts=_any_of(np.where(retracts, evidence.weight[kept], 0.0), start),
    )


def _any_of(weight: NDArray[np.float64], start: Positions) -> NDArray[np.float64]:
    """Noisy-or of each run of ``weight``; a run of one keeps its weight to the last bit."""
    if start.size == 0:
        return np.empty(0)
    single = np.diff(start, append=weight.size) == 1
    absent = np.multiply.reduceat(1.0 - weight, start)
    result: NDArray[np.float64] = np.where(single, weight[start], 1.0 - absent)
    return result


def _force_order(
    needed: Positions, said: _Statements, retraction: Positions, node_count: int
) -> tuple[Positions, Positions]:
    """Return the sources whose force matters, each after all that retract it, and their retractions."""
    by_target = retraction[np.argsort(said.target[retraction], kind="stable")]
    first = np.searchsorted(said.target[by_target], np.arange(node_count + 1)).tolist()
    source = said.source[by_target].tolist()
    order: list[int] = []
    known = np.zeros(node_count, dtype=bool)
    finished = np.zeros(node_count, dtype=bool)
    # Depth first without recursion: a source is finished once all that retract it are.
    stack = needed.tolist()
    while stack:
        v = stack[-1]
        if not known[v]:
            known[v] = True
            stack += [u for u in source[first[v] : first[v + 1]] if not known[u]]
            continue
        stack.pop()
        if not finished[v]:
            finished[v] = True
            order.append(v)
    return np.array(order, dtype=np.int64), by_target[known[said.target[by_target]]]


def _dials(said: _Statements) -> Positions:
    """Return the numbers of the uniforms that decide on each statement: shared within a channel."""
    dial = np.arange(said.target.size)
    shared = np.flatnonzero(said.channel >= 0)
    key = np.stack([said.target[shared], said.channel[shared]], axis=1)
    _, first, group = np.unique(key, axis=0, return_index=True, return_inverse=True)
    dial[shared] = shared[first][group.reshape(-1)]
    return dial


def _trust_dials(evidence: DirectEvidence, source: Positions) -> Positions:
    """Return the numbers of the uniforms that decide on trust in each source: shared within a channel."""
    channel = np.full(evidence.trust.size, -1, dtype=np.int64)
    np.maximum.at(channel, evidence.source, evidence.channel)
    channel = channel[source]
    dial = np.arange(source.size)
    shared = np.flatnonzero(channel >= 0)
    _, first, group = np.unique(channel[shared], return_index=True, return_inverse=True)
    dial[shared] = shared[first][group]
    return dial


def _offsets(row: Positions, count: int) -> NDArray[np.int32]:
    """Row bounds of sorted or unsorted ``row`` numbers, int32[count + 1]."""
    offsets = np.zeros(count + 1, dtype=np.int32)
    np.cumsum(np.bincount(row, minlength=count), out=offsets[1:])
    return _frozen(offsets, np.int32)


def _frozen(values: NDArray[Any], dtype: DTypeLike) -> NDArray[Any]:
    array = np.ascontiguousarray(values, dtype=dtype)
    array.setflags(write=False)
    return array
