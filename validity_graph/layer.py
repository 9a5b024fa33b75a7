"""The validity layer over retrieved memories: modes ``off``, ``context`` and ``demote``, and their contracts.

Pure functions over what a retriever found and the graph's verdicts; they neither retrieve nor judge, add
no result and drop none.  [V3] section 14 and SEMANTICS section 7.1.  The contracts: ``off`` passes
everything through; ``context``, the default, keeps results and order; ``demote`` keeps the results and is
opted into; fields that only an evaluation may know are refused on the way in and absent on the way out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeVar

from validity_graph.errors import InputError
from validity_graph.records import Memory, Reason, Status, Verdict

Item = TypeVar("Item")

#: Fields that hold answers: a layer that saw them would be graded on its own key.  [V3] section 14.2
EVALUATION_ONLY = frozenset(
    {
        "gold",
        "gold_ids",
        "is_current",
        "is_latest",
        "is_stale",
        "stale",
        "answer",
        "answer_text",
        "ce_score",
        "mxbai_score",
        "teacher_score",
        "gpt_label",
        "entity_id",
        "slot_id",
    }
)


class Mode(str, Enum):
    """What the layer does with retrieved memories."""

    OFF = "off"
    CONTEXT = "context"
    DEMOTE = "demote"


@dataclass(frozen=True, slots=True)
class Retrieved:
    """One retrieved memory; ``verdict`` is ``None`` in mode ``off`` and for memories never judged.

    ``score`` is the retriever's own and never changed; ``context_note`` says in words what an agent should
    know before it uses the memory, empty where it is valid.
    """

    memory: Memory
    score: float
    verdict: Verdict | None = None
    context_note: str = ""


def always(query: str) -> bool:
    """Return True: every query asks for the current state."""
    return True


def annotate(
    found: Sequence[tuple[Memory, float]],
    verdicts: Mapping[str, Verdict],
    *,
    mode: Mode | str | None = Mode.CONTEXT,
    query: str = "",
    asks_current: Callable[[str], bool] = always,
) -> list[Retrieved]:
    """Return the retrieved (memory, score) pairs, in order, with what ``verdicts`` say about each id.

    In ``demote``, outdated memories go below the rest, stable otherwise, where ``asks_current(query)``:
    a question about the past wants them where they are.  ``None`` means ``off``.
    Raises ``InputError`` for an unknown mode and, unless off, for an evaluation-only field in ``meta``.
    """
    chosen = _mode(mode)
    if chosen is Mode.OFF:
        return [Retrieved(memory, score) for memory, score in found]
    for memory, _ in found:
        _refuse_evaluation_fields(memory.meta, id=memory.id)
    results = [
        Retrieved(memory, score, verdicts.get(memory.id), context_note(verdicts.get(memory.id)))
        for memory, score in found
    ]
    if chosen is Mode.DEMOTE and asks_current(query):
        return _outdated_last(results, [item.verdict for item in results])
    return results


def attach(
    results: Sequence[Mapping[str, Any]],
    verdicts: Mapping[str, Verdict],
    *,
    mode: Mode | str | None = Mode.CONTEXT,
    query: str = "",
    asks_current: Callable[[str], bool] = always,
) -> list[Mapping[str, Any]]:
    """Do the same for any retriever's results: mappings that hold at least ``id``.

    ``off`` returns the very objects that came in.  Otherwise each result is a copy with one more key,
    ``validity``: the metadata of ``validity``, or ``None`` for an id without a verdict.  Raises
    ``InputError`` for an unknown mode and, unless off, for a result without ``id``, one that holds
    ``validity`` already, and an evaluation-only field.
    """
    chosen = _mode(mode)
    if chosen is Mode.OFF:
        return list(results)
    for place, item in enumerate(results):
        if "id" not in item:
            raise InputError(f'result {place} has no "id"; validity is looked up by it')
        if "validity" in item:
            raise InputError(f'result {item["id"]!r} holds "validity" already; annotate it once')
        _refuse_evaluation_fields(item, id=item["id"])
    found = [verdicts.get(item["id"]) for item in results]
    annotated: list[Mapping[str, Any]] = [
        {**item, "validity": None if verdict is None else validity(verdict)}
        for item, verdict in zip(results, found, strict=True)
    ]
    if chosen is Mode.DEMOTE and asks_current(query):
        return _outdated_last(annotated, found)
    return annotated


def validity(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict as plain metadata: only these keys, so that nothing else can leak.

    ``status``, ``reason``, ``invalidity``, ``direct``, ``inherited``, ``interval``, ``sources`` (id and
    score), ``path``, ``hops`` (each with its weight), ``bottleneck``, ``inferred`` and ``context_note``.
    """
    return {
        "status": verdict.status.value,
        "reason": verdict.reason.value,
        "invalidity": verdict.invalidity,
        "direct": verdict.direct,
        "inherited": verdict.inherited,
        "interval": list(verdict.interval),
        "sources": [{"id": source.id, "score": source.score} for source in verdict.sources],
        "path": list(verdict.path),
        "hops": [
            {"source": hop.source, "target": hop.target, "type": hop.type, "weight": hop.weight}
            for hop in verdict.hops
        ],
        "bottleneck": verdict.bottleneck,
        "inferred": verdict.inferred,
        "context_note": context_note(verdict),
    }


