"""The graph as its users meet it: writing, judging, rulings, forgetting."""

from __future__ import annotations

import threading

import pytest
from conftest import statuses
from hypothesis import given, settings

from tests import oracle
from validity_graph import InputError, Status, UnknownMemoryError, ValidityGraph
from validity_graph.errors import ConflictError, CycleError, ForgottenError
from validity_graph.formats import Record
from validity_graph.records import Edge, Memory, Reason
from validity_graph.testing import dependency_graphs


def test_what_rests_on_an_overturned_memory_falls_with_it(acme):
    assert statuses(acme) == {
        "job": "outdated",
        "train": "outdated",
        "pass": "outdated",
        "cello": "valid",
        "left": "valid",
    }
    found = acme.check()["pass"]
    assert found.path == ("left", "job", "train", "pass")
    assert (found.direct, found.inherited, found.reason) == (0.0, 1.0, Reason.LOST_REQUIREMENT)


def test_law_7_bottleneck_is_the_weakest_hop_of_a_chain():
    graph = ValidityGraph.open()
    for id in ("a", "b", "c", "s"):
        graph.add(id, f"memory {id}")
    graph.connect("s", "a", type="overturns", weight=0.9)
    graph.connect("a", "b", type="requires", weight=0.8)
    graph.connect("b", "c", type="requires", weight=0.7)
    found = graph.check()["c"]
    assert found.invalidity == pytest.approx(0.9 * 0.8 * 0.7)
    assert found.bottleneck == pytest.approx(0.7)
    assert found.interval == (pytest.approx(0.504), pytest.approx(0.504))
    explained = graph.explain("c")
    assert explained.strength == (pytest.approx(0.504),)
    assert [hop.weight for hop in explained.paths[0]] == [0.9, 0.8, 0.7]


def test_explain_lists_the_strongest_paths_first():
    graph = ValidityGraph.open()
    for id in ("a", "b", "c", "s"):
        graph.add(id, f"memory {id}")
    graph.connect("s", "a", type="overturns", weight=0.9)
    graph.connect("a", "c", type="requires", weight=0.3)
    graph.connect("a", "b", type="requires", weight=0.8)
    graph.connect("b", "c", type="requires", weight=0.8)
    explained = graph.explain("c", paths=5)
    assert [tuple(hop.target for hop in path) for path in explained.paths] == [("a", "b", "c"), ("a", "c")]
    assert list(explained.strength) == sorted(explained.strength, reverse=True)
    low, high = explained.verdict.interval
    assert low == pytest.approx(0.9 * 0.64)
    assert high == pytest.approx(explained.verdict.invalidity)


def test_alternatives_hold_a_memory_up_and_a_tuple_is_one_justification():
    graph = ValidityGraph.open()
    for id in ("a", "b", "c", "s"):
        graph.add(id, f"memory {id}")
    graph.add("either", "x", supported_by=["a", "b"])
    graph.add("both", "y", supported_by=[("a", "b")])
    graph.add("said", "z", supported_by=[("a", "b")], premise=True)
    graph.connect("s", "a", type="overturns")
    found = graph.check()
    assert found["either"].status is Status.VALID
    assert found["both"].status is Status.OUTDATED
    assert found["both"].reason is Reason.LOST_SUPPORT
    assert found["said"].status is Status.VALID


def test_law_14_retracting_the_only_source_reinstates(acme):
    before = {id: verdict.invalidity for id, verdict in acme.as_of("2025-05-01").check().items()}
    acme.add("oops", "I never left Acme", time="2025-06-03", retracts=["left"])
    after = acme.check()
    assert {id: after[id].invalidity for id in before} == before
    assert after["left"].reason is Reason.RETRACTED


def test_supersession_alone_does_not_take_force_away():
    graph = ValidityGraph.open()
    graph.add("acme", "works at Acme")
    graph.add("globex", "works at Globex", supersedes=["acme"])
    graph.add("initech", "works at Initech", supersedes=["globex"])
    assert statuses(graph) == {"acme": "outdated", "globex": "outdated", "initech": "valid"}


