"""The commands about the verifier alone: score pairs, train a head."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from validity_graph import display
from validity_graph.cli_input import listed_pairs
from validity_graph.errors import InputError


def score(pairs: Annotated[str, typer.Argument(metavar="PAIRS.jsonl", help="- is stdin.")]) -> None:
    """Ask the verifier alone: a line of source and target in, a line of scores out."""
    from validity_graph.verifier import Verifier

    listed = listed_pairs(pairs)
    with display.progress("scoring pairs") as progress:
        scores = Verifier.load().score(
            [pair["source"] for pair in listed],
            [pair["target"] for pair in listed],
            source_contexts=[pair["source_context"] for pair in listed],
            target_contexts=[pair["target_context"] for pair in listed],
            domains=[pair["domain"] for pair in listed],
            progress=progress,
        )
    for k, pair in enumerate(listed):
        parts = {
            part: float(getattr(scores, part)[k]) for part in ("slot_mini", "slot_nli", "event", "operation")
        }
        line = {"id": pair["id"], "overturn": float(scores.gate[k]), **parts}
        typer.echo(json.dumps({name: None if value != value else value for name, value in line.items()}))


def train(
    pairs: Annotated[Path, typer.Argument(metavar="PAIRS.jsonl", exists=True, dir_okay=False)],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Folder for the weights and their manifest.")
    ],
    base: Annotated[str, typer.Option(help="Folder or hub name of the encoder to start from.")] = "",
    second: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Put the head beside the one in the folder, to be asked where it is unsure."
        ),
    ] = "",
    reads: Annotated[
        str, typer.Option(help="Kinds of text that a second head is asked about: english,other_latin,cjk.")
    ] = "",
    compact: Annotated[
        bool, typer.Option("--compact", help="4-bit embeddings: a quarter smaller, slower to train.")
    ] = False,
    start: Annotated[
        str, typer.Option(help="Weights folder to go on from; 'packaged' is the one that ships.")
    ] = "",
    validation: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, help="Pairs that stop and calibrate; else some are held out."
        ),
    ] = None,
    seed: Annotated[int, typer.Option()] = 7,
) -> None:
    """Train a verifier head on labelled pairs."""
    from validity_graph.verifier import train as training
    from validity_graph.verifier.batching import Settings
    from validity_graph.verifier.export import SECOND_READS
    from validity_graph.verifier.scoring import PACKAGED

    if (reads and not second) or (compact and second):
        raise InputError("--reads is for a second head (--second NAME), --compact for the cheap one")
    begin: str | Path | None = PACKAGED / second if start == "packaged" else start or None
    if start == "packaged" and not (PACKAGED / second).is_dir():
        raise InputError(f'the packaged weights have no second head "{second}"; see their manifest.json')
    chosen: dict[str, Any] = {
        "output": output, "seed": seed, "validation_path": validation, "start": begin,
        "settings": Settings(compact=compact),
    }  # fmt: skip
    if second:
        kinds = reads.split(",") if reads else SECOND_READS
        training.train_second(pairs, base=base or training.base_folder(), name=second, reads=kinds, **chosen)
    else:
        training.train(pairs, base=base or None, **chosen)
