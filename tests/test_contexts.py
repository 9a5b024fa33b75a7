"""Contexts: a text is read behind its own, and no target is overturned for what its context says."""

from __future__ import annotations

from typing import Any

import pytest
from asking_stub import Asked, scores_of
from hypothesis import given
from hypothesis import strategies as st

from validity_graph import ValidityGraph
from validity_graph.errors import InputError
from validity_graph.records import Memory, in_context, same_statement, same_text
from validity_graph.verifier.contexts import (
    ACCOUNTS_FOR,
    ASKED_FROM,
    read_in_context,
    without_what_contexts_say,
)
from validity_graph.verifier.scoring import Verifier

unit = st.floats(0.0, 1.0)

TERMS = "Now to the lease of the boat house."
RENT = "The rent of the boat house is 900 euros."


@given(st.lists(st.tuples(unit, unit, unit, st.booleans()), max_size=8))
def test_a_context_can_only_take_back_what_it_drew_itself(
    drawn: list[tuple[float, float, float, bool]],
) -> None:
    n = range(len(drawn))
    full = scores_of([row[0] for row in drawn])
    table = {(f"s{k}", f"c{k}"): drawn[k][1] for k in n} | {(f"s{k}", f"t{k}"): drawn[k][2] for k in n}
    ask = Asked(table)
    found = without_what_contexts_say(
        full, ask, [f"s{k}" for k in n], [f"t{k}" for k in n],
        source_contexts=None, target_contexts=[f"c{k}" if drawn[k][3] else "" for k in n],
    )  # fmt: skip
    for k, (whole, context, bare, told) in enumerate(drawn):
        accounts = told and whole >= ASKED_FROM and context >= ACCOUNTS_FOR * whole
        assert found.gate[k] == (min(whole, bare) if accounts else whole)
        assert found.slot_mini[k] == found.event[k] == found.gate[k]
        assert (k in ask.rows) == (told and whole >= ASKED_FROM)
    assert found.routing is full.routing


def test_the_source_is_read_in_its_context_when_the_target_s_context_is_tried() -> None:
    ask = Asked({("named said", "context"): 0.9, ("said", "target"): 0.1})
    found = without_what_contexts_say(
        scores_of([0.8]), ask, ["said"], ["target"], source_contexts=["named"], target_contexts=["context"]
    )
    assert found.gate.tolist() == [0.1]


def test_without_contexts_nothing_is_asked_again() -> None:
    full = scores_of([0.9, 0.2])
    for contexts in (None, ["", ""]):
        found = without_what_contexts_say(
            full, Asked({}), ["a", "b"], ["c", "d"], source_contexts=["x", "y"], target_contexts=contexts
        )
        assert found is full


@given(st.text(max_size=5), st.text(max_size=5))
def test_a_text_is_read_behind_its_context_once(text: str, context: str) -> None:
    read = in_context(text, context)
    assert read == (text if context in ("", text) else f"{context} {text}")
    assert Memory("m", text, context=context).reading == read
    assert read_in_context([text], [context], what="source") == [read]
    assert read_in_context([text], None, what="source") == [text]


def test_the_same_text_in_another_context_is_another_statement() -> None:
    one, other = (
        Memory("a", "Set it to 5.", context="The fee."),
        Memory("b", "Set it  to 5.", context="The limit."),
    )
    assert same_text(one) == same_text(other)
    assert same_statement(one) != same_statement(other)


@pytest.fixture(scope="module")
def verifier() -> Verifier:
    return Verifier.load(threads=2)


def test_a_number_is_understood_by_its_context_and_by_no_other(verifier: Verifier) -> None:
    source, target = "Please change the rent from 900 to 950 euros.", "The rent is 900 euros."
    found = verifier.score(
        [source] * 2, [target] * 2, source_contexts=[TERMS] * 2,
        target_contexts=[TERMS, "Now to the lease of the bakery in Lindau."],
    )  # fmt: skip
    assert found.gate[0] > 0.5 > found.gate[1]


def test_a_target_is_not_overturned_for_what_its_context_says(verifier: Verifier) -> None:
    source = "The rent of the boat house is 950 euros now, not 900."
    quiet = "The key hangs behind the door."
    joined = verifier.score([source], [f"{RENT} {quiet}"]).gate[0]
    apart = verifier.score([source], [quiet], target_contexts=[RENT]).gate[0]
    assert joined > 0.5 > apart
    assert verifier.score([source], [RENT], target_contexts=[quiet]).gate[0] > 0.5


def test_bad_contexts_are_named(verifier: Verifier) -> None:
    wrong: Any
    for name in ("source_contexts", "target_contexts"):
        for wrong, message in (
            (["x", "y"], f"1 {name[:6]}s but 2 {name}"),
            ([3], rf"{name}\[0\]"),
            ("x", name),
        ):
            with pytest.raises(InputError, match=message):
                verifier.score(["a"], ["b"], **{name: wrong})


def test_candidates_know_a_memory_by_its_context() -> None:
    with ValidityGraph.open() as graph:
        graph.add("a", "Yes, make it 40.", context="How many chairs does the Orangery need?")
        for k in range(30):
            graph.add(f"n{k}", f"Yes, make it {k + 50}.", context=f"How many pages does report {k} need?")
        found = graph.retrieve("chairs in the Orangery", k=1)
        assert [item.memory.id for item in found] == ["a"]
