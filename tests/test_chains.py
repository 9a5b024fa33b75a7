"""The multi-hop cases: counts, labels by an independent oracle, and no text in common with training."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from synthetic.audit import generated_texts
from synthetic.chain_pairs import generate
from synthetic.chain_stage import Case
from synthetic.chain_worlds import texts, worlds
from synthetic.chains import CONTROLS, COUNTS, SEEDS, cases
from synthetic.harder_chains import HARDER, harder
from synthetic.overlap import Index, words
from synthetic.pairs_templates.catalogue import all_sections
from tests.oracle import components, direct_evidence, standing
from validity_graph.records import CONFIRMS, REQUIRES

MAIN = {seed: cases(seed) for seed in SEEDS}
HARD = {seed: harder(seed) for seed in SEEDS}
EVERY = [case for listed in (*MAIN.values(), *HARD.values()) for case in listed]


def oracle_says_invalid(case: Case) -> bool:
    """Whether the target falls in the one world that a case without doubt has."""
    number = {memory.id: v for v, memory in enumerate(case.memories)}
    order = sorted(range(len(case.memories)), key=lambda v: (case.memories[v].time, v))
    age = {v: rank for rank, v in enumerate(order)}
    statements = [
        (
            number[edge.source],
            number[edge.target],
            1.0,
            "confirms" if edge.type == CONFIRMS else edge.kind,
            age[number[edge.source]],
            -1,
        )
        for edge in case.truth
    ]
    structure = [
        (number[e.source], number[e.target], 1.0, "requires" if e.type == REQUIRES else "supports", -1)
        for e in case.structure
    ]
    direct = direct_evidence(len(number), statements)
    assert set(direct) <= {0.0, 1.0}
    stands = standing(
        len(number),
        structure,
        {v for v, d in enumerate(direct) if d},
        component=components(len(number), structure),
    )
    return number[case.target] not in stands


@pytest.mark.parametrize("seed", SEEDS)
def test_counts_are_those_of_the_paper(seed: int) -> None:
    total = Counter(case.length for case in MAIN[seed])
    invalidated = Counter(case.length for case in MAIN[seed] if case.invalid)
    assert {length: (total[length], invalidated[length]) for length in total} == dict(COUNTS)
    kinds = Counter(case.kind for case in MAIN[seed] if not case.invalid)
    assert set(kinds) == set(CONTROLS) and max(kinds.values()) - min(kinds.values()) <= 3
    assert Counter(case.kind for case in HARD[seed]) == dict.fromkeys(HARDER, 20)


def test_labels_are_what_the_oracle_says() -> None:
    assert [oracle_says_invalid(case) for case in EVERY] == [case.invalid for case in EVERY]


def test_chains_have_their_length_and_each_memory_rests_on_the_one_before() -> None:
    for case in EVERY:
        assert len(case.chain) == case.length
        edges = {(edge.source, edge.target) for edge in case.structure}
        assert edges >= set(zip(case.chain, case.chain[1:], strict=False))
        ids = [memory.id for memory in case.memories]
        assert len(set(ids)) == len(ids) and {*case.chain, *case.turns} <= set(ids)
        assert {edge.source for edge in case.truth} <= set(case.turns)
        if case.invalid:
            assert case.source in case.turns


def test_turns_speak_later_than_what_they_overturn() -> None:
    for case in EVERY:
        time = {memory.id: memory.time for memory in case.memories}
        assert all(time[edge.source] > time[edge.target] for edge in case.truth)


def test_same_seed_same_cases_and_other_seed_others() -> None:
    assert cases(7) == MAIN[7] and harder(7) == HARD[7]
    assert {m.text for c in MAIN[7] for m in c.memories} != {m.text for c in MAIN[11] for m in c.memories}


def test_overturning_text_never_names_what_the_target_says() -> None:
    """The target rests on the head through its structure, not through the value that changes."""
    for case in MAIN[7]:
        if not case.invalid:
            continue
        text = {memory.id: memory.text for memory in case.memories}
        world = next(world for world in worlds("test") if world.domain == case.domain)
        assert not any(value in text[case.target] for value in world.lines["v"])


def test_every_slot_is_filled() -> None:
    assert not [memory.text for case in EVERY for memory in case.memories if re.search(r"[{}|]", memory.text)]


def test_worlds_are_many_and_of_domains_that_train_nothing() -> None:
    test = {world.domain for world in worlds("test")}
    assert len(test) >= 20
    for split in ("train", "validation"):
        assert len(worlds(split)) >= 8
        assert not test & {world.domain for world in worlds(split)}
    assert not {world.domain for world in worlds("train")} & {world.domain for world in worlds("validation")}
    assert not test & {section.domain for section in all_sections()}
    assert not test & {section.key for section in all_sections()}


def skeleton(template: str) -> tuple[str, ...]:
    """The fixed words of a template, its slots as one sign."""
    plain = re.sub(r"\{\w+\}", " x ", template)
    plain = re.sub(r"[\[<]([^\]>|]*)[^\]>]*[\]>]", r"\1", plain)
    return words(plain)


def test_templates_are_in_no_training_text() -> None:
    ours = {skeleton(text) for text in texts("test")}
    pools = [pool for section in all_sections() for pool in section.templates.values()]
    pairs = {skeleton(template.text) for pool in pools for template in pool}
    train = {skeleton(text) for split in ("train", "validation") for text in texts(split)}
    bare = {found for found in ours if len(set(found) - {"x"}) >= 2}
    assert len(bare) > 600
    assert not bare & pairs
    assert not {found for found in bare & train if len(found) > 5}


def test_rendered_cases_share_no_sentence_with_the_training_generator() -> None:
    index = Index(frozenset())
    index.add("generator", generated_texts([7], 1500))
    assert not index.findings(memory.text for case in MAIN[7] + HARD[7] for memory in case.memories)


def test_chain_pairs_are_of_training_worlds_and_say_what_their_roles_mean() -> None:
    rows = generate(3, 2000, split="train")
    assert rows == generate(3, 2000, split="train") and rows != generate(4, 2000, split="train")
    assert {row["domain"] for row in rows} <= {world.domain for world in worlds("train")}
    held_out = generate(3, 500, split="validation")
    assert {row["domain"] for row in held_out} == {world.domain for world in worlds("validation")}
    kinds = Counter(row["operation"] for row in rows)
    assert set(kinds) == {"supersedes", "retracts", "confirms", "none"}
    assert 0.25 < (kinds["supersedes"] + kinds["retracts"]) / len(rows) < 0.55
    assert all(row["overturn"] == (row["operation"] in ("supersedes", "retracts")) for row in rows)
    spoken = {words(text) for row in rows for text in (row["source"], row["target"])}
    test = {words(memory.text) for case in EVERY for memory in case.memories}
    assert not spoken & test
