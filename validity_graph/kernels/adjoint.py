"""How one memory's invalidity moves with edges and direct evidence, and where it comes from.

``gradient`` is the adjoint pass: one sweep backwards through the mean field of SEMANTICS section 3.  The
derivative of a product by one factor is the product of the others, built from what stands before and
behind it, never by dividing, so it is right where a factor is exactly 0 (law 12).  Inside a strongly
connected component the adjoint is iterated.  ``credit`` is the same sweep with shares instead of
derivatives.  Arrays in, arrays out, in the internal numbering of ``Topology``; computed in float64.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from validity_graph.compiled import compiled
from validity_graph.ordering import Array
from validity_graph.topology import Topology

Values = NDArray[np.float64]

#: Derivatives stay below this: through a ladder of diamonds they double with each rung.
LIMIT = 1e300
#: A component's adjoint has settled when what is left to pass on is this small a part of what came in.
TOLERANCE = 1e-13
#: How often, on average, a member of a component passes on before its adjoint is left as it is.
MAX_ROUNDS = 1000


@dataclass(frozen=True, slots=True)
class Gradient:
    """Derivatives of one node's invalidity: ``by_direct`` (n,) by each d, ``by_weight`` (m,) by each edge.

    At most ``LIMIT`` where they would overflow; where a component's fixpoint jumps, only a hint.
    """

    by_direct: Values
    by_weight: Values


@dataclass(frozen=True, slots=True)
class Credit:
    """Shares of one node's invalidity: ``direct`` (n,) where they enter, ``edge`` (m,) where they flow."""

    direct: Values
    edge: Values


def gradient(
    topology: Topology, direct: NDArray[np.floating], invalidity: NDArray[np.floating], *, target: int
) -> Gradient:
    """Differentiate the invalidity of node ``target`` at ``invalidity`` (n,), as ``direct`` (n,) makes it.

    All in internal numbering.  Linear in nodes and edges (inside a component, times its rounds), no
    recursion.  SEMANTICS section 3, law 12.
    """
    local = _local(topology, direct, invalidity)
    gain = np.zeros(invalidity.size)
    gain[target] = 1.0
    _pass_back(
        topology.indptr,
        topology.source,
        local.by_source,
        topology.component_start,
        topology.component_end,
        gain,
    )
    return Gradient(
        by_direct=gain * local.by_direct,
        by_weight=np.repeat(gain, np.diff(topology.indptr)) * local.by_weight,
    )


def credit(
    topology: Topology, direct: NDArray[np.floating], invalidity: NDArray[np.floating], *, target: int
) -> Credit:
    """Hand out the invalidity of node ``target`` to the edges and the direct evidence that it comes from.

    Every node hands what it gets to d, to its requirements and to its supports in proportion to what each
    contributes (d, w I, and l by w I).  Nothing is lost on the way and nothing saturates: what all of it
    flows through gets all of it, over however many ways, where a gradient would be 0.  Arguments and cost
    as for ``gradient``.
    """
    local = _local(topology, direct, invalidity)
    row = np.repeat(np.arange(direct.size), np.diff(topology.indptr))
    given = topology.weight.astype(np.float64) * invalidity[topology.source]
    is_support = np.arange(row.size) >= topology.requires_end[row]
    supports = np.bincount(row, weights=given * is_support, minlength=direct.size)
    given[is_support] *= local.lost[row[is_support]]
    given[is_support] /= np.maximum(supports[row[is_support]], np.finfo(np.float64).tiny)
    whole = direct + np.bincount(row, weights=given, minlength=direct.size)
    whole[whole <= 0.0] = 1.0
    share = given / whole[row]
    flow = np.zeros(direct.size)
    flow[target] = float(invalidity[target])
    _pass_back(
        topology.indptr, topology.source, share, topology.component_start, topology.component_end, flow
    )
    return Credit(direct=flow * direct / whole, edge=flow[row] * share)


@dataclass(frozen=True, slots=True)
class _Local:
    """How each node's formula moves with its own inputs; ``lost`` is its l (SEMANTICS section 3)."""

    by_source: Values
    by_weight: Values
    by_direct: Values
    lost: Values


def _local(topology: Topology, direct: NDArray[np.floating], invalidity: NDArray[np.floating]) -> _Local:
    edges, nodes = topology.source.size, direct.size
    local = _Local(np.empty(edges), np.empty(edges), np.empty(nodes), np.empty(nodes))
    _differentiate_nodes(
        topology.indptr,
        topology.requires_end,
        topology.source,
        topology.weight,
        topology.opens,
        direct,
        invalidity,
        local.by_source,
        local.by_weight,
        local.by_direct,
        local.lost,
    )
    return local


