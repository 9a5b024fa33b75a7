"""Dependency structure as flat arrays: what the kernels run on.

``build_topology`` turns edge arrays in the caller's numbering into in-edge CSR in a topological
numbering, with justification groups, levels and strongly connected components.  Knows nothing of
records or stores.  Formulas that run on it: SEMANTICS sections 2 and 3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Index = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Topology:
    """Requirements and supports of ``n`` memories as in-edge CSR, ``m`` edges.

    Nodes are renumbered: every edge that is not inside a strongly connected component runs from a
    smaller to a larger number, levels are contiguous, and so is each component (members in the caller's
    order).  ``order[i]`` is the caller's number of node ``i``; ``rank`` is its inverse.

    The in-edges of node v are ``indptr[v]:indptr[v + 1]``.  First its requirements, up to
    ``requires_end[v]``, sorted by the caller's number of their source; then its supports, justification
    by justification, within one sorted the same way.  ``opens[e]`` is 1 on the first edge of each
    justification and 0 elsewhere.  A premise keeps no supports.
    The order of the edges is canonical, so that two builds of the same graph multiply in the same order.

    Level ``l`` holds nodes ``level_indptr[l]:level_indptr[l + 1]``; the nodes of a level depend only on
    lower levels, or on their own component.  Component ``c`` with more than one member holds nodes
    ``component_start[c]:component_end[c]`` inside one level.
    """

    indptr: Index
    source: Index
    weight: NDArray[np.floating]
    requires_end: Index
    opens: NDArray[np.uint8]
    level_indptr: Index
    component_start: Index
    component_end: Index
    order: Index
    rank: Index


@dataclass(frozen=True, slots=True)
class DirectEvidence:
    """``overturns`` and ``confirms`` edges as arrays, ``k`` edges, in the caller's numbering.

    ``kind[e]``: 0 supersedes, 1 retracts, 2 confirms.  ``age[e]`` orders sources in time: a
    confirmation clears what sources of strictly smaller age say.  ``channel[e]`` is -1, or a number that
    sources of one channel share (they count once against a target, by their maximum).
    ``trust[v]`` in [0, 1] scales the force of source v.  Edges are unique by (source, target, kind,
    proposition).
    """

    source: Index
    target: Index
    weight: NDArray[np.float64]
    kind: NDArray[np.uint8]
    age: NDArray[np.int64]
    channel: Index
    trust: NDArray[np.float64]
