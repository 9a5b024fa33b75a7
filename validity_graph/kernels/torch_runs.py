"""Narrow levels in a row, computed node by node in compiled loops on the CPU, forward and backward.

A level costs torch a handful of calls however few nodes it has; a chain of a million memories has a million
levels.  A run of such levels is gathered once, computed in one call and put back.  Nothing is clamped, as
in ``torch_factors``, and no derivative divides by a factor.  Formulas: SEMANTICS section 3, law 12.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from validity_graph.compiled import compiled
from validity_graph.ordering import Array
from validity_graph.topology import Topology

#: Levels of up to this many nodes and edges are narrow.
_NARROW = 256
#: Fewest levels of a run: on another device it has to travel to the CPU and back.
_SHORTEST = {"cpu": 2}
_SHORTEST_ELSEWHERE = 32


@dataclass(frozen=True, slots=True)
class Run:
    """Levels ``first_level:last_level``, which hold nodes ``node`` and their in-edges ``edge``.

    ``outer`` int64: the nodes outside that these depend on.  ``source`` [edges] counts ``outer`` first, then
    the run's own nodes; ``indptr``, ``requires_end`` and ``opens`` are those of ``Topology`` from 0.
    """

    first_level: int
    last_level: int
    node: slice
    edge: slice
    outer: Tensor
    source: NDArray[np.int32]
    indptr: NDArray[np.int32]
    requires_end: NDArray[np.int32]
    opens: NDArray[np.uint8]

    def forward(self, direct: Tensor, weight: Tensor, state: Tensor) -> None:
        """Write the run's part of ``state`` (n, B) from ``direct`` (n, B) and ``weight`` (m,)."""
        value = torch.cat((state.index_select(0, self.outer), state[self.node])).cpu().numpy()
        _forward(*self._structure(), _host(weight[self.edge]), _host(direct[self.node]), value)
        state[self.node] = torch.from_numpy(value[self.outer.numel() :]).to(state.device)

    def backward(
        self,
        direct: Tensor,
        weight: Tensor,
        state: Tensor,
        gradient: Tensor,
        by_direct: Tensor,
        by_weight: Tensor,
    ) -> None:
        """Hand ``gradient`` (n, B) of the run's nodes on to what they depend on.

        Adds to ``gradient`` of the nodes outside, and writes the run's part of ``by_direct`` (n, B) and
        ``by_weight`` (m,).
        """
        count = self.outer.numel()
        value = torch.cat((state.index_select(0, self.outer), state[self.node])).cpu().numpy()
        gain = torch.cat((torch.zeros_like(state[:1]).expand(count, -1), gradient[self.node])).cpu().numpy()
        to_direct, to_weight = np.empty_like(value[count:]), np.zeros(self.source.size)
        weights, given = _host(weight[self.edge]), _host(direct[self.node])
        _backward(*self._structure(), weights, given, value, gain, to_direct, to_weight)
        by_direct[self.node] = torch.from_numpy(to_direct).to(state.device)
        by_weight[self.edge] = torch.from_numpy(to_weight).to(weight)
        gradient.index_add_(0, self.outer, torch.from_numpy(gain[:count]).to(state.device))

    def _structure(self) -> tuple[Array, Array, Array, Array]:
        return self.indptr, self.requires_end, self.source, self.opens


def runs_of(
    topology: Topology, *, device: torch.device, cyclic: Collection[int], index: Callable[[Any], Tensor]
) -> list[Run]:
    """Return the runs of ``topology``, lowest first; levels in ``cyclic`` are in none.

    ``index`` makes a tensor of node numbers.
    """
    level = topology.level_indptr
    narrow = (np.diff(level) <= _NARROW) & (np.diff(topology.indptr[level]) <= _NARROW)
    narrow[list(cyclic)] = False
    edges = np.flatnonzero(np.diff(narrow.astype(np.int8), prepend=0, append=0))
    shortest = _SHORTEST.get(device.type, _SHORTEST_ELSEWHERE)
    return [
        _run(topology, int(first), int(last), index)
        for first, last in zip(edges[::2], edges[1::2], strict=True)
        if last - first >= shortest
    ]


def _run(topology: Topology, first_level: int, last_level: int, index: Callable[[Any], Tensor]) -> Run:
    first, last = int(topology.level_indptr[first_level]), int(topology.level_indptr[last_level])
    start, end = int(topology.indptr[first]), int(topology.indptr[last])
    source = topology.source[start:end]
    outside = source < first
    outer, place = np.unique(source[outside], return_inverse=True)
    local = source - first + outer.size
    local[outside] = place
    return Run(
        first_level=first_level,
        last_level=last_level,
        node=slice(first, last),
        edge=slice(start, end),
        outer=index(outer),
        source=local.astype(np.int32),
        indptr=topology.indptr[first : last + 1] - topology.indptr[first],
        requires_end=topology.requires_end[first:last] - topology.indptr[first],
        opens=topology.opens[start:end],
    )


