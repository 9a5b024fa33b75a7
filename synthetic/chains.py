"""Seeded multi-hop validity cases: a change at the head of a chain, and changes that only look like one.

``python -m synthetic.chains --seed 7 [--harder]`` prints cases as JSON lines.

A case is a chain of 2, 3 or 4 memories (memory k rests on memory k-1), distractor memories, later turns,
and one target, the last of the chain. In an *invalidated* case a later turn overturns the head; in a
*valid control* a later turn only looks as if it did (``CONTROLS``). The counts of each length and class
are those of [V3] section 10; its texts are not public, so figures on these cases are not comparable with
its figures. ``harder_chains`` makes the harder set.

Labels follow from how a case is built and from SEMANTICS sections 2 and 3, never from a model.
``Case.truth`` is for diagnosis, never a feature.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Mapping
from dataclasses import asdict

from synthetic.chain_stage import Case, Stage, change, opening
from synthetic.chain_worlds import Split, worlds_in_turn
from synthetic.harder_chains import harder

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
#: How often a turn beside the point comes before.
DECOY = 0.7


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


def cases(seed: int, *, split: Split = "test") -> list[Case]:
    """Return the main set: ``COUNTS`` cases of each length, controls of every kind equally often."""
    rng = random.Random(f"chains {seed} {split}")
    turn = worlds_in_turn(rng, split)
    kinds = list(CONTROLS)
    found: list[Case] = []
    for length, (total, invalidated) in COUNTS.items():
        plan = [INVALIDATED] * invalidated + [kinds[k % len(kinds)] for k in range(total - invalidated)]
        rng.shuffle(plan)
        for kind in plan:
            world, rest = next(turn)
            found.append(base_case(Stage(f"{seed}-{len(found)}", rng, world, rest, length), kind))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="synthetic.chains", description="Print multi-hop cases.")
    parser.add_argument("--seed", type=int, default=SEEDS[0])
    parser.add_argument("--harder", action="store_true")
    parser.add_argument("--split", choices=("test", "train", "validation"), default="test")
    options = parser.parse_args()
    build = harder if options.harder else cases
    for case in build(options.seed, split=options.split):
        print(json.dumps(asdict(case), default=str, ensure_ascii=False))


if __name__ == "__main__":
    main()
