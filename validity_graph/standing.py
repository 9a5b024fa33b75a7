"""The verdicts of now, kept current through writes: only what a write can have changed is judged again.

A ``ResidentGraph`` holds what rests on what, ``Voices`` who speaks about whom, ``Trails`` the strongest
path to each memory.  After any sequence of writes the verdicts are those of a whole reading (``encode``),
bit for bit in float64 (law 10 of SEMANTICS section 5).

Not followed, but answered by reading everything anew (``take`` says so): forgetting, and taking back
what was forgotten; replacing a memory; a retraction, whatever else a retracting memory overturns, and a new
record of a retracted text; a supersession that closes a loop, and taking one back while there is a loop; a
memory that edges waited for; one dated in the future; and very many records at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validity_graph.counterfactual import Fallout, fallen
from validity_graph.encode import (
    PSEUDO,
    SPOKEN,
    STRUCTURE,
    encode,
    justification_number,
    role,
    ruled,
)
from validity_graph.explain import Account, Thresholds, verdict
from validity_graph.kernels.direct import direct_evidence
from validity_graph.paths import Ground
from validity_graph.records import SUPPORTS, Edge, Ruling, Verdict
from validity_graph.resident import ResidentGraph
from validity_graph.store import Snapshot, StoredMemory
from validity_graph.trails import Inflow, Said, Trails
from validity_graph.voices import Unfollowed, Voices

Call = tuple[str, tuple[Any, ...], dict[str, Any]]
Key = tuple[str, str, str, str]

#: More records than this share of all in one go are read anew: that costs less.
_MANY, _FEW = 4, 1000


class Standing:
    """The verdicts of now on what ``snapshot`` held, and what ``take`` told of since."""

    def __init__(self, snapshot: Snapshot, *, now: datetime, thresholds: Thresholds) -> None:
        """Judge everything as it stands at ``now``."""
        encoded = encode(snapshot, now=now)
        self._now, self._thresholds = now, thresholds
        times = [item.memory.time for item in snapshot.memories] + [item.time for item in snapshot.rulings]
        self._ends = min((time for time in times if time and time > now), default=None)
        self._silent = {
            item.memory.id for item in snapshot.memories if item.memory.time and item.memory.time > now
        }
        self._ids, self._number = list(encoded.ids), dict(encoded.number)
        self._memories = set(encoded.memory)
        self._inert = {item.key: item for item in encoded.inert}
        self._waited_for = {id for item in encoded.inert for id in item.key[:2]} - self._number.keys()
        looped = [item for item in encoded.inert if role(item, self._number, self._silent) == SPOKEN]
        rulings = [item for item in snapshot.rulings if item.time <= now]
        self._voices = Voices(encoded, snapshot.memories, rulings, looped)
        self._structure: list[Edge] = list(encoded.structure)
        self._edge = {item.key: e for e, item in enumerate(self._structure)}
        self._spoken = {item.key: item for item in encoded.spoken}
        self._resident = ResidentGraph.from_arrays(
            encoded.node_count,
            source=encoded.source,
            target=encoded.target,
            weight=encoded.weight,
            supports=encoded.supports,
            justification=encoded.justification,
            premise=encoded.premise,
            direct=direct_evidence(encoded.evidence, encoded.node_count),
        )
        self._trails = Trails()
        self._said: dict[int, dict[int, Said]] = {}
        self._invalidity = self._resident.invalidity.copy()
        #: Memories whose edges or words changed since they were judged, and those with other words.
        self._touched: set[int] = set()
        self._spoken_of = {self._number[item.target] for item in encoded.spoken}
        self.verdicts: dict[str, Verdict] = {}
        self._hear()
        self._judge(np.arange(encoded.node_count))

    def is_over(self, now: datetime) -> bool:
        """Tell whether something dated in the future has begun to speak by ``now``."""
        return self._ends is not None and now >= self._ends

    @property
    def acting_edges(self) -> int:
        """Number of edges that act, those of rulings and of forgetting apart."""
        return len(self._edge) + sum(not key[0].startswith(PSEUDO) for key in self._spoken)

    @property
    def inert_edges(self) -> int:
        """Number of edges without effect at this moment."""
        return len(self._inert)

    def take(self, calls: Sequence[Call], *, now: datetime) -> bool:
        """Follow the writes ``calls``, as ``mirror.Recorder`` notes them; False where all must be read anew.

        After False this object is of no more use.
        """
        follow: Mapping[str, Callable[..., None]] = {
            "put_memories": self._put_memories,
            "put_edges": self._put_edges,
            "drop_edges": self._drop_edges,
            "put_ruling": self._put_ruling,
            "put_asked": lambda pairs: None,
        }
        size = sum(len(positional[0]) for name, positional, _ in calls if name.startswith("put_m"))
        size += sum(len(positional[0]) for name, positional, _ in calls if name == "put_edges")
        self._now = max(self._now, now)
        if size > _FEW + len(self._ids) // _MANY or any(name not in follow for name, _, _ in calls):
            return False
        try:
            for name, positional, named in calls:
                follow[name](*positional, **named)
        except Unfollowed:
            return False
        self._settle()
        return True

    def ground(self, id: str) -> tuple[int, Ground]:
        """Return the number of memory ``id``, and what paths to it lead over."""
        v = self._number[id]
        return v, Ground.of(self._said, self._inflow(self._resident.above(v)))

    def blast_radius(self, id: str) -> list[Fallout]:
        """Return what would fall if memory ``id`` fell; see ``counterfactual.blast_radius``."""
        node = np.array([self._number[id]])
        own = self._resident.direct[node]
        self._resident.set_direct(node, 1.0)
        after = self._resident.invalidity.copy()
        # What it was before comes back to the last bit.
        self._resident.set_direct(node, own)
        return [
            Fallout(self._ids[v], float(self._invalidity[v]), float(after[v]))
            for v in fallen(self._invalidity, after).tolist()
            if v != node[0] and v in self._memories
        ]

    def _put_memories(self, rows: Sequence[StoredMemory]) -> None:
        for item in rows:
            id, time = item.memory.id, item.memory.time
            if id in self._number or id in self._waited_for or (time is not None and time > self._now):
                raise Unfollowed
        first = self._resident.append_many(len(rows), premise=[item.memory.premise for item in rows])
        for v, item in enumerate(rows, start=first):
            self._voices.enter(item, v)
            self._name(item.memory.id, v)
            self._memories.add(v)

    def _put_ruling(self, ruling: Ruling) -> None:
        if ruling.time > self._now:
            raise Unfollowed
        v = self._resident.append_many(1)
        self._voices.enter_ruling(ruling, v)
        self._name(ruling.id, v)
        self._put_edges([ruled(ruling)])

    def _name(self, id: str, v: int) -> None:
        self._ids.append(id)
        self._number[id] = v
        self._touched.add(v)

    def _put_edges(self, edges: Sequence[Edge]) -> None:
        self._drop_edges([item.key for item in edges])
        fresh: list[Edge] = []
        for item in edges:
            self._voices.check(item)
            kind = role(item, self._number, self._silent)
            if kind == STRUCTURE:
                fresh.append(item)
            elif kind == SPOKEN:
                target = self._number[item.target]
                self._voices.speak(item, self._number[item.source], target)
                self._spoken[item.key] = item
                self._touched.add(target)
                self._spoken_of.add(target)
            else:
                self._inert[item.key] = item
                self._waited_for |= set(item.key[:2]) - self._number.keys()
        if not fresh:
            return
        targets = [self._number[item.target] for item in fresh]
        added = self._resident.add_edges(
            source=[self._number[item.source] for item in fresh],
            target=targets,
            weight=[item.weight for item in fresh],
            supports=[item.type == SUPPORTS for item in fresh],
            justification=[justification_number(item) for item in fresh],
        )
        self._structure += fresh
        self._edge |= {item.key: int(e) for item, e in zip(fresh, added, strict=True)}
        self._touched.update(targets)

    def _drop_edges(self, keys: Iterable[Key]) -> None:
        gone: list[int] = []
        for key in keys:
            lain = self._inert.pop(key, None)
            if lain is not None:
                self._voices.check(lain)
                if role(lain, self._number, self._silent) == SPOKEN:
                    # It lost in a loop of supersession, which may be one no more.
                    raise Unfollowed
            if key in self._edge:
                gone.append(self._edge.pop(key))
                self._touched.add(self._number[key[1]])
            item = self._spoken.pop(key, None)
            if item is not None:
                self._voices.check(item)
                target = self._number[item.target]
                self._voices.silence(item, self._number[item.source], target)
                self._touched.add(target)
                self._spoken_of.add(target)
        if gone:
            self._resident.remove_edges(gone)

    def _settle(self) -> None:
        """Judge again whatever may have changed since the last time."""
        if self._spoken_of:
            target = np.array(sorted(self._spoken_of), dtype=np.int64)
            self._resident.set_direct(target, self._voices.direct(target))
        self._hear()
        before = np.zeros(self._resident.node_count)
        before[: self._invalidity.size] = self._invalidity
        self._invalidity = self._resident.invalidity.copy()
        changed = np.flatnonzero(self._invalidity != before)
        start = np.union1d(changed, np.array(sorted(self._touched), dtype=np.int64))
        self._touched = set()
        # Where nothing fails before or after, nothing is handed on.
        alive = (self._invalidity > 0.0) | (before > 0.0)
        self._judge(self._resident.below(start, alive))

    def _hear(self) -> None:
        for v in self._spoken_of:
            self._said[v] = self._voices.said(v)
        self._spoken_of = set()

    def _judge(self, node: NDArray[np.int64]) -> None:
        """Trace and judge the memories ``node`` again, of which no others depend on."""
        if node.size == 0:
            return
        inflow = self._inflow(node)
        self._trails.retrace(node, said=self._said, inflow=inflow, count=len(self._ids))
        required, supported = self._resident.losses(node)
        direct = self._resident.direct
        for i, v in enumerate(node.tolist()):
            if v not in self._memories:
                continue
            account = Account(
                id=self._ids[v],
                invalidity=float(self._invalidity[v]),
                direct=float(direct[v]),
                requirement=float(required[i]),
                support=float(supported[i]),
                bounds=None,
                ids=self._ids,
            )
            said = self._said.get(v, {})
            self.verdicts[account.id] = verdict(account, said, self._trails, v, thresholds=self._thresholds)

    def _inflow(self, node: NDArray[np.int64]) -> Inflow:
        """Return the edges over which invalidity comes into the memories ``node``."""
        source, target, weight, support, edge = self._resident.into(node)
        carries = np.flatnonzero((self._invalidity[source] > 0.0) & (weight > 0.0))
        structure, edge = self._structure, edge[carries]
        return Inflow(
            source=source[carries],
            target=target[carries],
            weight=weight[carries],
            support=support[carries],
            edge=lambda k: structure[edge[k]],
        )
