"""`mma.sync` on bytes: fp8 (e4m3, e5m2) and 8-bit integers, m16n8k32 (PTX ISA, "Matrix Fragments for mma.m16n8k32").

A register holds four neighbouring elements, the lowest index in the lowest byte. With g = lane / 4, t = lane % 4 and
byte h in 0..3:

    A (16 x 32): register i, byte h: row g + 8 (i % 2), column 4 t + h + 16 (i / 2)
    B (32 x 8):  register i, byte h: row 4 t + h + 16 i, column g
    C, D (16 x 8), float32 or int32: register i: row g + 8 (i / 2), column 2 t + i % 2

Integer sums wrap; the `_satfinite` forms clamp them to the range of int32 instead. C and D of the integer forms are
uint32 registers that hold the bits of an int32.
"""

from typing import Any

from .assembly import F32, I32
from .mma import Operand, mma_instruction

_DOC = """A is 4 x uint32, B 2 x uint32, C and D 4 x {d}; who holds what: see this module."""


def _fp8(a: str, b: str) -> Any:
    kinds = a if a == b else f"{a}_{b}"
    return mma_instruction(
        f"mma_m16n8k32_{kinds}",
        "m16n8k32",
        Operand("f32", 4, F32),
        Operand(a, 4, I32),
        Operand(b, 2, I32),
        capability=(8, 9),
        doc=_DOC.format(d="float32"),
    )


def _integer(a: str, b: str, modifier: str = "") -> Any:
    kinds = (a if a == b else f"{a}_{b}") + modifier.replace(".", "_")
    return mma_instruction(
        f"mma_m16n8k32_{kinds}",
        "m16n8k32",
        Operand("s32", 4, I32),
        Operand(a, 4, I32),
        Operand(b, 2, I32),
        capability=(8, 0),
        doc=_DOC.format(d="uint32"),
        modifier=modifier,
    )


mma_m16n8k32_e4m3 = _fp8("e4m3", "e4m3")
mma_m16n8k32_e5m2 = _fp8("e5m2", "e5m2")
mma_m16n8k32_e4m3_e5m2 = _fp8("e4m3", "e5m2")
mma_m16n8k32_e5m2_e4m3 = _fp8("e5m2", "e4m3")
mma_m16n8k32_s8 = _integer("s8", "s8")
mma_m16n8k32_u8 = _integer("u8", "u8")
mma_m16n8k32_s8_u8 = _integer("s8", "u8")
mma_m16n8k32_u8_s8 = _integer("u8", "s8")
mma_m16n8k32_s8_satfinite = _integer("s8", "s8", ".satfinite")
mma_m16n8k32_u8_satfinite = _integer("u8", "u8", ".satfinite")
