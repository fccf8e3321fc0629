"""Value probes: how one `mma` or `wgmma` computes, as a short list of facts that two devices can be compared by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from refkit.cuda_kernels.layouts import Layout, MmaLayout, WgmmaLayout
from refkit.verify.backends import Backend, LaunchFault, open_backend
from refkit.verify.probes import operands, summation
from refkit.verify.probes.dots import Dot, DotProducts
from refkit.verify.probes.encoding import INTEGERS
from refkit.verify.probes.execution import Unsupported
from refkit.verify.probes.summation import Blocks

_WIDEST = 64  # how a product adds up does not depend on its width


@dataclass(frozen=True)
class ValueFacts:
    """What was measured of one `mma` on one backend.

    status: "measured", "skipped" (the device lacks the instruction) or "error"; `message` says why.
    facts: by name, in words; names are the same on every device.
    """

    name: str
    backend: str
    status: str
    message: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """An entry of `values` in `probe --json`."""
        return {
            "name": self.name,
            "backend": self.backend,
            "status": self.status,
            "message": self.message,
            "facts": dict(self.facts),
        }


def measure(
    intrinsic: Any, layout: MmaLayout | WgmmaLayout, backend: str | Backend = "auto", name: str = ""
) -> ValueFacts:
    """The facts of an intrinsic (as a `Probe` takes it), whose layout must be right (`Probe` says so).

    Raises `Unavailable` where the backend cannot run here.
    """
    device = open_backend(backend) if isinstance(backend, str) else backend
    name = name or layout.name
    dots = DotProducts(device, intrinsic, layout)
    try:
        facts = _integer_facts(dots) if layout.c_type in INTEGERS else _float_facts(dots)
    except Unsupported as reason:
        return ValueFacts(name, device.name, "skipped", str(reason))
    except LaunchFault as fault:
        if fault.fatal:
            raise
        return ValueFacts(name, device.name, "error", str(fault))
    return ValueFacts(name, device.name, "measured", facts=facts)


def _float_facts(dots: DotProducts) -> dict[str, str]:
    found = summation.blocks(dots)
    largest = max(found, key=len)
    joins = summation.addend_joins(dots, found[0])
    bits = summation.result_bits(dots, largest)
    fraction = summation.fraction_bits(dots, largest)
    facts = {"summed at once": _describe_blocks(found)}
    if fraction is not None:
        facts["terms"] = f"{fraction} fraction bits, cut {summation.cutting(dots, largest, fraction)}"
    elif len(largest) >= 3:
        facts["terms"] = f"all of at least {dots.largest - dots.smallest} bits count"
    facts["sum"] = f"{bits} fraction bits, {summation.rounding(dots, largest, bits)}"
    if joins:
        facts["C"] = "the first term" if len(found[0]) == 1 else "aligned with the first products"
    else:
        facts["C"] = f"added last, {summation.rounding(dots, found[0], _addend_bits(dots), of_addend=True)}"
    return {**facts, **operands.operand_bits(dots), **operands.subnormals(dots), **operands.extremes(dots)}


def _addend_bits(dots: DotProducts) -> int:
    return {"f32": 23, "f16": 10, "f64": 52}[dots.layout.c_type]


def _describe_blocks(found: Blocks) -> str:
    """ "all 16", "2 x 8 (0-7, 8-15)", or "1 by 1, k ascending"."""
    k = sum(map(len, found))
    if len(found) == 1:
        return f"all {k}"
    if all(len(block) == 1 for block in found):
        order = [block[0] for block in found]
        return "1 by 1, k ascending" if order == sorted(order) else f"1 by 1: {', '.join(map(str, order))}"
    sizes = {len(block) for block in found}
    shape = f"{len(found)} x {min(sizes)}" if len(sizes) == 1 else " + ".join(str(len(block)) for block in found)
    return f"{shape} ({'; '.join(_runs(block) for block in found)})"


def _runs(places: Sequence[int]) -> str:
    """Places as runs, "0-1 4-5"."""
    parts: list[list[int]] = []
    for place in places:
        if parts and place == parts[-1][1] + 1:
            parts[-1][1] = place
        else:
            parts.append([place, place])
    return " ".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


def _integer_facts(dots: DotProducts) -> dict[str, str]:
    layout = dots.layout
    facts = {}
    for operand, kind in (("A", layout.a_type), ("B", layout.b_type)):
        byte = -128.0 if kind == "s8" else 128.0
        (value,) = dots.values([Dot({0: (byte, 1.0) if operand == "A" else (1.0, byte)})])
        facts[operand] = f"byte 0x80 is {value:g}"
    above, below = dots.values([Dot({0: (1.0, 1.0)}, 2.0**31 - 1), Dot({}, -(2.0**31))])
    facts["overflow"] = {2.0**31 - 1: "clamped", -(2.0**31): "wraps"}.get(float(above), f"gives {above:g}")
    if layout.a_type == "s8":
        (below,) = dots.values([Dot({0: (-1.0, 1.0)}, -(2.0**31))])
        facts["underflow"] = {-(2.0**31): "clamped", 2.0**31 - 1: "wraps"}.get(float(below), f"gives {below:g}")
    return facts


def differences(mine: Sequence[ValueFacts], theirs: Sequence[ValueFacts]) -> list[str]:
    """One line for each fact that two backends differ in, of what both measured."""
    other = {each.name: each for each in theirs if each.status == "measured"}
    lines = []
    for each in mine:
        if each.status != "measured" or each.name not in other:
            continue
        for fact in dict.fromkeys((*each.facts, *other[each.name].facts)):
            here, there = each.facts.get(fact, "not seen"), other[each.name].facts.get(fact, "not seen")
            if here != there:
                lines.append(f"{each.name}, {fact}: {each.backend} {here}; {other[each.name].backend} {there}")
    return lines


def is_measurable(layout: Layout) -> TypeGuard[MmaLayout | WgmmaLayout]:
    """Whether there are value probes for what has this layout; of `wgmma`, of one form for each type and place of A."""
    if isinstance(layout, WgmmaLayout):
        return layout.name.endswith((f".{layout.kind}", ".register_a")) and layout.shape[1] <= _WIDEST
    return isinstance(layout, MmaLayout)
