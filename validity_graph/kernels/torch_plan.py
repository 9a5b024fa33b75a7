"""A ``Topology`` as torch tensors, cut into blocks of nodes that can be computed at once.

A plan depends on the structure alone, so one plan serves many evidence vectors and many weights.  Knows
no formula: ``on_torch`` has them.  Levels and components: SEMANTICS section 3, ``Topology``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from validity_graph.kernels.torch_runs import Run, runs_of
from validity_graph.kernels.torch_segments import Segments
from validity_graph.topology import Topology


@dataclass(frozen=True, slots=True)
class Fan:
    """In-edges of one role: ``source`` int64 ``(rows,)``, cut by target node or by justification.

    ``place`` selects the same edges from the plan's list of all edges of that role.
    """

    source: Tensor
    place: slice | Tensor
    segments: Segments


@dataclass(frozen=True, slots=True)
class Block:
    """Nodes with their in-edges: ``requirement`` by node, ``support`` by justification.

    ``justification`` cuts the block's justifications by node; ``group`` selects them from all of the plan.
    """

    node: slice | Tensor
    requirement: Fan
    support: Fan
    justification: Segments
    group: slice | Tensor

    @property
    def support_target(self) -> Tensor:
        """Target of each support as a position in the block, int64 ``(rows,)``."""
        return self.justification.owner[self.support.segments.owner]


@dataclass(frozen=True, slots=True)
class Cycle:
    """The members of all strongly connected components of one level.

    ``component`` int64 ``(k,)`` numbers the component of each member from 0.  ``inner_*`` bool ``(rows,)``
    marks edges that start at a member (of the same component, then), ``local_*`` int64 ``(rows,)`` holds
    that member's position (0 on other edges).  ``ranges`` lists each component's first node and end.
    """

    block: Block
    member: Tensor
    component: Tensor
    inner_requirement: Tensor
    local_requirement: Tensor
    inner_support: Tensor
    local_support: Tensor
    ranges: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Where each level starts in the lists of nodes and rows, and its longest segment."""

    segment: list[int]
    row: list[int]
    longest: list[int]


