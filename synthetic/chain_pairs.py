"""Verifier pairs from the worlds of the multi-hop chains, never of the test split.

A later turn of a chain and one earlier memory: the change at the head, and what only looks like one (other
entity, history, a thought, an addition, another attribute, a sibling).  No text of a test world and no small
talk of the cases gets in.  What rests on an overturned memory is not itself overturned by the turn: that is
for propagation to find.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from synthetic.chain_stage import Stage
from synthetic.chain_worlds import World, worlds_in_turn

Row = dict[str, Any]
#: Roles that leave the head as it was, and those that end something else.
IDLE = "fnmo"
ENDINGS = "ST"


def generate(seed: int, count: int, *, split: Literal["train", "validation"]) -> list[Row]:
    """Return ``count`` pairs of the worlds of a split, each world as often as every other."""
    rng = random.Random(f"chain pairs {seed}")
    turn = worlds_in_turn(rng, split)
    found: list[Row] = []
    while len(found) < count:
        world, rest = next(turn)
        group = f"chain {world.domain} {len(found)}"
        found += [
            labelled(source, target, kind, domain=world.domain, group=group)
            for source, target, kind in scene(Stage(group, rng, world, rest, 2))
        ]
    rng.shuffle(found)
    return found[:count]


def scene(stage: Stage) -> Iterator[tuple[str, str, str]]:
    """Yield (source, target, operation) of one cast; the operation is ``none`` where the target stands."""
    say, slots, rng = stage.text, stage.slots, stage.rng
    head = say("h")
    moved = say("c")
    other = say("c", None, x=slots["y"], a=slots["c"])
    upper = {role: say(role) for role in "123st"}
    yield moved, head, "supersedes"
    yield (moved if rng.random() < 0.5 else say("h", None, a=slots["b"])), say("h"), "supersedes"
    yield other, head, "none"
    yield other, say("h", None, x=slots["y"], a=slots["c"]), "supersedes"
    for role in rng.sample(IDLE, 2):
        yield say(role), head, "none"
    yield say("k"), head, "confirms"
    yield moved, upper[rng.choice("123st")], "none"
    yield upper[rng.choice("1s")], head, "none"
    for ending in ENDINGS:
        yield say(ending), upper[ending.lower()], "supersedes"
    yield say(rng.choice(ENDINGS)), rng.choice([head, upper["1"]]), "none"
    # The likeliest mistake: the end of one reason read as the end of what rested on it.
    yield say("T"), say("1"), "none"
    yield moved, say(rng.choice("1t")), "none"
    # The same person may do both.
    yield say("S"), upper[rng.choice("123")], "none"
    if rng.random() < 0.4:
        back = say("w")
        yield back, moved, "retracts"
        yield back, head, "confirms"
        yield back, other, "none"
    yield moved, elsewhere(stage, "h1"), "none"
    yield from passing(stage, [head, *upper.values()])


def passing(stage: Stage, memories: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Yield later turns that leave these memories as they were: of the same world and of another one."""
    rng = stage.rng
    yield stage.text(rng.choice(IDLE)), rng.choice(memories[1:]), "none"
    yield elsewhere(stage, ENDINGS), rng.choice(memories), "none"
    yield elsewhere(stage, "c" + IDLE), rng.choice(memories), "none"


def elsewhere(stage: Stage, roles: str) -> str:
    """Return what is said in one of these roles in another world, by its own cast."""
    world: World = stage.rng.choice(stage.rest)
    return Stage(stage.id, stage.rng, world, (), 2).text(stage.rng.choice(roles))


def labelled(source: str, target: str, kind: str, *, domain: str, group: str) -> Row:
    """Return one pair in the format of ``validity-graph train``."""
    over = kind in ("supersedes", "retracts")
    return {
        "source": source, "target": target, "overturn": int(over), "operation": kind,
        "same_proposition": None if kind == "none" else 1, "event": 1 if over else None,
        "domain": domain, "lang": "en", "stratum": f"chain_{kind}", "group": group,
    }  # fmt: skip
