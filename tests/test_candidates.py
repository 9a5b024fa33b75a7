"""Who is asked about whom, how many, and that what is proposed depends only on what is held."""

from __future__ import annotations

import time as clock
from datetime import datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from validity_graph import embedding
from validity_graph.candidates import CandidateIndex, propose
from validity_graph.errors import ConflictError, InputError, UnknownMemoryError
from validity_graph.matching import MAX_SEGMENTS, grams, restatement_key, segments
from validity_graph.records import Memory

#: A busy machine is no reason to fail.
unhurried = settings(deadline=None)

START = datetime(2025, 1, 1, tzinfo=timezone.utc)
WORDS = "job Acme Globex tea coffee Oslo Bergen likes works moved 我 住 杭州 成都".split()


class Letters:
    """An encoder that knows nothing but letter counts, and so can be worked out by hand."""

    width = 26

    def encode(self, texts):
        out = np.array([[text.lower().count(chr(97 + k)) for k in range(26)] for text in texts], np.float32)
        norm = np.linalg.norm(out, axis=1, keepdims=True)
        return out / np.where(norm > 0, norm, 1)


@st.composite
def stores(draw):
    """Memories under shuffled arrival numbers, few words, few times, two namespaces: all collide."""
    size = draw(st.integers(1, 12))
    numbers = draw(st.permutations(range(size)))
    return {
        number: Memory(
            id=f"m{number}",
            text=" ".join(draw(st.lists(st.sampled_from(WORDS), min_size=0, max_size=4))),
            time=draw(st.none() | st.integers(0, 3).map(lambda day: START + timedelta(days=day))),
            namespace=draw(st.sampled_from(["", "other"])),
        )
        for number in numbers
    }


def filled(memories, *, cap=8, encoder=Letters()):  # noqa: B008 - stateless
    index = CandidateIndex(cap=cap, encoder=encoder)
    index.extend(memories.items())
    return index


def may_overturn(source, target, memories):
    """SEMANTICS section 2, in words of its own."""
    s, t = memories[source], memories[target]
    if s.namespace != t.namespace or restatement_key(s.text) == restatement_key(t.text):
        return False
    if s.time is not None and t.time is not None and s.time != t.time:
        return s.time > t.time
    return source > target


@unhurried
@given(stores())
def test_a_small_store_is_proposed_whole_and_only_later_speaks_about_earlier(memories):
    index = filled(memories, cap=len(memories) + 1)
    wanted = {(s, t) for s in memories for t in memories if may_overturn(s, t, memories)}
    assert set(index.pairs(memories)) == wanted
    for number in memories:
        assert set(index.targets(number)) == {t for s, t in wanted if s == number}
        assert set(index.sources(number)) == {s for s, t in wanted if t == number}


@unhurried
@given(stores(), st.integers(1, 3))
def test_the_cap_counts_distinct_texts_and_takes_every_restatement(memories, cap):
    index = filled(memories, cap=cap)
    for number in memories:
        found = index.targets(number)
        allowed = [t for t in memories if may_overturn(number, t, memories)]
        keys = {restatement_key(memories[t].text) for t in found}
        assert len(found) == len(set(found))
        assert len(keys) == min(cap, len({restatement_key(memories[t].text) for t in allowed}))
        assert set(found) == {t for t in allowed if restatement_key(memories[t].text) in keys}


@unhurried
@given(stores(), st.randoms(use_true_random=False))
def test_the_order_of_calls_changes_nothing(memories, random):
    order = list(memories)
    random.shuffle(order)
    grown = CandidateIndex(cap=2, encoder=Letters())
    for number in order:
        grown.add(number, memories[number])
        grown.targets(number)
    whole = filled(dict(sorted(memories.items())), cap=2)
    for number in memories:
        assert grown.targets(number) == whole.targets(number)
        assert grown.sources(number) == whole.sources(number)
    assert set(grown.pairs(memories)) == {(s, t) for s in memories for t in whole.targets(s)}


