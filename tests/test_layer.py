"""The validity layer's contracts, one named test each, and what its notes say."""

from __future__ import annotations

import copy
import inspect
import json
from dataclasses import asdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from validity_graph.errors import InputError
from validity_graph.layer import EVALUATION_ONLY, Mode, annotate, attach, context_note, validity
from validity_graph.records import Hop, Memory, Reason, Source, Status, Verdict

#: A busy machine is no reason to fail.
unhurried = settings(deadline=None)

PAPER_FIELDS = (
    "gold,gold_ids,is_current,is_latest,is_stale,stale,answer,answer_text,ce_score,mxbai_score,"
    "teacher_score,gpt_label,entity_id,slot_id"
).split(",")


def route(*ids):
    return tuple(Hop(left, right, "requires", 0.9) for left, right in zip(ids, ids[1:], strict=False))


@st.composite
def verdicts(draw, id):
    invalidity = draw(st.floats(0, 1))
    return Verdict(
        id=id,
        status=draw(st.sampled_from(Status)),
        reason=draw(st.sampled_from(Reason)),
        invalidity=invalidity,
        direct=draw(st.floats(0, 1)),
        inherited=draw(st.floats(0, 1)),
        interval=(0.0, invalidity),
        sources=tuple(Source(f"s{k}", 0.5) for k in range(draw(st.integers(0, 4)))),
        hops=route(*(f"p{k}" for k in range(draw(st.integers(0, 4))))),
    )


@st.composite
def retrievals(draw):
    """Retrieved memories, some of which have no verdict."""
    ids = [f"m{k}" for k in range(draw(st.integers(0, 8)))]
    found = [(Memory(id, f"text of {id}", meta={"page": 3}), draw(st.floats(0, 1))) for id in ids]
    judged = {id: draw(verdicts(id)) for id in ids if draw(st.integers(0, 4))}
    return found, judged


def plain(found):
    return [{"id": memory.id, "text": memory.text, "score": score} for memory, score in found]


def keys_in(value):
    if isinstance(value, dict):
        return set(value) | {key for inner in value.values() for key in keys_in(inner)}
    if isinstance(value, (list, tuple)):
        return {key for inner in value for key in keys_in(inner)}
    return set()


@unhurried
@given(retrievals(), st.sampled_from([None, "off", Mode.OFF]))
def test_contract_off_is_byte_identical_to_no_layer(case, mode):
    found, judged = case
    results = plain(found)
    before = json.dumps(results).encode()
    passed = attach(results, judged, mode=mode)
    assert json.dumps(passed).encode() == before
    assert all(left is right for left, right in zip(passed, results, strict=True))
    assert annotate(found, judged, mode=mode) == annotate(found, {}, mode=mode)
    assert [(item.memory, item.score) for item in annotate(found, judged, mode=mode)] == found


@unhurried
@given(retrievals())
def test_contract_context_keeps_candidates_and_rank_order(case):
    found, judged = case
    annotated = annotate(found, judged, mode="context")
    assert [(item.memory, item.score) for item in annotated] == found
    assert [item.verdict for item in annotated] == [judged.get(memory.id) for memory, _ in found]
    results = plain(found)
    attached = attach(results, judged, mode="context")
    assert [{k: v for k, v in item.items() if k != "validity"} for item in attached] == results
    for item in attached:
        verdict = judged.get(item["id"])
        assert (item["validity"] is None) == (verdict is None)
        if verdict is not None:
            assert item["validity"]["invalidity"] == verdict.invalidity
            assert item["validity"]["path"] == list(verdict.path)


@unhurried
@given(retrievals())
def test_contract_demote_keeps_candidates_and_count_and_moves_only_the_outdated_down(case):
    found, judged = case
    outdated = {id for id, verdict in judged.items() if verdict.status is Status.OUTDATED}
    ids = [memory.id for memory, _ in found]
    wanted = [id for id in ids if id not in outdated] + [id for id in ids if id in outdated]
    assert [item.memory.id for item in annotate(found, judged, mode="demote")] == wanted
    assert [item["id"] for item in attach(plain(found), judged, mode="demote")] == wanted


