"""JSON lines: what is read, what is refused, and what the refusal says."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from validity_graph import InputError
from validity_graph.formats import LONGEST_LINE, read_jsonl, read_pairs, write_jsonl
from validity_graph.records import Edge, Evidence, Memory, parse_time

texts = st.text(st.characters(codec="utf-8"), max_size=20)
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
shares = st.floats(0, 1)


def read(*lines: str) -> list[object]:
    return [record.item for record in read_jsonl(io.BytesIO("\n".join(lines).encode()), name="f.jsonl")]


@given(
    st.lists(
        st.builds(
            Memory,
            id=names,
            text=names,
            time=st.none() | st.datetimes(timezones=st.just(parse_time("2025-01-01").tzinfo)),
            domain=texts,
            namespace=texts,
            trust=shares,
            channel=texts,
            premise=st.booleans(),
            meta=st.dictionaries(texts, st.integers(-9, 9) | texts, max_size=2),
            context=texts,
        )
        | st.builds(
            Edge,
            source=names,
            target=names,
            type=st.just("overturns"),
            weight=shares,
            kind=st.sampled_from(["supersedes", "retracts"]),
            proposition=texts,
            evidence=st.none() | st.builds(Evidence, shares, st.none() | shares, shares, shares),
            inferred=st.booleans(),
        )
        | st.builds(
            Edge, source=names, target=names, type=names.filter(lambda x: x != "overturns"), kind=texts
        ),
        min_size=1,
    )
)
def test_what_is_written_reads_back(items):
    assert read(*write_jsonl(items)) == items


def test_defaults_and_order():
    assert read('{"id": "a", "text": "x"}', "", '{"source": "a", "target": "b", "type": "cites"}') == [
        Memory("a", "x"),
        Edge("a", "b", "cites"),
    ]


def test_an_edge_with_evidence_alone_gets_its_gate_score():
    (edge,) = read(
        '{"source": "a", "target": "b", "type": "overturns",'
        ' "evidence": {"slot_mini": 0.9, "slot_nli": 0.8, "event": 0.7, "operation": 0.6}}'
    )
    assert edge.weight == pytest.approx(0.9 * 0.8 * 0.6)


def test_worked_example_of_the_gate():
    parts = Evidence(slot_mini=0.99995, slot_nli=0.99888, event=0.9968, operation=0.9933)
    assert parts.diagnostic == pytest.approx(0.9890, abs=5e-5)
    assert parts.gate == pytest.approx(0.9921, abs=5e-5)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"f.jsonl:2: is not JSON \(.*\); expected one JSON object a line"),
        ("[1]", r"f.jsonl:2: expected a JSON object, not \[1\]"),
        ('{"id": "a"}', "f.jsonl:2: is neither a memory .* nor an edge"),
        ('{"id": "", "text": "x"}', 'f.jsonl:2: "id" must be a non-empty string'),
        ('{"id": 3, "text": "x"}', 'f.jsonl:2: "id" must be a non-empty string, not 3'),
        (
            '{"id": "a", "text": "x", "tiem": 1}',
            'f.jsonl:2: unknown field "tiem" of a memory; did you mean "time"',
        ),
        (
            '{"id": "a", "text": "x", "zzz": 1}',
            'unknown field "zzz" of a memory; put data of your own under "meta"',
        ),
        ('{"id": "a", "text": "x", "time": "June"}', "time of memory 'a'='June' is not ISO 8601"),
        ('{"id": "a", "text": "x", "trust": 2}', r"trust of memory 'a' must lie in \[0, 1\], not 2"),
        ('{"id": "a", "text": "x", "premise": 1}', '"premise" must be true or false, not 1'),
        ('{"id": "a", "text": "x", "meta": 1}', "meta of memory 'a' must be an object"),
        ('{"source": "a", "type": "cites"}', '"target" must be a non-empty string'),
        ('{"source": "a", "target": "b"}', '"type" must be a non-empty string'),
        (
            '{"source": "a", "target": "b", "type": "requires", "weight": 1.4}',
            r"weight of edge a -> b .*\[0, 1\], not 1.4",
        ),
        ('{"source": "a", "target": "b", "type": "requires", "weight": NaN}', "is not JSON"),
        ('{"source": "a", "target": "b", "type": "requires", "weight": true}', "must be a number"),
        (
            '{"source": "a", "target": "b", "type": "overturns", "kind": "x"}',
            'must be "supersedes" or "retracts"',
        ),
        (
            '{"source": "a", "target": "b", "type": "overturns", "evidence": {"slot_mini": 3}}',
            "slot_mini of edge",
        ),
    ],
)
def test_bad_lines_are_refused_with_place_field_and_mend(line, message):
    with pytest.raises(InputError, match=message):
        read('{"id": "ok", "text": "fine"}', line)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "holds no memories"),
        (b"\n \n", "holds no memories"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "f:"),
        (b'{"id": "a", "text": "\x00"}', "binary data"),
        (b'{"id": "a", "text": "\xff\xfe"}', "f:1: is not"),
        (b'{"id": "a", "text": "\\ud800"}', "f:1: "),
        (
            b'{"id": "a", "text": "' + b"x" * 10_000_000 + b'"}',
            f"f:1: line is longer than {LONGEST_LINE} bytes",
        ),
        (b"[" * 100_000, "f:1: is not JSON"),
    ],
)
def test_bad_files_are_refused(content, message):
    with pytest.raises(InputError, match=message):
        read_jsonl(io.BytesIO(content), name="f")


def test_pairs_are_read_as_carefully_as_memories():
    told = b'\xef\xbb\xbf{"source": "s", "target": "t"}\n\n{"id": "p", "source": "s", "target": "t"}\n'
    assert [pair["id"] for pair in read_pairs(io.BytesIO(told), name="f")] == [1, "p"]
    (pair,) = read_pairs(io.BytesIO(b'{"source": "s", "target": "t", "target_context": "c"}'), name="f")
    assert (pair["source_context"], pair["target_context"], pair["domain"]) == ("", "c", "")
    for line, message in (
        (b'{"source": "s"}', 'f:1: needs "source" and "target"'),
        (b'{"source": "s", "target": "t", "target_context": 3}', 'f:1: "target_context" must be a string'),
        (b"[]", "f:1: expected"),
    ):
        with pytest.raises(InputError, match=message):
            list(read_pairs(io.BytesIO(line), name="f"))


def test_a_byte_order_mark_is_passed_over():
    content = b"\xef\xbb\xbf" + json.dumps({"id": "a", "text": "x"}).encode()
    assert [record.item for record in read_jsonl(io.BytesIO(content), name="f")] == [Memory("a", "x")]
