"""The ``validity-graph`` command: one command for each thing that ``ValidityGraph`` does.

Tables go to a person, ``--json`` to a program; progress is drawn on a terminal only.  Exit codes: 0 fine,
1 findings that ``--fail-on`` asked about, 2 bad input.
"""

from __future__ import annotations

import json
import sys
from importlib import metadata, resources
from typing import Annotated, Any

import msgspec
import typer

from validity_graph import cli_verifier, display
from validity_graph.cli_input import existing, read_records
from validity_graph.errors import InputError, ValidityGraphError
from validity_graph.explain import Thresholds
from validity_graph.formats import read_jsonl, write_jsonl
from validity_graph.graph import ValidityGraph
from validity_graph.records import Status, Verdict, parse_time

app = typer.Typer(
    name="validity-graph",
    help="Tells which of an AI agent's memories are still true, how sure that is, and why.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Database = Annotated[str, typer.Option("--db", help="SQLite file or SQLAlchemy URL.", metavar="URL")]
MaybeDatabase = Annotated[
    str | None,
    typer.Option("--db", help="SQLite file or SQLAlchemy URL; without it, memory only.", metavar="URL"),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
AsOf = Annotated[
    str | None, typer.Option("--as-of", help="Judge what was known at this time.", metavar="TIME")
]
Method = Annotated[str, typer.Option(help="noisy_or, worlds or exact.")]
Why = Annotated[str, typer.Option("--reason", help="Kept in the log.")]
Id = Annotated[str, typer.Argument(metavar="ID", show_default=False)]
Names = Annotated[list[str] | None, typer.Option(metavar="ID")]


def main() -> None:
    """Run the command line; what is wrong with the input becomes one line and exit code 2."""
    try:
        app()
    except ValidityGraphError as problem:
        typer.echo(f"error: {problem}", err=True)
        sys.exit(2)
    except BrokenPipeError:
        # The reader of our output has gone; that is its right.
        sys.stderr.close()
        sys.exit(0)


@app.command()
def demo(json_output: Json = False) -> None:
    """Run the main job on a bundled sample conversation."""
    sample = resources.files("validity_graph").joinpath("demo.jsonl")
    with sample.open("rb") as stream:
        records = read_jsonl(stream, name="demo.jsonl")
    graph = ValidityGraph.open()
    graph.ingest(records)
    _verify(graph)
    _report(graph, graph.check(), method="noisy_or", json_output=json_output)
    if not json_output:
        display.narrate(graph)


@app.command()
def check(
    files: Annotated[
        list[str] | None, typer.Argument(metavar="FILE...", help="JSON lines; - is stdin.")
    ] = None,
    db: MaybeDatabase = None,
    json_output: Json = False,
    as_of: AsOf = None,
    method: Method = "noisy_or",
    verify: Annotated[bool, typer.Option(help="Ask the verifier, or use the given edges only.")] = True,
    fail_on: Annotated[Status | None, typer.Option(help="Exit 1 where a memory is this or worse.")] = None,
    threshold: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Outdated from this invalidity on.")
    ] = 0.5,
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Keep edges with an unknown end.")
    ] = False,
) -> None:
    """Judge the memories of JSON lines files, of a database, or of both together."""
    if not files and db is None:
        raise InputError("nothing to check; name a file, - for stdin, or --db")
    parse_time(as_of, what="--as-of")
    records = [record for name in files or [] for record in read_records(name)]
    thresholds = Thresholds(context=min(0.3, threshold), decision=threshold)
    with ValidityGraph.open(db, thresholds=thresholds) as graph:
        graph.ingest(records, allow_missing=allow_missing)
        if verify:
            _verify(graph)
        view = graph.as_of(as_of) if as_of else graph
        found = view.check(method=method)
        _report(view, found, method=method, json_output=json_output)
    if fail_on is not None and any(_as_bad(verdict.status, fail_on) for verdict in found.values()):
        raise typer.Exit(1)


@app.command()
def add(
    id: Id,
    text: Annotated[str, typer.Argument(metavar="TEXT", show_default=False)],
    db: Database,
    time: Annotated[str | None, typer.Option(help="When it was said, ISO 8601.")] = None,
    domain: Annotated[str, typer.Option()] = "",
    namespace: Annotated[str, typer.Option()] = "",
    trust: Annotated[float, typer.Option(help="How far it is believed, 0 to 1.")] = 1.0,
    channel: Annotated[str, typer.Option(help="Sources of one channel count once.")] = "",
    premise: Annotated[
        bool, typer.Option("--premise", help="It stands whatever happens to its supports.")
    ] = False,
    context: Annotated[str, typer.Option(help="What was said before: what the text is about.")] = "",
    depends_on: Names = None,
    supported_by: Names = None,
    supersedes: Names = None,
    retracts: Names = None,
    confirms: Names = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace other content under this id.")] = False,
    remember: Annotated[bool, typer.Option("--remember", help="Take a forgotten id or text back.")] = False,
) -> None:
    """Add one memory with its edges.  ``--supported-by a,b`` is one justification of two members."""
    with ValidityGraph.open(db) as graph:
        graph.add(
            id,
            text,
            time=time,
            domain=domain,
            namespace=namespace,
            trust=trust,
            channel=channel,
            premise=premise,
            context=context,
            depends_on=depends_on or (),
            supported_by=[tuple(name.split(",")) if "," in name else name for name in supported_by or ()],
            supersedes=supersedes or (),
            retracts=retracts or (),
            confirms=confirms or (),
            replace=replace,
            remember=remember,
        )