@compiled
def _differentiate_nodes(
    indptr: Array,
    requires_end: Array,
    source: Array,
    weight: Array,
    opens: Array,
    direct: Array,
    invalidity: Array,
    by_source: Array,
    by_weight: Array,
    by_direct: Array,
    lost: Array,
) -> None:
    """Write how each node's formula moves with its own inputs: sources' invalidity, weights, d; and its l."""
    absent, met = np.empty(source.size), np.empty(source.size)
    behind_absent, behind_met = np.empty(source.size), np.empty(source.size)
    for v in range(direct.size):
        start, middle, end = indptr[v], requires_end[v], indptr[v + 1]
        kept = 1.0
        for e in range(middle - 1, start - 1, -1):
            by_source[e] = kept
            kept *= 1.0 - weight[e] * invalidity[source[e]]
        # What stands behind each edge in its justification, and behind each justification in the node.
        all_absent = all_met = in_absent = in_stands = 1.0
        for e in range(end - 1, middle - 1, -1):
            by_weight[e], by_source[e] = in_absent, in_stands
            in_absent *= 1.0 - weight[e]
            in_stands *= 1.0 - weight[e] * invalidity[source[e]]
            if opens[e]:
                absent[e], met[e] = in_absent, in_absent + (1.0 - in_stands)
                behind_absent[e], behind_met[e] = all_absent, all_met
                all_absent *= absent[e]
                all_met *= met[e]
                in_absent = in_stands = 1.0
        lost[v] = min(max(all_met - all_absent, 0.0), 1.0)
        stays = 1.0 - lost[v]
        by_direct[v] = kept * stays
        before = (1.0 - direct[v]) * stays
        for e in range(start, middle):
            others = before * by_source[e]
            before *= 1.0 - weight[e] * invalidity[source[e]]
            by_source[e], by_weight[e] = others * weight[e], others * invalidity[source[e]]
        share = (1.0 - direct[v]) * kept
        before_absent = before_met = other_absent = other_met = 1.0
        for e in range(middle, end):
            if opens[e]:
                other_absent, other_met = before_absent * behind_absent[e], before_met * behind_met[e]
                before_absent *= absent[e]
                before_met *= met[e]
                in_absent = in_stands = 1.0
            lacking = in_absent * by_weight[e]
            standing = in_stands * by_source[e]
            in_absent *= 1.0 - weight[e]
            in_stands *= 1.0 - weight[e] * invalidity[source[e]]
            by_source[e] = share * other_met * weight[e] * standing
            by_weight[e] = share * (
                other_met * invalidity[source[e]] * standing - (other_met - other_absent) * lacking
            )


@compiled
def _pass_back(
    indptr: Array, source: Array, by_source: Array, component_start: Array, component_end: Array, gain: Array
) -> None:
    """Pass ``gain`` (n,) from every node on to what it depends on, in place, last node first."""
    component = component_start.size - 1
    first = last = gain.size
    while first > 0:
        last = first
        first -= 1
        if component >= 0 and component_end[component] == last:
            first = component_start[component]
            component -= 1
            _settle_adjoint(indptr, source, by_source, first, last, gain)
        for v in range(first, last):
            gain[v] = min(gain[v], LIMIT)
            for e in range(indptr[v], indptr[v + 1]):
                if source[e] < first:
                    gain[source[e]] += gain[v] * by_source[e]


@compiled
def _settle_adjoint(
    indptr: Array, source: Array, by_source: Array, first: int, last: int, gain: Array
) -> None:
    """Write the adjoint of component ``first:last``: what came in, and what its members pass each other.

    A queue of members that still have something to pass on, so a long loop takes one trip around and
    not one round a member.
    """
    size = last - first
    left = np.minimum(gain[first:last], LIMIT)
    gain[first:last] = 0.0
    least = TOLERANCE * left.max()
    queue, waits = np.empty(size, dtype=np.int64), np.zeros(size, dtype=np.uint8)
    head = count = passed = 0
    for i in range(size):
        if left[i] > least:
            queue[count], waits[i] = i, 1
            count += 1
    while count > 0 and passed < MAX_ROUNDS * size:
        i = queue[head]
        head = (head + 1) % size
        count -= 1
        passed += 1
        waits[i] = 0
        amount = min(left[i], LIMIT)
        left[i] = 0.0
        gain[first + i] += amount
        for e in range(indptr[first + i], indptr[first + i + 1]):
            j = source[e] - first
            if 0 <= j < size:
                left[j] += amount * by_source[e]
                if left[j] > least and not waits[j]:
                    queue[(head + count) % size], waits[j] = j, 1
                    count += 1
