"""Which parts of the gate carry it: the multi-hop cases with parts taken out ([V3] section 5.5, Table 1).

    python -m benchmarks.ablation --seeds 7 11 23 31 47 [--second CHECKPOINT] --json OUT

The packaged second head is asked about every pair (or a checkpoint by ``--second``); "MiniLM only"
is the cheap head with its own event and operation.  Every form scores the same pairs of
``benchmarks.multihop``, given graph; each form has its own thresholds, chosen on the other folds.
Differences to the full product are paired by case, with 95% bootstrap intervals over all cases of all seeds.
The cases are ours, [V3]'s are not public: signs and order are comparable with its Table 1, the figures are
not.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import chain_study as study
from benchmarks import reporting
from benchmarks.chain_study import Floats, Judge
from benchmarks.multihop import FOLDS, QUICK
from synthetic.chains import SEEDS, cases
from validity_graph.verifier import Scores

FULL = "full product"
Form = Callable[[Scores], Floats]


def slot(scores: Scores) -> Floats:
    """Return the slot score, [V3] Eq. 1; a second head that was not asked counts as 1."""
    return scores.slot_mini * np.where(np.isnan(scores.slot_nli), 1.0, scores.slot_nli)


#: The forms that need no second slot head.
FORMS: dict[str, Form] = {
    FULL: lambda scores: slot(scores) * scores.event * scores.operation,
    "merged min gate": lambda scores: slot(scores) * np.minimum(scores.event, scores.operation),
    "slot only": slot,
    "slot and event": lambda scores: slot(scores) * scores.event,
    "slot and operation": lambda scores: slot(scores) * scores.operation,
    "no slot": lambda scores: np.minimum(scores.event, scores.operation),
}
#: With a second head: the other head alone.
SECOND_FORMS: dict[str, Form] = {
    "second head only": lambda scores: scores.slot_nli * np.minimum(scores.event, scores.operation),
}


CHEAP_FORMS: dict[str, Form] = {"MiniLM only": FORMS["merged min gate"]}


def verdicts(seed: int, judged: Sequence[tuple[Judge, dict[str, Form]]], *, every: int = 1) -> dict[str, Any]:
    """Return for each form which cases it judges right, and under ``invalid`` which are invalidated.

    ``judged`` pairs each verifier with the forms that read its scores.
    """
    batch = study.lay_out(cases(seed)[::every])
    fold = study.folds(batch, count=FOLDS, rng=np.random.default_rng(seed))
    structure = study.given(batch)
    found: dict[str, Any] = {"invalid": batch.invalid}
    for judge, forms in judged:
        scores = study.ask(judge, batch, batch.proposed)
        for name, form in forms.items():
            edges = study.spoken(batch, batch.proposed, replace(scores, gate=form(scores)))
            marked, _ = study.decide(study.invalidity(batch, edges + structure), batch.invalid, fold)
            found[name] = marked == batch.invalid
    return found


def compare(right: dict[str, NDArray[np.bool_]], invalid: NDArray[np.bool_]) -> list[dict[str, Any]]:
    """Return one row a form: accuracy overall and by class, and its paired difference to the full product."""
    rows = []
    for name, values in right.items():
        rows.append(
            {
                "form": name,
                "cases": len(values),
                "overall": float(values.mean()),
                "invalidated": float(values[invalid].mean()),
                "valid": float(values[~invalid].mean()),
                **reporting.paired(right[FULL], values),
            }
        )
    return rows


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.ablation", description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="not used: the cases are generated")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--quick", action="store_true", help=f"the first seed, one case in {QUICK}")
    parser.add_argument("--second", help="sequence-classification checkpoint for the second slot head")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    from validity_graph.verifier import SlotHead, Verifier

    judge = Verifier.load()
    judged: list[tuple[Judge, dict[str, Form]]] = [(judge, FORMS)]
    if options.second or judge.packaged:
        both = judge.asking_always(SlotHead.from_checkpoint(options.second) if options.second else None)
        judged = [(both, FORMS | SECOND_FORMS), (judge.asking_never(), CHEAP_FORMS)]
    seeds, every = (options.seeds[:1], QUICK) if options.quick else (options.seeds, 1)
    rows = summary_rows([verdicts(seed, judged, every=every) for seed in seeds])
    reporting.table("Parts of the gate, multi-hop cases, given graph; difference to the full product", rows)
    summary = {f"overall/{row['form'].replace(' ', '_')}": row["overall"] for row in rows}
    summary |= {f"difference/{row['form'].replace(' ', '_')}": row["difference"] for row in rows}
    reporting.write(options.json, benchmark="ablation", rows=rows, summary=summary, seeds=seeds)


def summary_rows(found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of all seeds together."""
    joined = {name: np.concatenate([part[name] for part in found]) for name in found[0]}
    invalid = joined.pop("invalid")
    return compare(joined, invalid)


if __name__ == "__main__":
    main()
