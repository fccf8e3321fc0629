"""The conversion functions of cuda_fp8.h, which take the format, or the rounding, and the overflow rule as arguments.

Constructors and conversion operators of the fp8 types are ordinary shims.
"""

from __future__ import annotations

import re

from llvmlite import ir

from refkit.cpu.device_library.abi import TYPES, CType, load, shim_function, store, to_scale
from refkit.cpu.device_library.build import I8, I16, I32, DeviceFunction, constant
from refkit.cpu.device_library.floats import FLOAT8_E4M3, FLOAT8_E5M2, narrow, widen
from refkit.cpu.device_library.scale_format import to_bfloat16

_SCALE_FUNCTION = re.compile(r"__nv_cvt_(double|float|double2|float2|bfloat16raw|bfloat162raw)_to_e8m0(x2)?")
_FUNCTION = re.compile(r"__nv_cvt_(double|float|double2|float2|bfloat16raw)_to_fp8(x2)?")


def conversion_function(name: str) -> DeviceFunction | None:
    """`result = name(x, saturation, interpretation)`; saturation 1 clamps, interpretation 0 is e4m3 and 1 is e5m2.

    To e8m0 the last argument is the rounding, of cudaRoundMode.
    """
    if name in ("__nv_cvt_e8m0_to_bf16raw", "__nv_cvt_e8m0x2_to_bf162raw"):
        return _from_scale(2 if "x2" in name else 1)
    if match := _SCALE_FUNCTION.fullmatch(name):
        return _to_scale(_source(match.group(1)))
    match = _FUNCTION.fullmatch(name)
    if not match:
        return None
    source = _source(match.group(1))

    def body(b: ir.IRBuilder, arguments: tuple[ir.Value, ...]) -> None:
        result, x, saturation, interpretation = arguments
        clamps, is_e5m2 = (
            b.icmp_unsigned("!=", b.load(p, typ=I32), constant(I32, 0)) for p in (saturation, interpretation)
        )
        values = []
        for component in load(b, x, source):
            value = widen(b, component, source.format) if source.format is not None else component
            e4m3, e5m2 = (
                b.select(clamps, narrow(b, value, form, saturate=True), narrow(b, value, form))
                for form in (FLOAT8_E4M3, FLOAT8_E5M2)
            )
            values.append(b.select(is_e5m2, e5m2, e4m3))
        store(b, values, result, CType(I8, source.count))

    return shim_function(4, body)


def _source(word: str) -> CType:
    return TYPES[word.replace("bfloat16", "__nv_bfloat16").removesuffix("raw")]


def _to_scale(source: CType) -> DeviceFunction:
    def body(b: ir.IRBuilder, arguments: tuple[ir.Value, ...]) -> None:
        result, x, saturation, rounding = arguments
        saturates = b.icmp_unsigned("!=", b.load(saturation, typ=I32), constant(I32, 0))
        mode = b.load(rounding, typ=I32)
        component = CType(source.component, 1, source.format)
        store(b, [to_scale(b, v, component, mode, saturates) for v in load(b, x, source)], result, CType(I8))

    return shim_function(4, body)


def _from_scale(count: int) -> DeviceFunction:
    def body(b: ir.IRBuilder, arguments: tuple[ir.Value, ...]) -> None:
        codes = load(b, arguments[1], CType(I8, count))
        store(b, [to_bfloat16(b, code) for code in codes], arguments[0], CType(I16, count))

    return shim_function(2, body)
