"""Free-form training pairs, written by hand without slots: the files of ``synthetic/written``.

``python -m synthetic.written_pairs`` checks every file and prints how many pairs it holds.

A block is separated by a blank line, ``#`` starts a comment.  ``A: text`` to ``P: text`` are earlier
memories (targets); every later line is a later memory (source) behind its marks: ``+A`` supersedes A, ``!A``
retracts it, ``=A`` confirms or restates it, ``?A`` leaves that pair out, and a target that is not named stays
as it was (``-:`` where none is named).  Every source meets every target of its block.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("written")
KINDS = {"+": "supersedes", "!": "retracts", "=": "confirms"}
LEFT_OUT = "?"
_TARGET = re.compile(r"([A-P]): (\S.*)")
_SOURCE = re.compile(r"((?:[+!=?][A-P])(?: [+!=?][A-P])*|-): (\S.*)")


@dataclass(frozen=True)
class Block:
    """Targets by letter, and sources with their marks by letter; ``place`` is ``file:line``."""

    place: str
    targets: dict[str, str]
    sources: list[tuple[dict[str, str], str]]


def read(path: Path) -> Iterator[Block]:
    """Yield the blocks of one file.

    Raises ``ValueError`` that names the line for one that has neither form, a letter given twice, a target
    behind a source, or a mark for a letter that the block lacks.
    """
    block = Block("", {}, [])
    lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate([*lines, ""], start=1):
        text, place = line.strip(), f"{path.name}:{number}"
        if text.startswith("#"):
            continue
        if text:
            _add(text, block, place=place)
        elif block.targets:
            yield block
        if not text:
            block = Block(f"{path.name}:{number + 1}", {}, [])


def _add(text: str, block: Block, *, place: str) -> None:
    if found := _TARGET.fullmatch(text):
        if found[1] in block.targets or block.sources:
            raise ValueError(f"{place}: target {found[1]} is given twice or stands behind a source")
        block.targets[found[1]] = found[2]
    elif found := _SOURCE.fullmatch(text):
        marks = {} if found[1] == "-" else {mark[1]: mark[0] for mark in found[1].split()}
        if unknown := sorted(marks.keys() - block.targets.keys()):
            raise ValueError(f"{place}: the block has no target {', '.join(unknown)}")
        block.sources.append((marks, found[2]))
    else:
        raise ValueError(f"{place}: neither 'A: text' nor '+A =B: text' nor '-: text'")


def rows(block: Block) -> Iterator[dict[str, Any]]:
    """Pairs of one block in the format of ``validity-graph train``.

    Whether a source without effect tells of an event, and whether it speaks of the same proposition, is
    left unknown.
    """
    for marks, source in block.sources:
        for letter, target in block.targets.items():
            mark = marks.get(letter, "")
            if mark == LEFT_OUT:
                continue
            kind = KINDS.get(mark, "none")
            over = kind in ("supersedes", "retracts")
            yield {
                "source": source, "target": target, "overturn": int(over), "operation": kind,
                "same_proposition": None if kind == "none" else 1, "event": 1 if over else None,
                "domain": block.place.split(".")[0], "lang": language(source, target),
                "stratum": f"written_{kind}", "group": block.place,
            }  # fmt: skip


def language(*texts: str) -> str:
    """``ja`` or ``zh`` by script, else empty: the Latin languages are not told apart."""
    joined = "".join(texts)
    if re.search("[\u3040-\u30ff]", joined):
        return "ja"
    return "zh" if re.search("[\u4e00-\u9fff]", joined) else ""


def pairs(paths: Iterable[Path] | None = None) -> Iterator[dict[str, Any]]:
    """Yield the pairs of the given files, of all in ``synthetic/written`` by default."""
    for path in sorted(FOLDER.glob("*.txt")) if paths is None else paths:
        for block in read(path):
            yield from rows(block)


def main() -> None:
    """Command line: see the module's first lines."""
    for path in sorted(FOLDER.glob("*.txt")):
        kinds = Counter(row["operation"] for row in pairs([path]))
        print(
            f"{path.name:28s} {sum(1 for _ in read(path)):5d} blocks {kinds.total():6d} pairs {dict(kinds)}"
        )


if __name__ == "__main__":
    main()