def test_cola_coffee_cola():
    graph = ValidityGraph.open()
    graph.add("cola", "drinks cola", time="2025-01-01")
    graph.add("stock", "keep cola in the fridge", time="2025-01-02", depends_on=["cola"])
    graph.add("coffee", "drinks coffee now", time="2025-02-01", supersedes=["cola"])
    assert statuses(graph)["stock"] == "outdated"
    graph.add("again", "back to cola", time="2025-03-01", confirms=["cola"], supersedes=["coffee"])
    assert statuses(graph) == {"cola": "valid", "stock": "valid", "coffee": "outdated", "again": "valid"}


def test_law_9_the_same_event_twice_changes_nothing(acme):
    before = acme.check()
    lines = len(acme.history())
    acme.add("left", "Alice left Acme", time="2025-06-02", supersedes=["job"])
    assert acme.check() == before
    assert len(acme.history()) == lines


def test_other_content_under_the_same_id_needs_replace(acme):
    with pytest.raises(ConflictError, match="replace=True"):
        acme.add("cello", "Alice plays the drums")
    acme.add("cello", "Alice plays the drums", replace=True)
    assert acme.memory("cello").text == "Alice plays the drums"


def test_a_repeated_edge_replaces_the_earlier_record():
    graph = ValidityGraph.open()
    graph.add("a", "x")
    graph.add("b", "y")
    graph.connect("b", "a", type="overturns", weight=0.9)
    graph.connect("b", "a", type="overturns", weight=0.4)
    assert graph.check()["a"].invalidity == pytest.approx(0.4)
    graph.connect("b", "a", type="overturns", weight=0.5, proposition="another")
    assert graph.check()["a"].invalidity == pytest.approx(0.7)
    graph.disconnect("b", "a", type="overturns", proposition="another")
    assert graph.check()["a"].invalidity == pytest.approx(0.4)


def test_edges_of_other_types_are_kept_and_never_propagate(acme):
    acme.connect("left", "cello", type="cites")
    assert acme.check()["cello"].invalidity == 0.0
    assert any(item.type == "cites" for item in acme.edges())


def test_trust_scales_force():
    graph = ValidityGraph.open()
    graph.add("a", "x")
    graph.add("rumour", "not x", trust=0.25, supersedes=["a"])
    assert graph.check()["a"].invalidity == pytest.approx(0.25)


def test_one_channel_counts_once():
    graph = ValidityGraph.open()
    graph.add("a", "x")
    for k in range(5):
        graph.add(f"post{k}", f"not x, says everybody {k}", channel="feed")
        graph.connect(f"post{k}", "a", type="overturns", weight=0.3)
    assert graph.check()["a"].invalidity == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("edge", "message"),
    [
        ({"source": "left", "target": "nobody", "type": "requires"}, 'unknown memory "nobody"'),
        ({"source": "left", "target": "left", "type": "requires"}, "points at itself"),
        ({"source": "job", "target": "left", "type": "overturns"}, "is earlier than left"),
        ({"source": "left", "target": "job", "type": "overturns", "weight": 1.4}, r"in \[0, 1\], not 1.4"),
        ({"source": "left", "target": "job", "type": "overturns", "weight": float("nan")}, "nan"),
        ({"source": "left", "target": "other", "type": "requires"}, "crosses from namespace"),
        ({"source": "left", "target": "job", "type": "overturns", "kind": "murders"}, "supersedes"),
    ],
)
def test_a_bad_edge_is_refused_and_nothing_is_written(acme, edge, message):
    acme.add("other", "elsewhere", namespace="b")
    edges, log = acme.edges(), acme.history()
    with pytest.raises(InputError, match=message):
        acme.connect(**edge)
    assert (acme.edges(), acme.history()) == (edges, log)


def test_a_memory_with_a_bad_edge_is_not_added_either(acme):
    with pytest.raises(UnknownMemoryError, match="nobody"):
        acme.add("new", "text", depends_on=["job", "nobody"])
    assert "new" not in acme


