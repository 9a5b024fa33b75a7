"""The verifier without torch: renderings, gate, windows, router, shipped head."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from validity_graph.errors import InputError
from validity_graph.records import Evidence
from validity_graph.verifier import rendering, windows
from validity_graph.verifier.evidence import strongest
from validity_graph.verifier.gate import DualEvidenceGate, GateForm
from validity_graph.verifier.heads import binary_head, overturn_probability
from validity_graph.verifier.router import Route, Router, report
from validity_graph.verifier.scoring import Scores, Verifier

unit = st.floats(0.0, 1.0)
maybe = st.one_of(st.none(), unit)

TOY = [
    "I work at Acme as an analyst",
    "I grew up in Porto",
    "I like cilantro",
    "Shopping list: milk, eggs, bread",
    "I commute to Acme HQ every day",
    "I bought a monthly pass for the line to Acme HQ",
    "My sister plays the cello",
    "The dentist is on Friday",
    "I quit Acme, I work at Globex now",
    "I can't stand cilantro any more",
    "Take eggs off the shopping list",
    "Our cat is called Miso",
]
#: (source, target) places in the toy that overturn; those that structure gives may go either way.
OVERTURNED = {(8, 0), (9, 2), (10, 3)}
GIVEN_BY_STRUCTURE = {(8, 4), (8, 5)}
TRAPS = ["Bob works at Acme", "I own Acme stock", "I met Ana at Acme in 2019"]


# -- renderings ------------------------------------------------------------------------------------------


def test_paper_rendering_is_the_text_of_section_5_1() -> None:
    source, target = rendering.paper("I moved", "I live here", domain="home")
    assert source == "SOURCE_MEMORY: I moved QUESTION: Does SOURCE directly and specifically overturn TARGET?"
    assert target == "TARGET_MEMORY: I live here DOMAIN: home"


def test_unknown_rendering_is_named() -> None:
    with pytest.raises(InputError, match="'long'"):
        rendering.named("long")


# -- gate ------------------------------------------------------------------------------------------------


@given(unit, maybe, unit, unit)
def test_gate_is_equation_3_and_its_relatives_are_ordered(
    mini: float, nli: float | None, event: float, operation: float
) -> None:
    evidence = Evidence(mini, nli, event, operation)
    by_form = {form: DualEvidenceGate(form).score(evidence) for form in GateForm}
    slot = mini * (1.0 if nli is None else nli)
    assert by_form[GateForm.CONSERVATIVE] == pytest.approx(slot * min(event, operation), abs=1e-15)
    assert by_form[GateForm.CONSERVATIVE] == evidence.gate
    assert by_form[GateForm.DIAGNOSTIC] == pytest.approx(evidence.diagnostic, abs=1e-15)
    # A product of two probabilities is at most their minimum.
    assert by_form[GateForm.DIAGNOSTIC] <= by_form[GateForm.CONSERVATIVE] + 1e-15
    assert by_form[GateForm.CONSERVATIVE] <= by_form[GateForm.SLOT] <= 1.0


@given(st.lists(st.tuples(unit, maybe, unit, unit), max_size=6))
def test_gate_on_arrays_equals_gate_on_records(rows: list[tuple[float, float | None, float, float]]) -> None:
    mini, event, operation = (np.array([row[k] for row in rows], dtype=float) for k in (0, 2, 3))
    nli = np.array([math.nan if row[1] is None else row[1] for row in rows], dtype=float)
    found = DualEvidenceGate().combine(slot_mini=mini, slot_nli=nli, event=event, operation=operation)
    assert found.tolist() == [DualEvidenceGate().score(Evidence(*row)) for row in rows]


@pytest.mark.parametrize("part", ["slot_mini", "event", "operation", "slot_nli"])
def test_gate_refuses_what_is_no_probability(part: str) -> None:
    values = {"slot_mini": 0.5, "slot_nli": 0.5, "event": 0.5, "operation": 0.5, part: 1.5}
    with pytest.raises(InputError, match=part):
        DualEvidenceGate().combine(**values)
    if part != "slot_nli":
        with pytest.raises(InputError, match=part):
            DualEvidenceGate().combine(**{**values, part: math.nan})


# -- windows ---------------------------------------------------------------------------------------------


def places(text: str) -> list[tuple[int, int]]:
    """Tokens for these tests: runs between spaces."""
    found, start = [], 0
    for word in text.split(" "):
        if word:
            found.append((start, start + len(word)))
        start += len(word) + 1
    return found


sentence = st.lists(st.sampled_from(["ab", "c", "def", "gh"]), min_size=1, max_size=9).map(
    lambda words: " ".join(words) + "."
)


@given(st.lists(sentence, min_size=1, max_size=12), st.integers(2, 10))
def test_runs_lose_no_word_and_keep_the_width(sentences: list[str], width: int) -> None:
    # Numbered words, so that a lost one cannot hide behind an equal one.
    count = iter(range(10**6))
    text = " ".join(
        " ".join(f"{word.rstrip('.')}{next(count)}" for word in one.split()) + "." for one in sentences
    )
    found = windows.runs(text, places=places, width=width)
    assert {word for run in found for word in run.split()} == set(text.split())
    assert all(len(places(run)) <= width for run in found)


@given(
    st.lists(sentence, min_size=1, max_size=8), st.lists(sentence, min_size=1, max_size=8), st.integers(4, 30)
)
def test_window_pairs_cover_every_pair_of_words(left: list[str], right: list[str], room: int) -> None:
    source, target = " ".join(left), " ".join(right)
    found = windows.window_pairs(source, target, places=places, room=room)
    assert all(len(places(a)) + len(places(b)) <= room for a, b in found)
    seen = {(x, y) for a, b in found for x in a.split() for y in b.split()}
    assert seen == {(x, y) for x in source.split() for y in target.split()}
    if len(places(source)) + len(places(target)) <= room:
        assert found == [(source, target)]


def test_windows_know_cjk_sentence_ends() -> None:
    assert windows.sentences("我住在杭州。他来了！真的？") == ["我住在杭州。", "他来了！", "真的？"]


# -- router ----------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(st.lists(st.tuples(unit, unit, unit, unit, unit), min_size=1, max_size=12))
def test_router_settles_only_what_a_second_opinion_cannot_change_or_hardly_would(
    rows: list[tuple[float, float, float, float, float]],
) -> None:
    router = Router()
    slot, event, operation, influence, second = np.array(rows).T
    gate = slot * np.minimum(event, operation)
    plan = router.plan(gate=gate, slot=slot, event=event, operation=operation, influence=influence)
    for i, route in enumerate(plan):
        lowered = gate[i] * second[i]
        if route is Route.REJECT:
            assert lowered < router.reject
        elif route is Route.NO_INFLUENCE:
            assert influence[i] < router.influence_floor
        elif route is Route.ACCEPT:
            assert min(slot[i], event[i], operation[i]) >= router.agreement and gate[i] >= router.accept
        else:
            assert gate[i] >= router.reject and influence[i] >= router.influence_floor
    assert report(plan).stopped_cheap == pytest.approx(1 - plan.count(Route.ASK) / len(plan))
    blind = router.plan(
        gate=gate, slot=slot, event=event, operation=operation, readable=np.zeros(len(rows), dtype=bool)
    )
    assert set(blind) == {Route.UNREADABLE}


def test_router_refuses_nonsense() -> None:
    with pytest.raises(InputError, match=r"Router\.accept"):
        Router(accept=1.2)
    with pytest.raises(InputError, match="must not exceed"):
        Router(reject=0.95, accept=0.9)
    with pytest.raises(InputError, match="influence"):
        Router().plan(gate=[0.5], slot=[0.5], event=[1.0], operation=[1.0], influence=[2.0])
    assert report([]).stopped_cheap == 1.0


# -- small pieces ----------------------------------------------------------------------------------------


@given(st.lists(st.floats(-20, 20), min_size=3, max_size=3), st.permutations([0, 1, 2]))
def test_binary_head_keeps_the_three_way_contradiction(row: list[float], order: list[int]) -> None:
    names = dict(zip(order, ["contradiction", "entailment", "neutral"], strict=True))
    logits = np.array(row)
    three_way = np.exp(logits[order[0]] - logits.max()) / np.exp(logits - logits.max()).sum()
    two_way = overturn_probability(binary_head(names)(logits)[None])[0]
    assert two_way == pytest.approx(three_way, abs=1e-9)


def test_binary_head_needs_a_contradiction() -> None:
    with pytest.raises(InputError, match="id2label"):
        binary_head({0: "a", 1: "b", 2: "c"})


@given(st.lists(st.tuples(st.integers(0, 4), unit), max_size=20))
def test_strongest_window_per_pair(rows: list[tuple[int, float]]) -> None:
    rows = sorted([*rows, *((pair, 0.5) for pair in range(5))], key=lambda row: row[0])
    pair, score = np.array([p for p, _ in rows], dtype=np.int64), np.array([x for _, x in rows])
    found = strongest(pair, score, pairs=5)
    for k in range(5):
        assert pair[found[k]] == k
        assert score[found[k]] == max(x for p, x in rows if p == k)


# -- the shipped head ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def verifier() -> Verifier:
    return Verifier.load(threads=2)


def test_toy_and_traps(verifier: Verifier) -> None:
    asked = [(j, i) for j in range(len(TOY)) for i in range(j)]
    scores = verifier.score([TOY[j] for j, _ in asked], [TOY[i] for _, i in asked])
    for (j, i), gate in zip(asked, scores.gate, strict=True):
        if (j, i) in OVERTURNED:
            assert gate > 0.8, (TOY[j], TOY[i], gate)
        elif (j, i) not in GIVEN_BY_STRUCTURE:
            assert gate < 0.2, (TOY[j], TOY[i], gate)
    for source in (TOY[8], "I quit Acme"):
        trapped = verifier.score([source] * 3, TRAPS)
        assert trapped.gate.max() < 0.2, (source, trapped.gate)


def test_scores_are_what_the_contract_says(verifier: Verifier) -> None:
    scores = verifier.asking_never().score([TOY[8], TOY[11]], [TOY[0], TOY[7]], domains=["work", ""])
    assert len(scores) == 2
    for name in ("slot_mini", "event", "operation", "confirms", "gate"):
        values = getattr(scores, name)
        assert values.dtype == np.float64 and values.shape == (2,)
        assert np.all((values >= 0) & (values <= 1))
    assert np.all(np.isnan(scores.slot_nli))
    assert list(scores.kind) == ["supersedes", "none"]
    assert scores.evidence(0).gate == pytest.approx(scores.gate[0], abs=1e-12)
    assert scores.evidence(0).slot_nli is None
    routed = verifier.score([TOY[8], TOY[11]], [TOY[0], TOY[7]], domains=["work", ""])
    asked = ~np.isnan(routed.slot_nli)
    assert routed.routing.count[Route.ASK] == asked.sum()
    assert np.all((routed.slot_nli[asked] >= 0) & (routed.slot_nli[asked] <= 1))
    assert list(routed.kind) == ["supersedes", "none"]


def test_a_pair_scores_the_same_in_any_company_order_and_number_of_threads(verifier: Verifier) -> None:
    sources = [TOY[j] for j in range(6, 12)] * 3
    targets = [TOY[j % 6] for j in range(18)]
    whole = verifier.score(sources, targets)
    back = verifier.score(sources[::-1], targets[::-1])
    one_thread = Verifier.load(threads=1).score(sources, targets)
    for i in range(0, 18, 5):
        alone = verifier.score([sources[i]], [targets[i]])
        assert alone.gate[0] == pytest.approx(whole.gate[i], abs=1e-6)
        assert alone.slot_mini[0] == pytest.approx(whole.slot_mini[i], abs=1e-6)
    assert np.allclose(back.gate[::-1], whole.gate, atol=1e-6)
    assert np.allclose(one_thread.gate, whole.gate, atol=1e-6)
    assert np.array_equal(verifier.score(sources, targets).gate, whole.gate)


def test_a_change_at_the_end_of_a_long_memory_is_found(verifier: Verifier) -> None:
    filler = " ".join(f"Note {k}: nothing new to report, the week was quiet." for k in range(60))
    change = "I quit Acme, I work at Globex now."
    found = verifier.score([f"{filler} {change}", filler], [TOY[0]] * 2)
    assert found.gate[0] > 0.5
    assert found.gate[1] < 0.5 < found.gate[0]
    long_target = verifier.score([change], [f"{filler} {TOY[0]}."])
    assert long_target.gate[0] > 0.5


def test_nothing_in_nothing_out(verifier: Verifier) -> None:
    scores = verifier.score([], [])
    assert len(scores) == 0 and scores.gate.dtype == np.float64 and scores.routing.pairs == 0


@pytest.mark.parametrize("text", ["", " ", "\n", "🙂", "a" * 3000, "\u200b", "。"])
def test_odd_texts_get_probabilities(verifier: Verifier, text: str) -> None:
    scores = verifier.score([text, TOY[0]], [TOY[0], text])
    assert np.all((scores.gate >= 0) & (scores.gate <= 1))


def test_bad_calls_are_named(verifier: Verifier) -> None:
    with pytest.raises(InputError, match="2 sources, 1 targets"):
        verifier.score(["a", "b"], ["c"])
    with pytest.raises(InputError, match=r"targets\[0\]"):
        verifier.score(["a"], [3])  # type: ignore[list-item]
    with pytest.raises(InputError, match="sequence of texts"):
        verifier.score("a", ["b"])
    with pytest.raises(InputError, match="threads=0"):
        Verifier.load(threads=0)
    with pytest.raises(InputError, match=r"manifest\.json"):
        Verifier.load("nowhere")


def test_progress_reaches_the_total(verifier: Verifier) -> None:
    seen: list[tuple[int, int]] = []
    verifier.score([TOY[8]] * 40, [TOY[0]] * 40, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (40, 40)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


class Fixed:
    """A second head with one opinion that counts what it is asked."""

    def __init__(self, opinion: float) -> None:
        self.opinion, self.asked = opinion, 0

    def slot(self, sources: Any, targets: Any, *, domains: Any = None) -> Any:
        self.asked += len(sources)
        return np.full(len(sources), self.opinion)


def test_second_head_multiplies_in_only_where_it_is_asked(verifier: Verifier) -> None:
    sources, targets = [TOY[8], TOY[9], TOY[11]], [TOY[0], TOY[2], TOY[7]]
    cheap = verifier.asking_never().score(sources, targets)
    head = Fixed(0.25)
    full: Scores = verifier.asking_always(head).score(sources, targets)
    assert head.asked == 3
    assert np.allclose(full.gate, cheap.gate * 0.25)
    routed_head = Fixed(0.25)
    routed = Verifier.load(second=routed_head, router=Router(accept=1.0, agreement=1.0))
    scores = routed.score(sources, targets, influence=[1.0, 0.0, 1.0])
    assert np.isnan(scores.slot_nli).tolist() == [False, True, True]
    assert routed_head.asked == 1
    assert scores.routing.count[Route.NO_INFLUENCE] == 1
    assert scores.routing.stopped_cheap == pytest.approx(2 / 3)
    assert np.array_equal(scores.gate[1:], cheap.gate[1:])


# -- without the extras ----------------------------------------------------------------------------------

BLOCKED = """
import sys
for name in ("torch", "transformers", "httpx", "onnx"):
    sys.modules[name] = None
from validity_graph.errors import MissingExtraError
from validity_graph.verifier import LLMHead, SlotHead, Verifier
assert "onnxruntime" not in sys.modules
print(Verifier.load(threads=1).score(["I quit Acme"], ["I work at Acme"]).gate.shape)
calls = [lambda: SlotHead.from_checkpoint("x"), lambda: LLMHead("http://localhost", "m")]
def train():
    import validity_graph.verifier.train
for call in [*calls, train]:
    try:
        call()
    except MissingExtraError as error:
        print(error)
"""


def test_scoring_needs_no_extra_and_the_rest_names_the_command() -> None:
    done = subprocess.run([sys.executable, "-c", BLOCKED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "(1,)"
    assert [line.split("pip install ")[1] for line in lines[1:]] == [
        '"validity-graph[torch]"', '"validity-graph[llm]"', '"validity-graph[train]"',
    ]  # fmt: skip