def _host(values: Tensor) -> NDArray[Any]:
    array: NDArray[Any] = values.detach().cpu().contiguous().numpy()
    return array


@compiled
def _forward(
    indptr: Array,
    requires_end: Array,
    source: Array,
    opens: Array,
    weight: Array,
    direct: Array,
    value: Array,
) -> None:
    """Write ``value`` of the run's nodes, behind those it depends on."""
    outer = value.shape[0] - direct.shape[0]
    for v in range(direct.shape[0]):
        middle, end = requires_end[v], indptr[v + 1]
        for b in range(direct.shape[1]):
            kept = 1.0
            for e in range(indptr[v], middle):
                kept *= 1.0 - weight[e] * value[source[e], b]
            all_met = all_absent = 1.0
            e = middle
            while e < end:
                absent = stands = 1.0
                first = e
                while e < end and (e == first or opens[e] == 0):
                    absent *= 1.0 - weight[e]
                    stands *= 1.0 - weight[e] * value[source[e], b]
                    e += 1
                all_met *= absent + (1.0 - stands)
                all_absent *= absent
            inherited = 1.0 - kept * (1.0 - (all_met - all_absent))
            value[outer + v, b] = direct[v, b] + (1.0 - direct[v, b]) * inherited


@compiled
def _backward(
    indptr: Array,
    requires_end: Array,
    source: Array,
    opens: Array,
    weight: Array,
    direct: Array,
    value: Array,
    gain: Array,
    to_direct: Array,
    to_weight: Array,
) -> None:
    """Pass ``gain`` from the run's nodes on to their sources, last node first; fill the other two.

    Of every product the factors behind come from a sweep back, those before from a sweep forth.
    """
    outer = value.shape[0] - direct.shape[0]
    widest = 0
    for v in range(direct.shape[0]):
        widest = max(widest, indptr[v + 1] - indptr[v])
    others, lacking = np.empty(widest), np.empty(widest)
    absent, met = np.empty(widest), np.empty(widest)
    behind_absent, behind_met = np.empty(widest), np.empty(widest)
    for v in range(direct.shape[0] - 1, -1, -1):
        start, middle, end = indptr[v], requires_end[v], indptr[v + 1]
        for b in range(direct.shape[1]):
            kept = 1.0
            for e in range(middle - 1, start - 1, -1):
                others[e - start] = kept
                kept *= 1.0 - weight[e] * value[source[e], b]
            all_absent = all_met = in_absent = in_stands = 1.0
            for e in range(end - 1, middle - 1, -1):
                i = e - start
                lacking[i], others[i] = in_absent, in_stands
                in_absent *= 1.0 - weight[e]
                in_stands *= 1.0 - weight[e] * value[source[e], b]
                if opens[e] or e == middle:
                    absent[i], met[i] = in_absent, in_absent + (1.0 - in_stands)
                    behind_absent[i], behind_met[i] = all_absent, all_met
                    all_absent *= in_absent
                    all_met *= met[i]
                    in_absent = in_stands = 1.0
            held = 1.0 - (all_met - all_absent)
            here = gain[outer + v, b]
            to_direct[v, b] = here * kept * held
            before = here * (1.0 - direct[v, b]) * held
            for e in range(start, middle):
                share = before * others[e - start]
                before *= 1.0 - weight[e] * value[source[e], b]
                to_weight[e] += share * value[source[e], b]
                gain[source[e], b] += share * weight[e]
            share = here * (1.0 - direct[v, b]) * kept
            before_absent = before_met = other_absent = other_met = 1.0
            for e in range(middle, end):
                i = e - start
                if opens[e] or e == middle:
                    other_absent, other_met = before_absent * behind_absent[i], before_met * behind_met[i]
                    before_absent *= absent[i]
                    before_met *= met[i]
                    in_absent = in_stands = 1.0
                without, standing = in_absent * lacking[i], in_stands * others[i]
                in_absent *= 1.0 - weight[e]
                in_stands *= 1.0 - weight[e] * value[source[e], b]
                to_weight[e] += share * (
                    other_met * (value[source[e], b] * standing - without) + other_absent * without
                )
                gain[source[e], b] += share * other_met * weight[e] * standing
