"""The harder multi-hop cases: what a chain with one change at its head does not show.

Alternative supports, reinstatement, partial updates, two updates at once, and turns that arrive out of order.
Made on the stage of the main set and from the same worlds; see ``chains``.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from synthetic.chain_stage import Case, Stage, change, opening
from synthetic.chain_worlds import Split, worlds_in_turn
from validity_graph.records import CONFIRMS, OVERTURNS, RETRACTS, SUPERSEDES, SUPPORTS, Edge

HARDER_PER_KIND = 20


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


def harder(seed: int, *, split: Split = "test", per_kind: int = HARDER_PER_KIND) -> list[Case]:
    """Return the harder set: ``per_kind`` cases of every kind, lengths in turn."""
    rng = random.Random(f"harder {seed} {split}")
    turn = worlds_in_turn(rng, split)
    found: list[Case] = []
    for kind, build in HARDER.items():
        for k in range(per_kind):
            world, rest = next(turn)
            stage = Stage(f"{seed}-h{len(found)}", rng, world, rest, 2 + k % 3)
            found.append(build(stage, kind))
    return found
