"""Reads the opcode of an `mma.sync` (PTX ISA 9.1, "Warp Level Matrix Instructions: mma")."""

from __future__ import annotations

import re
from dataclasses import dataclass

_OPCODE = re.compile(
    r"mma\.sync\.aligned\.m(?P<m>\d+)n(?P<n>\d+)k(?P<k>\d+)\.row\.col(?P<satfinite>\.satfinite)?"
    r"\.(?P<d>\w+)\.(?P<a>\w+)\.(?P<b>\w+)\.(?P<c>\w+)"
)
_BITS = {"tf32": 32, "f16": 16, "bf16": 16, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "f64": 64}
# element type of A -> the shapes with it, and the accumulators
_KNOWN = {
    "tf32": (((16, 8, 4), (16, 8, 8)), ("f32",)),
    "f16": (((16, 8, 8), (16, 8, 16)), ("f32", "f16")),
    "bf16": (((16, 8, 8), (16, 8, 16)), ("f32",)),
    "e4m3": (((16, 8, 32),), ("f32",)),
    "e5m2": (((16, 8, 32),), ("f32",)),
    "s8": (((16, 8, 16), (16, 8, 32)), ("s32",)),
    "u8": (((16, 8, 16), (16, 8, 32)), ("s32",)),
    "f64": (((8, 8, 4),), ("f64",)),
}
_MIXED = ({"e4m3", "e5m2"}, {"s8", "u8"})


@dataclass(frozen=True)
class MmaInstruction:
    """One form of `mma.sync`: its shape, and the PTX types of A, B and of C and D."""

    opcode: str
    m: int
    n: int
    k: int
    a: str
    b: str
    accumulator: str
    satfinite: bool

    @property
    def bits(self) -> int:
        """Bits that an element of A or B takes in a register."""
        return _BITS[self.a]

    @property
    def per_register(self) -> int:
        """Elements of A or B in a 32-bit register."""
        return max(1, 32 // self.bits)

    @property
    def a_registers(self) -> int:
        """Registers of A that a lane holds."""
        return self.m * self.k // (32 * self.per_register)

    @property
    def b_registers(self) -> int:
        """Registers of B that a lane holds."""
        return self.k * self.n // (32 * self.per_register)

    @property
    def c_registers(self) -> int:
        """Registers of C, and of D, that a lane holds."""
        return self.m * self.n // (32 * (2 if self.accumulator == "f16" else 1))


def parse(opcode: str) -> MmaInstruction:
    """The instruction behind an opcode; ValueError for a shape or types that are not known."""
    match = _OPCODE.fullmatch(opcode)
    if not match:
        raise ValueError("not a dense mma.sync of row-major A and column-major B")
    m, n, k = (int(match[name]) for name in "mnk")
    a, b, accumulator = match["a"], match["b"], match["d"]
    shapes, accumulators = _KNOWN.get(a, ((), ()))
    same_kind = a == b or any({a, b} <= kinds for kinds in _MIXED)
    clamps = bool(match["satfinite"])
    if (m, n, k) not in shapes or accumulator not in accumulators or match["c"] != accumulator or not same_kind:
        raise ValueError(f"shape m{m}n{n}k{k} of {a} x {b} + {match['c']} -> {accumulator}")
    if clamps and accumulator != "s32":
        raise ValueError("satfinite without integers")
    return MmaInstruction(opcode, m, n, k, a, b, accumulator, clamps)
