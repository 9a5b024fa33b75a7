"""What a generated sentence says, and what a later sentence does to an earlier one.

Knows nothing about wording.  A target asserts values of one slot; a source makes claims about slots.  The
label of a pair follows from those two alone (SEMANTICS section 1: supersedes, retracts, confirms), which is
why the generator can pair every source with every target of a scene without a hand-written label.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

NOTHING: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Claim:
    """One thing that a source says about one slot.

    ``holds``: values that it asserts now; ``ends``: values that it says are over; ``single``: the slot
    takes one value at a time, so that asserting another value is itself an end.  A claim with neither (a
    plan, a question, a joke) only touches the slot.  ``change``: it reports a change; ``retracts``: it says
    the old value never held.
    """

    slot: Hashable
    stratum: str
    holds: frozenset[str] = NOTHING
    ends: frozenset[str] = NOTHING
    single: bool = True
    change: bool = False
    retracts: bool = False


@dataclass(frozen=True)
class Source:
    """A later sentence: text, template id, and its claims (several when clauses are joined)."""

    text: str
    template: str
    claims: tuple[Claim, ...]
    lang: str = "en"


@dataclass(frozen=True)
class Target:
    """An earlier sentence.  ``holds`` is empty when nothing can overturn it here (history, plan, question).

    ``relation`` names what it is to the scene's main statement: main, update, other_entity,
    other_attribute, past.
    """

    text: str
    template: str
    slot: Hashable
    holds: frozenset[str] = NOTHING
    relation: str = "main"
    lang: str = "en"


@dataclass(frozen=True)
class Label:
    """What a source does to a target."""

    overturn: bool
    same_proposition: bool
    event: bool
    operation: str
    stratum: str


@dataclass(frozen=True)
class Scene:
    """Sources and targets that pair freely; ``always`` lists index pairs that must all be emitted."""

    domain: str
    sources: tuple[Source, ...]
    targets: tuple[Target, ...]
    always: tuple[tuple[int, int], ...] = field(default=())


def overturns(claim: Claim, target: Target) -> bool:
    """Return True when ``claim`` ends a value of ``target`` or asserts another of the single-valued slot."""
    if claim.slot != target.slot or not target.holds:
        return False
    if claim.ends & target.holds:
        return True
    return claim.single and bool(claim.holds) and not claim.holds & target.holds


def relate(source: Source, target: Target) -> Label:
    """Label of a pair, from the claims of ``source`` and the assertion of ``target``."""
    changes = any(claim.change for claim in source.claims)
    touching = [claim for claim in source.claims if claim.slot == target.slot]
    for claim in touching:
        if overturns(claim, target):
            operation = "retracts" if claim.retracts else "supersedes"
            return Label(True, True, True, operation, claim.stratum)
    for claim in touching:
        if claim.holds & target.holds:
            stratum = "agrees_with_target" if claim.change else claim.stratum
            return Label(False, True, changes, "confirms", stratum)
    if touching and target.holds:
        claim = touching[0]
        stratum = "other_item" if claim.ends else claim.stratum
        return Label(False, claim.single, changes, "none", stratum)
    if target.relation != "main":
        return Label(False, False, changes, "none", target.relation)
    stratum = source.claims[0].stratum if source.claims and not changes else "unrelated_slot"
    return Label(False, False, changes, "none", stratum)
