"""Device functions as emitters: a signature, and what to emit for the body.

Every definition is `linkonce_odr alwaysinline`, so that a module that needs a function twice, or two modules that are
linked, still hold it once. Bodies carry no fast-math flag, and none may be added to them afterwards: the exact
algorithms in `rounding.py` rely on each operation being rounded on its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from llvmlite import ir

I1, I8, I16, I32, I64, I128, I192 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64, 128, 192))
F32, F64 = ir.FloatType(), ir.DoubleType()
POINTER = ir.PointerType()
VOID = ir.VoidType()

Emitter = Callable[[ir.IRBuilder, tuple[ir.Value, ...]], ir.Value | None]


@dataclass(frozen=True)
class DeviceFunction:
    """The host meaning of one external function: LLVM types of result and parameters, and the emitter of its body."""

    result: ir.Type
    parameters: tuple[ir.Type, ...]
    emit: Emitter


def constant(type_: ir.Type, value: float) -> ir.Constant:
    """A constant of an integer or floating type."""
    return ir.Constant(type_, value)


def call(b: ir.IRBuilder, name: str, result: ir.Type, *arguments: ir.Value) -> ir.Value:
    """Call of a pure external function (an LLVM intrinsic under its full name, or a function of libm)."""
    function = b.module.globals.get(name)
    if function is None:
        function = ir.Function(b.module, ir.FunctionType(result, [a.type for a in arguments]), name)
        if not name.startswith("llvm."):
            # errno, which libm may set, is read by no kernel; without this LLVM could not hoist or merge the call.
            takes_pointer = any(a.type == POINTER for a in arguments)
            function.attributes.add("argmemonly" if takes_pointer else "readnone")
            function.attributes.add("nounwind")
    return b.call(function, arguments)


def suffix(type_: ir.Type) -> str:
    """How an overloaded LLVM intrinsic spells a type in its name."""
    if isinstance(type_, ir.IntType):
        return f"i{type_.width}"
    return {F32: "f32", F64: "f64"}[type_]


def intrinsic(b: ir.IRBuilder, name: str, *arguments: ir.Value) -> ir.Value:
    """Call of an LLVM intrinsic that is overloaded on, and returns, the type of its first argument."""
    type_ = arguments[0].type
    return call(b, f"llvm.{name}.{suffix(type_)}", type_, *arguments)


def fabs(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """|x|."""
    return intrinsic(b, "fabs", x)


def fma(b: ir.IRBuilder, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
    """x * y + z, rounded once to nearest."""
    return intrinsic(b, "fma", x, y, z)


def is_nan(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """i1: x is NaN."""
    return b.fcmp_unordered("uno", x, x)


def is_finite(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """i1: x is neither NaN nor infinite."""
    return b.fcmp_ordered("<", fabs(b, x), constant(x.type, float("inf")))


def bits_of(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """The encoding of a float or double as an integer of the same width."""
    return b.bitcast(x, I32 if x.type == F32 else I64)


def from_bits(b: ir.IRBuilder, x: ir.Value) -> ir.Value:
    """The float (of an i32) or double (of an i64) with that encoding."""
    return b.bitcast(x, F32 if x.type == I32 else F64)


def minimum(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """The smaller of two signed integers."""
    return intrinsic(b, "smin", x, y)


def maximum(b: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """The larger of two signed integers."""
    return intrinsic(b, "smax", x, y)


def define(module: ir.Module, name: str, function: DeviceFunction) -> None:
    """Adds the definition of one device function to a module under construction."""
    defined = ir.Function(module, ir.FunctionType(function.result, list(function.parameters)), name)
    defined.linkage = "linkonce_odr"
    defined.attributes.add("alwaysinline")
    defined.attributes.add("nounwind")
    b = ir.IRBuilder(defined.append_basic_block("entry"))
    result = function.emit(b, tuple(defined.args))
    if function.result == VOID:
        b.ret_void()
    else:
        b.ret(result)


def render(functions: Mapping[str, DeviceFunction]) -> str:
    """LLVM IR text (opaque pointers, no triple and no data layout) that defines every function under its name."""
    module = ir.Module()
    for name, function in functions.items():
        define(module, name, function)
    return module_text(module)


def module_text(module: ir.Module) -> str:
    """The text of a module without its header, so that it takes on the triple of the module it is linked into."""
    # Plain names unquoted, as LLVM prints them: text that is put together compares them.
    text = re.sub(r'@"([-\w$.]+)"', r"@\1", str(module))
    lines = text.splitlines()
    return "\n".join(line for line in lines if not line.startswith(("; ModuleID", "target "))).strip() + "\n"
