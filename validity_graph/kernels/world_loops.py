"""Compiled loops of the possible worlds: one machine word holds one bit of 64 worlds.

A block is ``WORDS * 64`` worlds, evaluated node by node in topological order.  ``failed[v]`` has a 1 in
every world in which memory v does not stand.  Coins are drawn where they are used and nowhere kept,
except inside a component, whose fixpoint needs them again.  Which worlds are asked for is either sampled
(a counter-based generator, so that neither the order of evaluation nor the number of threads matters)
or enumerated.  Knows arrays only.  World semantics: SEMANTICS section 3; the generator is SplitMix64
(Steele, Lea and Flood 2014) with a second key between its two rounds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from validity_graph.compiled import compiled

Words = NDArray[np.uint64]
#: Words a node and block: enough for the vector units, small enough for the caches.
WORDS = 16
_NONE = np.uint64(0)
_ONE = np.uint64(1)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xBF58476D1CE4E5B9)
_MIX_AGAIN = np.uint64(0x94D049BB133111EB)
#: Random words kept apart for one coin and one word of worlds: a coin needs at most 64.
_ROUNDS = np.uint64(64)


class Structure(NamedTuple):
    """The arrays of a ``Topology`` that worlds need, plus what can fail and edges inside components.

    ``can_fail[v]`` is 0 where no evidence can reach v.  ``dependent[dependent_indptr[v]:...]`` are the
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


@compiled
def _mix(value: np.uint64) -> np.uint64:
    """Scramble one 64-bit word (SplitMix64's finaliser)."""
    value = (value ^ (value >> np.uint64(30))) * _MIX
    value = (value ^ (value >> np.uint64(27))) * _MIX_AGAIN
    return value ^ (value >> np.uint64(31))


@compiled
def _pattern(coin: int, word: int) -> np.uint64:
    """Worlds of one word in which a coin is up: coin i is bit i of the number of the world."""
    if coin == 0:
        return np.uint64(0xAAAAAAAAAAAAAAAA)
    if coin == 1:
        return np.uint64(0xCCCCCCCCCCCCCCCC)
    if coin == 2:
        return np.uint64(0xF0F0F0F0F0F0F0F0)
    if coin == 3:
        return np.uint64(0xFF00FF00FF00FF00)
    if coin == 4:
        return np.uint64(0xFFFF0000FFFF0000)
    if coin == 5:
        return np.uint64(0xFFFFFFFF00000000)
    return np.uint64(0) - ((np.uint64(word) >> np.uint64(coin - 6)) & np.uint64(1))


