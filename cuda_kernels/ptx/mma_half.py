"""`mma.sync` on float16 and bfloat16: m16n8k8 and m16n8k16 (PTX ISA, "Matrix Fragments for mma.m16n8k8/m16n8k16").

A register holds two neighbouring elements, the lower index in the lower half. With g = lane / 4, t = lane % 4 and
half h in (0, 1):

    A (16 x K):  register i, half h: row g + 8 (i % 2), column 2 t + h + 8 (i / 2)
    B (K x 8):   register i, half h: row 2 t + h + 8 i, column g
    C, D (16 x 8), float32: register i: row g + 8 (i / 2), column 2 t + i % 2
    C, D (16 x 8), float16: register i, half h: row g + 8 i, column 2 t + h
"""

from typing import Any

from .assembly import F32, I32
from .mma import Operand, mma_instruction

_DOC = """A is {a} x uint32, B {b} x uint32, C and D {d}; who holds what: see this module."""


def _half(shape: str, kind: str, accumulate: str, capability: tuple[int, int]) -> Any:
    a, b = (2, 1) if shape == "m16n8k8" else (4, 2)
    d = Operand("f32", 4, F32) if accumulate == "f32" else Operand("f16", 2, I32)
    suffix = "" if accumulate == "f32" else "_f16"
    return mma_instruction(
        f"mma_{shape}_{kind}{suffix}",
        shape,
        d,
        Operand(kind, a, I32),
        Operand(kind, b, I32),
        capability=capability,
        doc=_DOC.format(a=a, b=b, d="4 x float32" if accumulate == "f32" else "2 x uint32 (4 halves)"),
    )


mma_m16n8k8_f16 = _half("m16n8k8", "f16", "f32", (7, 5))
mma_m16n8k16_f16 = _half("m16n8k16", "f16", "f32", (8, 0))
mma_m16n8k8_f16_f16 = _half("m16n8k8", "f16", "f16", (7, 5))
mma_m16n8k16_f16_f16 = _half("m16n8k16", "f16", "f16", (8, 0))
mma_m16n8k8_bf16 = _half("m16n8k8", "bf16", "f32", (8, 0))
mma_m16n8k16_bf16 = _half("m16n8k16", "bf16", "f32", (8, 0))
