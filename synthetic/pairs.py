"""Seeded training pairs for the target-conditioned verifier: a later memory and an earlier one.

``python -m synthetic.pairs --seed 7 --count 50000 --split train -o FILE.jsonl``

Every pair is drawn from a scene (``synthetic.pairs_templates``): a set of sentences about one thing whose
meaning is known, so the label follows from meaning (SEMANTICS section 1).  The same source is paired with a
target that it overturns and with one that it does not, and the other way round, so that neither side alone
tells the label ([V3] section 6: a relation is conditioned on its target).  May not know any evaluation
data.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from synthetic.pairs_templates import cross, functional, polar, situations, tasks, units
from synthetic.pairs_templates.casting import Cast
from synthetic.pairs_templates.catalogue import HELD_OUT_LANGUAGES, Split
from synthetic.pairs_templates.rendering import SPEAKER
from synthetic.pairs_templates.statements import Label, Scene, Source, Target, relate

Operation = Literal["supersedes", "retracts", "confirms", "none"]
Builder = Callable[[random.Random, Split, str], Scene | None]

OVERTURN_SHARE = 0.42
COMPOUND_SHARE = 0.12
UNRELATED_SHARE = 0.06
BUILDERS: tuple[tuple[str, Builder, float], ...] = (
    ("functional", functional.build, 0.31),
    ("polar", polar.build, 0.20),
    ("situation", situations.build, 0.20),
    ("todo", tasks.build_todo, 0.09),
    ("list", tasks.build_list, 0.08),
    ("number", units.build, 0.11),
    ("cross", cross.build, 0.06),
)
LANGUAGES = {"en": 0.67, "es": 0.06, "de": 0.06, "fr": 0.06, "zh": 0.07, "ja": 0.07}


@dataclass(frozen=True)
class Pair:
    """One training pair.  ``overturn`` holds exactly when ``operation`` is supersedes or retracts.

    ``lang`` is a language code, or ``source>target`` where they differ; ``template`` is ``source>target``
    template ids; ``group`` names the scene, whose pairs contrast with one another; ``event`` says that the
    source commits to a change or conflict, whether or not it is this target that changes.
    """

    source: str
    target: str
    domain: str
    lang: str
    stratum: str
    overturn: bool
    same_proposition: bool
    event: bool
    operation: Operation
    template: str
    group: str


def _choose_pairs(scene: Scene, rng: random.Random, share: float) -> list[tuple[int, int]]:
    """Index pairs of a scene: the fixed ones, then for every source one overturned and one spared target."""
    chosen = list(scene.always)
    for i, source in enumerate(scene.sources):
        if any(i == first for first, _ in scene.always):
            continue
        labels = [relate(source, target).overturn for target in scene.targets]
        hit = [j for j, overturned in enumerate(labels) if overturned]
        spared = [j for j, overturned in enumerate(labels) if not overturned]
        if hit and (share <= OVERTURN_SHARE or not spared):
            chosen.append((i, rng.choice(hit)))
            if share < OVERTURN_SHARE - 0.06 and len(hit) > 1:
                chosen.append((i, rng.choice(hit)))
        if spared and (share >= OVERTURN_SHARE - 0.04 or rng.random() < 0.85):
            chosen.append((i, rng.choice(spared)))
    return list(dict.fromkeys(chosen))


def _joined(first: Scene, second: Scene, rng: random.Random) -> Scene:
    """Return a scene whose sources say one thing of each scene, in either order, with the targets of both."""
    sources = []
    for one in first.sources[:4]:
        other = rng.choice(second.sources)
        left, right = (one, other) if rng.random() < 0.5 else (other, one)
        gap = "" if left.text.endswith(("。", "！", "？")) else " "
        text = f"{left.text}{gap}{right.text}"
        sources.append(
            Source(text, f"{left.template}+{right.template}", (*left.claims, *right.claims), one.lang)
        )
    targets = [
        *rng.sample(first.targets, min(3, len(first.targets))),
        *rng.sample(second.targets, min(3, len(second.targets))),
    ]
    return Scene(first.domain, tuple(sources), tuple(targets))


def _scene(rng: random.Random, split: Split) -> Scene:
    languages = dict(LANGUAGES)
    if split == "validation":
        languages.update({lang: 0.05 for lang in sorted(HELD_OUT_LANGUAGES)})
    while True:
        lang = rng.choices(list(languages), list(languages.values()))[0]
        _, build, _ = rng.choices(BUILDERS, [weight for _, _, weight in BUILDERS])[0]
        scene = build(rng, split, lang)
        if scene is not None and scene.sources and scene.targets:
            return scene


def _pair(scene: Scene, source: Source, target: Target, label: Label, group: str, rng: random.Random) -> Pair:
    amount = rng.choice((0.0, 0.25, 0.6))
    texts = [Cast(rng, "train", part.lang, SPEAKER, amount).dress(part.text) for part in (source, target)]
    lang = source.lang if source.lang == target.lang else f"{source.lang}>{target.lang}"
    return Pair(
        texts[0],
        texts[1],
        scene.domain,
        lang,
        label.stratum,
        label.overturn,
        label.same_proposition,
        label.event,
        label.operation,
        f"{source.template}>{target.template}",
        group,  # type: ignore[arg-type]
    )


def generate(seed: int, count: int, *, split: Split = "train") -> Iterator[Pair]:
    """``count`` pairs, the same for the same seed, count and split on every machine.

    About 40% overturn.  Train and validation share no template, and whole domains and languages appear in
    validation only (``catalogue``).
    """
    rng = random.Random(f"{split}:{seed}")
    made = overturned = number = 0
    previous: Target | None = None
    while made < count:
        number += 1
        scene = _scene(rng, split)
        if rng.random() < COMPOUND_SHARE:
            second = _scene(rng, split)
            if second.sources[0].lang == scene.sources[0].lang and second.sources[0].claims[0].slot != (
                scene.sources[0].claims[0].slot
            ):
                scene = _joined(scene, second, rng)
        group = f"{split}-{seed}-{number}"
        for i, j in _choose_pairs(scene, rng, overturned / made if made else OVERTURN_SHARE):
            if made == count:
                return
            source, target = scene.sources[i], scene.targets[j]
            if source.text == target.text:
                continue
            label = relate(source, target)
            made += 1
            overturned += label.overturn
            yield _pair(scene, source, target, label, group, rng)
        if previous is not None and made < count and rng.random() < UNRELATED_SHARE * 5:
            source = rng.choice(scene.sources)
            label = relate(source, previous)
            if not label.same_proposition and source.lang == previous.lang:
                label = Label(False, False, label.event, "none", "unrelated")
                made += 1
                yield _pair(scene, source, previous, label, group, rng)
        previous = rng.choice(scene.targets)


def write(path: Path, pairs: Iterator[Pair], *, prefix: str) -> int:
    """Write JSON lines with the fields of ``Pair`` and an ``id``; returns how many."""
    number = 0
    with path.open("w", encoding="utf-8") as file:
        for number, pair in enumerate(pairs, 1):
            row = {"id": f"{prefix}-{number}", **asdict(pair)}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    return number


def main() -> None:
    """Command line: see the module's first lines."""
    parser = argparse.ArgumentParser(description="Write seeded training pairs as JSON lines.")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--count", type=int, default=50_000)
    parser.add_argument("--split", choices=("train", "validation"), default="train")
    parser.add_argument("-o", "--output", type=Path, required=True)
    arguments = parser.parse_args()
    split: Split = arguments.split
    pairs = generate(arguments.seed, arguments.count, split=split)
    print(f"{write(arguments.output, pairs, prefix=f'{split}-{arguments.seed}')} pairs -> {arguments.output}")


if __name__ == "__main__":
    main()
