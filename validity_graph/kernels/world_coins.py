"""Coins of the possible worlds: one machine word holds the outcome of a coin in 64 worlds.

Coins are drawn where they are used and nowhere kept.  Which worlds are asked for is either sampled, by a
counter-based generator, so that neither the order of evaluation nor the number of threads matters, or
enumerated.  Knows arrays only.  The generator is SplitMix64 (Steele, Lea and Flood 2014) with a second key
between its two rounds; worlds: SEMANTICS section 3.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from validity_graph.compiled import compiled
from validity_graph.kernels.world_arrays import ALL, NONE, WORDS, Enumeration, Words

_ONE = np.uint64(1)
_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xBF58476D1CE4E5B9)
_MIX_AGAIN = np.uint64(0x94D049BB133111EB)
#: Random words kept apart for one coin and one word of worlds: a coin needs at most 64.
_ROUNDS = np.uint64(64)


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
def draw(
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
    undecided = NONE
    for k in range(WORDS):
        undecided |= care[k]
    if undecided == NONE:
        return
    rest = np.uint64(np.float64(threshold) * 18446744073709551616.0)
    key = _mix(seed + np.uint64(stream) * _STEP)
    inner = _mix(key)
    counter = key + np.uint64(first_word) * (_ROUNDS * _STEP)
    while rest != NONE and undecided != NONE:
        bit = NONE - (rest >> np.uint64(63))
        rest <<= _ONE
        undecided = NONE
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
def tally(failed: Words, last_word_count: int, count: NDArray[np.int64]) -> None:
    """Add to ``count[v]`` in how many of the first ``last_word_count`` worlds of the block v has failed."""
    mask = np.empty(WORDS, dtype=np.uint64)
    for k in range(WORDS):
        inside = last_word_count - 64 * k
        if inside >= 64:
            mask[k] = ALL
        elif inside <= 0:
            mask[k] = NONE
        else:
            mask[k] = (_ONE << np.uint64(inside)) - _ONE
    for v in range(count.size):
        total = NONE
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