_WHY = {
    Reason.NONE: "speaks against it",
    Reason.SUPERSEDED: "superseded by",
    Reason.RETRACTED: "retracted by",
    Reason.LOST_REQUIREMENT: "rests on something that fell with",
    Reason.LOST_SUPPORT: "lost its reasons with",
    Reason.RULED: "ruled invalid",
}


def context_note(verdict: Verdict | None) -> str:
    """Return one sentence for an agent: what is wrong, how sure, through whom; empty where nothing is.

    Inherited invalidity asks for a check instead of calling the memory false (SEMANTICS section 7.1).
    """
    if verdict is None or verdict.status is Status.VALID:
        return ""
    label = verdict.status.value.replace("_", " ").capitalize()
    named = ", ".join(source.id for source in verdict.sources[:3]) or (
        verdict.path[0] if verdict.path else ""
    )
    cause = _WHY[verdict.reason]
    if verdict.reason is Reason.NONE:
        cause = f"{named} {cause}" if named else "later evidence speaks against it"
    elif verdict.reason is not Reason.RULED and named:
        cause = f"{cause} {named}"
    note = f"{label} ({verdict.invalidity:.2f}): {cause}."
    if verdict.inherited > verdict.direct:
        through = f" ({' -> '.join(verdict.path)})" if len(verdict.path) > 1 else ""
        note += f" Inherited{through}: check before use."
    return note


def _mode(mode: Mode | str | None) -> Mode:
    if mode is None:
        return Mode.OFF
    try:
        return Mode(mode)
    except ValueError:
        known = ", ".join(item.value for item in Mode)
        raise InputError(f"mode={mode!r} is not one of {known}") from None


def _refuse_evaluation_fields(fields: Mapping[str, Any], *, id: object) -> None:
    held = sorted(EVALUATION_ONLY & fields.keys())
    for inner in ("meta", "metadata"):
        if isinstance(fields.get(inner), Mapping):
            held += [f"{inner}.{name}" for name in sorted(EVALUATION_ONLY & fields[inner].keys())]
    if held:
        raise InputError(f"{id!r} holds {', '.join(held)}, which only an evaluation may know; leave it out")


def _outdated_last(items: Iterable[Item], verdicts: Sequence[Verdict | None]) -> list[Item]:
    """Return ``items`` with the outdated ones below the rest, each part in its order."""
    paired = list(zip(items, verdicts, strict=True))
    paired.sort(key=lambda pair: pair[1] is not None and pair[1].status is Status.OUTDATED)
    return [item for item, _ in paired]