@compiled
def _draw(
    threshold: float,
    stream: int,
    seed: np.uint64,
    first_word: int,
    care: Words,
    up: Words,
    enumeration: Enumeration,
    number: int,
) -> None:
    """Set ``up`` in the worlds of ``care`` (which it uses up) where the coin's uniform < ``threshold``.

    The binary expansion of the threshold is compared with random bits from the first one on; a world is
    decided at the first difference, so a word takes about two random words on average and the comparison
    is exact to 2^-64.  One stream is one uniform number, whatever the threshold.
    """
    if threshold <= 0.0:
        return
    if threshold >= 1.0:
        for k in range(WORDS):
            up[k] |= care[k]
        return
    if enumeration.start.size > 0:
        for coin in range(enumeration.start[number], enumeration.stop[number]):
            for k in range(WORDS):
                up[k] |= care[k] & _pattern(coin, first_word + k)
        return
    undecided = _NONE
    for k in range(WORDS):
        undecided |= care[k]
    if undecided == _NONE:
        return
    rest = np.uint64(np.float64(threshold) * 18446744073709551616.0)
    key = _mix(seed + np.uint64(stream) * _STEP)
    inner = _mix(key)
    counter = key + np.uint64(first_word) * (_ROUNDS * _STEP)
    while rest != _NONE and undecided != _NONE:
        bit = _NONE - (rest >> np.uint64(63))
        rest <<= _ONE
        undecided = _NONE
        for k in range(WORDS):
            value = counter + np.uint64(k) * (_ROUNDS * _STEP)
            value = (value ^ (value >> np.uint64(30))) * _MIX ^ inner
            value = (value ^ (value >> np.uint64(27))) * _MIX_AGAIN
            value ^= value >> np.uint64(31)
            open_world = care[k]
            below = open_world & ~value
            up[k] |= below & bit
            open_world = (open_world & value & bit) | (below & ~bit)
            care[k] = open_world
            undecided |= open_world
        counter += _STEP


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
            force[k] = _NONE
            away[k] = _NONE
            care[k] = _ALL
        _draw(
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
            _draw(
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
        cleared[k] = _NONE
    skipped = testimony.trust.size + testimony.retract_source.size
    for j in range(testimony.event_indptr[v], testimony.event_indptr[v + 1]):
        i = testimony.event_source[j]
        for k in range(WORDS):
            force = work.force[i, k] if i >= 0 else _ALL
            care[k] = force & ~cleared[k] & ~out[k]
        up = cleared if testimony.event_clears[j] else out
        number = skipped + j
        stream = base + testimony.stream[number]
        _draw(testimony.event_threshold[j], stream, seed, first_word, care, up, enumeration, base + number)


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
        _draw(structure.weight[e], e, seed, first_word, care, out, enumeration, e)


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
    left = _NONE
    for k in range(WORDS):
        lost[k] = _NONE
        some[k] = _NONE
    # Only worlds in which some antecedent has failed can lose a justification.
    for e in range(start, end):
        cause = failed[structure.source[e]]
        for k in range(WORDS):
            lost[k] |= cause[k]
    for k in range(WORDS):
        lost[k] &= ~out[k]
        left |= lost[k]
    if left == _NONE:
        return
    for e in range(start, end):
        if structure.opens[e]:
            for k in range(WORDS):
                absent[k] = _ALL
                broken[k] = _NONE
        for k in range(WORDS):
            care[k] = lost[k]
            up[k] = _NONE
        _draw(structure.weight[e], e, seed, first_word, care, up, enumeration, e)
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

    Antecedents inside the component ``a:b`` are bad where ``bad`` says so, those outside where they have
    failed and ``heed`` is all ones.
    """
    some, absent, broken = work.lanes[3], work.lanes[4], work.lanes[5]
    base = structure.indptr[a]
    start, end = structure.requires_end[v], structure.indptr[v + 1]
    for k in range(WORDS):
        out[k] = _ALL
        some[k] = _NONE
    for e in range(start, end):
        if structure.opens[e]:
            for k in range(WORDS):
                absent[k] = _ALL
                broken[k] = _NONE
        u = structure.source[e]
        present = work.presence[e - base]
        for k in range(WORDS):
            absent[k] &= ~present[k]
            cause = bad[u - a, k] if a <= u < b else failed[u, k] & heed
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

    With ``heed`` 0 nothing counts as failed: what stays bad is what no premise reaches.  With ``heed`` all
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
        changed = _NONE
        for k in range(WORDS):
            new = work.bad[v - a, k] & (out[k] | (failed[v, k] & heed))
            changed |= new ^ work.bad[v - a, k]
            work.bad[v - a, k] = new
        if changed != _NONE:
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
        _unsupported(v, a, b, structure, failed, _ALL, failed[a:b], work, out)
        for e in range(structure.indptr[v], structure.requires_end[v]):
            cause, present = failed[structure.source[e]], work.presence[e - base]
            for k in range(WORDS):
                out[k] |= cause[k] & present[k]
        changed = _NONE
        for k in range(WORDS):
            new = failed[v, k] | out[k]
            changed |= new ^ failed[v, k]
            failed[v, k] = new
        if changed != _NONE:
            waiting = _enqueue_dependents(v, a, waiting, head, structure, work)


@compiled
def _settle(
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
        touched[k] = _NONE
    for v in range(a, b):
        for k in range(WORDS):
            touched[k] |= failed[v, k]
        supported |= structure.requires_end[v] < structure.indptr[v + 1]
    for e in range(base, end):
        u = structure.source[e]
        if not a <= u < b:
            for k in range(WORDS):
                touched[k] |= failed[u, k]
    left = _NONE
    for k in range(WORDS):
        left |= touched[k]
    if left == _NONE:
        return
    # In worlds in which nothing fails in here or comes in, everything stands: no edge is needed there.
    for e in range(base, end):
        present = work.presence[e - base]
        for k in range(WORDS):
            present[k] = _NONE
            care[k] = touched[k]
        _draw(structure.weight[e], e, seed, first_word, care, present, enumeration, e)
    _spread_failure(a, b, structure, failed, work)
    if not supported:
        return
    _shrink_bad(a, b, structure, failed, _NONE, work)
    for i in range(b - a):
        for k in range(WORDS):
            work.reached[i, k] = ~work.bad[i, k]
    while True:
        _shrink_bad(a, b, structure, failed, _ALL, work)
        taken = _NONE
        for i in range(b - a):
            for k in range(WORDS):
                taken |= work.bad[i, k] & ~failed[a + i, k]
                failed[a + i, k] |= work.bad[i, k]
        if taken == _NONE:
            return
        _spread_failure(a, b, structure, failed, work)


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
                    failed[u, k] = _NONE
                _overturn(u, testimony, seed, first_word, base, work, enumeration, failed[u])
            if cyclic:
                _settle(v, stop, structure, seed, first_word, failed, work, enumeration)
            else:
                _lose_requirements(v, structure, seed, first_word, failed, work, enumeration)
                _lose_supports(v, structure, seed, first_word, failed, work, enumeration)
        v = stop


@compiled
def tally(failed: Words, last_word_count: int, count: NDArray[np.int64]) -> None:
    """Add to ``count[v]`` in how many of the first ``last_word_count`` worlds of the block v has failed."""
    mask = np.empty(WORDS, dtype=np.uint64)
    for k in range(WORDS):
        inside = last_word_count - 64 * k
        if inside >= 64:
            mask[k] = _ALL
        elif inside <= 0:
            mask[k] = _NONE
        else:
            mask[k] = (_ONE << np.uint64(inside)) - _ONE
    for v in range(count.size):
        total = _NONE
        for k in range(WORDS):
            x = failed[v, k] & mask[k]
            x -= (x >> _ONE) & np.uint64(0x5555555555555555)
            x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
            x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
            total += (x * np.uint64(0x0101010101010101)) >> np.uint64(56)
        count[v] += np.int64(total)


@compiled
def add_mass(
    word: Words,
    first_word: int,
    byte: NDArray[np.float64],
    near: NDArray[np.float64],
    far: NDArray[np.float64],
) -> float:
    """Probability of the enumerated worlds that are set in the words ``first_word`` and after.

    ``byte[j, x]`` is the probability, within a word, of the worlds set in its byte j when that is x; word
    g has probability ``near[g % near.size] * far[g // near.size]``.
    """
    mass = 0.0
    for k in range(min(WORDS, near.size * far.size - first_word)):
        inside = 0.0
        for j in range(8):
            inside += byte[j, (word[k] >> np.uint64(8 * j)) & np.uint64(255)]
        mass += inside * near[(first_word + k) % near.size] * far[(first_word + k) // near.size]
    return mass


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