def test_a_cycle_of_retractions_is_named():
    graph = ValidityGraph.open()
    for id in ("m1", "m2", "m3"):
        graph.add(id, f"text {id}")
    graph.connect("m1", "m2", type="overturns", kind="retracts")
    graph.connect("m2", "m3", type="overturns", kind="retracts")
    with pytest.raises(CycleError, match=r"m3 retracts m1 in a cycle \(m3 -> m1 -> m2 -> m3\); remove one"):
        graph.connect("m3", "m1", type="overturns", kind="retracts")


def test_loops_of_supersession_leave_the_latest_arrival_current():
    graph = ValidityGraph.open()
    for id in ("a", "b", "c"):
        graph.add(id, f"text {id}", time="2025-01-01")
    for source, target in (("a", "b"), ("b", "c"), ("c", "a")):
        graph.connect(source, target, type="overturns")
    assert statuses(graph) == {"a": "outdated", "b": "valid", "c": "valid"}
    graph.connect("c", "b", type="overturns")
    assert statuses(graph) == {"a": "outdated", "b": "outdated", "c": "valid"}


def test_rulings_are_evidence_and_are_logged(acme):
    acme.invalidate("cello", 0.8, reason="she sold it")
    found = acme.check()["cello"]
    assert (found.invalidity, found.reason) == (pytest.approx(0.8), Reason.RULED)
    acme.confirm("cello", reason="she bought another")
    acme.confirm("job")
    assert set(statuses(acme).values()) == {"valid"}
    assert [entry.action for entry in acme.history("cello")] == ["add", "invalidate", "confirm"]
    assert acme.history("cello")[1].reason == "she sold it"


def test_a_confirmation_does_not_clear_what_comes_later(acme):
    acme.confirm("job")
    acme.invalidate("job", 0.9)
    assert acme.check()["job"].invalidity == pytest.approx(0.9)


def test_forgetting_erases_text_and_leaves_a_tombstone(tmp_path):
    path = tmp_path / "m.db"
    graph = ValidityGraph.open(str(path))
    graph.add("secret", "the code is 4711-xyzzy", meta={"note": "xyzzy-meta"}, context="xyzzy-context")
    graph.add("door", "opens with the code", depends_on=["secret"])
    graph.invalidate("secret", 0.1, reason="xyzzy-reason")
    graph.forget("secret", reason="asked to")
    assert statuses(graph) == {"door": "outdated"}
    with pytest.raises(ForgottenError, match="remember=True"):
        graph.add("secret", "anything")
    with pytest.raises(ForgottenError, match="forgotten as 'secret'"):
        graph.add("again", "the code  is 4711-xyzzy")
    with pytest.raises(ForgottenError, match="forgotten as 'secret'"):
        graph.add("again", "the code is 4711-xyzzy", context="in another context")
    with pytest.raises(UnknownMemoryError, match="it was forgotten on"):
        graph.explain("secret")
    graph.close()
    for file in tmp_path.iterdir():
        assert b"xyzzy" not in file.read_bytes()
    again = ValidityGraph.open(str(path))
    again.add("secret", "the code is 4711-xyzzy", remember=True)
    assert statuses(again) == {"secret": "valid", "door": "valid"} or statuses(again)["door"] == "valid"


def test_ids_are_byte_exact():
    graph = ValidityGraph.open()
    for id in ("k1", "K1", "caf\u00e9", "cafe\u0301"):
        graph.add(id, f"text of {id!a}")
    graph.invalidate("k1")
    graph.invalidate("caf\u00e9")
    assert [verdict.status for verdict in graph.check().values()] == [
        "outdated",
        "valid",
        "outdated",
        "valid",
    ]


def test_edges_to_missing_memories_wait_for_them():
    graph = ValidityGraph.open()
    records = [Record("f:1", Memory("a", "x")), Record("f:2", Edge("a", "b", "requires"))]
    with pytest.raises(
        UnknownMemoryError, match='^f:2: edge refers to unknown memory "b"; add the memory first'
    ):
        graph.ingest(records)
    assert len(graph) == 0
    assert graph.ingest(records, allow_missing=True).missing == 1
    graph.invalidate("a")
    assert set(statuses(graph)) == {"a"}
    graph.add("b", "y")
    assert statuses(graph)["b"] == "outdated"


