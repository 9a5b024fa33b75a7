"""Windows over long texts, so that a change buried at the end of a long memory is still read.

A side that is too long is cut into runs of whole sentences that overlap by one sentence (by half a window
inside a sentence that is itself too long), and every combination of the two sides is scored.  Works on
texts and on the places of their tokens; knows no model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

#: Ends of sentences, the CJK ones need no space after them; line breaks end a sentence too.
_END = re.compile(r"(?<=[.!?;])\s+|(?<=[\u3002\uff01\uff1f\uff1b])|\n+")

#: Tokens of a part of a long side: among many other sentences a change would be drowned.
WIDTH = 40

#: Places of the tokens of a text, as (start, end) character offsets, without special tokens.
Places = Callable[[str], Sequence[tuple[int, int]]]


def sentences(text: str) -> list[str]:
    """Split ``text`` at the ends of sentences and at line breaks, without empty parts."""
    return [part for part in _END.split(text) if part.strip()]


def window_pairs(
    source: str, target: str, *, places: Places, room: int, width: int = WIDTH
) -> list[tuple[str, str]]:
    """Return windows (source part, target part) of at most ``room`` tokens together, in reading order.

    A pair within ``room`` is one window.  Otherwise each side that is longer than half the room is cut into
    runs of at most ``width`` tokens.
    """
    left, right, half = len(places(source)), len(places(target)), room // 2
    if left + right <= room:
        return [(source, target)]
    lefts, rights = [source], [target]
    if left > half:
        lefts = runs(source, places=places, width=min(width, room - right if right <= half else half))
    if right > half:
        rights = runs(target, places=places, width=min(width, room - left if left <= half else room - half))
    return [(a, b) for a in lefts for b in rights]


def runs(text: str, *, places: Places, width: int) -> list[str]:
    """Cut ``text`` into runs of whole sentences of at most ``width`` tokens that overlap by one sentence."""
    pieces = [piece for sentence in sentences(text) for piece in _cut(sentence, places=places, width=width)]
    sizes = [len(places(piece)) for piece in pieces]
    found: list[str] = []
    start = 0
    while start < len(pieces):
        stop = _reach(sizes, start=start, width=width)
        found.append(" ".join(pieces[start:stop]))
        if stop == len(pieces):
            break
        # Step back by one sentence where the next run still has room for a new one.
        overlaps = stop - 1 > start and sizes[stop - 1] + sizes[stop] <= width
        start = stop - 1 if overlaps else stop
    return found or [text]


def _reach(sizes: Sequence[int], *, start: int, width: int) -> int:
    """End of the longest run from ``start`` within ``width`` tokens; at least one piece."""
    total, stop = sizes[start], start + 1
    while stop < len(sizes) and total + sizes[stop] <= width:
        total += sizes[stop]
        stop += 1
    return stop


def _cut(sentence: str, *, places: Places, width: int) -> list[str]:
    """Cut a sentence of more than ``width`` tokens into parts that overlap by half."""
    spans = places(sentence)
    if len(spans) <= width:
        return [sentence]
    last = len(spans) - width
    starts = [*range(0, last, max(1, width // 2)), last]
    return [sentence[spans[i][0] : spans[i + width - 1][1]] for i in starts]
