"""What a tensor core makes of single numbers, measured: ignored bits, subnormals, too large and too small results."""

from __future__ import annotations

import numpy as np

from refkit.verify.probes.dots import Dot, DotProducts
from refkit.verify.probes.numbers import RANGES, Term

_STORED_BITS = {"tf32": 23}  # fraction bits that lie in the register; the other formats have none to spare


def operand_bits(dots: DotProducts) -> dict[str, str]:
    """How many fraction bits of a tf32 operand are read, and how it is rounded to them, of A and of B."""
    layout = dots.layout
    if layout.a_type not in _STORED_BITS:
        return {}
    found = {}
    for operand in "AB":
        depths = range(1, _STORED_BITS[layout.a_type] + 1)
        shown = dots.values([_alone(operand, 1 + 2.0**-depth) for depth in depths])
        bits = max((depth for depth, value in zip(depths, shown) if value != 1), default=0)
        last = 2.0**-bits
        numbers = np.array([1 + 0.25 * last, 1 + 0.5 * last, 1 + 0.75 * last, 1 + 1.5 * last])
        steps = tuple(((dots.values([_alone(operand, float(x)) for x in numbers]) - 1) / last).tolist())
        names = {
            (0, 0, 0, 1): "the rest is ignored",
            (0, 0, 1, 2): "rounded to nearest, ties to even",
            (0, 1, 1, 2): "rounded to nearest, ties away from zero",
        }
        found[operand] = f"{bits} fraction bits read, {names.get(steps, 'rounded irregularly')}"
    return {"operands": found["A"] if found["A"] == found["B"] else f"A: {found['A']}; B: {found['B']}"}


def _alone(operand: str, number: float, other: float = 1.0) -> Dot:
    return Dot({0: (number, other) if operand == "A" else (other, number)})


def subnormals(dots: DotProducts) -> dict[str, str]:
    """Whether subnormal operands, C, and results count or become 0."""
    layout = dots.layout
    a, b = dots.ranges
    c = RANGES[layout.c_type]
    facts = {}
    reach = {"A": min(b.most, -a.least), "B": min(a.most, -b.least)}
    for operand, own in (("A", a), ("B", b)):
        (value,) = dots.values([_alone(operand, 2.0**own.least, 2.0 ** reach[operand])])
        facts[operand] = _kept(float(value), 2.0 ** (own.least + reach[operand]))
    (value,) = dots.values([Dot({}, float(np.ldexp(1.0, c.least)))])
    facts["C"] = _kept(float(value), float(np.ldexp(1.0, c.least)))
    if a.least + b.least < c.normal:
        tiny = Term(max(c.least, a.least + b.least, c.normal - 8))
        (value,) = dots.values([Dot({0: tiny})])
        facts["D"] = _kept(float(value), tiny.value)
    if len(set(facts.values())) == 1:
        return {"subnormals": f"{next(iter(facts.values()))} ({', '.join(facts)})"}
    return {"subnormals": ", ".join(f"{name} {state}" for name, state in facts.items())}


def _kept(value: float, wanted: float) -> str:
    return "kept" if value == wanted else "become 0" if value == 0 else f"become {value:g} instead of {wanted:g}"


def extremes(dots: DotProducts) -> dict[str, str]:
    """Results that are too large, too small, or no number, as encodings of D."""
    layout = dots.layout
    a, b = dots.ranges
    c = RANGES[layout.c_type]
    facts = {}
    largest, last_place = _LARGEST[layout.c_type]
    digits = 2 * layout.c.element_bits // 8
    if last_place <= a.most + b.most:
        (value,) = dots.values([Dot({0: Term(last_place)}, largest)])
        facts["overflow"] = "infinity" if np.isinf(value) else f"{value:g}"
    if a.least + b.least < c.least - 1:
        tiny = Dot({0: Term(max(a.least + b.least, c.least - 8), -1.0)})
        facts["negative underflow"] = "-0" if np.signbit(dots.values([tiny])[0]) else "+0"
    nan = dots.bits([Dot({0: (float("nan"), 1.0)})])[0]
    facts["nan"] = f"{int(nan):#0{2 + digits}x}"
    return facts


_LARGEST = {
    "f32": (float(np.finfo(np.float32).max), 104),
    "f16": (float(np.finfo(np.float16).max), 5),
    "f64": (float(np.finfo(np.float64).max), 971),
}
"""The largest finite number, and the exponent of its last place: their sum is too large."""
