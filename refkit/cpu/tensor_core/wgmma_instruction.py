"""Reads the opcode of a `wgmma.mma_async` (PTX ISA 9.1, "Asynchronous Warpgroup Level Matrix Instructions")."""

from __future__ import annotations

import re
from dataclasses import dataclass

from refkit.cpu.tensor_core.instruction import MmaInstruction
from refkit.cpu.tensor_core.model import Summation

_OPCODE = re.compile(r"wgmma\.mma_async\.sync\.aligned\.m64n(?P<n>\d+)k(?P<k>\d+)\.f32\.(?P<a>\w+)\.(?P<b>\w+)")
_BYTES = {"tf32": 4, "f16": 2, "bf16": 2, "e4m3": 1, "e5m2": 1}
_FP8 = ("e4m3", "e5m2")
M = 64


@dataclass(frozen=True)
class WgmmaInstruction:
    """One form of `wgmma` with sums in float32.

    a_in_registers: A comes in registers instead of by descriptor. a_across, b_across: M or N is contiguous, not K.
    a_sign, b_sign: 1, or -1 where the operand is negated.
    """

    opcode: str
    n: int
    a: str
    b: str
    a_in_registers: bool
    a_across: bool = False
    b_across: bool = False
    a_sign: int = 1
    b_sign: int = 1

    @property
    def element_bytes(self) -> int:
        """Bytes of an element of A or B."""
        return _BYTES[self.a]

    @property
    def k(self) -> int:
        """32 bytes of K."""
        return 32 // self.element_bytes

    @property
    def a_words(self) -> int:
        """Words of A among a thread's operands: four registers, or a descriptor."""
        return 4 if self.a_in_registers else 1

    @property
    def sums(self) -> int:
        """Elements of the accumulator that a thread holds."""
        return self.n // 2

    @property
    def as_mma(self) -> MmaInstruction:
        """The same product as a matrix product of one warp writes it; only its K counts."""
        return MmaInstruction(self.opcode, M, self.n, self.k, self.a, self.b, "f32", False)

    @property
    def summation(self) -> Summation:
        """How Hopper adds up: the model of arXiv 2511.10909, 25 fraction bits over the whole K; 13 for fp8."""
        if self.a in _FP8:
            return Summation(13, self.k, result_bits=13)
        return Summation(25, self.k)


def parse(opcode: str) -> tuple[int, str, str]:
    """`(n, type of A, type of B)` of an opcode; ValueError for what is not known."""
    match = _OPCODE.fullmatch(opcode)
    if not match:
        raise ValueError("not a dense wgmma with sums in float32")
    n, k, a, b = int(match["n"]), int(match["k"]), match["a"], match["b"]
    same_kind = a == b or {a, b} <= set(_FP8)
    if a not in _BYTES or not same_kind or k * _BYTES[a] != 32 or n % 8 or not 8 <= n <= 256:
        raise ValueError(f"shape m64n{n}k{k} of {a} x {b}")
    return n, a, b
