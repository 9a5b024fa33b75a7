"""Proves that no text of an evaluation set is in the training data.

``python -m synthetic.audit --data DIR [--pairs FILE ...] [--seeds 7 11] [--count 20000]``

Training texts: the generator's output for the given seeds and both splits, the given pair files, and the
real pairs under ``DIR/training`` and ``DIR/defeasible_nli``; the direction challenge is checked on both
sides. Evaluation texts: every string under
``DIR/{memora,mquake,factconsolidation,proofwriter,entailment_bank,locomo}`` and ``DIR/../cases``. Two
checks: equal sentences after normalisation, and shared runs of eight words; phrases of
``common_phrases.txt`` are allowed (a person's everyday sentence may occur anywhere).  Prints a table and
exits 1 on a finding.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from synthetic.pairs import generate

EVALUATION = ("memora", "mquake", "factconsolidation", "proofwriter", "entailment_bank", "locomo")
TRAINING = ("training", "defeasible_nli")
RUN = 8
SHORTEST_SENTENCE = 5
COMMON_PATH = Path(__file__).with_name("common_phrases.txt")
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W_]+")
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s*|\n+")


def words(text: str) -> tuple[str, ...]:
    """Normalised words of ``text``: NFKC, lower case, no punctuation; a CJK character is a word."""
    return tuple(_WORD.findall(unicodedata.normalize("NFKC", text).lower()))


def sentences(text: str) -> list[tuple[str, ...]]:
    """Normalised sentences of ``text`` of at least ``SHORTEST_SENTENCE`` words, and the whole text."""
    found = {words(text), *(words(part) for part in _SENTENCE_END.split(text))}
    return [sentence for sentence in found if len(sentence) >= SHORTEST_SENTENCE]


def runs(sentence: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Every run of ``RUN`` consecutive words; twice as long where it starts with a CJK character."""
    for start in range(len(sentence) - RUN + 1):
        length = RUN * 2 if sentence[start] >= "\u3040" else RUN
        if start + length <= len(sentence):
            yield sentence[start : start + length]


def strings(value: object) -> Iterator[str]:
    """Every string in a JSON value that holds more than one word."""
    if isinstance(value, str):
        if " " in value or not value.isascii():
            yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from strings(part)
    elif isinstance(value, list):
        for part in value:
            yield from strings(part)


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


def common_phrases(path: Path = COMMON_PATH) -> frozenset[tuple[str, ...]]:
    """Return the allowed phrases, normalised."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return frozenset(words(line) for line in lines if line.strip() and not line.startswith("#"))


@dataclass
class Index:
    """Sentences and runs of the training texts, with the names of the sets that they come from."""

    allowed: frozenset[tuple[str, ...]]
    sentence: dict[tuple[str, ...], set[str]] = field(default_factory=lambda: defaultdict(set))
    run: dict[tuple[str, ...], set[str]] = field(default_factory=lambda: defaultdict(set))

    def add(self, name: str, texts: Iterable[str]) -> int:
        """Take the texts of one training set in; returns how many there were."""
        count = 0
        for text in texts:
            count += 1
            for sentence in sentences(text):
                self.sentence[sentence].add(name)
            for run in runs(words(text)):
                self.run[run].add(name)
        return count

    def is_allowed(self, phrase: tuple[str, ...]) -> bool:
        """Return True when ``phrase`` is an allowed phrase or lies within one."""
        joined = f" {' '.join(phrase)} "
        return any(joined in f" {' '.join(allowed)} " for allowed in self.allowed)

    def findings(self, texts: Iterable[str]) -> dict[str, Counter[tuple[str, ...]]]:
        """Per training set, the phrases that ``texts`` share with it."""
        found: dict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)
        for text in texts:
            shared = [(s, self.sentence[s]) for s in sentences(text) if s in self.sentence]
            shared += [(r, self.run[r]) for r in runs(words(text)) if r in self.run]
            for phrase, names in shared:
                if not self.is_allowed(phrase):
                    for name in names:
                        found[name][phrase] += 1
        return found


def generated_texts(seeds: Iterable[int], count: int) -> Iterator[str]:
    """Both sides of the generator's pairs, for every seed and both splits."""
    for seed in seeds:
        for split in ("train", "validation"):
            for pair in generate(seed, count, split=split):  # type: ignore[arg-type]
                yield pair.source
                yield pair.target


def direction_texts() -> Iterator[str]:
    """Both sides of the direction challenge."""
    from benchmarks.direction_pairs import direction_pairs

    for pair in direction_pairs():
        yield pair.source
        yield pair.target


def pair_texts(path: Path) -> Iterator[str]:
    """Source and target of a file of training pairs."""
    for row in read(path):
        if isinstance(row, dict):
            yield from (str(row[key]) for key in ("source", "target") if key in row)


def build(
    data: Path, pairs: Iterable[Path], seeds: Iterable[int], count: int
) -> tuple[Index, dict[str, int]]:
    """Index of all training texts, and the number of texts by set."""
    index = Index(common_phrases())
    sizes = {"generator": index.add("generator", generated_texts(seeds, count))}
    for path in pairs:
        sizes[path.name] = index.add(path.name, pair_texts(path))
    for name in TRAINING:
        if (data / name).is_dir():
            sizes[name] = index.add(name, texts_under(data / name))
    return index, sizes


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
    evaluation["directions"] = direction_texts()
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
