"""Conversions that Numba does not have (PTX ISA 9.1, "Data Movement and Conversion: cvt"); each thread for itself.

The pairs are packed as fragments want them: `low` is the element of the lower index.
"""

from typing import Any

from llvmlite import ir
from numba.cuda import types
from numba.cuda.extending import intrinsic

from .assembly import I16, I32, assembly, result_type


@intrinsic
def cvt_rna_tf32(typingctx: Any, x: Any) -> Any:
    """float32 to tf32, rounded to nearest, ties away from zero: a uint32 whose low 13 bits are 0. Needs 8.0."""
    return types.uint32(types.float32), assembly("cvt.rna.tf32.f32 $0, $1;", [I32], capability=(8, 0))


def _tf32(mode: str, rounded: str) -> Any:
    text = f"cvt.{mode}.tf32.f32 $0, $1;"

    def instruction(typingctx: Any, x: Any) -> Any:
        return types.uint32(types.float32), assembly(text, [I32], capability=(9, 0))

    instruction.__name__ = instruction.__qualname__ = f"cvt_{mode}_tf32"
    instruction.__doc__ = f"float32 to tf32, rounded {rounded}: a uint32 whose low 13 bits are 0. Needs 9.0."
    return intrinsic(instruction)


cvt_rn_tf32 = _tf32("rn", "to nearest even")
cvt_rz_tf32 = _tf32("rz", "towards zero")


def _pack(name: str, text: str, result: ir.Type, capability: tuple[int, int], doc: str) -> Any:
    def instruction(typingctx: Any, low: Any, high: Any) -> Any:
        generate = assembly(f"{text} $0, $2, $1;", [result], capability=capability)
        return result_type([result])(types.float32, types.float32), generate

    instruction.__name__ = instruction.__qualname__ = name
    instruction.__doc__ = f"`{text}` of (low, high): {doc} Needs {capability[0]}.{capability[1]}."
    return intrinsic(instruction)


def _narrow(name: str, text: str) -> Any:
    def instruction(typingctx: Any, pair: Any) -> Any:
        return types.uint16(types.uint32), assembly(f"{text} $0, $1;", [I16], capability=(8, 9))

    instruction.__name__ = instruction.__qualname__ = name
    instruction.__doc__ = (
        f"`{text}`: two halves (uint32) to two fp8 numbers (uint16), rounded to nearest even and clamped. Needs 8.9."
    )
    return intrinsic(instruction)


def _unpack(name: str, text: str) -> Any:
    def instruction(typingctx: Any, pair: Any) -> Any:
        return types.uint32(types.uint16), assembly(f"{text} $0, $1;", [I32], capability=(8, 9))

    instruction.__name__ = instruction.__qualname__ = name
    instruction.__doc__ = f"`{text}`: two fp8 numbers (uint16) to two halves (uint32), exactly. Needs 8.9."
    return intrinsic(instruction)


_NEAREST = "two float32 rounded to nearest even,"
_TOWARD_ZERO = "two float32 rounded towards zero,"
_POSITIVE = "two float32 rounded to nearest even, negative ones to 0,"
_CLAMPED = "two float32 rounded to nearest even, clamped to the largest finite number,"

cvt_rn_bf16x2 = _pack("cvt_rn_bf16x2", "cvt.rn.bf16x2.f32", I32, (8, 0), f"{_NEAREST} as a uint32.")
cvt_rn_f16x2 = _pack("cvt_rn_f16x2", "cvt.rn.f16x2.f32", I32, (8, 0), f"{_NEAREST} as a uint32.")
cvt_rz_bf16x2 = _pack("cvt_rz_bf16x2", "cvt.rz.bf16x2.f32", I32, (8, 0), f"{_TOWARD_ZERO} as a uint32.")
cvt_rz_f16x2 = _pack("cvt_rz_f16x2", "cvt.rz.f16x2.f32", I32, (8, 0), f"{_TOWARD_ZERO} as a uint32.")
cvt_rn_relu_bf16x2 = _pack("cvt_rn_relu_bf16x2", "cvt.rn.relu.bf16x2.f32", I32, (8, 0), f"{_POSITIVE} as a uint32.")
cvt_rn_relu_f16x2 = _pack("cvt_rn_relu_f16x2", "cvt.rn.relu.f16x2.f32", I32, (8, 0), f"{_POSITIVE} as a uint32.")
cvt_rn_e4m3x2 = _pack("cvt_rn_e4m3x2", "cvt.rn.satfinite.e4m3x2.f32", I16, (8, 9), f"{_CLAMPED} as a uint16.")
cvt_rn_e5m2x2 = _pack("cvt_rn_e5m2x2", "cvt.rn.satfinite.e5m2x2.f32", I16, (8, 9), f"{_CLAMPED} as a uint16.")
cvt_f16x2_e4m3x2 = _unpack("cvt_f16x2_e4m3x2", "cvt.rn.f16x2.e4m3x2")
cvt_f16x2_e5m2x2 = _unpack("cvt_f16x2_e5m2x2", "cvt.rn.f16x2.e5m2x2")
cvt_rn_e4m3x2_f16x2 = _narrow("cvt_rn_e4m3x2_f16x2", "cvt.rn.satfinite.e4m3x2.f16x2")
cvt_rn_e5m2x2_f16x2 = _narrow("cvt_rn_e5m2x2_f16x2", "cvt.rn.satfinite.e5m2x2.f16x2")
