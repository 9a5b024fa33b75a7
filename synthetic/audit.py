"""Proves that no text of an evaluation set is in the training data.

``python -m synthetic.audit --data DIR [--pairs FILE ...] [--seeds 7 11] [--count 20000]``

Training texts: what the generators make for the given seeds and both splits, the free-form pairs, the
training worlds of the chains, the EntailmentBank trees that train the support scorer, the given pair files,
and the real pairs under ``DIR/training`` and ``DIR/defeasible_nli``.  Evaluation texts: every string under
``DIR/{memora,mquake,factconsolidation,proofwriter,locomo}`` and ``DIR/../cases``, EntailmentBank's dev trees,
the test worlds of the chains, and the direction challenge.  ``overlap`` says what counts as shared.  Prints a
table and exits 1 on a finding.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from synthetic import chain_pairs, chain_worlds, conversations, facts, support_pairs, written_pairs
from synthetic.overlap import Index, common_phrases, strings
from synthetic.pairs import generate

EVALUATION = ("memora", "mquake", "factconsolidation", "proofwriter", "locomo")
TRAINING = ("training", "defeasible_nli")


def read(path: Path) -> Iterator[object]:
    """JSON values of a ``.json``, ``.jsonl`` or gzipped file; raises ``ValueError`` naming file and line."""
    opened = gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8")
    with opened as file:
        if ".jsonl" not in path.name:
            yield json.load(file)
            return
        for number, line in enumerate(file, 1):
            if line.strip():
                try:
                    yield json.loads(line)
                except json.JSONDecodeError as error:
                    raise ValueError(
                        f"{path}:{number}: not JSON ({error.msg}); remove or mend the line"
                    ) from error


def texts_under(folder: Path) -> Iterator[str]:
    """Every string of every JSON file under ``folder``."""
    for path in sorted(folder.rglob("*")):
        if path.name.endswith((".json", ".jsonl", ".json.gz", ".jsonl.gz")):
            for value in read(path):
                yield from strings(value)


def generated_texts(seeds: Iterable[int], count: int) -> Iterator[str]:
    """Both sides of the generator's pairs, for every seed and both splits."""
    for seed in seeds:
        for split in ("train", "validation"):
            for pair in generate(seed, count, split=split):  # type: ignore[arg-type]
                yield pair.source
                yield pair.target


def row_texts(rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Both sides of training pairs."""
    for row in rows:
        yield from (str(row[key]) for key in ("source", "target") if key in row)


def tree_texts(data: Path, *, train: bool) -> Iterator[str]:
    """Yield the texts of the EntailmentBank trees that train the support scorer, or of the dev trees."""
    for tree in support_pairs.train_trees(data) if train else support_pairs.dev_trees(data):
        yield from strings(tree)


def direction_texts() -> Iterator[str]:
    """Both sides of the direction challenge."""
    from benchmarks.direction_pairs import direction_pairs

    for pair in direction_pairs():
        yield pair.source
        yield pair.target


def build(
    data: Path, pairs: Iterable[Path], seeds: Iterable[int], count: int
) -> tuple[Index, dict[str, int]]:
    """Index of all training texts, and the number of texts by set."""
    index = Index(common_phrases())
    texts: dict[str, Iterable[str]] = {
        "generator": generated_texts(seeds, count),
        "conversations": (text for seed in seeds for text in row_texts(conversations.generate(seed, count))),
        "facts": (text for seed in seeds for text in row_texts(facts.generate(seed, count))),
        "written": row_texts(written_pairs.pairs()),
        "chains": (text for split in ("train", "validation") for text in chain_worlds.texts(split)),
        "chain pairs": (
            text
            for seed in seeds
            for split in ("train", "validation")
            for text in row_texts(chain_pairs.generate(seed, count, split=split))
        ),
        "reasons of chains": row_texts(
            support_pairs.rows(list(support_pairs.chain_groups(seeds, split="train")), random.Random(0))
        ),
        "EntailmentBank (train)": tree_texts(data, train=True),
    }
    texts |= {path.name: row_texts(row for row in read(path) if isinstance(row, dict)) for path in pairs}
    texts |= {name: texts_under(data / name) for name in TRAINING if (data / name).is_dir()}
    return index, {name: index.add(name, found) for name, found in texts.items()}


def main() -> int:
    """Command line: see the module's first lines.  Returns 1 on findings, 2 when a folder is missing."""
    from benchmarks import reporting

    parser = argparse.ArgumentParser(description="Check that training and evaluation texts do not overlap.")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--pairs", type=Path, nargs="*", default=[])
    parser.add_argument("--seeds", type=int, nargs="*", default=[7])
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--show", type=int, default=5, help="examples printed for every pair of sets")
    arguments = parser.parse_args()
    folders = {name: arguments.data / name for name in EVALUATION} | {
        "cases": arguments.data.parent / "cases"
    }
    missing = [str(folder) for folder in folders.values() if not folder.is_dir()]
    if missing:
        print(f"no such folder: {', '.join(missing)}; --data must hold the evaluation sets", file=sys.stderr)
        return 2
    index, sizes = build(arguments.data, arguments.pairs, arguments.seeds, arguments.count)
    evaluation: dict[str, Iterable[str]] = {name: texts_under(folder) for name, folder in folders.items()}
    evaluation |= {
        support_pairs.TREES: tree_texts(arguments.data, train=False),
        "chains (test)": chain_worlds.texts("test"),
        "directions": direction_texts(),
    }
    rows, examples = [], []
    for name, texts in evaluation.items():
        found = index.findings(texts)
        for training, size in sizes.items():
            phrases = found.get(training, Counter())
            rows.append(
                {"training": training, "texts": size, "evaluation": name, "shared phrases": len(phrases)}
            )
            examples += [
                f"{training} / {name}: {' '.join(p)}" for p, _ in phrases.most_common(arguments.show)
            ]
    reporting.table("leak audit: phrases shared by training and evaluation", rows)
    print(*examples, sep="\n")
    return 1 if any(row["shared phrases"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
