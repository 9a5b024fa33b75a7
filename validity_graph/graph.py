"""``ValidityGraph``: the one class that users meet.

It keeps what was said in a store, asks the verifier which memories overturn which, runs a kernel over
the result and says, for every memory, how far it can still be used and why.  Each write is checked
whole before it touches the store and lands in one transaction.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from validity_graph import counterfactual
from validity_graph.admission import support_edges, utf8
from validity_graph.archive import Archive
from validity_graph.asking import Asker
from validity_graph.counterfactual import Fallout, Hinge
from validity_graph.database import SQLStore
from validity_graph.errors import InputError
from validity_graph.explain import Thresholds
from validity_graph.formats import Record
from validity_graph.judge import Judge
from validity_graph.records import (
    CONFIRMS,
    OVERTURNS,
    REQUIRES,
    RETRACTS,
    SUPERSEDES,
    Edge,
    Evidence,
    Explanation,
    Intake,
    Memory,
    Status,
    Verdict,
    Verification,
    parse_time,
    probability,
)
from validity_graph.store import LogEntry, Store

if TYPE_CHECKING:
    from validity_graph.layer import Retrieved
    from validity_graph.verifier import Verifier

Clock = Callable[[], datetime]
Progress = Callable[[int, int], None]


class ValidityGraph:
    """Memories, what speaks against them, and what rests on what.

    Open one with ``ValidityGraph.open``; it may be used from several threads, and several processes may
    open the same file.
    """

    def __init__(
        self,
        store: Store,
        *,
        verifier: Verifier | None = None,
        thresholds: Thresholds | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Work on ``store``; ``verifier`` defaults to the packaged one, loaded on first use."""
        self._start(store, verifier, thresholds or Thresholds(), clock or _utc_now, as_of=None)

    def _start(
        self,
        store: Store,
        verifier: Verifier | None,
        thresholds: Thresholds,
        clock: Clock,
        *,
        as_of: datetime | None,
    ) -> None:
        self._thresholds = thresholds
        self._archive = Archive(store, clock=clock, sealed=as_of is not None)
        self._lock = self._archive.lock
        self._asker = Asker(self._archive, verifier)
        self._judge = Judge(self._archive, thresholds=thresholds, as_of=as_of)

    @classmethod
    def open(
        cls,
        place: str | os.PathLike[str] | None = None,
        *,
        verifier: Verifier | None = None,
        thresholds: Thresholds | None = None,
        clock: Clock | None = None,
    ) -> ValidityGraph:
        """Open the graph at ``place``: an SQLite file, an SQLAlchemy URL, or ``None`` for memory only.

        Raises ``StoreError`` where it cannot be opened.
        """
        url = None if place is None else os.fspath(place)
        return cls(SQLStore(url), verifier=verifier, thresholds=thresholds, clock=clock)

    def close(self) -> None:
        """Release the store."""
        self._archive.store.close()

    def __enter__(self) -> ValidityGraph:
        """Return the graph itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Release the store."""
        self.close()

    def __len__(self) -> int:
        """Return the number of memories that are not forgotten."""
        with self._lock:
            return len(self._archive.current().memories)

    def __contains__(self, id: str) -> bool:
        """Tell whether a memory of this id is there and not forgotten."""
        with self._lock:
            return id in self._archive.current().memories

    # -- writing ---------------------------------------------------------------------------------------

    def add(
        self,
        id: str,
        text: str,
        *,
        time: str | datetime | None = None,
        domain: str = "",
        namespace: str = "",
        trust: float = 1.0,
        channel: str = "",
        premise: bool = False,
        meta: Mapping[str, Any] | None = None,
        context: str = "",
        depends_on: Iterable[str] = (),
        supported_by: Iterable[str | tuple[str, ...]] = (),
        supersedes: Iterable[str] = (),
        retracts: Iterable[str] = (),
        confirms: Iterable[str] = (),
        replace: bool = False,
        remember: bool = False,
    ) -> None:
        """Add one memory with its edges, or nothing at all.

        ``context`` is what was said before and says what ``text`` is about; it is read with the text, and a
        memory is not overturned for what its context says.
        ``depends_on`` are prerequisites that must all hold; ``supported_by`` are alternative reasons, a
        tuple inside being one justification whose members must hold together; ``supersedes``,
        ``retracts`` and ``confirms`` say what this memory speaks about.  The same id with the same
        content changes nothing; other content needs ``replace``; a forgotten id or text needs
        ``remember``.  Raises ``InputError`` and its kinds; then nothing is written.
        """
        new = Memory(
            id=utf8(id, what="id of a memory"),
            text=utf8(text, what=f"text of memory {id!r}"),
            time=parse_time(time, what=f"time of memory {id!r}"),
            domain=domain,
            namespace=namespace,
            trust=probability(trust, what=f"trust of memory {id!r}"),
            channel=channel,
            premise=premise,
            meta=dict(meta or {}),
            context=context and utf8(context, what=f"context of memory {id!r}"),
        )
        edges = [Edge(source, id, REQUIRES) for source in depends_on]
        edges += support_edges(id, supported_by)
        edges += [Edge(id, target, OVERTURNS, kind=SUPERSEDES) for target in supersedes]
        edges += [Edge(id, target, OVERTURNS, kind=RETRACTS) for target in retracts]
        edges += [Edge(id, target, CONFIRMS) for target in confirms]
        items: list[Memory | Edge] = [new, *edges]
        self._archive.take([Record("", item) for item in items], replace=replace, remember=remember)

    def connect(
        self,
        source: str,
        target: str,
        *,
        type: str,
        weight: float = 1.0,
        kind: str = "",
        justification: str = "",
        proposition: str = "",
        evidence: Evidence | None = None,
    ) -> None:
        """Add one edge, or replace the one with the same source, target, type and proposition.

        Raises ``InputError`` and its kinds for an edge that may not enter; then nothing is written.
        """
        if type == OVERTURNS:
            kind = kind or SUPERSEDES
            if kind not in (SUPERSEDES, RETRACTS):
                raise InputError(f'kind of edge {source} -> {target} must be "{SUPERSEDES}" or "{RETRACTS}"')
        weight = probability(weight, what=f"weight of edge {source} -> {target}")
        new = Edge(source, target, type, weight, kind, justification, proposition, evidence)
        self._archive.take([Record("", new)])

    def disconnect(self, source: str, target: str, *, type: str, proposition: str = "") -> None:
        """Remove one edge.  Raises ``InputError`` where there is none."""
        self._archive.drop_edge((source, target, type, proposition))

    def ingest(
        self, records: Sequence[Record], *, allow_missing: bool = False, replace: bool = False
    ) -> Intake:
        """Add memories and edges as read by ``formats.read_jsonl``, all of them or none.

        With ``allow_missing`` an edge with an unknown end is kept and waits for that memory; without it
        it is an ``UnknownMemoryError``.  Every error names the place the record was read from.
        """
        return self._archive.take(records, allow_missing=allow_missing, replace=replace)

    def verify(self, *, progress: Progress | None = None) -> Verification:
        """Ask the verifier about every pair that is worth asking and was not asked yet; keep its edges.

        Candidates are capped for each memory, so the work is linear in what is new.  ``progress`` is called
        with (pairs done, pairs in all).  Given edges are never replaced.
        """
        return self._asker.verify(progress)

    def infer_supports(self, *, threshold: float | None = None, progress: Progress | None = None) -> int:
        """Infer support edges from the texts and keep them, marked as inferred; return how many are new.

        Opt-in: a learned graph is right less often than a given one, and prerequisites are never inferred
        ([V3] section 15).  ``threshold`` in [0, 1] defaults to ``supports.THRESHOLD``; ``progress`` is
        called with (pairs done, pairs in all).
        """
        from validity_graph.supports import THRESHOLD

        bar = THRESHOLD if threshold is None else probability(threshold, what="threshold")
        return self._asker.infer_supports(bar, progress)

    def invalidate(self, id: str, probability: float = 1.0, *, reason: str = "") -> None:
        """Rule that memory ``id`` does not hold, with this probability in [0, 1]; kept in the log."""
        self._archive.rule(id, "invalidate", probability, reason=reason)

    def confirm(self, id: str, *, reason: str = "") -> None:
        """Rule that memory ``id`` holds: clears the direct evidence dated before now; kept in the log."""
        self._archive.rule(id, "confirm", 1.0, reason=reason)

    def forget(self, id: str, *, reason: str = "") -> None:
        """Erase the text of memory ``id`` everywhere and leave a tombstone.

        What rests on it counts as resting on something that is gone; what it said about others is
        withdrawn.  The same id or text is refused from then on, unless it is asked for.
        """
        self._archive.bury(id, reason=reason)

    # -- reading ---------------------------------------------------------------------------------------

    def check(self, ids: Collection[str] | None = None, *, method: str = "noisy_or") -> dict[str, Verdict]:
        """Return the verdict on every memory, or on ``ids``, in arrival order.

        ``method`` is ``noisy_or``, ``worlds`` or ``exact`` (SEMANTICS section 4).  Raises
        ``UnknownMemoryError`` for an id that is not there.
        """
        with self._lock:
            found = self._judge.verdicts(method)
            if ids is None:
                return dict(found)
            wanted = set(ids)
            for id in sorted(id for id in wanted if id not in found):
                self._archive.stored(id)
            known = [id for id in wanted if id in found]
            known.sort(key=lambda id: self._archive.mirror.memories[id].sequence)
            return {id: found[id] for id in known}

    def explain(self, id: str, *, paths: int = 3) -> Explanation:
        """Return the verdict on memory ``id`` with its strongest evidence paths, strongest first."""
        with self._lock:
            return self._judge.explanation(id, paths=paths)

    def hinges(self, id: str, *, count: int = 10) -> list[Hinge]:
        """Return the memories and edges without which the verdict on ``id`` would change most, largest first.

        Each change is exact by recomputing the memory's cone; see ``counterfactual.hinges``.
        """
        with self._lock:
            encoded = self._judge.moment().encoded
            return counterfactual.hinges(encoded, self._judge.number(id), count=count)

    def without(self, id: str, *, memory: str | None = None, edge: Edge | None = None) -> float:
        """Return the invalidity of ``id`` had another memory, or one edge, never been there."""
        with self._lock:
            encoded = self._judge.moment().encoded
            left_out = None if memory is None else self._judge.number(memory)
            return counterfactual.without(encoded, self._judge.number(id), memory=left_out, edge=edge)

    def blast_radius(self, id: str) -> list[Fallout]:
        """Return what would fall if memory ``id`` fell, before it does, most harmed first."""
        with self._lock:
            return self._judge.blast_radius(id)

    def as_of(self, time: str | datetime) -> ValidityGraph:
        """Return this graph as it was known at ``time``, for reading only (SEMANTICS law 15)."""
        moment = parse_time(time)
        if moment is None:
            raise InputError("as_of needs a time, like 2025-03-01")
        view = ValidityGraph.__new__(ValidityGraph)
        archive = self._archive
        view._start(archive.store, self._asker.verifier, self._thresholds, archive.clock, as_of=moment)
        return view

    def summary(self, found: Mapping[str, Verdict]) -> dict[str, int]:
        """Return how many of these verdicts have each status, and how many edges act or lie inert."""
        with self._lock:
            acting, inert = self._judge.edge_counts()
        counts = {"memories": len(found)}
        counts |= {status.value: sum(item.status is status for item in found.values()) for status in Status}
        return counts | {"acting_edges": acting, "inert_edges": inert}

    def memory(self, id: str) -> Memory:
        """Return one memory.  Raises ``UnknownMemoryError`` where there is none."""
        with self._lock:
            self._archive.current()
            return self._archive.stored(id).memory

    def memories(self) -> list[Memory]:
        """Return every memory in arrival order."""
        with self._lock:
            return [item.memory for item in self._archive.current().memories.values()]

    def edges(self) -> list[Edge]:
        """Return every edge, the inert ones too."""
        with self._lock:
            return list(self._archive.current().edges.values())

    def history(self, id: str | None = None) -> list[LogEntry]:
        """Return the log of memory ``id``, or of the whole graph, oldest first."""
        return self._archive.store.history(id)

    def retrieve(
        self, query: str, *, k: int = 5, mode: str = "context", namespace: str = ""
    ) -> list[Retrieved]:
        """Return the ``k`` memories most relevant to ``query`` with their validity.

        ``mode`` is ``off``, ``context`` (the default: order as retrieved, validity attached) or ``demote``
        (outdated ones moved down); see ``layer``.
        """
        from validity_graph.layer import annotate

        with self._lock:
            mirror = self._archive.current()
            hits = self._asker.index().search(query, k=k, namespace=namespace)
            found = [
                (mirror.memories[mirror.by_sequence[sequence]].memory, score) for sequence, score in hits
            ]
            return annotate(found, self._judge.verdicts("noisy_or"), mode=mode, query=query)


def _utc_now() -> datetime:
    return datetime.now(timezone.utc)
