"""How a multi-hop case is made: a stage on which memories are said, rest on each other and are overturned.

Labels follow from how a case is built and from SEMANTICS sections 2 and 3, never from a model.  Which cases
there are is the business of ``chains`` and ``harder_chains``.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone

from synthetic.chain_worlds import World, sections
from validity_graph.records import OVERTURNS, REQUIRES, SUPERSEDES, Edge, Memory

NAMES = (
    "Sunniva Tariq Odile Ferran Ilse Kwame Radka Anselm Lotte Emeka Yara Viggo Benedek Marit Joao Priya Tove "
    "Cyril Bahar Gwen Luuk Imani Pavel Renske"
).split()
START = datetime(2025, 1, 6, 8, tzinfo=timezone.utc)
#: How often a remark gets small talk around it.
DRESSED = 0.3


@dataclass(frozen=True)
class Case:
    """One case.  ``memories`` are in arrival order; ``turns`` are those that the verifier is asked about.

    ``structure`` are the given ``requires`` and ``supports`` edges, ``truth`` the ``overturns`` and
    ``confirms`` edges that hold by construction (the first one's source is what overturned the head).
    """

    id: str
    domain: str
    kind: str
    length: int
    memories: tuple[Memory, ...]
    structure: tuple[Edge, ...]
    truth: tuple[Edge, ...]
    turns: tuple[str, ...]
    chain: tuple[str, ...]
    invalid: bool

    @property
    def target(self) -> str:
        """The memory whose validity is asked about."""
        return self.chain[-1]

    @property
    def source(self) -> str:
        """The turn that overturned the head, empty where none did; for diagnosis only."""
        return next((edge.source for edge in self.truth if edge.target == self.chain[0]), "")


@dataclass
class Stage:
    """A case in the making: who is who, and what has been said so far.

    ``rest`` are other worlds, for distractors.  Memories are kept with the hour at which they were said.
    """

    id: str
    rng: random.Random
    world: World
    rest: tuple[World, ...]
    length: int
    said: list[tuple[int, Memory]] = field(default_factory=list)
    structure: list[Edge] = field(default_factory=list)
    truth: list[Edge] = field(default_factory=list)
    turns: list[str] = field(default_factory=list)
    chain: list[str] = field(default_factory=list)
    hour: int = 0

    def __post_init__(self) -> None:
        """Cast the case: two entities, three values, two people."""
        x, y = self.rng.sample(self.world.lines["x"], 2)
        a, b, c = self.rng.sample(self.world.lines["v"], 3)
        # A value that is a person may not also be somebody who rests on it.
        p, q = self.rng.sample([name for name in NAMES if name not in self.world.lines["v"]], 2)
        year = str(self.rng.randint(1988, 2019))
        self.slots = {"x": x, "a": a, "b": b, "y": y, "c": c, "p": p, "q": q, "year": year}

    def text(self, role: str, world: World | None = None, /, **slots: str) -> str:
        """Return a sentence of this role, sometimes with small talk around it."""
        template = self.rng.choice((world or self.world).lines[role])
        sentence = template.format(**{**self.slots, **slots})
        return sentence[0].upper() + sentence[1:]

    def dressed(self, sentence: str) -> str:
        """Return ``sentence`` as a person may write it: sometimes with an opening or a closing remark."""
        talk = next(world for world in sections() if world.domain == "talk").lines
        roll = self.rng.random()
        if roll < DRESSED / 2:
            return f"{self.rng.choice(talk['open'])} {sentence}"
        return f"{sentence} {self.rng.choice(talk['close'])}" if roll < DRESSED else sentence

    def say(self, sentence: str, *, hour: int | None = None, domain: str | None = None) -> str:
        """Add a memory that is said now, or that arrives now and was said at ``hour``; return its id."""
        self.hour += self.rng.randint(1, 9)
        id = f"{self.id}.{len(self.said)}"
        time = START + timedelta(hours=self.hour if hour is None else hour)
        memory = Memory(id, sentence, time=time, domain=domain or self.world.domain, namespace=self.id)
        self.said.append((self.hour if hour is None else hour, memory))
        return id

    def rest_on(self, below: str, above: str, *, type: str = REQUIRES) -> None:
        """Add the structure edge ``below -> above``."""
        self.structure.append(Edge(below, above, type))

    def turn(self, role: str, *overturned: str, **slots: str) -> str:
        """Add a later turn that overturns these memories; return its id."""
        id = self.say(self.dressed(self.text(role, None, **slots)))
        self.turns.append(id)
        self.truth += [Edge(id, target, OVERTURNS, kind=SUPERSEDES) for target in overturned]
        return id

    def climb(self, first: str, *, type: str = REQUIRES) -> None:
        """Add the memories of the chain above ``first``; the edge into memory 1 has this type."""
        self.chain.append(first)
        for level in range(1, self.length):
            self.maybe_chat()
            above = self.say(self.dressed(self.text(str(level))))
            self.rest_on(self.chain[-1], above, type=type if level == 1 else REQUIRES)
            self.chain.append(above)

    def maybe_chat(self) -> None:
        """Sometimes add a line of small talk."""
        if self.rng.random() < 0.3:
            self.chat()

    def chat(self) -> str:
        """Add a line of small talk; return its id."""
        talk = next(world for world in sections() if world.domain == "talk").lines
        return self.say(self.rng.choice(talk["line"]), domain="talk")

    def sibling(self) -> str:
        """Add another memory that rests on the head; return its id."""
        id = self.say(self.dressed(self.text("s")))
        self.rest_on(self.chain[0], id)
        return id

    def neighbour(self) -> str:
        """Add what holds for the other entity; return its id."""
        return self.say(self.dressed(self.text("h", x=self.slots["y"], a=self.slots["c"])))

    def stranger(self) -> tuple[str, str, Stage]:
        """Add a chain of two from another world; return both ids and that world's own stage."""
        other = Stage(self.id, self.rng, self.rng.choice(self.rest), (), 2)
        domain = other.world.domain
        head = self.say(self.dressed(other.text("h")), domain=domain)
        above = self.say(self.dressed(other.text("1")), domain=domain)
        self.rest_on(head, above)
        return head, above, other

    def finish(self, *, kind: str, invalid: bool) -> Case:
        """Return the case."""
        return Case(
            id=self.id,
            domain=self.world.domain,
            kind=kind,
            length=self.length,
            memories=tuple(memory for _, memory in self.said),
            structure=tuple(self.structure),
            truth=tuple(self.truth),
            turns=tuple(self.turns),
            chain=tuple(self.chain),
            invalid=invalid,
        )


def opening(stage: Stage) -> tuple[str, str]:
    """Say the chain and what surrounds it; return the sibling and the neighbour."""
    if stage.rng.random() < 0.5:
        stage.stranger()
    neighbour = stage.neighbour() if stage.rng.random() < 0.5 else ""
    stage.climb(stage.say(stage.dressed(stage.text("h"))))
    sibling = stage.sibling()
    if not neighbour:
        neighbour = stage.neighbour()
    stage.stranger()
    stage.maybe_chat()
    return sibling, neighbour


def change(stage: Stage, neighbour: str, *, own: bool) -> str:
    """Add the turn that moves the head, or the neighbour, to another value."""
    if own:
        return stage.turn("c", stage.chain[0])
    return stage.turn("c", neighbour, x=stage.slots["y"], a=stage.slots["c"])
