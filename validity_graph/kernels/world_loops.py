"""Compiled loops of the possible worlds: one machine word holds one bit of 64 worlds.

A block of worlds is evaluated node by node in topological order.  ``failed[v]`` has a 1 in every world in
which memory v does not stand.  A coin is only drawn for the worlds in which it can make a difference.
Knows arrays only.  World semantics: SEMANTICS section 3.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from validity_graph.compiled import compiled
from validity_graph.kernels.world_arrays import (
    ALL,
    NONE,
    WORDS,
    Enumeration,
    Scratch,
    Structure,
    Testimony,
    Words,
)
from validity_graph.kernels.world_coins import draw
from validity_graph.kernels.world_components import settle
from validity_graph.ordering import support_loop

_support_loop = compiled(support_loop)


@compiled
def _find_force(
    testimony: Testimony, seed: np.uint64, first_word: int, base: int, work: Scratch, enumeration: Enumeration
) -> None:
    """Fill ``work.force``: worlds in which a source is trusted and no acting retraction takes it away."""
    care, away = work.lanes[0], work.lanes[1]
    sources = testimony.trust.size
    for i in range(sources):
        force = work.force[i]
        for k in range(WORDS):
            force[k] = NONE
            away[k] = NONE
            care[k] = ALL
        draw(
            testimony.trust[i],
            base + testimony.stream[i],
            seed,
            first_word,
            care,
            force,
            enumeration,
            base + i,
        )
        for j in range(testimony.retract_indptr[i], testimony.retract_indptr[i + 1]):
            retractor = work.force[testimony.retract_source[j]]
            for k in range(WORDS):
                care[k] = retractor[k] & force[k] & ~away[k]
            number = sources + j
            stream = base + testimony.stream[number]
            draw(
                testimony.retract_threshold[j],
                stream,
                seed,
                first_word,
                care,
                away,
                enumeration,
                base + number,
            )
        for k in range(WORDS):
            force[k] &= ~away[k]


@compiled
def _overturn(
    v: int,
    testimony: Testimony,
    seed: np.uint64,
    first_word: int,
    base: int,
    work: Scratch,
    enumeration: Enumeration,
    out: Words,
) -> None:
    """Set ``out`` in the worlds in which something overturns node v: latest word first."""
    care, cleared = work.lanes[0], work.lanes[1]
    for k in range(WORDS):
        cleared[k] = NONE
    skipped = testimony.trust.size + testimony.retract_source.size
    for j in range(testimony.event_indptr[v], testimony.event_indptr[v + 1]):
        i = testimony.event_source[j]
        for k in range(WORDS):
            force = work.force[i, k] if i >= 0 else ALL
            care[k] = force & ~cleared[k] & ~out[k]
        up = cleared if testimony.event_clears[j] else out
        number = skipped + j
        stream = base + testimony.stream[number]
        draw(testimony.event_threshold[j], stream, seed, first_word, care, up, enumeration, base + number)


@compiled
def _lose_requirements(
    v: int,
    structure: Structure,
    seed: np.uint64,
    first_word: int,
    failed: Words,
    work: Scratch,
    enumeration: Enumeration,
) -> None:
    """Add to ``failed[v]`` the worlds in which a present requirement of v has failed (no cycle here)."""
    care, out = work.lanes[0], failed[v]
    for e in range(structure.indptr[v], structure.requires_end[v]):
        cause = failed[structure.source[e]]
        for k in range(WORDS):
            care[k] = cause[k] & ~out[k]
        draw(structure.weight[e], e, seed, first_word, care, out, enumeration, e)


@compiled
def _lose_supports(
    v: int,
    structure: Structure,
    seed: np.uint64,
    first_word: int,
    failed: Words,
    work: Scratch,
    enumeration: Enumeration,
) -> None:
    """Add to ``failed[v]`` the worlds in which v has present justifications and none holds (no cycle)."""
    care, up, lost = work.lanes[0], work.lanes[1], work.lanes[2]
    some, absent, broken = work.lanes[3], work.lanes[4], work.lanes[5]
    out = failed[v]
    start, end = structure.requires_end[v], structure.indptr[v + 1]
    left = NONE
    for k in range(WORDS):
        lost[k] = NONE
        some[k] = NONE
    # Only worlds in which some antecedent has failed can lose a justification.
    for e in range(start, end):
        cause = failed[structure.source[e]]
        for k in range(WORDS):
            lost[k] |= cause[k]
    for k in range(WORDS):
        lost[k] &= ~out[k]
        left |= lost[k]
    if left == NONE:
        return
    for e in range(start, end):
        if structure.opens[e]:
            for k in range(WORDS):
                absent[k] = ALL
                broken[k] = NONE
        for k in range(WORDS):
            care[k] = lost[k]
            up[k] = NONE
        draw(structure.weight[e], e, seed, first_word, care, up, enumeration, e)
        cause = failed[structure.source[e]]
        for k in range(WORDS):
            absent[k] &= ~up[k]
            broken[k] |= up[k] & cause[k]
        if e + 1 == end or structure.opens[e + 1]:
            for k in range(WORDS):
                some[k] |= ~absent[k]
                lost[k] &= absent[k] | broken[k]
    for k in range(WORDS):
        out[k] |= lost[k] & some[k]


@compiled
def evaluate(
    structure: Structure,
    testimony: Testimony,
    enumeration: Enumeration,
    seed: np.uint64,
    first_word: int,
    failed: Words,
    work: Scratch,
) -> None:
    """Fill ``failed`` for the block of worlds that starts at ``first_word``."""
    base = structure.source.size
    _find_force(testimony, seed, first_word, base, work, enumeration)
    nodes = structure.requires_end.size
    component = 0
    v = 0
    while v < nodes:
        stop = v + 1
        cyclic = component < structure.component_start.size and structure.component_start[component] == v
        if cyclic:
            stop = structure.component_end[component]
            component += 1
        if structure.can_fail[v]:
            for u in range(v, stop):
                for k in range(WORDS):
                    failed[u, k] = NONE
                _overturn(u, testimony, seed, first_word, base, work, enumeration, failed[u])
            if cyclic:
                settle(v, stop, structure, seed, first_word, failed, work, enumeration)
            else:
                _lose_requirements(v, structure, seed, first_word, failed, work, enumeration)
                _lose_supports(v, structure, seed, first_word, failed, work, enumeration)
        v = stop


@compiled
def mark_failing(
    indptr: NDArray[np.int32],
    source: NDArray[np.int32],
    weight: NDArray[np.floating],
    component_start: NDArray[np.int32],
    component_end: NDArray[np.int32],
    event_indptr: NDArray[np.int32],
    can_fail: NDArray[np.uint8],
) -> None:
    """Set ``can_fail[v]`` where evidence against v or against something that v depends on exists."""
    component = 0
    v = 0
    while v < can_fail.size:
        stop = v + 1
        if component < component_start.size and component_start[component] == v:
            stop = component_end[component]
            component += 1
        hit = event_indptr[stop] > event_indptr[v]
        for e in range(indptr[v], indptr[stop]):
            hit = hit or (weight[e] > 0 and can_fail[source[e]] > 0)
        for u in range(v, stop):
            can_fail[u] = 1 if hit else 0
        v = stop


@compiled
def mark_loops(
    indptr: NDArray[np.int32],
    requires_end: NDArray[np.int32],
    source: NDArray[np.int32],
    weight: NDArray[np.floating],
    component_start: NDArray[np.int32],
    component_end: NDArray[np.int32],
    loop: NDArray[np.int32],
) -> None:
    """Set ``loop`` of the members of every component, as ``ordering.support_loop`` numbers them."""
    for c in range(component_start.size):
        start, end = component_start[c], component_end[c]
        loop[start:end] = _support_loop(indptr, requires_end, source, weight, start, end)


@compiled
def ancestors(indptr: NDArray[np.int32], source: NDArray[np.int32], v: int) -> NDArray[np.bool_]:
    """Return which nodes v depends on, itself included, bool[n]."""
    seen = np.zeros(indptr.size - 1, dtype=np.bool_)
    stack = np.empty(indptr.size - 1, dtype=np.int32)
    stack[0] = v
    seen[v] = True
    size = 1
    while size > 0:
        size -= 1
        u = stack[size]
        for e in range(indptr[u], indptr[u + 1]):
            if not seen[source[e]]:
                seen[source[e]] = True
                stack[size] = source[e]
                size += 1
    return seen
