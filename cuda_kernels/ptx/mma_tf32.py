"""`mma.sync` on tf32: m16n8k4 and m16n8k8, accumulated in float32.

PTX ISA 9.1, "Matrix Fragments for mma.m16n8k4" and "... mma.m16n8k8".

A register holds one element as the 32 bits of a float whose low 13 bits the unit ignores: round with `cvt_rna_tf32`
first. With g = lane / 4 and t = lane % 4:

    A (16 x K):  register i: row g + 8 (i % 2), column t + 4 (i / 2)
    B (K x 8):   register i: row t + 4 i, column g
    C, D (16 x 8): register i: row g + 8 (i / 2), column 2 t + i % 2
"""

from typing import Any

from .assembly import F32, I32
from .mma import Operand, mma_instruction

_DOC = """A is {a} x uint32, B {b} x uint32, C and D 4 x float32; who holds what: see this module."""


def _tf32(name: str, shape: str, a: int, b: int) -> Any:
    return mma_instruction(
        name,
        shape,
        Operand("f32", 4, F32),
        Operand("tf32", a, I32),
        Operand("tf32", b, I32),
        capability=(8, 0),
        doc=_DOC.format(a=a, b=b),
    )


mma_m16n8k4_tf32 = _tf32("mma_m16n8k4_tf32", "m16n8k4", 2, 1)
mma_m16n8k8_tf32 = _tf32("mma_m16n8k8_tf32", "m16n8k8", 4, 2)
