"""``ValidityGraph``: the one class that users meet.

It keeps what was said in a store, asks the verifier which memories overturn which, runs a kernel over
the result and says, for every memory, how far it can still be used and why.  Each write is checked
whole before it touches the store and lands in one transaction.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from validity_graph import counterfactual
from validity_graph.admission import (
    Holdings,
    admit,
    support_edges,
    utf8,
)
from validity_graph.counterfactual import Fallout, Hinge
from validity_graph.encode import PSEUDO
from validity_graph.errors import InputError, UnknownMemoryError
from validity_graph.explain import Thresholds, explanation
from validity_graph.formats import Record
from validity_graph.inference import Moment
from validity_graph.mirror import Mirror, Recorder
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
    Ruling,
    Status,
    Verdict,
    Verification,
    parse_time,
    probability,
    same_text,
)
from validity_graph.store import NOTHING, LogEntry, Snapshot, SQLStore, Store, StoredMemory, Tombstone
from validity_graph.verification import (
    Pair,
    edges_from,
    pairs_to_ask,
    supports_from,
    without_retraction_cycles,
)

if TYPE_CHECKING:
    from validity_graph.candidates import CandidateIndex
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
        self._store = store
        self._verifier = verifier
        self._thresholds = thresholds or Thresholds()
        self._clock = clock or (lambda: datetime.now(timezone.utc))
        self._lock = threading.RLock()
        self._as_of: datetime | None = None
        self._read(NOTHING)

    @classmethod
    def open(
        cls,
        place: str | None = None,
        *,
        verifier: Verifier | None = None,
        thresholds: Thresholds | None = None,
        clock: Clock | None = None,
    ) -> ValidityGraph:
        """Open the graph at ``place``: an SQLite file, an SQLAlchemy URL, or ``None`` for memory only.

        Raises ``StoreError`` where it cannot be opened.
        """
        return cls(SQLStore(place), verifier=verifier, thresholds=thresholds, clock=clock)

    def close(self) -> None:
        """Release the store."""
        self._store.close()

    def __enter__(self) -> ValidityGraph:
        """Return the graph itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Release the store."""
        self.close()

    def __len__(self) -> int:
        """Return the number of memories that are not forgotten."""
        with self._lock:
            return len(self._current().memories)

    def __contains__(self, id: str) -> bool:
        """Tell whether a memory of this id is there and not forgotten."""
        with self._lock:
            return id in self._current().memories

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
        depends_on: Iterable[str] = (),
        supported_by: Iterable[str | tuple[str, ...]] = (),
        supersedes: Iterable[str] = (),
        retracts: Iterable[str] = (),
        confirms: Iterable[str] = (),
        replace: bool = False,
        remember: bool = False,
    ) -> None:
        """Add one memory with its edges, or nothing at all.

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
        )
        edges = [Edge(source, id, REQUIRES) for source in depends_on]
        edges += support_edges(id, supported_by)
        edges += [Edge(id, target, OVERTURNS, kind=SUPERSEDES) for target in supersedes]
        edges += [Edge(id, target, OVERTURNS, kind=RETRACTS) for target in retracts]
        edges += [Edge(id, target, CONFIRMS) for target in confirms]
        items: list[Memory | Edge] = [new, *edges]
        self._take(
            [Record("", item) for item in items], allow_missing=False, replace=replace, remember=remember
        )

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
        self._take([Record("", new)], allow_missing=False, replace=False, remember=False)

    def disconnect(self, source: str, target: str, *, type: str, proposition: str = "") -> None:
        """Remove one edge.  Raises ``InputError`` where there is none."""
        key = (source, target, type, proposition)
        with self._writing() as transaction:
            if key not in self._mirror.edges:
                raise InputError(f"there is no {type} edge {source} -> {target} to remove")
            transaction.drop_edges([key])
            self._log(transaction, "disconnect", source, detail={"target": target, "type": type})

    def ingest(
        self, records: Sequence[Record], *, allow_missing: bool = False, replace: bool = False
    ) -> Intake:
        """Add memories and edges as read by ``formats.read_jsonl``, all of them or none.

        With ``allow_missing`` an edge with an unknown end is kept and waits for that memory; without it
        it is an ``UnknownMemoryError``.  Every error names the place the record was read from.
        """
        return self._take(records, allow_missing=allow_missing, replace=replace, remember=False)

    def verify(self, *, progress: Progress | None = None) -> Verification:
        """Ask the verifier about every pair that is worth asking and was not asked yet; keep its edges.

        Candidates are capped for each memory, so the work is linear in what is new.  ``progress`` is called
        with (pairs done, pairs in all).  Given edges are never replaced.
        """
        with self._lock:
            mirror = self._current()
            fresh, pairs = pairs_to_ask(self._index(), mirror)
        scored = self._score(pairs, progress)
        with self._writing() as transaction:
            mirror = self._mirror
            # Somebody may have written while the verifier was reading.
            held = mirror.memories
            pairs = [pair for pair in pairs if all(held.get(item.memory.id) == item for item in pair)]
            asked = {(source.memory.id, target.memory.id) for source, target in pairs}
            new = [
                item
                for item in scored
                if item.key not in mirror.edges and (item.source, item.target) in asked
            ]
            edges = without_retraction_cycles(new, given=mirror.retractions)
            asked |= {(id, id) for id in fresh if id in held}
            transaction.put_asked(sorted(asked - mirror.asked))
            transaction.put_edges(edges)
            overturns = sum(item.type == OVERTURNS for item in edges)
            counts = {"pairs": len(pairs), "overturns": overturns, "confirms": len(edges) - overturns}
            if fresh:
                self._log(transaction, "verify", "", detail=counts)
        return Verification(**counts)

    def infer_supports(self, *, threshold: float | None = None) -> int:
        """Infer support edges from the texts and keep them, marked as inferred; return how many are new.

        Opt-in: a learned graph is right less often than a given one, and prerequisites are never inferred
        ([V3] section 15).  ``threshold`` in [0, 1] defaults to ``supports.THRESHOLD``.
        """
        from validity_graph.supports import THRESHOLD, SupportScorer

        bar = THRESHOLD if threshold is None else probability(threshold, what="threshold")
        with self._writing() as transaction:
            found = supports_from(self._index(), self._mirror, SupportScorer.load(), threshold=bar)
            edges = [item for item in found if item.key not in self._mirror.edges]
            transaction.put_edges(edges)
            if edges:
                self._log(transaction, "infer_supports", "", detail={"supports": len(edges)})
        return len(edges)

    def invalidate(self, id: str, probability: float = 1.0, *, reason: str = "") -> None:
        """Rule that memory ``id`` does not hold, with this probability in [0, 1]; kept in the log."""
        self._rule(id, "invalidate", probability, reason)

    def confirm(self, id: str, *, reason: str = "") -> None:
        """Rule that memory ``id`` holds: clears the direct evidence dated before now; kept in the log."""
        self._rule(id, "confirm", 1.0, reason)

    def forget(self, id: str, *, reason: str = "") -> None:
        """Erase the text of memory ``id`` everywhere and leave a tombstone.

        What rests on it counts as resting on something that is gone; what it said about others is
        withdrawn.  The same id or text is refused from then on, unless it is asked for.
        """
        with self._writing() as transaction:
            stored = self._stored(id)
            grave = Tombstone(
                id=id,
                namespace=stored.memory.namespace,
                time=self._clock(),
                reason=reason,
                digest=self._store.digest(same_text(stored.memory)),
            )
            transaction.bury(grave, edges=self._mirror.spoken_with(id))
            self._log(transaction, "forget", id, reason=reason)
        self._store.scrub()

    # -- reading ---------------------------------------------------------------------------------------

    def check(self, ids: Collection[str] | None = None, *, method: str = "noisy_or") -> dict[str, Verdict]:
        """Return the verdict on every memory, or on ``ids``, in arrival order.

        ``method`` is ``noisy_or``, ``worlds`` or ``exact`` (SEMANTICS section 4).  Raises
        ``UnknownMemoryError`` for an id that is not there.
        """
        with self._lock:
            found = self._moment().verdicts(method)
            if ids is None:
                return dict(found)
            wanted = set(ids)
            for id in sorted(wanted - found.keys()):
                self._stored(id)
            return {id: verdict for id, verdict in found.items() if id in wanted}

    def explain(self, id: str, *, paths: int = 3) -> Explanation:
        """Return the verdict on memory ``id`` with its strongest evidence paths, strongest first."""
        with self._lock:
            moment = self._moment()
            v = self._number(moment, id)
            verdict = moment.verdicts("noisy_or")[id]
            return explanation(moment.findings("noisy_or"), v, verdict=verdict, count=paths)

    def hinges(self, id: str, *, count: int = 10) -> list[Hinge]:
        """Return the memories and edges without which the verdict on ``id`` would change most, largest first.

        Each change is exact by recomputing the memory's cone; see ``counterfactual.hinges``.
        """
        with self._lock:
            moment = self._moment()
            return counterfactual.hinges(moment.encoded, self._number(moment, id), count=count)

    def without(self, id: str, *, memory: str | None = None, edge: Edge | None = None) -> float:
        """Return the invalidity of ``id`` had another memory, or one edge, never been there."""
        with self._lock:
            moment = self._moment()
            left_out = None if memory is None else self._number(moment, memory)
            return counterfactual.without(
                moment.encoded, self._number(moment, id), memory=left_out, edge=edge
            )

    def blast_radius(self, id: str) -> list[Fallout]:
        """Return what would fall if memory ``id`` fell, before it does, most harmed first."""
        with self._lock:
            moment = self._moment()
            return counterfactual.blast_radius(moment.findings("noisy_or"), self._number(moment, id))

    def as_of(self, time: str | datetime) -> ValidityGraph:
        """Return this graph as it was known at ``time``, for reading only (SEMANTICS law 15)."""
        moment = parse_time(time)
        if moment is None:
            raise InputError("as_of needs a time, like 2025-03-01")
        view = ValidityGraph(
            self._store, verifier=self._verifier, thresholds=self._thresholds, clock=self._clock
        )
        view._as_of = moment
        return view

    def summary(self, found: Mapping[str, Verdict]) -> dict[str, int]:
        """Return how many of these verdicts have each status, and how many edges act or lie inert."""
        with self._lock:
            encoded = self._moment().encoded
        counts = {"memories": len(found)}
        counts |= {status.value: sum(item.status is status for item in found.values()) for status in Status}
        acting = sum(not item.source.startswith(PSEUDO) for item in encoded.structure + encoded.spoken)
        return counts | {"acting_edges": acting, "inert_edges": len(encoded.inert)}

    def memory(self, id: str) -> Memory:
        """Return one memory.  Raises ``UnknownMemoryError`` where there is none."""
        with self._lock:
            self._current()
            return self._stored(id).memory

    def memories(self) -> list[Memory]:
        """Return every memory in arrival order."""
        with self._lock:
            return [item.memory for item in self._current().memories.values()]

    def edges(self) -> list[Edge]:
        """Return every edge, the inert ones too."""
        with self._lock:
            return list(self._current().edges.values())

    def history(self, id: str | None = None) -> list[LogEntry]:
        """Return the log of memory ``id``, or of the whole graph, oldest first."""
        return self._store.history(id)

    def retrieve(
        self, query: str, *, k: int = 5, mode: str = "context", namespace: str = ""
    ) -> list[Retrieved]:
        """Return the ``k`` memories most relevant to ``query`` with their validity.

        ``mode`` is ``off``, ``context`` (the default: order as retrieved, validity attached) or ``demote``
        (outdated ones moved down); see ``layer``.
        """
        from validity_graph.layer import annotate

        with self._lock:
            stored = {item.sequence: item.memory for item in self._current().memories.values()}
            hits = self._index().search(query, k=k, namespace=namespace)
            found = [(stored[sequence], score) for sequence, score in hits]
            return annotate(found, self._moment().verdicts("noisy_or"), mode=mode, query=query)

    # -- inside ----------------------------------------------------------------------------------------

    def _current(self) -> Mirror:
        """Return what the store holds now; read again only where somebody else wrote since."""
        if self._store.revision() != self._mirror.revision:
            self._read(self._store.snapshot())
        return self._mirror

    def _read(self, snapshot: Snapshot) -> None:
        self._mirror = Mirror(snapshot)
        self._judged: Moment | None = None
        self._candidates: CandidateIndex | None = None

    @contextmanager
    def _writing(self) -> Iterator[Recorder]:
        """Yield a transaction with the mirror current inside it; a failure leaves both as they were."""
        if self._as_of is not None:
            raise InputError("a graph as of a past time is for reading only; write to the graph it came from")
        with self._lock:
            with self._store.transaction() as transaction:
                if transaction.revision() != self._mirror.revision:
                    self._read(transaction.snapshot())
                recorder = Recorder(transaction)
                yield recorder
            recorder.replay(self._mirror)
            self._judged = None

    def _log(
        self,
        transaction: Recorder,
        action: str,
        subject: str,
        *,
        reason: str = "",
        detail: Mapping[str, Any] | None = None,
    ) -> int:
        return transaction.append_log(
            time=self._clock(), action=action, subject=subject, reason=reason, detail=detail or {}
        )

    def _take(
        self, records: Sequence[Record], *, allow_missing: bool, replace: bool, remember: bool
    ) -> Intake:
        with self._writing() as transaction:
            holdings = Holdings(self._mirror.memories, self._mirror.tombstones, self._mirror.retractions)
            memories, edges = admit(
                records,
                holdings,
                digest=self._store.digest,
                allow_missing=allow_missing,
                replace=replace,
                remember=remember,
            )
            self._put_memories(transaction, memories)
            edges = [item for item in edges if self._mirror.edges.get(item.key) != item]
            here = self._mirror.memories.keys() | {item.id for item in memories}
            missing = sum(not {item.source, item.target} <= here for item in edges)
            transaction.put_edges(edges)
            for item in edges:
                self._log(
                    transaction, "connect", item.source, detail={"target": item.target, "type": item.type}
                )
        return Intake(memories=len(memories), edges=len(edges), missing=missing)

    def _put_memories(self, transaction: Recorder, memories: Sequence[Memory]) -> None:
        rows = []
        for item in memories:
            old = self._mirror.memories.get(item.id)
            sequence = self._log(transaction, "add" if old is None else "replace", item.id)
            rows.append(StoredMemory(sequence if old is None else old.sequence, self._clock(), item))
            if old is not None:
                transaction.drop_asked(item.id)
            if item.id in self._mirror.tombstones:
                transaction.unbury(item.id)
        transaction.put_memories(rows)

    def _rule(self, id: str, action: str, value: float, reason: str) -> None:
        value = probability(value, what=f"probability that {id!r} does not hold")
        with self._writing() as transaction:
            self._stored(id)
            sequence = self._log(transaction, action, id, reason=reason, detail={"probability": value})
            transaction.put_ruling(Ruling(id, action, value, reason, self._clock(), sequence))

    def _stored(self, id: str) -> StoredMemory:
        stored = self._mirror.memories.get(id)
        if stored is None:
            buried = self._mirror.tombstones.get(id)
            mend = f"it was forgotten on {buried.time:%Y-%m-%d}" if buried else "add it first"
            raise UnknownMemoryError(f'unknown memory "{id}"; {mend}')
        return stored

    def _moment(self) -> Moment:
        mirror, now = self._current(), self._clock()
        if self._judged is None or self._judged.is_over(now):
            self._judged = Moment(mirror.snapshot(), now=now, as_of=self._as_of, thresholds=self._thresholds)
        return self._judged

    def _number(self, moment: Moment, id: str) -> int:
        self._stored(id)
        v = moment.encoded.number.get(id)
        if v is None:
            raise UnknownMemoryError(f'memory "{id}" was not known yet at that time; ask for a later one')
        return v

    def _index(self) -> CandidateIndex:
        from validity_graph.candidates import CandidateIndex

        mirror = self._mirror
        if self._candidates is None:
            self._candidates = CandidateIndex()
            mirror.touched = {item.sequence for item in mirror.memories.values()}
        here = {item.sequence: item.memory for item in mirror.memories.values()} if mirror.touched else {}
        for sequence in sorted(mirror.touched):
            if sequence in self._candidates:
                self._candidates.remove(sequence)
        self._candidates.extend(
            (sequence, here[sequence]) for sequence in sorted(mirror.touched & here.keys())
        )
        mirror.touched = set()
        return self._candidates

    def _score(self, pairs: Sequence[Pair], progress: Progress | None) -> list[Edge]:
        if not pairs:
            return []
        if self._verifier is None:
            from validity_graph.verifier import Verifier

            self._verifier = Verifier.load()
        scores = self._verifier.score(
            [source.memory.text for source, _ in pairs],
            [target.memory.text for _, target in pairs],
            domains=[target.memory.domain for _, target in pairs],
            progress=progress,
        )
        return edges_from(pairs, scores)
