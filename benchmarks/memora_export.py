"""Writes one Memora persona's memories as JSON lines for ``validity-graph check``.

    python -m benchmarks.memora_export --data DIR/memora --period weekly --persona software_engineer

Id, text, date and the document context where there is one, in the order in which they were said; no
gold field.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.memora_data import conversation


def lines(data: Path, *, period: str, persona: str) -> Iterator[str]:
    """Yield one JSON line a memory."""
    for node in conversation(data, period=period, persona=persona):
        fields = {"id": node.id, "text": node.text, "time": node.date}
        fields |= {"context": node.context} if node.context else {}
        yield json.dumps(fields, ensure_ascii=False) + "\n"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.memora_export", description=__doc__.split("\n")[0])
    parser.add_argument(
        "--data", type=Path, required=True, help="the memora folder, or the one that holds it"
    )
    parser.add_argument("--period", default="weekly")
    parser.add_argument("--persona", default="software_engineer")
    parser.add_argument("-o", "--output", type=Path, help="write here instead of standard output")
    options = parser.parse_args(arguments)
    found = lines(options.data, period=options.period, persona=options.persona)
    if options.output is None:
        sys.stdout.reconfigure(encoding="utf-8")  # the file format, whatever the terminal's encoding
        sys.stdout.writelines(found)
    else:
        options.output.write_text("".join(found), encoding="utf-8")


if __name__ == "__main__":
    main()
