"""Scenes about numbers: another value overturns, the same value in another unit or format does not.

Forms of one quantity are computed (2 pm = 14:00, 182 cm = 5 ft 11.7 in), never written by hand, so they
agree for certain; two quantities of one scene always differ by more than their coarsest form can blur.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from synthetic.pairs_templates.casting import cast_for
from synthetic.pairs_templates.catalogue import Split, sections_of
from synthetic.pairs_templates.statements import NOTHING, Claim, Scene, Source, Target

SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty"
).split()
TENS = {2: "twenty", 3: "thirty", 4: "forty", 5: "fifty", 6: "sixty", 7: "seventy", 8: "eighty", 9: "ninety"}
MONTHS = ("January February March April May June July August September October November December").split()
ORDINAL = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd", 31: "st"}


def spelled(number: int) -> str:
    """English words of 0..99."""
    if number <= 20:
        return SMALL[number]
    tens, ones = divmod(number, 10)
    return TENS[tens] + (f"-{SMALL[ones]}" if ones else "")


def clock_forms(minute: int) -> list[str]:
    """Forms of a time of day that is a multiple of 15 minutes."""
    hour, rest = divmod(minute, 60)
    twelve, half = hour % 12 or 12, "am" if hour < 12 else "pm"
    words = {
        0: f"{SMALL[twelve]} o'clock",
        15: f"a quarter past {SMALL[twelve]}",
        30: f"half past {SMALL[twelve]}",
        45: f"a quarter to {SMALL[twelve % 12 + 1]}",
    }[rest]
    part = "in the morning" if hour < 12 else "in the afternoon" if hour < 18 else "in the evening"
    short = f"{twelve} {half}" if rest == 0 else f"{twelve}:{rest:02d} {half}"
    return [f"{hour}:{rest:02d}", short, f"{words} {part}", f"{hour:02d}:{rest:02d}"]


def money_forms(amount: int) -> list[str]:
    """Forms of a whole-dollar amount; thousands get a k form."""
    forms = [f"${amount:,}", f"${amount}", f"{amount} dollars", f"USD {amount:,}"]
    return [*forms, f"${amount / 1000:g}k"] if amount % 100 == 0 and amount >= 1000 else forms


def percent_forms(percent: int) -> list[str]:
    """Forms of a percentage below 100."""
    shares = {25: "a quarter", 50: "half", 75: "three quarters", 20: "one fifth", 10: "a tenth"}
    return [
        f"{percent}%",
        f"{percent} percent",
        f"{percent} per cent",
        *([shares[percent]] if percent in shares else []),
    ]


def duration_forms(minute: int) -> list[str]:
    """Forms of a duration that is a multiple of 15 minutes."""
    hours, rest = divmod(minute, 60)
    forms = [f"{minute} minutes", f"{minute} min"]
    if rest == 0:
        forms += [f"{spelled(hours)} hour{'s' * (hours > 1)}", f"{hours} h"]
    elif rest == 30 and hours:
        forms += [
            f"{spelled(hours)} and a half hours" if hours > 1 else "an hour and a half",
            f"{hours}.5 hours",
        ]
    return forms


def length_forms(centimetre: int) -> list[str]:
    """Forms of a body height."""
    inch = round(centimetre / 2.54)
    return [
        f"{centimetre} cm",
        f"{centimetre / 100:.2f} m",
        f"{inch // 12} ft {inch % 12} in",
        f"one metre {centimetre - 100}",
    ]


def weight_forms(kilogram: int) -> list[str]:
    """Forms of a weight."""
    return [
        f"{kilogram} kg",
        f"{kilogram} kilos",
        f"{kilogram} kilograms",
        f"about {round(kilogram * 2.20462)} pounds",
    ]


def day_forms(day: int) -> list[str]:
    """Forms of a day of the year 1..336 counted in months of 28 days."""
    month, date = divmod(day - 1, 28)
    date += 1
    name, ending = MONTHS[month], ORDINAL.get(date, "th")
    return [
        f"{date} {name}",
        f"{name} {date}{ending}",
        f"the {date}{ending} of {name}",
        f"{name[:3]} {date}",
        f"{date:02d}.{month + 1:02d}.",
    ]


def count_forms(count: int) -> list[str]:
    """Forms of a count below 100."""
    extra = {12: ["a dozen"], 24: ["two dozen"], 2: ["a couple of"], 6: ["half a dozen"]}.get(count, [])
    return [str(count), spelled(count), *extra]


def distance_forms(kilometre: int) -> list[str]:
    """Forms of a distance."""
    return [
        f"{kilometre} km",
        f"{kilometre} kilometres",
        f"{kilometre * 1000:,} m",
        f"about {kilometre * 0.621371:.1f} miles",
    ]


def week_forms(week: int) -> list[str]:
    """Forms of a span of weeks."""
    return [f"{week} weeks", f"{spelled(week)} weeks", f"{7 * week} days"]


def celsius_forms(celsius: int) -> list[str]:
    """Forms of a temperature."""
    return [f"{celsius} °C", f"{celsius} degrees Celsius", f"{round(celsius * 9 / 5 + 32)} °F"]


QUANTITIES: dict[str, tuple[Callable[[int], list[str]], range]] = {
    "clock": (clock_forms, range(7 * 60, 21 * 60, 30)),
    "money": (money_forms, range(400, 9000, 100)),
    "percent": (percent_forms, range(5, 96, 5)),
    "duration": (duration_forms, range(30, 300, 30)),
    "length": (length_forms, range(152, 199, 6)),
    "weight": (weight_forms, range(45, 120, 5)),
    "day": (day_forms, range(1, 337, 3)),
    "count": (count_forms, range(2, 60)),
    "distance": (distance_forms, range(3, 90, 4)),
    "week": (week_forms, range(2, 17)),
    "celsius": (celsius_forms, range(14, 90, 4)),
}


def _claims(slot: tuple[str, str], old: str, new: str) -> list[tuple[str, Claim]]:
    """Roles of a numeric source with the claim that each makes; a letter after ``_`` names the value said."""
    a, b = frozenset({old}), frozenset({new})
    return [
        ("c", Claim(slot, "numeric_change", b, a, change=True)),
        ("t", Claim(slot, "numeric_change", b, change=True)),
        ("s_b", Claim(slot, "bare_restated_value", b)),
        ("s_a", Claim(slot, "unit_paraphrase", a)),
        ("k", Claim(slot, "unit_paraphrase", a)),
        ("k2", Claim(slot, "unit_paraphrase", a)),
        ("n", Claim(slot, "hypothetical")),
        ("p", Claim(slot, "history")),
        ("w", Claim(slot, "correction", b, a, change=True, retracts=True)),
        ("c_in", Claim(slot, "switch_to_target", a, b, change=True)),
    ]


def build(rng: random.Random, split: Split, lang: str) -> Scene | None:
    """One numeric scene of a ``number`` section, whose value line names the quantity."""
    sections = [s for s in sections_of(split) if s.kind == "number" and s.lang == lang and s.pick("s")]
    if not sections:
        return None
    section = rng.choice(sections)
    forms, values = QUANTITIES[section.values["v"][0]]
    cast = cast_for(rng, split, lang)
    old, new = rng.sample(list(values), 2)
    entities = section.values.get("x", (cast.person.name,))
    entity = rng.choice(entities)
    slot, a, b = (section.key, entity), str(old), str(new)
    letters = {"s_b": "s", "s_a": "s", "k2": "k", "c_in": "c"}

    def say(role: str, name: str, first: int, second: int) -> tuple[str, str] | None:
        template = cast.choose(section.pick(role))
        if template is None:
            return None
        texts = {"a": rng.choice(forms(first)), "b": rng.choice(forms(second)), "v": rng.choice(forms(first))}
        return cast.render(template, {"x": name, **texts}), template.id

    sources, targets = [], []
    shapes = _claims(slot, a, b)
    for role, claim in rng.sample(shapes, 7):
        first, second = (new, old) if role in {"s_b", "c_in"} else (old, new)
        made = say(letters.get(role, role), entity, first, second)
        if made:
            sources.append(Source(*made, (claim,), lang))
    plans = [
        ("s", old, new, slot, {a}, "main"),
        ("s", old, new, slot, {a}, "main"),
        ("s", new, old, slot, {b}, "main"),
        ("c", new, old, slot, {a}, "update"),
        ("p", old, new, slot, set(), "past"),
        ("o", old, new, ("mention", *slot), set(), "other_attribute"),
    ]
    strangers = [x for x in entities if x != entity]
    if strangers:
        stranger = rng.choice(strangers)
        made = say("s", stranger, old, new)
        if made:
            targets.append(Target(*made, (section.key, stranger), frozenset({a}), "other_entity", lang))
    for role, first, second, target_slot, holds, relation in plans:
        made = say(role, entity, first, second)
        if made:
            targets.append(Target(*made, target_slot, frozenset(holds) or NOTHING, relation, lang))
    return Scene(section.domain, tuple(sources), tuple(targets))
