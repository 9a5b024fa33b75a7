"""The plain records that the package passes around: memories, edges, evidence, verdicts.

Frozen data, no behaviour beyond checking themselves.  Knows only ``errors``; formulas are cited where
they are implemented.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from enum import Enum
from typing import Any, overload

from validity_graph.errors import InputError

OVERTURNS = "overturns"
CONFIRMS = "confirms"
REQUIRES = "requires"
SUPPORTS = "supports"
#: Edge types with a meaning; every other type is kept and never propagates (SEMANTICS section 7.8).
MEANINGFUL_TYPES = frozenset({OVERTURNS, CONFIRMS, REQUIRES, SUPPORTS})

SUPERSEDES = "supersedes"
RETRACTS = "retracts"

#: Prefix of the names under which rulings appear as sources.
RULING = "ruling:"


class Status(str, Enum):
    """What an agent may do with a memory: use it, use it with care, or not use it as current."""

    VALID = "valid"
    POSSIBLY_OUTDATED = "possibly_outdated"
    OUTDATED = "outdated"


class Reason(str, Enum):
    """Why a memory is not valid (SEMANTICS section 7.1)."""

    NONE = "none"
    SUPERSEDED = "superseded"
    RETRACTED = "retracted"
    LOST_REQUIREMENT = "lost_requirement"
    LOST_SUPPORT = "lost_support"
    RULED = "ruled"


def probability(value: object, *, what: str) -> float:
    """Return ``value`` as a float in [0, 1]; ``what`` names it in the error.

    Raises ``InputError`` for anything else, NaN and booleans included.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(f"{what} must be a number in [0, 1], not {value!r}")
    number = float(value)
    if math.isnan(number) or not 0.0 <= number <= 1.0:
        raise InputError(f"{what} must lie in [0, 1], not {value!r}")
    return number


def parse_time(value: str | datetime | None, *, what: str = "time") -> datetime | None:
    """Return an aware UTC datetime; naive times mean UTC, ``None`` and "" stay unknown.

    ``value`` is ISO 8601 (a date alone means its first instant).  Raises ``InputError`` otherwise.
    """
    if value is None or value == "":
        return None
    if isinstance(value, str):
        try:
            # Python 3.10's fromisoformat does not know the Z suffix.
            value = datetime.fromisoformat(value.strip().replace("Z", "+00:00").replace("z", "+00:00"))
        except ValueError:
            raise InputError(
                f"{what}={value!r} is not ISO 8601; write it like 2025-06-02 or 2025-06-02T08:30:00Z"
            ) from None
    if not isinstance(value, datetime):
        raise InputError(f"{what}={value!r} must be an ISO 8601 string")
    if value.tzinfo is None:
        return value.replace(tzinfo=timezone.utc)
    try:
        return value.astimezone(timezone.utc)
    except OverflowError:
        raise InputError(f"{what}={value!r} lies outside the years 1 to 9999 in UTC") from None


@dataclass(frozen=True, slots=True)
class Memory:
    """One node of the graph: something that was said (SEMANTICS section 1).

    ``id`` is a byte-exact string; ``time`` is when it was said (UTC), unknown where ``None``;
    ``trust`` in [0, 1] scales its force as a source; ``channel`` groups sources whose agreement is
    repetition and counts once; a ``premise`` stands in its own right whatever happens to its supports.
    ``context`` is what was said before and says what ``text`` is about (the turn that names the document).
    """

    id: str
    text: str
    time: datetime | None = None
    domain: str = ""
    namespace: str = ""
    trust: float = 1.0
    channel: str = ""
    premise: bool = False
    meta: Mapping[str, Any] = field(default_factory=dict)
    context: str = ""

    @property
    def reading(self) -> str:
        """The text as it is understood: behind its context."""
        return in_context(self.text, self.context)


def in_context(text: str, context: str) -> str:
    """Return ``text`` behind ``context``, once where they are the same."""
    return f"{context} {text}" if context and context != text else text


def same_text(memory: Memory) -> str:
    """Return what two memories share that have the same text: namespace and text, white space folded."""
    return f"{memory.namespace}\0{' '.join(memory.text.split())}"


def same_statement(memory: Memory) -> str:
    """Return what two memories share when they say the same: namespace and reading, white space folded."""
    return f"{memory.namespace}\0{' '.join(memory.reading.split())}"


@dataclass(frozen=True, slots=True)
class Evidence:
    """The parts of one gate score ([V3] Eq. 1 to 3), each a probability.

    ``slot_nli`` is ``None`` where the second head was not asked; it then counts as 1.
    """

    slot_mini: float
    slot_nli: float | None
    event: float
    operation: float

    @property
    def gate(self) -> float:
        """``slot_mini * slot_nli * min(event, operation)`` in [0, 1].  [V3] Eq. 1 and 3."""
        slot = self.slot_mini * (1.0 if self.slot_nli is None else self.slot_nli)
        return slot * min(self.event, self.operation)

    @property
    def diagnostic(self) -> float:
        """``event * operation * slot_mini * slot_nli`` in [0, 1].  [V3] Eq. 2."""
        slot = self.slot_mini * (1.0 if self.slot_nli is None else self.slot_nli)
        return slot * self.event * self.operation


