"""What a person sees on a terminal: tables, evidence paths, progress.

Texts come from anywhere, so control characters never reach the terminal and rich markup in them is shown
as written.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from validity_graph.counterfactual import Hinge
from validity_graph.records import Explanation, Hop, Status, Verdict
from validity_graph.store import LogEntry

if TYPE_CHECKING:
    from validity_graph.graph import Progress as Report
    from validity_graph.graph import ValidityGraph
    from validity_graph.layer import Retrieved

#: Width of a table in a pipe, where no terminal says one.
PIPE_WIDTH = 160
_STYLE = {Status.VALID: "green", Status.POSSIBLY_OUTDATED: "yellow", Status.OUTDATED: "red"}


@contextmanager
def progress(title: str) -> Iterator[Report | None]:
    """Yield a function of (done, in all) that draws a bar on a terminal, or ``None`` in a pipe."""
    if not sys.stderr.isatty():
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def verdicts(found: Sequence[Verdict], *, texts: Mapping[str, str], summary: Mapping[str, int]) -> None:
    """Print one row a memory, in the order given, and a line that counts."""
    table = Table(show_edge=False, pad_edge=False)
    for column, justify in (
        ("memory", "left"),
        ("status", "left"),
        ("invalid", "right"),
        ("direct", "right"),
    ):
        table.add_column(column, justify=justify, no_wrap=column != "memory")  # type: ignore[arg-type]
    table.add_column("inherited", justify="right", no_wrap=True)
    table.add_column("text", ratio=2)
    table.add_column("because", ratio=3)
    for verdict in found:
        table.add_row(
            plain(verdict.id),
            Text(verdict.status.value, style=_STYLE[verdict.status]),
            f"{verdict.invalidity:.2f}",
            f"{verdict.direct:.2f}",
            f"{verdict.inherited:.2f}",
            plain(texts.get(verdict.id, ""), limit=120),
            _because(verdict),
        )
    _console().print(table)
    _console().print(", ".join(f"{count} {name.replace('_', ' ')}" for name, count in summary.items()))


def explanation(found: Explanation, *, hinges: Sequence[Hinge], text: str) -> None:
    """Print a verdict, its evidence paths hop by hop, and what it hinges on."""
    verdict, console = found.verdict, _console()
    console.print(Text.assemble(plain(verdict.id), ": ", plain(text, limit=400)))
    low, high = verdict.interval
    console.print(f"{verdict.status.value}, {verdict.reason.value.replace('_', ' ')}")
    console.print(
        f"invalidity {verdict.invalidity:.3f}, between {low:.3f} and {high:.3f} "
        f"(direct {verdict.direct:.3f}, inherited {verdict.inherited:.3f})"
    )
    for path, strength, bottleneck in zip(found.paths, found.strength, found.bottleneck, strict=True):
        console.print(
            Text.assemble("  ", arrows(path), f"; strength {strength:.2f}, bottleneck {bottleneck:.2f}")
        )
        for hop in path:
            if hop.evidence is not None:
                console.print(Text("    " + _parts(hop)))
    if not found.paths:
        console.print("  nothing speaks against it")
    for hinge in hinges:
        console.print(Text.assemble("  ", plain(str(hinge))))


def narrate(graph: ValidityGraph) -> None:
    """Print the longest evidence path that the demo found, with the texts along it."""
    found = max(graph.check().values(), key=lambda verdict: len(verdict.hops))
    if len(found.hops) < 2:
        return
    console = _console()
    console.print(Text(f"\nWhy {found.id} fell, hop by hop:"))
    console.print(Text.assemble("  ", plain(graph.memory(found.path[0]).text)))
    for hop in found.hops:
        console.print(
            Text.assemble(f"    {hop.type} {hop.weight:.2f} -> ", plain(graph.memory(hop.target).text))
        )
    console.print(f"  weakest hop {found.bottleneck:.2f}")


def retrieved(found: Sequence[Retrieved]) -> None:
    """Print retrieved memories in the order given, with their validity."""
    table = Table(show_edge=False, pad_edge=False)
    for column in ("memory", "score", "status", "invalid", "text"):
        table.add_column(column)
    for item in found:
        verdict = item.verdict
        table.add_row(
            plain(item.memory.id),
            f"{item.score:.3f}",
            Text(verdict.status.value, style=_STYLE[verdict.status]) if verdict else "-",
            f"{verdict.invalidity:.2f}" if verdict else "-",
            plain(item.memory.text, limit=200),
        )
    _console().print(table)


def log(entries: Sequence[LogEntry]) -> None:
    """Print log entries, oldest first."""
    table = Table(show_edge=False, pad_edge=False)
    for column in ("#", "time", "action", "memory", "reason", "detail"):
        table.add_column(column)
    for entry in entries:
        detail = ", ".join(f"{name} {value}" for name, value in entry.detail.items())
        table.add_row(
            str(entry.sequence),
            entry.time.isoformat(timespec="seconds"),
            entry.action,
            plain(entry.subject),
            plain(entry.reason),
            plain(detail),
        )
    _console().print(table)


def arrows(path: Sequence[Hop]) -> Text:
    """Return a path as ``m3 -overturns 0.97-> m1 -requires 1.00-> m2``."""
    if not path:
        return Text("")
    steps = "".join(f" -{hop.type} {hop.weight:.2f}-> {hop.target}" for hop in path)
    return plain(path[0].source + steps)


def plain(text: str, *, limit: int = 0) -> Text:
    """Return ``text`` without control characters, cut at ``limit`` characters where that is not 0."""
    clean = "".join(c if c.isprintable() else " " for c in text)
    if limit and len(clean) > limit:
        clean = clean[: limit - 1] + "\u2026"
    return Text(clean)


def _because(verdict: Verdict) -> Text:
    if not verdict.hops:
        return Text("")
    weakest = f"; bottleneck {verdict.bottleneck:.2f}" if len(verdict.hops) > 1 else ""
    return Text.assemble(f"{verdict.reason.value.replace('_', ' ')}: ", arrows(verdict.hops), weakest)


def _parts(hop: Hop) -> str:
    parts = hop.evidence
    if parts is None:
        return ""
    nli = "not asked" if parts.slot_nli is None else f"{parts.slot_nli:.3f}"
    return (
        f"{hop.source} on {hop.target}: slot_mini {parts.slot_mini:.3f}, slot_nli {nli}, "
        f"event {parts.event:.3f}, operation {parts.operation:.3f}"
    )


def _console() -> Console:
    return Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False)
