"""Seeded multi-hop validity cases: a change at the head of a chain, and changes that only look like one.

``python -m synthetic.chains --seed 7 [--harder]`` prints cases as JSON lines.

A case is a chain of 2, 3 or 4 memories (memory k rests on memory k-1), distractor memories, later turns,
and one target, the last of the chain. In an *invalidated* case a later turn overturns the head; in a
*valid control* a later turn only looks as if it did (``CONTROLS``). The counts of each length and class
are those of [V3] section 10; its texts are not public, so figures on these cases are not comparable with
its figures. The harder set has alternative supports, reinstatement, partial updates, two updates at once
and turns that arrive out of order.

Labels follow from how a case is built and from SEMANTICS sections 2 and 3, never from a model. Worlds of
the ``train`` split may train a scorer of support edges; worlds of the ``test`` split train nothing, and no
text here is a template of ``synthetic.pairs``. ``Case.truth`` is for diagnosis, never a feature.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from pathlib import Path
from typing import Literal

from validity_graph.records import CONFIRMS, OVERTURNS, REQUIRES, RETRACTS, SUPERSEDES, SUPPORTS, Edge, Memory

Split = Literal["test", "train"]
TEXTS = Path(__file__).with_name("chain_texts.txt")
SEEDS = (7, 11, 23, 31, 47)
#: Cases and, of these, invalidated ones by length of the chain: [V3] Table 3.
COUNTS: Mapping[int, tuple[int, int]] = {2: (159, 110), 3: (170, 75), 4: (173, 62)}
#: What the later turn of a valid control does, and the role of its text.
CONTROLS: Mapping[str, str] = {
    "other_attribute": "o",
    "other_entity": "c",
    "additive": "m",
    "hypothetical": "n",
    "restated": "k",
    "history": "f",
    "sibling": "S",
}
INVALIDATED = "invalidated"
HARDER_PER_KIND = 20
NAMES = (
    "Sunniva Tariq Odile Ferran Ilse Kwame Radka Anselm Lotte Emeka Yara Viggo Benedek Marit Joao Priya Tove "
    "Cyril Bahar Gwen Luuk Imani Pavel Renske"
).split()
LISTS = frozenset({"x", "v"})
START = datetime(2025, 1, 6, 8, tzinfo=timezone.utc)
#: How often a remark gets small talk around it, and how often a turn beside the point comes before.
DRESSED = 0.3
DECOY = 0.7


@dataclass(frozen=True)
class World:
    """One domain: entities ``x``, values ``v`` of the attribute that heads state, and phrasings by role."""

    domain: str
    split: str
    lines: Mapping[str, tuple[str, ...]]


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


@lru_cache(maxsize=1)
def sections() -> tuple[World, ...]:
    """Return every section of the text file, the small talk included.

    Raises ``ValueError`` naming the line that is not ``role: text``.
    """
    found: list[tuple[str, str, dict[str, list[str]]]] = []
    for number, raw in enumerate(TEXTS.read_text(encoding="utf-8").splitlines(), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        if line.startswith("@"):
            domain, split = line[1:].split()
            found.append((domain, split, {}))
            continue
        role, separator, text = line.partition(": ")
        if not separator or not found:
            raise ValueError(f"{TEXTS.name}:{number}: expected 'role: text', got {line!r}")
        found[-1][2].setdefault(role, []).extend(text.split(" | ") if role in LISTS else [text])
    return tuple(
        World(domain, split, {k: tuple(v) for k, v in lines.items()}) for domain, split, lines in found
    )


def worlds(split: Split) -> tuple[World, ...]:
    """Return the worlds of one split."""
    return tuple(world for world in sections() if world.split == split)


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


def decoy(stage: Stage, kind: str, sibling: str, neighbour: str) -> None:
    """Add a turn that does not touch the chain, half of the time a real change.

    It is there in either class alike, so that a change among the turns tells nothing about the target.
    """
    role = stage.rng.choice([role for role in ("o", "m", "c", "S") if role != CONTROLS.get(kind)])
    if role == "c":
        change(stage, neighbour, own=False)
    else:
        stage.turn(role, *([sibling] if role == "S" else []))


def base_case(stage: Stage, kind: str) -> Case:
    """Return a case of the main set: ``invalidated`` or one of ``CONTROLS``."""
    sibling, neighbour = opening(stage)
    before = stage.rng.random() < DECOY
    if before:
        decoy(stage, kind, sibling, neighbour)
    if kind == INVALIDATED:
        change(stage, neighbour, own=True)
    elif kind == "other_entity":
        change(stage, neighbour, own=False)
    else:
        stage.turn(CONTROLS[kind], *([sibling] if kind == "sibling" else []))
    if not before or stage.rng.random() < 0.5:
        stage.turns.append(stage.chat())
    return stage.finish(kind=kind, invalid=kind == INVALIDATED)


def alternatives(stage: Stage, kind: str) -> Case:
    """Give memory 1 two reasons; one or both of them go."""
    stage.stranger()
    head = stage.say(stage.dressed(stage.text("h")))
    reason = stage.say(stage.dressed(stage.text("t")))
    stage.climb(head, type=SUPPORTS)
    stage.rest_on(reason, stage.chain[1], type=SUPPORTS)
    neighbour = stage.neighbour()
    falls = kind == "both_reasons_gone"
    turns: list[Callable[[], str]] = [lambda: change(stage, neighbour, own=True)]
    if falls:
        turns.append(lambda: stage.turn("T", reason))
    elif stage.rng.random() < 0.5:
        turns = [lambda: stage.turn("T", reason)]
    stage.rng.shuffle(turns)
    for turn in turns:
        turn()
    stage.turns.append(stage.chat())
    return stage.finish(kind=kind, invalid=falls)


def reinstated(stage: Stage, kind: str) -> Case:
    """Take the change back, or only talk about something else."""
    _, neighbour = opening(stage)
    moved = change(stage, neighbour, own=True)
    stage.turns.append(stage.chat())
    if kind == "reinstated":
        back = stage.turn("w")
        stage.truth.append(Edge(back, moved, OVERTURNS, kind=RETRACTS))
        stage.truth.append(Edge(back, stage.chain[0], CONFIRMS))
    else:
        stage.turn("o")
    return stage.finish(kind=kind, invalid=kind == "not_reinstated")


def partial(stage: Stage, kind: str) -> Case:
    """Let one memory say two things, each an item of its own (SEMANTICS section 7.3); one changes."""
    stage.stranger()
    head, other = stage.text("h"), stage.text("s")
    whole = stage.say(f"{head} {other}")
    hour = stage.said[-1][0]
    first, second = stage.say(head, hour=hour), stage.say(other, hour=hour)
    stage.climb(first)
    neighbour = stage.neighbour()
    hit = kind == "own_part_changed"
    if hit:
        change(stage, neighbour, own=True)
    else:
        stage.turn("S", second)
    stage.truth.append(Edge(stage.turns[-1], whole, OVERTURNS, kind=SUPERSEDES))
    stage.turns.append(stage.chat())
    return stage.finish(kind=kind, invalid=hit)


def two_updates(stage: Stage, kind: str) -> Case:
    """Let two turns overturn two things that have nothing to do with each other."""
    head, _, other = stage.stranger()
    _, neighbour = opening(stage)
    hit = kind == "two_updates_one_own"
    turns: list[Callable[[], str]] = [
        lambda: change(stage, neighbour, own=hit),
        lambda: _overturn_stranger(stage, head, other),
    ]
    stage.rng.shuffle(turns)
    for turn in turns:
        turn()
    return stage.finish(kind=kind, invalid=hit)


def _overturn_stranger(stage: Stage, head: str, other: Stage) -> str:
    id = stage.say(stage.dressed(other.text("c")), domain=other.world.domain)
    stage.turns.append(id)
    stage.truth.append(Edge(id, head, OVERTURNS, kind=SUPERSEDES))
    return id


def out_of_order(stage: Stage, kind: str) -> Case:
    """Let the change arrive before what it overturns, or arrive last though it is the oldest."""
    stage.stranger()
    if kind == "early_arrival":
        stage.hour += 400
        moved = stage.turn("c")
        late = stage.hour
        stage.hour -= 300
        stage.climb(stage.say(stage.dressed(stage.text("h"))))
        stage.truth.append(Edge(moved, stage.chain[0], OVERTURNS, kind=SUPERSEDES))
        stage.hour = late
    else:
        stage.hour += 100
        stage.climb(stage.say(stage.dressed(stage.text("h"))))
        # An old change to yet another value: what the head says came after it.
        old = stage.text("c", a=stage.slots["c"])
        stage.turns.append(stage.say(stage.dressed(old), hour=20))
    stage.neighbour()
    stage.turns.append(stage.chat())
    return stage.finish(kind=kind, invalid=kind == "early_arrival")


HARDER: Mapping[str, Callable[[Stage, str], Case]] = {
    "one_reason_left": alternatives,
    "both_reasons_gone": alternatives,
    "reinstated": reinstated,
    "not_reinstated": reinstated,
    "own_part_changed": partial,
    "other_part_changed": partial,
    "two_updates_one_own": two_updates,
    "two_updates_elsewhere": two_updates,
    "early_arrival": out_of_order,
    "late_arrival": out_of_order,
}


def _worlds_in_turn(rng: random.Random, split: Split) -> Iterator[tuple[World, tuple[World, ...]]]:
    """Yield worlds, each as often as every other, with the other worlds of the split."""
    pool = list(worlds(split))
    while True:
        rng.shuffle(pool)
        for world in list(pool):
            yield world, tuple(other for other in pool if other.domain != world.domain)


def cases(seed: int, *, split: Split = "test") -> list[Case]:
    """Return the main set: ``COUNTS`` cases of each length, controls of every kind equally often."""
    rng = random.Random(f"chains {seed} {split}")
    turn = _worlds_in_turn(rng, split)
    kinds = list(CONTROLS)
    found: list[Case] = []
    for length, (total, invalidated) in COUNTS.items():
        plan = [INVALIDATED] * invalidated + [kinds[k % len(kinds)] for k in range(total - invalidated)]
        rng.shuffle(plan)
        for kind in plan:
            world, rest = next(turn)
            found.append(base_case(Stage(f"{seed}-{len(found)}", rng, world, rest, length), kind))
    return found


def harder(seed: int, *, split: Split = "test", per_kind: int = HARDER_PER_KIND) -> list[Case]:
    """Return the harder set: ``per_kind`` cases of every kind, lengths in turn."""
    rng = random.Random(f"harder {seed} {split}")
    turn = _worlds_in_turn(rng, split)
    found: list[Case] = []
    for kind, build in HARDER.items():
        for k in range(per_kind):
            world, rest = next(turn)
            stage = Stage(f"{seed}-h{len(found)}", rng, world, rest, 2 + k % 3)
            found.append(build(stage, kind))
    return found


def texts(split: Split) -> Iterator[str]:
    """Yield every template of a split, for audits."""
    for world in worlds(split):
        for role, lines in world.lines.items():
            if role not in LISTS:
                yield from lines


def main() -> None:
    parser = argparse.ArgumentParser(prog="synthetic.chains", description="Print multi-hop cases.")
    parser.add_argument("--seed", type=int, default=SEEDS[0])
    parser.add_argument("--harder", action="store_true")
    parser.add_argument("--split", choices=("test", "train"), default="test")
    options = parser.parse_args()
    build = harder if options.harder else cases
    for case in build(options.seed, split=options.split):
        print(json.dumps(asdict(case), default=str, ensure_ascii=False))


if __name__ == "__main__":
    main()