@dataclass(frozen=True, slots=True)
class Edge:
    """A typed edge from cause ``source`` to effect ``target`` with strength ``weight`` in [0, 1].

    ``kind`` is ``supersedes`` or ``retracts`` on ``overturns`` edges and empty elsewhere.  Two edges
    are the same edge when source, target, type and proposition agree (SEMANTICS section 2).
    ``inferred`` marks an edge that a model made, as opposed to one that was given.
    """

    source: str
    target: str
    type: str
    weight: float = 1.0
    kind: str = ""
    justification: str = ""
    proposition: str = ""
    evidence: Evidence | None = None
    inferred: bool = False

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Identity of the edge: source, target, type, proposition."""
        return (self.source, self.target, self.type, self.proposition)


@dataclass(frozen=True, slots=True)
class Ruling:
    """A person's own word on a memory: ``invalidate`` with probability, or ``confirm``.

    ``sequence`` is its place in the log; ``time`` when it was given (UTC).
    """

    target: str
    action: str
    probability: float
    reason: str
    time: datetime
    sequence: int

    @property
    def id(self) -> str:
        """Name under which the ruling appears as a source."""
        return f"{RULING}{self.sequence}"


@dataclass(frozen=True, slots=True)
class Source:
    """Something that speaks against a memory, with the probability that it does so."""

    id: str
    score: float


@dataclass(frozen=True, slots=True)
class Hop:
    """One step of an evidence path: ``source`` acts on ``target`` with strength ``weight``."""

    source: str
    target: str
    type: str
    weight: float
    evidence: Evidence | None = None
    inferred: bool = False


class Path(Sequence[Hop]):
    """An evidence path, from what speaks to the memory that falls, as a sequence of hops.

    Paths share their beginnings, so that all paths of a graph together take room for one hop a memory.
    ``strength`` is the product of the weights, ``bottleneck`` the weakest of them (SEMANTICS section 6).
    """

    __slots__ = ("_before", "_hop", "_length", "bottleneck", "strength")

    def __init__(self, hop: Hop, before: Path | None = None) -> None:
        """Lengthen ``before`` by ``hop``, or start with it."""
        self._hop = hop
        self._before = before
        self._length: int = 1 if before is None else before._length + 1
        self.strength: float = hop.weight if before is None else before.strength * hop.weight
        self.bottleneck: float = hop.weight if before is None else min(before.bottleneck, hop.weight)

    def __len__(self) -> int:
        """Return the number of hops."""
        return self._length

    @overload
    def __getitem__(self, place: int) -> Hop: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Hop]: ...
    def __getitem__(self, place: int | slice) -> Hop | Sequence[Hop]:
        """Return one hop, or several."""
        return tuple(self)[place]

    def __iter__(self) -> Iterator[Hop]:
        """Yield the hops from the evidence on."""
        hops = []
        here: Path | None = self
        while here is not None:
            hops.append(here._hop)
            here = here._before
        return reversed(hops)

    def __eq__(self, other: object) -> bool:
        """Tell whether the hops are the same."""
        return isinstance(other, Path) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        """Hash by the hops."""
        return hash(tuple(self))

    def __repr__(self) -> str:
        """Show the path as people write it."""
        return self[0].source + "".join(f" -{hop.type} {hop.weight:.2f}-> {hop.target}" for hop in self)


@dataclass(frozen=True, slots=True)
class Verdict:
    """How far one memory has become invalid, and through what.

    ``invalidity``, ``direct`` and ``inherited`` are probabilities; ``interval`` bounds the invalidity
    (SEMANTICS section 4); ``hops`` is the strongest evidence path, from what speaks to this memory, empty
    where nothing does.
    """

    id: str
    status: Status
    reason: Reason
    invalidity: float
    direct: float
    inherited: float
    interval: tuple[float, float]
    sources: tuple[Source, ...] = ()
    hops: Path | tuple[()] = ()

    @property
    def path(self) -> tuple[str, ...]:
        """Ids from the evidence to this memory, empty where nothing speaks against it."""
        hops = tuple(self.hops)
        return (hops[0].source, *(hop.target for hop in hops)) if hops else ()

    @property
    def bottleneck(self) -> float:
        """The weakest hop of the path, 1 where there is none (SEMANTICS section 6)."""
        return self.hops.bottleneck if isinstance(self.hops, Path) else 1.0

    @property
    def inferred(self) -> bool:
        """Whether the path rests on an edge that a model inferred."""
        return any(hop.inferred for hop in self.hops)


@dataclass(frozen=True, slots=True)
class Explanation:
    """The strongest evidence paths to one memory, strongest first, and the widest one.

    ``paths[k]`` starts at the evidence; ``strength[k]`` is the product of its weights and
    ``bottleneck[k]`` its weakest one.  ``widest`` is the path with the strongest bottleneck, which is the
    credit of the best explanation (SEMANTICS section 6).
    """

    verdict: Verdict
    paths: tuple[Path, ...]
    strength: tuple[float, ...]
    bottleneck: tuple[float, ...]
    widest: Path | tuple[()] = ()


@dataclass(frozen=True, slots=True)
class Verification:
    """What one ``verify`` did: pairs asked, edges made by type."""

    pairs: int
    overturns: int
    confirms: int


@dataclass(frozen=True, slots=True)
class Intake:
    """What one ``ingest`` did: new memories and edges, and edges that wait for a missing memory."""

    memories: int
    edges: int
    missing: int