@unhurried
@given(retrievals())
def test_contract_demotion_is_opt_in_and_conditioned_on_the_query(case):
    found, judged = case
    for function, given_ in ((annotate, found), (attach, plain(found))):
        assert inspect.signature(function).parameters["mode"].default is Mode.CONTEXT
        assert function(given_, judged) == function(given_, judged, mode="context")
        asked = []

        def about_the_past(query, asked=asked):
            asked.append(query)
            return False

        kept = function(given_, judged, mode="demote", query="Where was I?", asks_current=about_the_past)
        assert kept == function(given_, judged, mode="context")
        assert asked == ["Where was I?"]


@pytest.mark.parametrize("field", PAPER_FIELDS)
@pytest.mark.parametrize("mode", ["context", "demote"])
def test_contract_input_refuses_evaluation_only_fields(field, mode):
    assert frozenset(PAPER_FIELDS) == EVALUATION_ONLY
    for result in (
        {"id": "m1", field: 1},
        {"id": "m1", "meta": {field: 1}},
        {"id": "m1", "metadata": {field: 1}},
    ):
        with pytest.raises(ValueError, match=field):
            attach([{"id": "m0"}, result], {}, mode=mode)
    with pytest.raises(InputError, match=f"'m1' holds {field}"):
        annotate([(Memory("m1", "text", meta={field: None}), 1.0)], {}, mode=mode)


@unhurried
@given(retrievals(), st.sampled_from(["context", "demote"]))
def test_contract_output_leaks_no_evaluation_only_field_and_leaves_the_input_alone(case, mode):
    found, judged = case
    results = plain(found)
    before = copy.deepcopy((results, found, judged))
    attached = attach(results, judged, mode=mode)
    assert not keys_in(attached) & set(PAPER_FIELDS)
    assert not keys_in([asdict(item) for item in annotate(found, judged, mode=mode)]) & set(PAPER_FIELDS)
    assert (results, found, judged) == before
    shown = {
        "status",
        "invalidity",
        "direct",
        "inherited",
        "reason",
        "sources",
        "path",
        "hops",
        "context_note",
    }
    assert all(shown <= set(item["validity"]) for item in attached if item["validity"])
    json.dumps(attached, allow_nan=False)


@unhurried
@given(verdicts("m"))
def test_a_note_is_written_exactly_where_something_is_wrong(verdict):
    note = context_note(verdict)
    assert (note == "") == (verdict.status is Status.VALID)
    assert validity(verdict)["context_note"] == note


def test_notes_name_who_and_tell_inherited_from_direct():
    sources = (Source("m3", 0.9),)
    direct = Verdict(
        "m1", Status.OUTDATED, Reason.SUPERSEDED, 0.93, 0.93, 0.0, (0.9, 0.93), sources, route("m3", "m1")
    )
    assert context_note(direct) == "Outdated (0.93): superseded by m3."
    inherited = Verdict(
        "m2",
        Status.POSSIBLY_OUTDATED,
        Reason.LOST_REQUIREMENT,
        0.4,
        0.0,
        0.4,
        (0.4, 0.4),
        sources,
        route("m3", "m1", "m2"),
    )
    assert context_note(inherited) == (
        "Possibly outdated (0.40): rests on something that fell with m3. "
        "Inherited (m3 -> m1 -> m2): check before use."
    )
    ruled = Verdict("m4", Status.OUTDATED, Reason.RULED, 1.0, 1.0, 0.0, (1.0, 1.0))
    assert context_note(ruled) == "Outdated (1.00): ruled invalid."
    assert context_note(None) == ""


def test_errors_name_the_thing():
    with pytest.raises(InputError, match="mode='guess' is not one of off, context, demote"):
        annotate([], {}, mode="guess")
    with pytest.raises(InputError, match='result 1 has no "id"'):
        attach([{"id": "a"}, {"text": "b"}], {})
    with pytest.raises(InputError, match="annotate it once"):
        attach(attach([{"id": "a"}], {}), {})