@app.command()
def verify(db: Database, json_output: Json = False) -> None:
    """Ask the verifier about every pair that was not asked yet, and keep the edges it finds."""
    with existing(db) as graph:
        done = _verify(graph)
    if json_output:
        _print_json(done)
    else:
        typer.echo(f"{done.pairs} pairs asked; {done.overturns} overturn, {done.confirms} confirm")


@app.command()
def retrieve(
    query: Annotated[str, typer.Argument(metavar="QUERY", show_default=False)],
    db: Database,
    k: Annotated[int, typer.Option("-k", min=1, help="How many memories.")] = 5,
    mode: Annotated[str, typer.Option(help="off, context or demote.")] = "context",
    namespace: Annotated[str, typer.Option()] = "",
    json_output: Json = False,
) -> None:
    """Print the memories most relevant to a query, with their validity."""
    with existing(db) as graph:
        found = graph.retrieve(query, k=k, mode=mode, namespace=namespace)
    if json_output:
        _print_json({"results": found})
    else:
        display.retrieved(found)


@app.command()
def explain(
    id: Id,
    db: Database,
    paths: Annotated[int, typer.Option(min=1, help="How many evidence paths.")] = 3,
    as_of: AsOf = None,
    json_output: Json = False,
) -> None:
    """Print why a memory is invalid: its strongest evidence paths, and what the verdict hinges on."""
    with existing(db) as graph:
        view = graph.as_of(as_of) if as_of else graph
        found = view.explain(id, paths=paths)
        hinges = view.hinges(id, count=5)
        if json_output:
            _print_json(_builtins(found) | {"hinges": hinges})
        else:
            display.explanation(found, hinges=hinges, text=view.memory(id).text)


@app.command()
def blast_radius(id: Id, db: Database, json_output: Json = False) -> None:
    """Print what would fall if a memory fell, before it does."""
    with existing(db) as graph:
        found = graph.blast_radius(id)
    if json_output:
        _print_json({"falls": found})
    else:
        typer.echo("\n".join(map(str, found)) or "nothing rests on it")


@app.command()
def invalidate(
    id: Id,
    db: Database,
    probability: Annotated[float, typer.Option(help="How sure, 0 to 1.")] = 1.0,
    reason: Why = "",
) -> None:
    """Rule that a memory does not hold."""
    with existing(db) as graph:
        graph.invalidate(id, probability, reason=reason)


@app.command()
def confirm(id: Id, db: Database, reason: Why = "") -> None:
    """Rule that a memory holds; earlier direct evidence against it is cleared."""
    with existing(db) as graph:
        graph.confirm(id, reason=reason)


@app.command()
def forget(id: Id, db: Database, reason: Why = "") -> None:
    """Erase the text of a memory everywhere; a tombstone stays."""
    with existing(db) as graph:
        graph.forget(id, reason=reason)


@app.command()
def history(
    db: Database,
    id: Annotated[str | None, typer.Argument(metavar="[ID]", show_default=False)] = None,
    json_output: Json = False,
) -> None:
    """Print the log of one memory, or of the whole graph."""
    with existing(db) as graph:
        entries = graph.history(id)
    if json_output:
        _print_json({"entries": entries})
    else:
        display.log(entries)


@app.command()
def export(db: Database) -> None:
    """Print every memory and edge as JSON lines, as ``check`` reads them."""
    with existing(db) as graph:
        for line in write_jsonl([*graph.memories(), *graph.edges()]):
            typer.echo(line)


app.command()(cli_verifier.score)
app.command()(cli_verifier.train)


def _verify(graph: ValidityGraph) -> Any:  # noqa: ANN401  a Verification
    with display.progress("verifying pairs") as progress:
        return graph.verify(progress=progress)


def _report(graph: ValidityGraph, found: dict[str, Verdict], *, method: str, json_output: bool) -> None:
    if json_output:
        _print_json(
            {
                "memories": [_verdict_fields(verdict) for verdict in _most_invalid_first(found)],
                "summary": graph.summary(found),
                "method": method,
                "version": metadata.version("validity-graph"),
            }
        )
    else:
        texts = {item.id: item.text for item in graph.memories()}
        display.verdicts(_most_invalid_first(found), texts=texts, summary=graph.summary(found))


def _most_invalid_first(found: dict[str, Verdict]) -> list[Verdict]:
    # Equally invalid memories stay in the order in which they arrived.
    return sorted(found.values(), key=lambda verdict: -verdict.invalidity)


def _verdict_fields(verdict: Verdict) -> dict[str, Any]:
    fields: dict[str, Any] = _builtins(verdict)
    return fields | {
        "path": list(verdict.path),
        "bottleneck": verdict.bottleneck,
        "inferred": verdict.inferred,
    }


def _as_bad(status: Status, bar: Status) -> bool:
    order = list(Status)
    return order.index(status) >= order.index(bar)


def _builtins(document: object) -> Any:  # noqa: ANN401  dicts, lists and scalars
    return msgspec.to_builtins(document, enc_hook=list)  # an evidence path is a sequence


def _print_json(document: object) -> None:
    typer.echo(json.dumps(_builtins(document), ensure_ascii=False, indent=1))