class Plan:
    """Everything about one ``topology`` that ``noisy_or`` needs, as tensors on ``device``.

    ``requirement`` and ``support`` hold all in-edges of that role by target; ``requirement_edge`` and
    ``support_edge`` are their positions in ``topology.weight``; ``justification`` cuts all
    justifications by node; ``cycle`` maps a level to its ``Cycle``; ``steps`` are the levels in order, narrow
    ones taken together.
    """

    def __init__(self, topology: Topology, *, device: torch.device | str = "cpu") -> None:
        """Lay out ``topology``; O(n + m)."""
        self.topology = topology
        self.device = torch.device(device)
        self.node_count = int(topology.order.size)
        self.edge_count = int(topology.source.size)
        self.order = self._index(topology.order)
        self.rank = self._index(topology.rank)
        target = np.repeat(np.arange(self.node_count), np.diff(topology.indptr))
        is_support = np.arange(self.edge_count) >= topology.requires_end[target]
        requirement, support = np.flatnonzero(~is_support), np.flatnonzero(is_support)
        opens = topology.opens[support] > 0
        group_target = target[support][opens]
        self._by_node = _offsets(np.bincount(target[requirement], minlength=self.node_count))
        self._by_group = np.append(np.flatnonzero(opens), support.size)
        self._group_by_node = _offsets(np.bincount(group_target, minlength=self.node_count))
        self.requirement_edge, self.support_edge = self._index(requirement), self._index(support)
        self.requirement = self._fan(topology.source[requirement], self._by_node)
        self.support = self._fan(topology.source[support], self._by_group)
        self.justification = self._segments(self._group_by_node)
        self.level = topology.level_indptr.tolist()
        self._requirement_bounds = _bounds(self._by_node, topology.level_indptr)
        self._justification_bounds = _bounds(self._group_by_node, topology.level_indptr)
        self._support_bounds = _bounds(self._by_group, self._group_by_node[topology.level_indptr])
        self.cycle = self._cycles()
        self.steps = self._steps()
        # Shared by all levels without supports: cutting empty pieces costs as much as cutting full ones.
        nothing = np.zeros(0, dtype=np.int64)
        self._no_support = Fan(self._index(nothing), slice(0, 0), self._segments(np.zeros(1, dtype=np.int64)))

    def block(self, level: int) -> Block:
        """Return the nodes of ``level``; members of components are in it as if their own were outside."""
        first, last = self.level[level], self.level[level + 1]
        requirement = _part(self.requirement, self._requirement_bounds, level)
        groups = self._justification_bounds
        if groups.row[level] == groups.row[level + 1]:
            empty = self._no_support
            return Block(slice(first, last), requirement, empty, empty.segments, slice(0, 0))
        group = slice(groups.row[level], groups.row[level + 1])
        return Block(
            node=slice(first, last),
            requirement=requirement,
            support=_part(self.support, self._support_bounds, level),
            justification=self.justification.part(
                first, last, start=group.start, stop=group.stop, longest=groups.longest[level]
            ),
            group=group,
        )

    def _steps(self) -> list[int | Run]:
        """Levels and runs of levels in the order in which they are computed."""
        runs = runs_of(self.topology, device=self.device, cyclic=self.cycle, index=self._index)
        steps: list[int | Run] = []
        level = 0
        for run in runs:
            steps += [*range(level, run.first_level), run]
            level = run.last_level
        return [*steps, *range(level, len(self.level) - 1)]

    def _cycles(self) -> dict[int, Cycle]:
        start, end = self.topology.component_start, self.topology.component_end
        level = np.searchsorted(self.topology.level_indptr, start, side="right") - 1
        return {int(at): self._cycle(start[level == at], end[level == at]) for at in np.unique(level)}

    def _cycle(self, start: NDArray[np.integer], end: NDArray[np.integer]) -> Cycle:
        member = _ranges(start, end)
        local = np.full(self.node_count, -1)
        local[member] = np.arange(member.size)
        requirement = _ranges(self._by_node[member], self._by_node[member + 1])
        group = _ranges(self._group_by_node[member], self._group_by_node[member + 1])
        support = _ranges(self._by_group[group], self._by_group[group + 1])
        block = Block(
            node=self._index(member),
            requirement=self._chosen(self.requirement, self._by_node, member, requirement),
            support=self._chosen(self.support, self._by_group, group, support),
            justification=self._segments(_offsets(np.diff(self._group_by_node)[member])),
            group=self._index(group),
        )
        place = self._index(local)
        local_requirement, local_support = place[block.requirement.source], place[block.support.source]
        return Cycle(
            block=block,
            member=self._index(member),
            component=self._index(np.repeat(np.arange(start.size), end - start)),
            inner_requirement=local_requirement >= 0,
            local_requirement=local_requirement.clamp(min=0),
            inner_support=local_support >= 0,
            local_support=local_support.clamp(min=0),
            ranges=tuple(zip(start.tolist(), end.tolist(), strict=True)),
        )

    def _chosen(
        self, fan: Fan, offsets: NDArray[np.integer], segment: NDArray[np.integer], row: NDArray[np.integer]
    ) -> Fan:
        place = self._index(row)
        return Fan(fan.source[place], place, self._segments(_offsets(np.diff(offsets)[segment])))

    def _fan(self, source: NDArray[np.integer], offsets: NDArray[np.integer]) -> Fan:
        return Fan(self._index(source), slice(None), self._segments(offsets))

    def _segments(self, offsets: NDArray[np.integer]) -> Segments:
        length = np.diff(offsets)
        owner = np.repeat(np.arange(length.size), length)
        return Segments(self._index(offsets), self._index(owner), int(length.max(initial=0)))

    def _index(self, values: NDArray[np.integer]) -> Tensor:
        return torch.as_tensor(np.array(values, dtype=np.int64), device=self.device)


def _part(fan: Fan, bounds: _Bounds, level: int) -> Fan:
    start, stop = bounds.row[level], bounds.row[level + 1]
    segments = fan.segments.part(
        bounds.segment[level],
        bounds.segment[level + 1],
        start=start,
        stop=stop,
        longest=bounds.longest[level],
    )
    return Fan(fan.source[start:stop], slice(start, stop), segments)


def _bounds(offsets: NDArray[np.integer], segment: NDArray[np.integer]) -> _Bounds:
    """Levels are segments ``segment[l]:segment[l + 1]``, whose rows start at ``offsets``."""
    length = np.append(np.diff(offsets), 0)
    # reduceat takes an empty range for its first element, so those are set apart.
    longest = np.maximum.reduceat(length, segment[:-1]) if segment.size > 1 else length[:0]
    longest = np.where(np.diff(segment) > 0, longest, 0)
    return _Bounds(segment.tolist(), offsets[segment].tolist(), longest.tolist())


def _offsets(count: NDArray[np.integer]) -> NDArray[np.int64]:
    return np.concatenate(([0], np.cumsum(count, dtype=np.int64)))


def _ranges(start: NDArray[np.integer], end: NDArray[np.integer]) -> NDArray[np.int64]:
    """Concatenate ``arange(start[i], end[i])``, int64."""
    length = (end - start).astype(np.int64)
    before = _offsets(length)
    return np.arange(before[-1]) + np.repeat(start.astype(np.int64) - before[:-1], length)
