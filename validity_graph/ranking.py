"""Ranks the texts of one namespace against each other and against a query.

Knows memories and their arrival order, no verdicts and no edges.  Two rankings are fused by reciprocal
rank (Cormack, Clarke and Buettcher, 2009): BM25 (Robertson and Zaragoza, 2009) over the character features
of ``matching``, and the best cosine between a sentence of one and a sentence of the other.

The inverted index is our own: bm25s cannot append, and an approximate index cannot filter by time.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from validity_graph.matching import grams, restatement_key, segments
from validity_graph.records import Memory

FloatArray = NDArray[np.float32]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

#: BM25's saturation and length normalisation: the textbook values.
SATURATION = 1.2
LENGTH_WEIGHT = 0.75
#: Inverse document frequency is raised beyond the square of a tf-idf dot product: conversational filler
#: ("used to", "speaking of") is moderately rare in a small store and would drown the one word that matters.
RARITY_POWER = 2.5
#: Reciprocal-rank constant, and the share of the embedding beside BM25's 1: the nearest memory in meaning
#: always gets a place, the eighth nearest only with words in common.
RANK_OFFSET = 5.0
EMBEDDING_SHARE = 0.45
#: How much the scores of the newest memory gain over those of the oldest when targets are chosen: of several
#: versions of a fact, the latest is the one that a change speaks about.
RECENCY_GAIN = 0.3
#: How many places of each ranking enter the fusion, as a multiple of the cap.
DEPTH = 8
#: Sources ranked at once, and cells of their score matrix: they bound the memory that a batch takes.
BATCH = 128
BATCH_CELLS = 1 << 24

Weights = dict[str, tuple[IntArray, FloatArray]]
_NOTHING = (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.float32))
_NO_TIME = np.iinfo(np.int64).min
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Encoder(Protocol):
    """Anything that turns texts into unit vectors."""

    @property
    def width(self) -> int:
        """Return the number of dimensions."""

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Return unit vectors, shape ``(len(texts), width)``."""


@dataclass(slots=True)
class _Posting:
    """The texts that hold one gram, ascending, and how often."""

    rows: array[int] = field(default_factory=lambda: array("q"))
    counts: array[int] = field(default_factory=lambda: array("q"))


class _Column:
    """An array that grows by doubling along its first axis."""

    def __init__(self, dtype: type[np.generic], *shape: int) -> None:
        self._data = np.zeros((16, *shape), dtype=dtype)
        self.size = 0

    def extend(self, values: NDArray[np.generic]) -> None:
        while self.size + len(values) > len(self._data):
            self._data = np.concatenate([self._data, np.zeros_like(self._data)])
        self._data[self.size : self.size + len(values)] = values
        self.size += len(values)

    def append(self, value: float) -> None:
        self.extend(np.array([value], dtype=self._data.dtype))

    @property
    def values(self) -> NDArray[np.generic]:
        """A view of what is filled; writable, valid until the next append."""
        return self._data[: self.size]


