"""What the scorer of support edges learns from: texts with the reasons among them.

``chain_groups`` are the multi-hop cases of the train and validation worlds, ``tree_groups`` the train trees
of EntailmentBank (Dalvi et al., 2021).  ``rows`` makes pairs of them that train the output ``rests_on`` of
the cheap head; what is held out never trains it, but joins it with the words and calibrates
(``train_supports``).  Never reads a test world or a dev tree.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.structure import records
from synthetic.chain_stage import Case
from synthetic.chain_worlds import Split
from synthetic.chains import cases
from synthetic.harder_chains import harder
from synthetic.overlap import Index, common_phrases, strings
from validity_graph.candidates import CandidateIndex
from validity_graph.records import Memory

TREES = "entailment_bank"
#: Share of the trees that is held out, and pairs of each kind for one true pair.
TREES_HELD_OUT = 0.2
PROPOSED, PARALLEL, UNRELATED = 3, 1, 0.5
#: Words that two parallel texts have in common, of all their words.
ALIKE = 0.25
Row = dict[str, Any]
Places = tuple[int, int]


@dataclass(frozen=True)
class Group:
    """Texts in order of arrival, the places of (reason, conclusion) among them, and whether held out."""

    name: str
    texts: tuple[str, ...]
    reasons: frozenset[Places]
    held: bool

    def proposed(self) -> list[Places]:
        """Return (reason, conclusion) places: for each text the earlier ones that the candidates propose."""
        index = CandidateIndex()
        index.extend((k, Memory(str(k), text)) for k, text in enumerate(self.texts))
        return [(earlier, later) for later, earlier in index.pairs(range(len(self.texts)))]


def chain_groups(seeds: Iterable[int], *, split: Split) -> Iterator[Group]:
    """Yield the cases of both sets with these seeds; those of the validation worlds are held out."""
    for seed in seeds:
        for case in (*cases(seed, split=split), *harder(seed, split=split)):
            yield of_case(case, held=split == "validation")


def of_case(case: Case, *, held: bool) -> Group:
    """Return the memories of a case with the structure that comes with it."""
    place = {memory.id: k for k, memory in enumerate(case.memories)}
    reasons = frozenset((place[edge.source], place[edge.target]) for edge in case.structure)
    return Group(case.id, tuple(memory.text for memory in case.memories), reasons, held)


def tree_groups(data: Path) -> Iterator[Group]:
    """Yield the train trees under ``data``, conclusions after their premises."""
    for tree in train_trees(data):
        names = [*tree["leaves"], *(head for _, head in tree["steps"])]
        place = {name: k for k, name in enumerate(names)}
        said = {**tree["leaves"], **tree["nodes"]}
        steps = [(p, head) for premises, head in tree["steps"] for p in premises if p in place]
        reasons = frozenset((place[premise], place[head]) for premise, head in steps)
        digest = hashlib.blake2b(tree["id"].encode(), digest_size=8).digest()
        held = int.from_bytes(digest, "big") / 2**64 < TREES_HELD_OUT
        yield Group(tree["id"], tuple(said[name] for name in names), reasons, held)


def dev_trees(data: Path) -> list[Mapping[str, Any]]:
    """Return the trees that only measure."""
    return [tree for tree in records(data / TREES) if tree["split"] != "train"]


def train_trees(data: Path) -> list[Mapping[str, Any]]:
    """Return the train trees that share no sentence and no run of eight words with a dev tree.

    Both splits draw their leaves from one store of facts, so about half of the train trees fall away.
    """
    measured = Index(common_phrases())
    measured.add("dev", (text for tree in dev_trees(data) for text in strings(tree)))
    train = (tree for tree in records(data / TREES) if tree["split"] == "train")
    return [tree for tree in train if not measured.findings(strings(tree))]


def rows(groups: Sequence[Group], rng: random.Random) -> Iterator[Row]:
    """Yield training pairs of the groups that are not held out, in the format of ``validity-graph train``.

    For each reason, ``PROPOSED`` pairs that the candidates propose and that are none, ``PARALLEL`` texts in
    its place that say nearly the same of something else, and ``UNRELATED`` conclusions of another group.
    """
    learned = [group for group in groups if not group.held]
    for group in learned:
        proposed = group.proposed()
        true = [pair for pair in proposed if pair in group.reasons]
        false = [pair for pair in proposed if pair not in group.reasons]
        for reason, conclusion in true:
            yield _row(group.texts[reason], group.texts[conclusion], group, label=1)
        for reason, conclusion in rng.sample(false, min(len(false), PROPOSED * len(true))):
            yield _row(group.texts[reason], group.texts[conclusion], group, label=0)
        words = [set(text.lower().split()) for text in group.texts]
        for reason, conclusion in true:
            for stead in _parallel(group, words, (reason, conclusion))[:PARALLEL]:
                yield _row(group.texts[stead], group.texts[conclusion], group, label=0)
            other = rng.choice(learned)
            if other is not group and rng.random() < UNRELATED:
                yield _row(group.texts[reason], rng.choice(other.texts), group, label=0)


def _parallel(group: Group, words: Sequence[set[str]], true: Places) -> list[int]:
    """Return the earlier texts that are no reason for a conclusion and share words with one, likest first.

    "Tram two is in the shed" beside "Tram nine is in the shed": the likeliest mistake.
    """
    reason, conclusion = true
    alike = {
        k: len(words[k] & words[reason]) / len(words[k] | words[reason])
        for k in range(conclusion)
        if k != reason and (k, conclusion) not in group.reasons
    }
    return sorted((k for k in alike if alike[k] >= ALIKE), key=lambda k: -alike[k])


def _row(reason: str, conclusion: str, group: Group, *, label: int) -> Row:
    """Return one pair; the conclusion comes later, so it is the source."""
    return {
        "source": conclusion, "target": reason, "rests_on": label, "lang": "en",
        "stratum": f"reason_{label}", "group": f"reasons {group.name}",
    }  # fmt: skip