def test_two_connections_see_each_other_and_threads_do_not_lose_writes(tmp_path):
    path = str(tmp_path / "m.db")
    one, two = ValidityGraph.open(path), ValidityGraph.open(path)
    one.add("a", "x")
    assert "a" in two

    def write(graph: ValidityGraph, name: str) -> None:
        for k in range(15):
            graph.add(f"{name}{k}", f"text {name}{k}", depends_on=["a"])

    threads = [threading.Thread(target=write, args=pair) for pair in ((one, "p"), (two, "q"), (one, "r"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    one.invalidate("a")
    assert list(statuses(two).values()) == ["outdated"] * 46
    assert one.check() == two.check()


@given(dependency_graphs(max_nodes=5, max_edges=6))
@settings(max_examples=60, deadline=None)
def test_the_graph_agrees_with_enumeration_by_the_exact_method(problem):
    graph = ValidityGraph.open()
    for v in range(problem.node_count):
        graph.add(f"m{v}", f"text {v}", premise=bool(problem.premise[v]))
        graph.add(f"s{v}", f"against {v}")
    for v in range(problem.node_count):
        graph.connect(f"s{v}", f"m{v}", type="overturns", weight=float(problem.direct[v]))
    edges = []
    for e in range(problem.source.size):
        type = "supports" if problem.supports[e] else "requires"
        name = str(problem.justification[e]) if problem.supports[e] and problem.justification[e] >= 0 else ""
        u, v, w = int(problem.source[e]), int(problem.target[e]), float(problem.weight[e])
        graph.connect(f"m{u}", f"m{v}", type=type, weight=w, justification=name)
        edges.append((u, v, w, type, int(problem.justification[e])))
    expected = oracle.worlds_invalidity(
        problem.node_count, edges, direct=problem.direct.tolist(), premise=problem.premise.tolist()
    )
    found = graph.check(method="exact")
    assert [found[f"m{v}"].invalidity for v in range(problem.node_count)] == pytest.approx(expected, abs=1e-9)


def test_counterfactuals_name_what_a_verdict_hinges_on(acme):
    assert acme.without("pass", memory="left") == 0.0
    assert acme.without("pass", memory="cello") == 1.0
    assert acme.hinges("pass")[0].memory in {"left", "job", "train"}
    acme.confirm("job")
    assert [item.id for item in acme.blast_radius("train")] == ["pass"]
    with pytest.raises(UnknownMemoryError, match="not known yet at that time"):
        acme.as_of("2025-01-10").hinges("pass")


def test_inferred_supports_are_opt_in_marked_and_never_prerequisites():
    graph = ValidityGraph.open()
    graph.add("job", "Alice works at the Acme office in Porto", time="2025-01-01")
    graph.add(
        "ride", "Alice rides the tram to the Acme office in Porto, because she works there", time="2025-01-02"
    )
    graph.add("cello", "The cello needs new strings", time="2025-01-03")
    assert graph.edges() == []
    assert graph.infer_supports(threshold=0.05) == len(graph.edges()) > 0
    assert {item.type for item in graph.edges()} == {"supports"}
    assert all(item.inferred for item in graph.edges())
    assert graph.infer_supports(threshold=0.05) == 0
    graph.invalidate("job")
    assert graph.check()["ride"].inferred


def test_what_was_outdated_before_a_conclusion_is_no_reason_for_it():
    def reasons_of_ride(overturned_on: str) -> set[str]:
        graph = ValidityGraph.open()
        graph.add("job", "Alice works at the Acme office in Porto", time="2025-01-01")
        ride = "Alice rides the tram to the Acme office in Porto, because she works there"
        graph.add("ride", ride, time="2025-02-02")
        graph.add("left", "Alice left Acme", time=overturned_on)
        graph.connect("left", "job", type="overturns")
        graph.infer_supports(threshold=0.05)
        return {item.source for item in graph.edges() if item.type == "supports" and item.target == "ride"}

    assert "job" in reasons_of_ride("2025-03-03")
    assert "job" not in reasons_of_ride("2025-01-03")


def test_unknown_methods_are_named(acme):
    with pytest.raises(InputError, match='unknown method "guess"; use noisy_or, worlds or exact'):
        acme.check(method="guess")
