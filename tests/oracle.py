"""The independent oracle: SEMANTICS sections 2 and 3 by enumerating every possible world, in plain Python.

Lists, sets and loops only; shares no code with the package and is meant to be read against the page.

* ``edges``: tuples ``(source, target, weight, type, justification)`` with type ``"requires"`` or
  ``"supports"``; justification -1 is one of its own, equal numbers >= 0 into one target are one.
* ``evidence``: tuples ``(source, target, weight, kind, age, channel)`` with kind ``"supersedes"``,
  ``"retracts"`` or ``"confirms"`` (or 0, 1, 2); a later source has a larger age; channel -1 is none.
* ``direct``: instead of evidence, one independent probability per memory.
* ``premise``: memories that stand in their own right: their supports are ignored.

``worlds_invalidity`` enumerates every coin that is neither 0 nor 1: keep it to about 14 of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence

Edge = tuple[int, int, float, str, int]
Statement = tuple[int, int, float, "str | int", int, int]
KIND = {0: "supersedes", 1: "retracts", 2: "confirms"}


def any_of(probabilities: Iterable[float]) -> float:
    """``1 - prod(1 - p)``: at least one of several independent causes acts."""
    return 1.0 - math.prod(1.0 - p for p in probabilities)


# --- section 2 ---------------------------------------------------------------------------------------


def named(evidence: Sequence[Statement]) -> list[tuple[int, int, float, str, int, int]]:
    """The same evidence with kinds by name."""
    return [(s, t, w, KIND.get(k, k), age, channel) for s, t, w, k, age, channel in evidence]  # type: ignore[call-overload]


def retraction_order(node_count: int, evidence: Sequence[Statement]) -> list[int]:
    """Memories, each after all that retract it; raises ``ValueError`` on a cycle of retractions."""
    retractors: list[set[int]] = [set() for _ in range(node_count)]
    for s, t, _, kind, _, _ in named(evidence):
        if kind == "retracts":
            retractors[t].add(s)
    order: list[int] = []
    while len(order) < node_count:
        done = set(order)
        ready = [v for v in range(node_count) if v not in done and retractors[v] <= done]
        if not ready:
            raise ValueError("cycle of retractions")
        order += ready
    return order


def force(
    node_count: int, evidence: Sequence[Statement], trust: Sequence[float] | None = None
) -> list[float]:
    """``f_s = trust_s * (1 - r_s)``, ``r_s`` the noisy-or of ``f_u * w_us`` over retractions of s.

    Propositions of one source combine first; sources of one channel count once, by their maximum.
    """
    result = [1.0] * node_count
    for v in retraction_order(node_count, evidence):
        said = [
            (s, w, channel) for s, t, w, kind, _, channel in named(evidence) if t == v and kind == "retracts"
        ]
        by_channel: dict[object, list[float]] = {}
        for s, channel in sorted({(s, channel) for s, _, channel in said}):
            score = any_of(w for u, w, c in said if (u, c) == (s, channel))
            by_channel.setdefault(("own", s) if channel < 0 else channel, []).append(result[s] * score)
        retracted = any_of(max(values) for values in by_channel.values())
        result[v] = (1.0 if trust is None else trust[v]) * (1.0 - retracted)
    return result


def direct_evidence(
    node_count: int, evidence: Sequence[Statement], trust: Sequence[float] | None = None
) -> list[float]:
    """``d_t``: per source, scaled by force and by later confirmations, a channel once, then noisy-or."""
    strength = force(node_count, evidence, trust)
    result = []
    for v in range(node_count):
        said = [(s, w, kind, age, channel) for s, t, w, kind, age, channel in named(evidence) if t == v]
        alone: list[float] = []
        by_channel: dict[int, list[float]] = {}
        for speaker in sorted({(s, age, ch) for s, _, kind, age, ch in said if kind != "confirms"}):
            s, age, channel = speaker
            score = any_of(w for u, w, k, a, c in said if (u, a, c) == speaker and k != "confirms")
            cleared = any_of(strength[c] * w for c, w, k, a, _ in said if k == "confirms" and a > age)
            value = strength[s] * score * (1.0 - cleared)
            if channel < 0:
                alone.append(value)
            else:
                by_channel.setdefault(channel, []).append(value)
        result.append(any_of(alone + [max(values) for values in by_channel.values()]))
    return result


# --- section 3: one world ----------------------------------------------------------------------------


def components(node_count: int, edges: Sequence[Edge]) -> list[int]:
    """Smallest member of each memory's strongly connected component, over supports of weight > 0.

    Such a component is a loop of supports, or one memory.  Why supports only: see ``reached``.
    """
    follows: list[set[int]] = [set() for _ in range(node_count)]
    for s, t, w, kind, _ in edges:
        if w > 0 and kind == "supports":
            follows[s].add(t)
    reach = []
    for v in range(node_count):
        seen, stack = {v}, [v]
        while stack:
            for u in follows[stack.pop()] - seen:
                seen.add(u)
                stack.append(u)
        reach.append(seen)
    return [min(u for u in range(node_count) if u in reach[v] and v in reach[u]) for v in range(node_count)]


def parents(
    node_count: int, present: Sequence[Edge], premise: Sequence[bool] | None
) -> list[tuple[set[int], list[set[int]]]]:
    """Per memory: its present requirements and its present justifications (sets of antecedents)."""
    requirement: list[set[int]] = [set() for _ in range(node_count)]
    justification: list[dict[object, set[int]]] = [{} for _ in range(node_count)]
    for number, (s, t, _, kind, group) in enumerate(present):
        if kind == "requires":
            requirement[t].add(s)
        elif not (premise and premise[t]):
            justification[t].setdefault(("own", number) if group < 0 else group, set()).add(s)
    return [(requirement[v], list(justification[v].values())) for v in range(node_count)]


def standing(
    node_count: int,
    present: Sequence[Edge],
    overturned: set[int],
    *,
    component: Sequence[int],
    premise: Sequence[bool] | None = None,
) -> set[int]:
    """Memories that stand in one world whose edges are all in ``present``.

    ``nu X. mu Y. {v: not overturned, requirements in X, supports empty or met in Y}`` over the whole graph;
    members that are not ``reached`` read their supports in X.  Taken component by component it is the same
    set: what a component reads of others is finished, in X and in Y.
    """
    needs = parents(node_count, present, premise)
    grounded = reached(needs, component)
    greatest = set(range(node_count))
    while True:
        least: set[int] = set()
        while grown := {
            v
            for v in range(node_count)
            if v not in least | overturned
            and needs[v][0] <= greatest
            and met(needs[v][1], least if v in grounded else greatest)
        }:
            least |= grown
        if least == greatest:
            return greatest
        greatest = least


def met(justifications: list[set[int]], holding: set[int]) -> bool:
    """No justification at all, or one whose antecedents all hold."""
    return not justifications or any(antecedents <= holding for antecedents in justifications)


def reached(needs: list[tuple[set[int], list[set[int]]]], component: Sequence[int]) -> set[int]:
    """Members that a premise outside reaches even when nothing is overturned (section 3, Cycles).

    Outside of what?  Of the member's loop of supports, not of the strongly connected component that
    requirements close around several loops.  The page leaves it open; only this reading keeps all it says.
    Take a loop 0 <-> 1 that supports a loop 2 <-> 3 through 0 -> 2, and overturn 0.  All four fall: 0 was the
    reason outside of 2 <-> 3, and they "cannot hold each other up once the reason outside is gone".  Now
    let 2 be required by 0 as well.  That makes one component with no premise outside: were all four read
    in X, 2 and 3 would stand again, and a requirement more would have lowered two invalidities, against
    law 6.  A requirement gives nobody a reason, so ``reached`` must not look at requirements.  Then it
    does not matter either what is computed at once: a graph may be cut into any blocks.
    """
    found: set[int] = set()
    for name in set(component):
        inside = {v for v in range(len(needs)) if component[v] == name}
        outside = set(range(len(needs))) - inside
        members: set[int] = set()
        while grown := {v for v in inside - members if met(needs[v][1], outside | members)}:
            members |= grown
        found |= members
    return found


# --- section 3: all worlds ---------------------------------------------------------------------------


def coins(probability: Sequence[float]) -> Iterator[tuple[float, list[bool]]]:
    """Every outcome of independent coins with its probability; coins at 0 and 1 do not branch."""
    sides = [[(True, p)] * (p > 0) + [(False, 1.0 - p)] * (p < 1) for p in probability]
    for outcome in itertools.product(*sides):
        yield math.prod(p for _, p in outcome), [side for side, _ in outcome]


def dials(thresholds: Sequence[Sequence[float]]) -> Iterator[tuple[float, list[float]]]:
    """Every outcome of independent uniform numbers, told apart only by ``uniform < threshold``.

    Yields the probability and, per dial, one number inside the interval it fell into.
    """
    sides = []
    for marks in thresholds:
        cuts = sorted({0.0, 1.0, *marks})
        sides.append([(b - a, (a + b) / 2) for a, b in itertools.pairwise(cuts)])
    for outcome in itertools.product(*sides):
        yield math.prod(p for p, _ in outcome), [value for _, value in outcome]


def overturned_worlds(
    node_count: int, evidence: Sequence[Statement], trust: Sequence[float] | None = None
) -> Iterator[tuple[float, set[int]]]:
    """Every world of the evidence: its probability and the memories that are overturned in it.

    What one source says against one target is one statement (it speaks, and may speak as a retraction).
    Statements of one channel against one target share one uniform number, and the sources of one channel
    share the one that decides whether they are to be trusted: repetition is not corroboration.
    """
    evidence = named(evidence)
    trust = [1.0] * node_count if trust is None else trust
    order = retraction_order(node_count, evidence)
    against = [e for e in evidence if e[3] != "confirms"]
    confirms = [e for e in evidence if e[3] == "confirms"]
    channel_of = {s: max(c for u, _, _, _, _, c in evidence if u == s) for s, *_ in evidence}
    statements = sorted({(s, t, age, channel) for s, t, _, _, age, channel in against})
    speaks = {key: any_of(w for s, t, w, _, a, c in against if (s, t, a, c) == key) for key in statements}
    retracts = {
        key: any_of(w for s, t, w, k, a, c in against if (s, t, a, c) == key and k == "retracts")
        for key in statements
    }

    def speech_dial(key: tuple[int, int, int, int]) -> object:
        return key if key[3] < 0 else (key[3], key[1])

    def trust_dial(s: int) -> object:
        return ("source", s) if channel_of[s] < 0 else ("channel", channel_of[s])

    marks: dict[object, list[float]] = {}
    for key in statements:
        marks.setdefault(("speech", speech_dial(key)), []).extend([speaks[key], retracts[key]])
    for s in channel_of:
        marks.setdefault(("trust", trust_dial(s)), []).append(trust[s])
    for number, e in enumerate(confirms):
        marks[("confirm", number)] = [e[2]]

    names = list(marks)
    for probability, values in dials(list(marks.values())):
        drawn = dict(zip(names, values, strict=True))
        has_force: set[int] = set()
        for v in order:
            taken_away = any(
                key[1] == v and key[0] in has_force and drawn["speech", speech_dial(key)] < retracts[key]
                for key in statements
            )
            if v in channel_of and drawn["trust", trust_dial(v)] < trust[v] and not taken_away:
                has_force.add(v)
        cleared = [
            (t, age)
            for number, (s, t, w, _, age, _) in enumerate(confirms)
            if s in has_force and drawn["confirm", number] < w
        ]
        yield (
            probability,
            {
                t
                for s, t, age, channel in statements
                if s in has_force
                and drawn["speech", speech_dial((s, t, age, channel))] < speaks[s, t, age, channel]
                and not any(target == t and later > age for target, later in cleared)
            },
        )


def worlds_invalidity(
    node_count: int,
    edges: Sequence[Edge],
    *,
    evidence: Sequence[Statement] | None = None,
    direct: Sequence[float] | None = None,
    trust: Sequence[float] | None = None,
    premise: Sequence[bool] | None = None,
) -> list[float]:
    """``I_v`` of every memory: the probability of the worlds in which it does not stand."""
    if evidence is not None:
        causes = overturned_worlds(node_count, evidence, trust)
    else:
        causes = (
            (p, {v for v, side in enumerate(sides) if side})
            for p, sides in coins(direct or [0.0] * node_count)
        )
    # Worlds of the evidence that overturn the same memories are one.
    merged: dict[frozenset[int], list[float]] = {}
    for p, overturned in causes:
        merged.setdefault(frozenset(overturned), []).append(p)
    component = components(node_count, edges)
    mass: list[list[float]] = [[] for _ in range(node_count)]
    for p_edges, sides in coins([w for _, _, w, _, _ in edges]):
        present = [edge for edge, side in zip(edges, sides, strict=True) if side]
        for overturned, p in merged.items():
            stands = standing(node_count, present, set(overturned), component=component, premise=premise)
            for v in range(node_count):
                if v not in stands:
                    mass[v].append(p_edges * math.fsum(p))
    return [min(1.0, math.fsum(values)) for values in mass]


# --- mean field and bounds on acyclic graphs ---------------------------------------------------------


def mean_field(
    node_count: int, edges: Sequence[Edge], direct: Sequence[float], *, premise: Sequence[bool] | None = None
) -> list[float]:
    """The mean-field formula of section 3 on an acyclic graph, memory by memory, by recursion."""
    known: dict[int, float] = {}

    def invalidity(v: int) -> float:
        if v not in known:
            required = any_of(
                w * invalidity(s) for s, t, w, kind, _ in edges if t == v and kind == "requires"
            )
            groups: dict[object, list[tuple[int, float]]] = {}
            for number, (s, t, w, kind, group) in enumerate(edges):
                if t == v and kind == "supports" and not (premise and premise[v]):
                    groups.setdefault(("own", number) if group < 0 else group, []).append((s, w))
            absent = [math.prod(1 - w for _, w in group) for group in groups.values()]
            holds = [math.prod(1 - w * invalidity(s) for s, w in group) for group in groups.values()]
            lost = math.prod(a + 1 - h for a, h in zip(absent, holds, strict=True)) - math.prod(absent)
            known[v] = 1 - (1 - direct[v]) * (1 - required) * (1 - lost)
        return known[v]

    return [invalidity(v) for v in range(node_count)]


def strongest_path(node_count: int, edges: Sequence[Edge], direct: Sequence[float]) -> list[float]:
    """Largest product of a memory's direct evidence and the weights on one path from it (any edge type)."""
    best = list(direct)
    for _ in range(node_count):
        for s, t, w, _, _ in edges:
            best[t] = max(best[t], best[s] * w)
    return best
