"""The conversion functions of cuda_fp8.h, which take the format and the overflow rule as arguments.

Constructors and conversion operators of the fp8 types are ordinary shims. The scale format e8m0 is not known.
"""

from __future__ import annotations

import re

from llvmlite import ir

from refkit.cpu.device_library.abi import TYPES, CType, load, shim_function, store
from refkit.cpu.device_library.build import I8, I32, DeviceFunction, constant
from refkit.cpu.device_library.floats import FLOAT8_E4M3, FLOAT8_E5M2, narrow, widen

_FUNCTION = re.compile(r"__nv_cvt_(double|float|double2|float2|bfloat16raw)_to_fp8(x2)?")


def conversion_function(name: str) -> DeviceFunction | None:
    """`result = name(x, saturation, interpretation)`; saturation 1 clamps, interpretation 0 is e4m3 and 1 is e5m2."""
    match = _FUNCTION.fullmatch(name)
    if not match:
        return None
    source = TYPES["__nv_bfloat16" if match.group(1) == "bfloat16raw" else match.group(1)]

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
