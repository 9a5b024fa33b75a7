"""Arrays that the loops of the possible worlds run on, and the size of a block of worlds.

One machine word holds one bit of 64 worlds; a block is ``WORDS`` words.  Knows arrays only.
SEMANTICS sections 2 and 3.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
#: Words a node and block: enough for the vector units, small enough for the caches.
WORDS = 16
#: Masks: no world, every world.
NONE = np.uint64(0)
ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


class Structure(NamedTuple):
    """The arrays of a ``Topology`` that worlds need, plus what can fail and edges inside components.

    ``can_fail[v]`` is 0 where no evidence can reach v.  ``loop[v]`` numbers the loops of supports (equal
    numbers in one component are one loop).  ``dependent[dependent_indptr[v]:...]`` are the
    members of v's component that depend on v; both are empty where there is no component.
    """

    indptr: NDArray[np.int32]
    source: NDArray[np.int32]
    weight: NDArray[np.floating]
    requires_end: NDArray[np.int32]
    opens: NDArray[np.uint8]
    component_start: NDArray[np.int32]
    component_end: NDArray[np.int32]
    dependent_indptr: NDArray[np.int32]
    dependent: NDArray[np.int32]
    can_fail: NDArray[np.uint8]
    loop: NDArray[np.int32]


class Testimony(NamedTuple):
    """Evidence as coins.  Sources are numbered so that whoever retracts a source comes before it.

    ``trust[i]`` is the threshold of source i's own coin.  Retractions of source i are
    ``retract_indptr[i]:retract_indptr[i + 1]``.  Events against node v are
    ``event_indptr[v]:event_indptr[v + 1]``, latest first, and among equally old ones statements before
    confirmations (``event_clears`` 1); ``event_source`` is -1 for one that needs no force.
    ``stream[j]`` tells coins apart that are drawn independently: j counts trust, retractions, events.
    """

    trust: NDArray[np.float64]
    retract_indptr: NDArray[np.int32]
    retract_source: NDArray[np.int32]
    retract_threshold: NDArray[np.float64]
    event_indptr: NDArray[np.int32]
    event_source: NDArray[np.int32]
    event_threshold: NDArray[np.float64]
    event_clears: NDArray[np.uint8]
    stream: NDArray[np.int64]


class Enumeration(NamedTuple):
    """Which binary coins make up each draw when worlds are enumerated; empty when they are sampled.

    Draw j (edges first, then as in ``Testimony.stream``) is up where any coin in ``start[j]:stop[j]`` is.
    """

    start: NDArray[np.int32]
    stop: NDArray[np.int32]


class Scratch(NamedTuple):
    """Working memory of one thread; sized by ``scratch``."""

    force: Words
    presence: Words
    reached: Words
    bad: Words
    queue: NDArray[np.int32]
    queued: NDArray[np.uint8]
    lanes: Words


def scratch(structure: Structure, testimony: Testimony) -> Scratch:
    """Return working memory for one thread."""
    members = int((structure.component_end - structure.component_start).max(initial=0))
    edges = structure.indptr[structure.component_end] - structure.indptr[structure.component_start]
    return Scratch(
        force=np.zeros((testimony.trust.size, WORDS), dtype=np.uint64),
        presence=np.zeros((int(edges.max(initial=0)), WORDS), dtype=np.uint64),
        reached=np.zeros((members, WORDS), dtype=np.uint64),
        bad=np.zeros((members, WORDS), dtype=np.uint64),
        queue=np.zeros(members + 1, dtype=np.int32),
        queued=np.zeros(members, dtype=np.uint8),
        lanes=np.zeros((6, WORDS), dtype=np.uint64),
    )
