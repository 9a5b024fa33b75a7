"""Possible worlds: invalidity as the share of worlds in which a memory does not stand.

``worlds`` samples them, 64 a machine word; ``exact`` enumerates those of one memory's cone.  Both take
evidence as edges, so that what two memories owe to one source falls or stands together, or as one
independent probability per memory.  Values cross this border in the caller's numbering; never imports
records.  SEMANTICS sections 3 and 4.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from validity_graph.errors import InputError
from validity_graph.kernels.direct import force
from validity_graph.kernels.world_arrays import WORDS, Enumeration, Scratch, Structure, Testimony, scratch
from validity_graph.kernels.world_coins import add_mass, tally
from validity_graph.kernels.world_cone import Cone, cone_of, enumeration_of, structure_of
from validity_graph.kernels.world_loops import evaluate
from validity_graph.kernels.world_testimony import testimony_of_edges, testimony_of_vector
from validity_graph.topology import DirectEvidence, Topology

_BLOCK = WORDS * 64
#: Blocks between two looks at the wanted precision; fixed, so that threads do not decide the answer.
_BLOCKS_A_BATCH = 16
_NO_ENUMERATION = Enumeration(*(np.frombuffer(b"", dtype=np.int32) for _ in range(2)))


@dataclass(frozen=True, slots=True)
class WorldsResult:
    """Sampled invalidity of every memory.

    ``invalidity`` float64[n] in [0, 1] is the share of ``samples`` worlds in which a memory does not
    stand, caller's numbering.  ``standard_error`` float64[n] is that of the share (c + 2) / (samples + 4)
    (Agresti and Coull 1998), so that it is positive also where no world, or every one, was hit;
    it is 0 where no evidence can reach the memory.
    """

    invalidity: NDArray[np.float64]
    standard_error: NDArray[np.float64]
    samples: int


def worlds(
    topology: Topology,
    evidence: DirectEvidence | ArrayLike,
    *,
    samples: int = 65_536,
    seed: int | np.random.Generator = 0,
    precision: float | None = None,
    threads: int | None = None,
) -> WorldsResult:
    """Sample ``samples`` worlds of the whole graph.

    ``evidence`` is ``DirectEvidence``, or float[n] in [0, 1]: one independent probability per memory.
    With ``precision`` it stops as soon as no standard error is larger, looking every 16,384 worlds.
    The same seed gives the same worlds whatever ``threads`` (default: every core) and the machine.
    Working memory: 128 bytes a memory and thread.
    Raises ``InputError`` for numbers out of range, ``CycleError`` for retractions in a cycle.
    SEMANTICS sections 3 and 4.
    """
    if samples < 1:
        raise InputError(f"samples={samples} must be at least 1")
    if precision is not None and not precision > 0:
        raise InputError(f"precision={precision} must be above 0")
    nodes = topology.order.size
    testimony = _testimony(_checked(evidence, nodes), topology.rank, nodes)
    structure = structure_of(topology, testimony)
    sampler = _Sampler(structure, testimony, seed=seed, threads=threads or _cores())
    count = np.zeros(nodes, dtype=np.int64)
    done = 0
    while done < samples:
        batch = min(samples - done, _BLOCKS_A_BATCH * _BLOCK)
        count += sampler.count(done, batch)
        done += batch
        error = _standard_error(count, done, structure.can_fail)
        if precision is not None and error.max(initial=0.0) <= precision:
            break
    return WorldsResult(
        invalidity=_frozen((count / done)[topology.rank]),
        standard_error=_frozen(error[topology.rank]),
        samples=done,
    )


def exact(topology: Topology, evidence: DirectEvidence | ArrayLike, node: int, *, limit: int = 24) -> float:
    """Invalidity of memory ``node`` (caller's numbering), by enumerating the worlds of its cone.

    The cone is all that ``node`` depends on and that evidence can reach.  ``limit`` is the most uncertain
    coins that it may hold: edges, statements, confirmations and trust strictly between 0 and 1; work
    doubles with each.  Raises ``InputError`` beyond the limit, and as ``worlds`` does.
    SEMANTICS section 4.
    """
    nodes = topology.order.size
    if not 0 <= node < nodes:
        raise InputError(f"node={node} must lie in [0, {nodes})")
    checked = _checked(evidence, nodes)
    cone = cone_of(topology, int(topology.rank[node]))
    testimony = _testimony(checked, cone.rank[topology.rank], cone.node.size)
    return _enumerated(cone, testimony, node=node, limit=limit)


def _enumerated(cone: Cone, testimony: Testimony, *, node: int, limit: int) -> float:
    """Probability of the worlds of the cone in which its last node has failed."""
    structure = structure_of(cone, testimony)
    last = cone.last
    if not structure.can_fail[last]:
        return 0.0
    enumeration, probability = enumeration_of(structure, testimony)
    if probability.size > limit:
        raise InputError(
            f"memory {node} hinges on {probability.size} uncertain coins, more than limit={limit}; "
            "use worlds(...) to sample them"
        )
    failed = np.zeros((cone.node.size, WORDS), dtype=np.uint64)
    work = scratch(structure, testimony)
    low, high = probability[:6], probability[6:]
    lane = np.zeros(64)
    lane[: 1 << low.size] = _products(low)
    byte = np.zeros((8, 256))
    for bit in range(8):
        byte[:, (np.arange(256) >> bit) & 1 == 1] += lane.reshape(8, 8)[:, bit, None]
    # Two tables of products instead of one of 2^18 words.
    near, far = _products(high[:9]), _products(high[9:])
    mass = 0.0
    for first_word in range(0, 1 << high.size, WORDS):
        evaluate(structure, testimony, enumeration, np.uint64(0), first_word, failed, work)
        mass += add_mass(failed[last], first_word, byte, near, far)
    return min(1.0, mass)


def _products(probability: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probability of each outcome of independent coins; coin i is bit i of its number."""
    table = np.ones(1)
    for p in probability:
        table = np.concatenate([table * (1.0 - p), table * p])
    return table


class _Sampler:
    """Counts failures in ranges of worlds, on a pool of threads; each world has its own number."""

    def __init__(
        self, structure: Structure, testimony: Testimony, *, seed: int | np.random.Generator, threads: int
    ) -> None:
        self._arrays = structure, testimony
        self._seed = np.uint64(np.random.default_rng(seed).integers(1 << 64, dtype=np.uint64))
        nodes = structure.requires_end.size
        self._failed = [np.zeros((nodes, WORDS), dtype=np.uint64) for _ in range(max(1, threads))]
        self._work: list[Scratch] = [scratch(structure, testimony) for _ in self._failed]

    def count(self, start: int, worlds_wanted: int) -> NDArray[np.int64]:
        """In how many of the worlds ``start:start + worlds_wanted`` each node has failed."""
        firsts = range(0, worlds_wanted, _BLOCK)
        jobs = min(len(self._failed), len(firsts))

        def part(job: int) -> NDArray[np.int64]:
            count = np.zeros(self._failed[job].shape[0], dtype=np.int64)
            for first in firsts[job::jobs]:
                first_word = (start + first) // 64
                evaluate(
                    *self._arrays, _NO_ENUMERATION, self._seed, first_word, self._failed[job], self._work[job]
                )
                tally(self._failed[job], worlds_wanted - first, count)
            return count

        if jobs == 1:
            return part(0)
        with ThreadPoolExecutor(jobs) as pool:
            total: NDArray[np.int64] = np.sum(list(pool.map(part, range(jobs))), axis=0)
        return total


def _testimony(
    evidence: DirectEvidence | NDArray[np.float64],
    rank: NDArray[np.integer],
    nodes: int,
) -> Testimony:
    """Coins of the evidence against the nodes that have a ``rank``; ``rank`` is by the caller's number."""
    number = rank.astype(np.int64)
    if isinstance(evidence, DirectEvidence):
        return testimony_of_edges(evidence, number, nodes=nodes)
    inside = number >= 0
    return testimony_of_vector(evidence[inside], number[inside], nodes=nodes)


def _checked(evidence: DirectEvidence | ArrayLike, nodes: int) -> DirectEvidence | NDArray[np.float64]:
    if isinstance(evidence, DirectEvidence):
        # Refuses what does not fit and names a cycle of retractions.
        force(evidence, nodes)
        return evidence
    direct = np.asarray(evidence, dtype=np.float64)
    if direct.shape != (nodes,):
        raise InputError(f"direct has shape {direct.shape}; it needs one number for each of {nodes} memories")
    wrong = ~((direct >= 0) & (direct <= 1))
    if wrong.any():
        v = int(np.argmax(wrong))
        raise InputError(f"direct[{v}]={direct[v]} must lie in [0, 1]")
    return direct


def _standard_error(
    count: NDArray[np.int64], samples: int, can_fail: NDArray[np.uint8]
) -> NDArray[np.float64]:
    share = (count + 2.0) / (samples + 4.0)
    error: NDArray[np.float64] = np.sqrt(share * (1.0 - share) / (samples + 4.0)) * (can_fail > 0)
    return error


def _cores() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _frozen(array: NDArray[np.float64]) -> NDArray[np.float64]:
    array.setflags(write=False)
    return array
