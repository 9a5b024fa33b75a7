"""What may enter the graph: the checks that every new memory and edge passes before anything is written.

Pure functions over records; a refusal is an ``InputError`` that names the thing and the mend.  The rules
are SEMANTICS sections 1, 2 and 7.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field

from validity_graph.errors import ConflictError, CycleError, ForgottenError, InputError, UnknownMemoryError
from validity_graph.formats import Record, placed
from validity_graph.records import CONFIRMS, OVERTURNS, RETRACTS, SUPPORTS, Edge, Memory, same_text
from validity_graph.store import StoredMemory, Tombstone


@dataclass(frozen=True, slots=True)
class Holdings:
    """What the graph holds when a record asks to enter; ``retractions`` maps a source to its targets.

    ``entering`` are memories, and ``retracting`` retractions, that were let in with the same write.
    """

    memories: Mapping[str, StoredMemory]
    tombstones: Mapping[str, Tombstone]
    retractions: MutableMapping[str, set[str]]
    entering: dict[str, Memory] = field(default_factory=dict)
    retracting: dict[str, set[str]] = field(default_factory=dict)

    def memory(self, id: str) -> Memory | None:
        """Return the memory of this id as it will be, ``None`` where there is none."""
        new = self.entering.get(id)
        if new is not None:
            return new
        stored = self.memories.get(id)
        return None if stored is None else stored.memory

    def retracted(self, source: str) -> set[str]:
        """Return what ``source`` will retract."""
        return self.retracting.get(source) or self.retractions.get(source, set())


def admit(
    records: Sequence[Record],
    holdings: Holdings,
    *,
    digest: Callable[[str], str],
    allow_missing: bool,
    replace: bool,
    remember: bool,
) -> tuple[list[Memory], list[Edge]]:
    """Return the memories and edges to write, the later of two records of one edge only.

    Memories come first, so that an edge may stand before its ends.  ``digest`` is the store's, by which a
    forgotten text is recognised.  Raises as ``check_memory`` and ``check_edge`` do, with the place in front.
    """
    memories: list[Memory] = []
    edges: dict[tuple[str, str, str, str], Edge] = {}
    here = ""
    try:
        for here, item in placed(records, Memory):  # noqa: B007  read where a record is refused
            key = digest(same_text(item)) if holdings.tombstones else ""
            if check_memory(item, holdings, digest=key, replace=replace, remember=remember):
                memories.append(item)
                holdings.entering[item.id] = item
        for here, given in placed(records, Edge):  # noqa: B007
            check_edge(given, holdings, allow_missing=allow_missing)
            if given.type == OVERTURNS and given.kind == RETRACTS:
                holdings.retracting[given.source] = holdings.retracted(given.source) | {given.target}
            edges[given.key] = given
    except InputError as problem:
        if not here:
            raise
        raise type(problem)(f"{here}: {problem}") from None
    return memories, list(edges.values())


def check_memory(new: Memory, holdings: Holdings, *, digest: str, replace: bool, remember: bool) -> bool:
    """Tell whether ``new`` is to be written: False where the same content is there already.

    Raises ``ConflictError`` for an id with other content unless ``replace``, and ``ForgottenError`` for a
    forgotten id or a forgotten text unless ``remember``.
    """
    if not remember:
        _check_forgotten(new, holdings.tombstones, digest)
    old = holdings.memory(new.id)
    if old is None:
        return True
    if old == new:
        return False
    if not replace:
        raise ConflictError(
            f"memory {new.id!r} is there already with other content; use another id or pass replace=True"
        )
    if old.namespace != new.namespace:
        raise ConflictError(
            f"memory {new.id!r} cannot move from namespace {old.namespace!r} to {new.namespace!r}; "
            "use another id"
        )
    return True


def check_edge(new: Edge, holdings: Holdings, *, allow_missing: bool) -> None:
    """Raise where ``new`` may not enter.

    ``UnknownMemoryError`` for an end that is not there (unless ``allow_missing``); ``InputError`` for a
    self-loop, an edge across namespaces and a source that is strictly earlier than what it overturns or
    confirms; ``CycleError`` for a cycle of retractions.
    """
    if new.source == new.target:
        raise InputError(f"edge {new.source} -> {new.target} points at itself; remove it")
    source = _end(new.source, holdings, allow_missing=allow_missing)
    target = _end(new.target, holdings, allow_missing=allow_missing)
    if source is None or target is None:
        return
    if source.namespace != target.namespace:
        raise InputError(
            f"edge {new.source} -> {new.target} crosses from namespace {source.namespace!r} to "
            f"{target.namespace!r}; edges stay inside one namespace"
        )
    if new.type in (OVERTURNS, CONFIRMS):
        _check_order(new, source, target)
    if new.type == OVERTURNS and new.kind == RETRACTS:
        _check_retraction(new, holdings)


def find_cycle(start: str, following: Mapping[str, Iterable[str]]) -> list[str] | None:
    """Return a path from ``start`` back to itself, both ends included, or ``None``.

    Linear in the edges that can be reached; a loop, not a recursion, so that depth does not matter.
    """
    came_from: dict[str, str] = {}
    waiting = [start]
    while waiting:
        here = waiting.pop()
        for there in following.get(here, ()):
            if there == start:
                cycle = [start, here]
                while cycle[-1] != start:
                    cycle.append(came_from[cycle[-1]])
                return cycle[::-1]
            if there not in came_from:
                came_from[there] = here
                waiting.append(there)
    return None


def support_edges(id: str, supported_by: Iterable[str | tuple[str, ...]]) -> list[Edge]:
    """Return the support edges into ``id``: a string is a reason of its own, a tuple one justification."""
    edges = []
    for reason in supported_by:
        if isinstance(reason, str):
            edges.append(Edge(reason, id, SUPPORTS))
            continue
        # The name is made of the members, so that saying the same again says nothing new.
        name = " & ".join(sorted(reason))
        edges += [Edge(source, id, SUPPORTS, justification=name, proposition=name) for source in reason]
    return edges


def utf8(value: str, *, what: str) -> str:
    """Return ``value`` where it is a non-empty string that can be stored; raise ``InputError`` otherwise."""
    if not isinstance(value, str) or not value:
        raise InputError(f"{what} must be a non-empty string, not {value!r}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InputError(
            f"{what} holds half a surrogate pair and cannot be stored; mend its encoding"
        ) from None
    return value


def _check_forgotten(new: Memory, tombstones: Mapping[str, Tombstone], digest: str) -> None:
    if new.id in tombstones:
        raise ForgottenError(
            f"memory {new.id!r} was forgotten on {tombstones[new.id].time:%Y-%m-%d}; "
            "use another id, or pass remember=True to take it back"
        )
    for buried in tombstones.values():
        if buried.digest == digest and buried.namespace == new.namespace:
            raise ForgottenError(
                f"the text of memory {new.id!r} was forgotten as {buried.id!r}; "
                "pass remember=True to take it back"
            )


def _end(id: str, holdings: Holdings, *, allow_missing: bool) -> Memory | None:
    found = holdings.memory(id)
    if found is None and not allow_missing:
        mend = (
            "it was forgotten"
            if id in holdings.tombstones
            else "add the memory first or pass --allow-missing"
        )
        raise UnknownMemoryError(f'edge refers to unknown memory "{id}"; {mend}')
    return found


def _check_order(new: Edge, source: Memory, target: Memory) -> None:
    if source.time is not None and target.time is not None and source.time < target.time:
        raise InputError(
            f"{new.source} ({source.time.isoformat()}) is earlier than {new.target} "
            f"({target.time.isoformat()}) and cannot speak about it; mend the times or turn the edge round"
        )


def _check_retraction(new: Edge, holdings: Holdings) -> None:
    own = {new.source: holdings.retracted(new.source) | {new.target}}
    following = ChainMap(own, holdings.retracting, holdings.retractions)
    cycle = find_cycle(new.source, following)
    if cycle is not None:
        raise CycleError(
            f"{new.source} retracts {new.target} in a cycle ({' -> '.join(cycle)}); remove one of these edges"
        )