@unhurried
@given(stores(), st.data())
def test_removing_is_never_having_added(memories, data):
    gone = data.draw(st.sets(st.sampled_from(sorted(memories))))
    index = filled(memories, cap=2)
    index.pairs(memories)
    for number in gone:
        index.remove(number)
    rest = {number: memory for number, memory in memories.items() if number not in gone}
    fresh = filled(rest, cap=2)
    assert len(index) == len(rest)
    for number in rest:
        assert number in index
        assert index.targets(number) == fresh.targets(number)
    assert index.search("job tea 杭州", k=9) == fresh.search("job tea 杭州", k=9)


@unhurried
@given(stores(), st.data())
def test_what_was_verified_before_is_asked_only_about_what_is_new(memories, data):
    new = data.draw(st.sets(st.sampled_from(sorted(memories)), min_size=1))
    index = filled(memories, cap=3)
    pairs = index.pairs(new)
    assert len(pairs) == len(set(pairs))
    assert all(source in new or target in new for source, target in pairs)
    assert {(s, t) for s, t in pairs if s in new} == {(s, t) for s in new for t in index.targets(s)}
    assert all(may_overturn(s, t, memories) for s, t in pairs)


def test_a_memory_that_arrives_late_meets_its_later_sources():
    index = CandidateIndex(encoder=None)
    index.add(0, Memory("new", "Yuki works at Initrode.", time=START + timedelta(days=700)))
    index.add(1, Memory("old", "Yuki works at Globex.", time=START))
    assert index.targets(1) == [] and index.sources(1) == [0]
    assert index.pairs([1]) == [(0, 1)]


def test_instants_decide_not_local_strings():
    index = CandidateIndex(encoder=None)
    index.add(
        0, Memory("a", "The call is with Dmitri.", time=datetime.fromisoformat("2025-03-01T23:30:00-05:00"))
    )
    index.add(
        1, Memory("b", "The call is with Hana.", time=datetime.fromisoformat("2025-03-02T03:00:00+00:00"))
    )
    assert index.pairs([0, 1]) == [(0, 1)]


def test_hundreds_of_restatements_take_one_place_and_all_are_reached():
    index = CandidateIndex(cap=2, encoder=None)
    for number in range(300):
        index.add(number, Memory(f"r{number}", "Deploys go through Jenkins" + "!" * (number % 3)))
    index.add(300, Memory("other", "To ship, use the Jenkins server."))
    index.add(301, Memory("tea", "Lunch at noon."))
    index.add(302, Memory("new", "Jenkins was switched off, deploys go through Buildkite."))
    found = index.targets(302)
    assert set(found) == {*range(300), 300} and found[0] == 299


@pytest.mark.parametrize(
    ("target", "source"),
    [
        ("我住在杭州，在一家银行上班。", "上个月我离开杭州搬到了成都。"),
        ("私は大阪に住んでいます。", "先月大阪から福岡に引っ越しました。"),
        ("나는 부산에 살고 있다.", "지난달 부산에서 대구로 이사했다."),
        ("ฉันทำงานที่เชียงใหม่", "ฉันย้ายจากเชียงใหม่ไปภูเก็ต"),
        ("Trabajo en una farmacia de Sevilla.", "Desde mayo ya no trabajo en la farmacia."),
        ("I need to organise my garage", "Finished organising the garages"),
        ("Ｃａｆé Ｌｕｎａ opens at 8", "cafe\u0301 luna opens at 9 now"),
        ("The budget is $875,000", "Revert the budget from 875000"),
    ],
)
def test_the_target_is_among_the_first_two_in_any_script(target, source):
    distractors = [
        "我喜欢喝绿茶。", "他昨天买了一本书。", "今日は映画を見ました。", "나는 커피를 좋아한다.",
        "ฉันชอบดื่มชา",
        "Mi hermana toca el piano.", "The train leaves at noon.", "We adopted a cat called Miso.",
    ]  # fmt: skip
    memories = [Memory(str(k), text) for k, text in enumerate([target, *distractors, source])]
    index = CandidateIndex(cap=2, encoder=None)
    index.extend(enumerate(memories))
    assert 0 in index.targets(len(memories) - 1)


