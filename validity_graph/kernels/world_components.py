"""Cycles in the possible worlds: the standing set of one strongly connected component, 64 worlds a word.

``nu X. mu Y. {v : not overturned, requirements in X, supports empty or met in Y}``; members that no reason
outside their loop of supports reaches even when nothing is overturned are grounded in X instead of Y, world
by world.  A queue holds the
members whose causes have changed.  Knows arrays only.  SEMANTICS section 3, Cycles.
"""

from __future__ import annotations

import numpy as np

from validity_graph.compiled import compiled
from validity_graph.kernels.world_arrays import ALL, NONE, WORDS, Enumeration, Scratch, Structure, Words
from validity_graph.kernels.world_coins import draw


@compiled
def _unsupported(
    v: int,
    a: int,
    b: int,
    structure: Structure,
    failed: Words,
    heed: np.uint64,
    bad: Words,
    work: Scratch,
    out: Words,
) -> None:
    """Set ``out`` to the worlds in which v has present justifications and each has a bad antecedent.

    With ``heed`` all ones, antecedents inside the component ``a:b`` are bad where ``bad`` says so, and those
    outside where they have failed.  With ``heed`` 0 only those in v's own loop can be bad.
    """
    some, absent, broken = work.lanes[3], work.lanes[4], work.lanes[5]
    base = structure.indptr[a]
    start, end = structure.requires_end[v], structure.indptr[v + 1]
    for k in range(WORDS):
        out[k] = ALL
        some[k] = NONE
    for e in range(start, end):
        if structure.opens[e]:
            for k in range(WORDS):
                absent[k] = ALL
                broken[k] = NONE
        u = structure.source[e]
        present = work.presence[e - base]
        inside = a <= u < b and (heed != NONE or structure.loop[u] == structure.loop[v])
        for k in range(WORDS):
            absent[k] &= ~present[k]
            cause = bad[u - a, k] if inside else failed[u, k] & heed
            broken[k] |= present[k] & cause
        if e + 1 == end or structure.opens[e + 1]:
            for k in range(WORDS):
                some[k] |= ~absent[k]
                out[k] &= absent[k] | broken[k]
    for k in range(WORDS):
        out[k] &= some[k]


@compiled
def _enqueue_all(a: int, b: int, work: Scratch) -> None:
    """Queue every member of the component ``a:b``."""
    for i in range(b - a):
        work.queue[i] = a + i
        work.queued[i] = 1


@compiled
def _enqueue_dependents(v: int, a: int, waiting: int, head: int, structure: Structure, work: Scratch) -> int:
    """Queue the members that depend on v and are not waiting yet; return how many wait."""
    size = work.queue.size
    for i in range(structure.dependent_indptr[v], structure.dependent_indptr[v + 1]):
        u = structure.dependent[i]
        if not work.queued[u - a]:
            work.queued[u - a] = 1
            work.queue[(head + waiting) % size] = u
            waiting += 1
    return waiting


@compiled
def _shrink_bad(a: int, b: int, structure: Structure, failed: Words, heed: np.uint64, work: Scratch) -> None:
    """Greatest ``bad`` with bad = failed or (unsupported by what is not bad): members without a reason.

    With ``heed`` 0 nothing counts as failed: what stays bad is what no reason outside its
    loop reaches.  With ``heed`` all
    ones only reached members (``work.reached``) need a reason.
    """
    out = work.lanes[2]
    for i in range(b - a):
        for k in range(WORDS):
            work.bad[i, k] = (failed[a + i, k] & heed) | work.reached[i, k] | ~heed
    _enqueue_all(a, b, work)
    head, waiting = 0, b - a
    while waiting > 0:
        v = work.queue[head]
        head = (head + 1) % work.queue.size
        waiting -= 1
        work.queued[v - a] = 0
        _unsupported(v, a, b, structure, failed, heed, work.bad, work, out)
        changed = NONE
        for k in range(WORDS):
            new = work.bad[v - a, k] & (out[k] | (failed[v, k] & heed))
            changed |= new ^ work.bad[v - a, k]
            work.bad[v - a, k] = new
        if changed != NONE:
            waiting = _enqueue_dependents(v, a, waiting, head, structure, work)


@compiled
def _spread_failure(a: int, b: int, structure: Structure, failed: Words, work: Scratch) -> None:
    """Close ``failed`` inside the component ``a:b`` under lost requirements and lost supports."""
    out = work.lanes[2]
    base = structure.indptr[a]
    _enqueue_all(a, b, work)
    head, waiting = 0, b - a
    while waiting > 0:
        v = work.queue[head]
        head = (head + 1) % work.queue.size
        waiting -= 1
        work.queued[v - a] = 0
        _unsupported(v, a, b, structure, failed, ALL, failed[a:b], work, out)
        for e in range(structure.indptr[v], structure.requires_end[v]):
            cause, present = failed[structure.source[e]], work.presence[e - base]
            for k in range(WORDS):
                out[k] |= cause[k] & present[k]
        changed = NONE
        for k in range(WORDS):
            new = failed[v, k] | out[k]
            changed |= new ^ failed[v, k]
            failed[v, k] = new
        if changed != NONE:
            waiting = _enqueue_dependents(v, a, waiting, head, structure, work)


@compiled
def settle(
    a: int,
    b: int,
    structure: Structure,
    seed: np.uint64,
    first_word: int,
    failed: Words,
    work: Scratch,
    enumeration: Enumeration,
) -> None:
    """Standing set of the component ``a:b`` in every world, as ``failed``: nu X. mu Y (SEMANTICS section 3).

    X shrinks in two kinds of steps, both of which keep every solution: what loses a requirement or all
    its supports in X goes, then what X gives no grounded reason goes; until the second step takes nothing.
    """
    care, touched = work.lanes[0], work.lanes[1]
    base, end = structure.indptr[a], structure.indptr[b]
    supported = False
    for k in range(WORDS):
        touched[k] = NONE
    for v in range(a, b):
        for k in range(WORDS):
            touched[k] |= failed[v, k]
        supported |= structure.requires_end[v] < structure.indptr[v + 1]
    for e in range(base, end):
        u = structure.source[e]
        if not a <= u < b:
            for k in range(WORDS):
                touched[k] |= failed[u, k]
    left = NONE
    for k in range(WORDS):
        left |= touched[k]
    if left == NONE:
        return
    # In worlds in which nothing fails in here or comes in, everything stands: no edge is needed there.
    for e in range(base, end):
        present = work.presence[e - base]
        for k in range(WORDS):
            present[k] = NONE
            care[k] = touched[k]
        draw(structure.weight[e], e, seed, first_word, care, present, enumeration, e)
    _spread_failure(a, b, structure, failed, work)
    if not supported:
        return
    _shrink_bad(a, b, structure, failed, NONE, work)
    for i in range(b - a):
        for k in range(WORDS):
            work.reached[i, k] = ~work.bad[i, k]
    while True:
        _shrink_bad(a, b, structure, failed, ALL, work)
        taken = NONE
        for i in range(b - a):
            for k in range(WORDS):
                taken |= work.bad[i, k] & ~failed[a + i, k]
                failed[a + i, k] |= work.bad[i, k]
        if taken == NONE:
            return
        _spread_failure(a, b, structure, failed, work)