class Shard:
    """One namespace.  A *slot* is a memory, a *row* a distinct text that one or more memories share.

    Ranking works on rows, so that a text said a hundred times takes one place under the cap and counts
    once in the document frequencies.
    """

    def __init__(self, encoder: Encoder | None) -> None:
        """Start empty; without ``encoder`` BM25 ranks alone."""
        self.encoder = encoder
        self.sequence = _Column(np.int64)  # of slot
        self.time = _Column(np.int64)  # of slot, microseconds since 1970 or _NO_TIME
        self.row = _Column(np.int64)  # of slot
        self.alive = _Column(np.bool_)  # of slot
        self.length = _Column(np.float64)  # of row, in grams; 0 once no memory says it any more
        self.row_of: dict[str, int] = {}
        self.key: list[str] = []  # of row
        self.members: list[list[int]] = []  # of row
        self.grams: list[tuple[str, ...]] = []  # of row, distinct
        self.postings: dict[str, _Posting] = {}
        self.pending: list[tuple[int, list[str]]] = []  # rows whose segments are not encoded yet
        self.first_segment: list[int] = []  # of row
        self.vectors = _Column(np.float32, encoder.width if encoder else 0)

    # -- changes

    def add(self, sequence: int, memory: Memory) -> int:
        """Hold a memory under its arrival number and return its slot."""
        key = restatement_key(memory.reading)
        row = self.row_of.get(key)
        if row is None:
            row = self._add_row(key, memory.reading)
        slot = self.sequence.size
        self.sequence.append(sequence)
        self.time.append(_microseconds(memory.time))
        self.row.append(row)
        self.alive.append(True)
        self.members[row].append(slot)
        return slot

    def _add_row(self, key: str, text: str) -> int:
        row = len(self.key)
        counts = Counter(grams(text))
        for gram, count in counts.items():
            posting = self.postings.setdefault(gram, _Posting())
            posting.rows.append(row)
            posting.counts.append(count)
        self.row_of[key] = row
        self.key.append(key)
        self.members.append([])
        self.grams.append(tuple(counts))
        self.length.append(sum(counts.values()))
        self.pending.append((row, segments(text)))
        return row

    def remove(self, slot: int) -> None:
        """Take a memory out, and its text with all that was derived from it where no other one says it."""
        self.alive.values[slot] = False
        row = int(self.row.values[slot])
        self.members[row].remove(slot)
        if not self.members[row]:
            self._erase_row(row)

    def _erase_row(self, row: int) -> None:
        """Leave nothing of the text behind: forgetting erases derived text too (SEMANTICS section 7.7)."""
        self._encode_pending()
        for gram in self.grams[row]:
            posting = self.postings[gram]
            place = bisect_left(posting.rows, row)
            del posting.rows[place], posting.counts[place]
            if not posting.rows:
                del self.postings[gram]
        del self.row_of[self.key[row]]
        self.key[row], self.grams[row] = "", ()
        self.length.values[row] = 0.0
        last = row + 1 == len(self.first_segment)
        end = self.vectors.size if last else self.first_segment[row + 1]
        self.vectors.values[self.first_segment[row] : end] = 0.0

    def _encode_pending(self) -> None:
        if not self.pending:
            return
        start = self.vectors.size
        for _, parts in self.pending:
            self.first_segment.append(start)
            start += len(parts)
        texts = [part for _, parts in self.pending for part in parts]
        self.vectors.extend(self.encoder.encode(texts) if self.encoder else np.zeros((len(texts), 0)))
        self.pending.clear()

    # -- who may be asked about whom (SEMANTICS section 2)

    def earlier(self, slot: int) -> BoolArray:
        """Slots that ``slot`` may overturn, shape ``(slots,)``: said before it, else arrived before it."""
        return self._beside(slot, np.less)

    def later(self, slot: int) -> BoolArray:
        """Slots that may overturn ``slot``, shape ``(slots,)``."""
        return self._beside(slot, np.greater)

    def _beside(self, slot: int, compare: np.ufunc) -> BoolArray:
        time, sequence, row = self.time.values, self.sequence.values, self.row.values
        told = (time != _NO_TIME) & (time[slot] != _NO_TIME) & (time != time[slot])
        ordered = np.where(told, compare(time, time[slot]), compare(sequence, sequence[slot]))
        return np.asarray(ordered & self.alive.values & (row != row[slot]), dtype=np.bool_)

    # -- ranking

    def scores(self, slots: Sequence[int]) -> Iterator[list[FloatArray]]:
        """Yield for each slot the BM25 and, with an encoder, the cosine of every text, each ``(texts,)``."""
        self._encode_pending()
        weights: Weights = {}
        starts = np.array([*self.first_segment, self.vectors.size], dtype=np.int64)
        batch = max(1, min(BATCH, BATCH_CELLS // max(1, self.vectors.size)))
        for start in range(0, len(slots), batch):
            rows = np.asarray(self.row.values)[list(slots[start : start + batch])]
            chosen = np.concatenate([np.arange(starts[row], starts[row + 1]) for row in rows])
            own = np.concatenate([[0], np.cumsum(starts[rows + 1] - starts[rows])[:-1]]).astype(np.int64)
            cosine = self._cosine(np.asarray(self.vectors.values)[chosen], own)
            for place, row in enumerate(rows):
                lexical = self._lexical(self.grams[row], weights)
                yield [lexical] if cosine is None else [lexical, cosine[place]]

    def query_scores(self, query: str) -> list[FloatArray]:
        """Return BM25 and, with an encoder, cosine of ``query`` to every text, each ``(texts,)``."""
        self._encode_pending()
        lexical = self._lexical(tuple(dict.fromkeys(grams(query))), {})
        parts = segments(query)
        encoded = self.encoder.encode(parts) if self.encoder else np.zeros((len(parts), 0), dtype=np.float32)
        cosine = self._cosine(encoded, np.zeros(1, dtype=np.int64))
        return [lexical] if cosine is None else [lexical, cosine[0]]

    def _lexical(self, features: Sequence[str], weights: Weights) -> FloatArray:
        """Return BM25 of every text; ``weights`` keeps what the postings came to within one call."""
        out = np.zeros(len(self.key), dtype=np.float32)
        for gram in features:
            if gram not in weights:
                posting = self.postings.get(gram)
                weights[gram] = self._weigh(posting) if posting else _NOTHING
            holders, value = weights[gram]
            out[holders] += value
        return out

    def _weigh(self, posting: _Posting) -> tuple[IntArray, FloatArray]:
        rows = np.array(posting.rows, dtype=np.int64)
        count = np.array(posting.counts, dtype=np.float64)
        length = np.asarray(self.length.values)
        mean = length.sum() / len(self.row_of)
        damping = SATURATION * (1.0 - LENGTH_WEIGHT + LENGTH_WEIGHT * length[rows] / mean)
        rarity = np.log1p((len(self.row_of) - len(rows) + 0.5) / (len(rows) + 0.5)) ** RARITY_POWER
        return rows, (rarity * count * (SATURATION + 1.0) / (count + damping)).astype(np.float32)

    def _cosine(self, vectors: FloatArray, starts: IntArray) -> FloatArray | None:
        """Return the best cosine between sentences, shape ``(len(starts), texts)``; ``None`` without encoder.

        Rows ``starts[k]`` up to ``starts[k + 1]`` of ``vectors`` are the sentences of text k.  Rounded,
        because a matrix product differs in its last digits with the number of rows at once.
        """
        if self.encoder is None:
            return None
        own = np.asarray(self.first_segment, dtype=np.int64)
        best = np.maximum.reduceat(vectors @ np.asarray(self.vectors.values).T, starts, axis=0)
        return np.asarray(np.round(np.maximum.reduceat(best, own, axis=1), 4), dtype=np.float32)

    def recency(self) -> IntArray:
        """Rank of every slot from the oldest, shape ``(slots,)``: by event time, then by arrival."""
        order = np.lexsort((self.sequence.values, self.time.values))
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        return rank

    def choose(
        self,
        allowed: BoolArray,
        scores: Sequence[FloatArray],
        *,
        recency: IntArray,
        cap: int,
        recency_gain: float = RECENCY_GAIN,
    ) -> dict[int, float]:
        """Return the best ``cap`` texts' memories among the allowed slots: sequence -> fused score.

        Best text first, its latest memory first.  ``scores`` holds BM25 and, with an encoder, the cosine,
        each of shape ``(texts,)``; the fused score lies in [0, 1].
        """
        slots = np.flatnonzero(allowed)
        latest = np.full(len(self.key), -1, dtype=np.int64)
        np.maximum.at(latest, np.asarray(self.row.values)[slots], recency[slots])
        rows = np.flatnonzero(latest >= 0)
        fused = np.zeros(len(rows))
        taken = np.zeros(len(recency), dtype=np.int64)
        taken[latest[rows]] = 1
        age = (np.cumsum(taken)[latest[rows]] - 1) / max(1, len(rows) - 1)  # 0 oldest, 1 newest
        gain = (1.0 + recency_gain * age).astype(np.float32)
        for score, share in zip(scores, (1.0, EMBEDDING_SHARE), strict=False):
            best = _best(score[rows] * gain, latest[rows], depth=DEPTH * cap)
            fused[best] += share / (RANK_OFFSET + np.arange(len(best)))
        fused *= RANK_OFFSET / (1.0 + EMBEDDING_SHARE)
        found: dict[int, float] = {}
        for place in np.lexsort((-latest[rows], -fused))[:cap]:
            for slot in sorted(self.members[rows[place]], key=lambda slot: -recency[slot]):
                if allowed[slot]:
                    found[int(self.sequence.values[slot])] = float(fused[place])
        return found


def _best(score: FloatArray, latest: IntArray, *, depth: int) -> IntArray:
    """Places of the ``depth`` highest positive scores, best first; the more recent wins a tie."""
    places = np.flatnonzero(score > 0.0)
    if len(places) > depth:
        threshold = np.partition(score[places], len(places) - depth)[len(places) - depth]
        places = places[score[places] >= threshold]
    order = np.lexsort((-latest[places], -score[places]))[:depth]
    return np.asarray(places[order], dtype=np.int64)


def _microseconds(time: datetime | None) -> int:
    if time is None:
        return int(_NO_TIME)
    aware = time if time.tzinfo is not None else time.replace(tzinfo=timezone.utc)
    return (aware - _EPOCH) // timedelta(microseconds=1)