def test_a_change_buried_in_a_long_memory_finds_its_target():
    log = "Meeting log. " + " ".join(f"Item {k}: routine update, nothing decided." for k in range(80))
    texts = ["The archive room is on floor 2."]
    texts += [f"Item {k} of the shopping list is decided." for k in range(30)]
    memories = [
        Memory(str(k), text) for k, text in enumerate([*texts, log + " The archive moved to floor 5."])
    ]
    assert (31, 0) in propose(memories)


def test_identity_is_not_widened_by_normalisation():
    assert restatement_key("I like  tea!") == restatement_key("i like tea.")
    assert restatement_key("I like tea?") != restatement_key("I like tea.")
    assert restatement_key("It is -5 degrees") != restatement_key("It is 5 degrees")
    assert restatement_key("area 10²") != restatement_key("area 102")


@unhurried
@given(st.text())
def test_every_visible_text_has_features_and_segments(text):
    assert segments(text) and len(segments(text)) <= MAX_SEGMENTS
    assert "".join("".join(segments(text)).split()) == "".join(text.split())
    if any(letter.isalnum() for letter in text):
        assert grams(text)


def test_search_puts_the_answer_first_and_knows_nothing_of_other_namespaces():
    index = CandidateIndex(encoder=None)
    index.add(0, Memory("a", "Alice works at Acme"))
    index.add(1, Memory("b", "The cat is called Miso"))
    index.add(2, Memory("c", "Alice works at Globex", namespace="other"))
    assert [number for number, _ in index.search("Where does Alice work?", k=2)] == [0, 1]
    assert [number for number, _ in index.search("Alice", namespace="other")] == [2]
    assert index.search("Alice", namespace="none") == []


def test_errors_name_the_thing():
    index = CandidateIndex(encoder=None)
    index.add(7, Memory("a", "text"))
    with pytest.raises(ConflictError, match="7"):
        index.add(7, Memory("b", "text"))
    with pytest.raises(UnknownMemoryError, match="8"):
        index.targets(8)
    with pytest.raises(InputError, match="cap=0"):
        CandidateIndex(cap=0)
    with pytest.raises(InputError, match="k=0"):
        index.search("text", k=0)


def test_the_shipped_embedding_knows_meaning_without_shared_words():
    table = embedding.shipped()
    assert table is not None
    rows = table.encode(["My physician", "the doctor", "a bicycle", ""])
    assert rows.shape == (4, table.width)
    assert np.allclose(np.linalg.norm(rows[:3], axis=1), 1.0, atol=1e-5) and not rows[3].any()
    assert rows[0] @ rows[1] > rows[0] @ rows[2] + 0.2


def test_embedding_files_that_do_not_fit_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"table\.npz"):
        embedding.StaticEmbedding.load(tmp_path)
    (tmp_path / "tokenizer.json").write_bytes((embedding.WEIGHTS / "tokenizer.json").read_bytes())
    np.savez(tmp_path / "table.npz", value=np.zeros((3, 4), np.int8), scale=np.zeros(2, np.float16))
    with pytest.raises(InputError, match="do not fit"):
        embedding.StaticEmbedding.load(tmp_path)


@unhurried
@given(st.lists(st.text(max_size=30), max_size=6))
def test_encoding_together_equals_encoding_alone(texts):
    table = embedding.shipped()
    together = table.encode(texts)
    assert together.shape == (len(texts), table.width)
    for row, text in zip(together, texts, strict=True):
        assert np.allclose(row, table.encode([text])[0], atol=1e-6)


def test_a_large_batch_takes_seconds_not_minutes():
    generator = np.random.default_rng(7)
    vocabulary = ["".join(generator.choice(list("abcdefghij"), 6)) for _ in range(3000)]
    texts = [" ".join(generator.choice(vocabulary, 14)) for _ in range(1600)]
    index = CandidateIndex()
    index.extend((k, Memory(str(k), text)) for k, text in enumerate(texts))
    begun = clock.process_time()
    pairs = index.pairs(range(1400, 1600))
    assert clock.process_time() - begun < 20.0
    assert len(pairs) == 200 * 8
