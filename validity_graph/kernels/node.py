"""The formula of one node, compiled: what a whole pass, a resident graph and a component all run.

One piece of code for all of them, so that a node comes out the same to the last bit wherever it is
computed.  Arrays in, a number out; computed in float64.  Formulas: SEMANTICS section 3.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from validity_graph.compiled import compiled, inlined
from validity_graph.kernels.instructions import stand, stand_pair
from validity_graph.ordering import Array

_ONE, _TWO = np.uint32(1), np.uint32(2)

Position: TypeAlias = "int | np.integer"


@inlined
def node_inherited(
    start: Position,
    middle: Position,
    end: Position,
    source: Array,
    weight: Array,
    opens: Array,
    invalidity: Array,
) -> float:
    """``1 - (1 - q_v) * (1 - l_v)`` of the node with requirements ``start:middle``, supports ``middle:end``.

    ``source``, ``weight``, ``opens``: edge arrays as in ``Topology``; ``invalidity`` [n].
    SEMANTICS section 3.
    """
    kept = 1.0
    # Unsigned positions spare the test for negative indices; requirements go two by two.
    e = np.uint32(start)
    last = np.uint32(middle)
    while e + _ONE < last:
        kept *= stand_pair(
            weight, e, invalidity[np.uint32(source[e])], invalidity[np.uint32(source[e + _ONE])]
        )
        e += _TWO
    if e < last:
        kept *= stand(weight, e, invalidity[np.uint32(source[e])])
        e += _ONE
    if middle == end:
        return 1.0 - kept
    lost = 1.0
    all_absent = 1.0
    absent = 1.0
    stands = 1.0
    last = np.uint32(end)
    opened = False
    while e < last:
        if opened and opens[e]:
            lost *= absent + (1.0 - stands)
            all_absent *= absent
            absent = 1.0
            stands = 1.0
        opened = True
        absent *= 1.0 - np.float64(weight[e])
        stands *= stand(weight, e, invalidity[np.uint32(source[e])])
        e += _ONE
    lost = min(max(lost * (absent + (1.0 - stands)) - all_absent * absent, 0.0), 1.0)
    return 1.0 - kept * (1.0 - lost)


@inlined
def node_invalidity(
    start: Position,
    middle: Position,
    end: Position,
    source: Array,
    weight: Array,
    opens: Array,
    invalidity: Array,
    direct: float,
) -> float:
    """Invalidity in [0, 1] of one node with direct evidence ``direct``; the rest as ``node_inherited``."""
    return direct + (1.0 - direct) * node_inherited(start, middle, end, source, weight, opens, invalidity)


@inlined
def node_losses(
    start: Position,
    middle: Position,
    end: Position,
    source: Array,
    weight: Array,
    opens: Array,
    invalidity: Array,
) -> tuple[float, float]:
    """``(q_v, l_v)`` of one node, each in [0, 1]; arguments as for ``node_inherited``."""
    required = node_inherited(start, middle, middle, source, weight, opens, invalidity)
    return required, node_inherited(middle, middle, end, source, weight, opens, invalidity)


@compiled
def losses(
    indptr: Array,
    requires_end: Array,
    source: Array,
    weight: Array,
    opens: Array,
    invalidity: Array,
    required: Array,
    supported: Array,
) -> None:
    """Write ``q_v`` and ``l_v`` of every node, [n] each; the arrays of a ``Topology``, no order needed."""
    for v in range(required.size):
        required[v], supported[v] = node_losses(
            indptr[v], requires_end[v], indptr[v + 1], source, weight, opens, invalidity
        )
