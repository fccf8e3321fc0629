"""Conversions between float32 in a register and the bits of other formats; each thread for itself.

Rounding is to nearest, ties to even, except for tf32, whose ties go away from zero as the instruction has it. They are
one or two instructions each: bfloat16, float16 and tf32 need compute capability 8.0, fp8 needs 8.9.
"""

from __future__ import annotations

from typing import Any

from numba import cuda, float32, int32, uint8, uint16, uint32
from numba.cuda import libdevice, types
from numba.cuda.extending import intrinsic

from ..ptx.assembly import F32, assembly
from ..ptx.conversion import (
    cvt_f16x2_e4m3x2,
    cvt_f16x2_e5m2x2,
    cvt_rn_bf16x2,
    cvt_rn_e4m3x2,
    cvt_rn_e5m2x2,
    cvt_rn_f16x2,
    cvt_rna_tf32,
)


@intrinsic
def float16_bits_to_float32(typingctx: Any, bits: Any) -> Any:
    """The float32 that equals a float16, given by its bits (uint16); exact."""
    return types.float32(types.uint16), assembly("cvt.f32.f16 $0, $1;", [F32])


@cuda.jit(device=True)
def float32_to_bits(x):
    """The bits of a float32 as a uint32."""
    return uint32(libdevice.float_as_int(x))


@cuda.jit(device=True)
def bits_to_float32(bits):
    """The float32 with these bits (uint32)."""
    return libdevice.int_as_float(int32(bits))


@cuda.jit(device=True)
def bfloat16_bits_to_float32(bits):
    """The float32 that equals a bfloat16, given by its bits (uint16); exact."""
    return libdevice.int_as_float(int32(uint32(bits) << uint32(16)))


@cuda.jit(device=True)
def float32_to_bfloat16_bits(x):
    """The bits (uint16) of the bfloat16 nearest to a float32."""
    return uint16(cvt_rn_bf16x2(x, float32(0)) & uint32(0xFFFF))


@cuda.jit(device=True)
def float32_to_float16_bits(x):
    """The bits (uint16) of the float16 nearest to a float32; beyond 65,504 infinity."""
    return uint16(cvt_rn_f16x2(x, float32(0)) & uint32(0xFFFF))


@cuda.jit(device=True)
def float32_to_tf32(x):
    """A float32 rounded to the 10 fraction bits of tf32, ties away from zero, as a float32."""
    return libdevice.int_as_float(int32(cvt_rna_tf32(x)))


@cuda.jit(device=True)
def float32_to_e4m3_bits(x):
    """The bits (uint8) of the float8_e4m3fn nearest to a float32; beyond 448 the largest number of that sign."""
    return uint8(cvt_rn_e4m3x2(x, float32(0)) & uint16(0xFF))


@cuda.jit(device=True)
def float32_to_e5m2_bits(x):
    """The bits (uint8) of the float8_e5m2 nearest to a float32; beyond 57,344 the largest number of that sign."""
    return uint8(cvt_rn_e5m2x2(x, float32(0)) & uint16(0xFF))


@cuda.jit(device=True)
def e4m3_bits_to_float32(bits):
    """The float32 that equals a float8_e4m3fn, given by its bits (uint8); exact."""
    return float16_bits_to_float32(uint16(cvt_f16x2_e4m3x2(uint16(bits)) & uint32(0xFFFF)))


@cuda.jit(device=True)
def e5m2_bits_to_float32(bits):
    """The float32 that equals a float8_e5m2, given by its bits (uint8); exact."""
    return float16_bits_to_float32(uint16(cvt_f16x2_e5m2x2(uint16(bits)) & uint32(0xFFFF)))
