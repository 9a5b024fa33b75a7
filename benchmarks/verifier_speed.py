"""How many pairs a second the packaged verifier scores, beside a DeBERTa-v3-base of the paper's shape.

Same pairs, same machine, same run.  The packaged cheap head is int8 and the second head 4-bit, both in
onnxruntime; the rate of the whole depends on how many pairs go to the second (``benchmarks.routing``,
``benchmarks.verifier_store``).  DeBERTa-v3-base is random-initialised (weights do not change its speed) in
float32 in torch, at its best batch size here.  So that the ratio can be taken apart, a random float32 encoder
of the cheap head's own shape runs in torch as well: that is the like-for-like ratio.

python -m benchmarks.verifier_speed --json OUT
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import reporting
from validity_graph.verifier import Verifier

LENGTHS = (16, 32, 64, 96)
BATCHES = (1, 8, 32)
REFERENCE_LENGTH = 64
LOAD = (
    "import time; t = time.perf_counter()\n"
    "from validity_graph.verifier import Verifier\n"
    "v = Verifier.load(); v.score(['I moved to Oslo'], ['I live in Rome'])\n"
    "print(time.perf_counter() - t)"
)


def pairs_of_length(tokenizer: Any, length: int, *, count: int, seed: int) -> tuple[list[str], list[str]]:
    """Texts of words that are one token each, so that every pair has exactly ``length`` tokens."""
    rng = np.random.default_rng(seed)
    words = sorted(
        word for word in tokenizer.get_vocab() if word.isascii() and word.isalpha() and len(word) > 3
    )
    room = length - 3  # [CLS] source [SEP] target [SEP]
    draw = [" ".join(rng.choice(words, size=n)) for n in [room // 2, room - room // 2] * count]
    return draw[0::2], draw[1::2]


def rate(run: Callable[[], object], *, pairs: int, repeats: int) -> float:
    """Pairs per second, the best of ``repeats`` after one warm-up: other programs only ever slow it down."""
    run()
    best = float("inf")
    for _ in range(repeats):
        started = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - started)
    return pairs / best


def packaged_rows(*, count: int, repeats: int, seed: int, threads: Sequence[int]) -> list[dict[str, Any]]:
    """Measure the cheap head, texts in, evidence out, by length and threads."""
    rows = []
    for used in threads:
        verifier = Verifier.load(threads=used).asking_never()
        for length in LENGTHS:
            sources, targets = pairs_of_length(verifier.head.tokenizer, length, count=count, seed=seed)
            raw = verifier.head.logits(sources[:4], targets[:4])
            if set(raw.tokens.tolist()) != {length}:
                raise AssertionError(f"pairs of {sorted(set(raw.tokens.tolist()))} tokens, not {length}")
            speed = rate(lambda s=sources, t=targets, v=verifier: v.score(s, t), pairs=count, repeats=repeats)
            rows.append(_row("packaged int8, texts in", length=length, threads=used, batch=1, speed=speed))
    return rows


def second_rows(*, count: int, repeats: int, seed: int, threads: Sequence[int]) -> list[dict[str, Any]]:
    """Measure each packaged second head alone at the reference length."""
    rows = []
    for used in threads:
        for packaged in Verifier.load(threads=used).packaged:
            head = packaged.head
            sources, targets = pairs_of_length(head.tokenizer, REFERENCE_LENGTH, count=count, seed=seed)
            length = int(head.logits(sources[:1], targets[:1]).tokens[0])
            speed = rate(lambda h=head, s=sources, t=targets: h.logits(s, t), pairs=count, repeats=repeats)
            name = f"second head ({packaged.folder.name}) 4-bit, texts in"
            rows.append(_row(name, length=length, threads=used, batch=1, speed=speed))
    return rows


def session_rows(*, repeats: int, seed: int) -> list[dict[str, Any]]:
    """Measure the bare int8 model on one thread by batch size: what batching would gain."""
    verifier = Verifier.load(threads=1)
    rng = np.random.default_rng(seed)
    rows = []
    for length in LENGTHS:
        for batch in BATCHES:
            ids = rng.integers(2000, 20000, size=(batch, length))
            sides = np.tile(np.arange(length) > length // 2, (batch, 1)).astype(np.int64)
            given = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": sides}
            speed = rate(lambda g=given: verifier.head.session.run(None, g), pairs=batch, repeats=repeats * 3)
            rows.append(_row("packaged int8, tokens in", length=length, threads=1, batch=batch, speed=speed))
    return rows


def torch_rows(*, count: int, repeats: int, seed: int, threads: Sequence[int]) -> list[dict[str, Any]]:
    """Random float32 encoders in torch at the reference length, each at its best batch size."""
    import torch
    from transformers import AutoModelForSequenceClassification, BertConfig, DebertaV2Config

    base = DebertaV2Config(
        vocab_size=128_100, hidden_size=768, num_hidden_layers=12, num_attention_heads=12,
        intermediate_size=3072, relative_attention=True, position_buckets=256, norm_rel_ebd="layer_norm",
        share_att_key=True, pos_att_type=["p2c", "c2p"], position_biased_input=False, type_vocab_size=0,
        max_position_embeddings=512,
    )  # fmt: skip
    own = BertConfig(
        vocab_size=30_522,
        hidden_size=384,
        num_hidden_layers=6,
        num_attention_heads=12,
        intermediate_size=1536,
    )
    rng = np.random.default_rng(seed)
    ids = torch.from_numpy(rng.integers(1000, 20000, size=(count, REFERENCE_LENGTH)))
    rows = []
    for name, config in (("DeBERTa-v3-base float32", base), ("own shape float32", own)):
        torch.manual_seed(seed)
        model = AutoModelForSequenceClassification.from_config(config).eval()
        for used in threads:
            torch.set_num_threads(used)
            for batch in BATCHES:
                with torch.inference_mode():
                    speed = rate(
                        lambda m=model, b=batch: [m(input_ids=part) for part in ids.split(b)],
                        pairs=count,
                        repeats=repeats,
                    )
                rows.append(_row(name, length=REFERENCE_LENGTH, threads=used, batch=batch, speed=speed))
    return rows


def load_seconds() -> float:
    """Seconds from nothing imported to the first score, in a fresh process."""
    done = subprocess.run([sys.executable, "-c", LOAD], capture_output=True, text=True, check=True)
    return float(done.stdout.strip().splitlines()[-1])


def _row(name: str, *, length: int, threads: int, batch: int, speed: float) -> dict[str, Any]:
    return {
        "head": name,
        "tokens": length,
        "threads": threads,
        "batch": batch,
        "pairs_per_s": round(speed, 2),
    }


def best(rows: Sequence[dict[str, Any]], name: str, *, threads: int) -> float:
    """Highest rate of the head ``name`` at the reference length on ``threads`` threads."""
    return max(
        row["pairs_per_s"]
        for row in rows
        if row["head"] == name and row["threads"] == threads and row["tokens"] == REFERENCE_LENGTH
    )


def main() -> None:
    """Command line: see the module's first lines."""
    parser = argparse.ArgumentParser(
        description="Pairs per second of the packaged verifier and of DeBERTa-v3-base."
    )
    parser.add_argument("--data", type=Path, help="accepted for uniformity; the pairs are drawn here")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="fewer pairs and repeats")
    parser.add_argument("--json", type=Path, dest="out")
    given = parser.parse_args()
    threads = sorted({1, given.threads})
    repeats = 2 if given.quick else 5
    count = 64 if given.quick else 256
    rows = packaged_rows(count=count, repeats=repeats, seed=given.seed, threads=threads)
    rows += session_rows(repeats=repeats, seed=given.seed)
    rows += second_rows(count=32, repeats=max(1, repeats - 2), seed=given.seed, threads=threads)
    rows += torch_rows(count=32, repeats=max(1, repeats - 2), seed=given.seed, threads=threads)
    speed = best(rows, "packaged int8, texts in", threads=given.threads)
    summary = {
        "pairs_per_s": speed,
        "speedup_deberta_base": speed / best(rows, "DeBERTa-v3-base float32", threads=given.threads),
        "speedup_deberta_base_float32": best(rows, "own shape float32", threads=given.threads)
        / best(rows, "DeBERTa-v3-base float32", threads=given.threads),
        "load_seconds": load_seconds(),
    }
    reporting.table(f"verifier_speed: best of {repeats} runs", rows)
    print({name: round(value, 3) for name, value in summary.items()})
    reporting.write(given.out, benchmark="verifier_speed", rows=rows, summary=summary, seed=given.seed)


if __name__ == "__main__":
    main()
