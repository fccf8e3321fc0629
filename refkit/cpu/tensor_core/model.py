"""How the tensor cores of an architecture add up: one frozen record per kind of instruction.

The model of arXiv 2511.10909, which its authors compared bit for bit with the hardware: exact products and C are
aligned to the largest exponent among them, each is truncated to F fraction bits, their sum is exact, and the result is
rounded towards zero (float32) or to nearest even (float16).
"""

from __future__ import annotations

from dataclasses import dataclass

from refkit.cpu.tensor_core.instruction import MmaInstruction

ZERO_EXPONENT = -999  # of an operand that is zero: it never decides the alignment
_LEAST_EXPONENT = -300  # of an alignment; no product of two nonzero operands is as small


@dataclass(frozen=True)
class Summation:
    """How one instruction computes an element of D from a row of A, a column of B and an element of C.

    fraction_bits: F, what each aligned term keeps behind the binary point.
    block: how many terms are summed at once; the result of a block is C of the next.
    paired_bytes: the blocks are the lower and the upper two of every four neighbouring terms.
    c_last: the blocks start from zero, and C is added at the end, in float32 to nearest even.
    result_bits: fraction bits of the result of a block.
    least_alignment: the smallest exponent that terms are aligned to.
    operand_exponent: the least exponent of an operand; smaller numbers are not normalised. None: of its own format.
    """

    fraction_bits: int
    block: int
    paired_bytes: bool = False
    c_last: bool = False
    result_bits: int = 23
    least_alignment: int = _LEAST_EXPONENT
    operand_exponent: int | None = None


def summation(instruction: MmaInstruction, capability: tuple[int, int]) -> Summation:
    """How a floating-point `mma.sync` adds up on an architecture, given by its compute capability.

    Sources: F and blocks, arXiv 2511.10909. fp8 on Hopper: the machine code that ptxas 13.0 makes of it for sm_90,
    which unpacks to float16, chains two m16n8k16 and adds C with FADD.
    """
    fp8 = instruction.a in ("e4m3", "e5m2")
    if capability >= (9, 0):
        if fp8 and capability < (10, 0):
            half = instruction.k // 2
            return Summation(25, half, paired_bytes=True, c_last=True, operand_exponent=-14)
        return Summation(25, instruction.k)
    if fp8:
        return Summation(13, 16, result_bits=13)
    if capability >= (8, 0):
        return Summation(24, min(instruction.k, 4 if instruction.a == "tf32" else 8))
    return Summation(24, instruction.k)
