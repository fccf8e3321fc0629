"""The elementary functions out of NVIDIA's libdevice: the same operations as on a GPU, compiled for the host.

Of the library's text only the functions that are asked for are taken, with what they call. Its inline PTX is replaced
by `refkit.cpu.ptx`'s meanings, its `llvm.nvvm.*` intrinsics by functions defined here, and `__nvvm_reflect` by the
settings of NVVM's defaults: no flushing of subnormals, square roots rounded to nearest.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import llvmlite.binding as llvm
from llvmlite import ir

from refkit.cpu.device_library import approximate, arithmetic, integers, rounding
from refkit.cpu.device_library.build import (
    F32,
    F64,
    I32,
    I64,
    DeviceFunction,
    constant,
    from_bits,
    intrinsic,
    render,
)
from refkit.cpu.device_library.floats import MODES

_REFLECTED = {"__CUDA_FTZ": 0, "__CUDA_PREC_SQRT": 1, "__CUDA_ARCH": 900}
_DEFINITION = re.compile(r"^define [^@\n]*@([\w.$]+)\(.*?^\}$", re.MULTILINE | re.DOTALL)
_TYPE = re.compile(r"^(%[\w.]+) = type [^\n]*$", re.MULTILINE)
_VARIABLE = re.compile(r"^@([\w.$]+) = [^\n]*$", re.MULTILINE)
_ASSEMBLY = re.compile(
    r'call (?P<type>[^\n@]*?) asm (?:sideeffect )?"(?P<text>[^"]*)", "(?P<constraints>[^"]*)"\((?P<arguments>[^\n]*?)\)'
)
_KINDS = {"i": "int", "ui": "uint", "ll": "ll", "ull": "ull", "f": "float", "d": "double", "h": "half"}
_OPERATIONS: dict[str, tuple[Callable[..., ir.Value], int]] = {
    "add": (rounding.add, 2),
    "mul": (rounding.mul, 2),
    "div": (rounding.div, 2),
    "rcp": (rounding.rcp, 1),
    "sqrt": (rounding.sqrt, 1),
    "fma": (rounding.fma_directed, 3),
}


def find_libdevice() -> Path | None:
    """`libdevice.10.bc` of an installed NVIDIA package or of the CUDA toolkit; None where there is none."""
    try:
        from cuda.pathfinder import find_bitcode_lib

        return Path(find_bitcode_lib("device"))
    except Exception:  # not installed, too old to know bitcode libraries, or nothing found: one answer to all
        found = sorted(Path("/usr/local").glob("cuda*/nvvm/libdevice/libdevice.10.bc"))
        return found[-1] if found else None


_SHIFT_CALL = r"= call \2 @rk.\1.\2(\2 \3, \2 \4)"


def _saturating_call(match: re.Match[str]) -> str:
    sign, source, value, target = match.groups()
    return f"= call {target} @rk.fpto{sign}i.{source}.{target}({source} {value})"


def _shift(name: str) -> DeviceFunction:
    """`shl.i32` and the like as the device does them."""
    operation, width = name.split(".")
    type_ = ir.IntType(int(width[1:]))

    def emit(b: ir.IRBuilder, arguments: tuple[ir.Value, ...]) -> ir.Value:
        x, amount = arguments
        last = constant(type_, type_.width - 1)
        if operation == "ashr":
            return b.ashr(x, intrinsic(b, "umin", amount, last))
        shifted = (b.shl if operation == "shl" else b.lshr)(x, b.and_(amount, last))
        return b.select(b.icmp_unsigned(">", amount, last), constant(type_, 0), shifted)

    return DeviceFunction(type_, (type_, type_), emit)


def _truncation(source: str, bits: int, signed: bool) -> DeviceFunction:
    """Conversion to an integer as `cvt.rzi` does it."""
    type_ = F32 if source == "float" else F64
    return DeviceFunction(ir.IntType(bits), (type_,), lambda b, a: rounding.to_integer(b, a[0], bits, signed, "rz"))


@functools.cache
def _library(path: Path) -> tuple[dict[str, str], dict[str, str], str]:
    """The library's functions and global variables, by name, as text without attributes and metadata; its types."""
    text = str(llvm.parse_bitcode(path.read_bytes()))
    strings = dict(re.findall(r'^@([\w.]+) = [^\n]* c"([^"\\]+)\\00"', text, re.MULTILINE))
    text = re.sub(
        r"call i32 @__nvvm_reflect\(ptr @([\w.]+)\)", lambda m: f"add i32 0, {_REFLECTED[strings[m.group(1)]]}", text
    )
    text = re.sub(r",? ![\w.]+ ![0-9]+", "", text)
    text = re.sub(r"(?<=[)}]) #[0-9]+", "", text)
    text = re.sub(r"add i32 0, (\d+) #[0-9]+", r"add i32 0, \1", text)
    text = text.replace(" addrspace(1)", "").replace("llvm.nvvm.", "rk.nvvm.")
    # The device shifts by the width or more to 0, and converts what is too large to the largest: LLVM leaves both open.
    text = re.sub(r"= (shl|lshr|ashr) (?:nuw |nsw |exact )*(i32|i64) (%[\w.]+|-?\d+), (%[\w.]+)", _SHIFT_CALL, text)
    text = re.sub(r"= fpto([su])i (float|double) (%[\w.]+) to (i32|i64)", _saturating_call, text)
    functions = {m.group(1): m.group(0) for m in _DEFINITION.finditer(text)}
    variables = {m.group(1): m.group(0) for m in _VARIABLE.finditer(text)}
    return functions, variables, "\n".join(m.group(0) for m in _TYPE.finditer(text))


def names(path: Path) -> frozenset[str]:
    """Every function that the library defines."""
    return frozenset(_library(path)[0])


def definitions(wanted: Iterable[str], path: Path) -> str:
    """IR text that defines these functions of the library and all that they need."""
    functions, variables, types = _library(path)
    parts: dict[str, str] = {}
    intrinsics: dict[str, DeviceFunction] = {}
    declared: dict[str, str] = {}
    waiting = list(wanted)
    while waiting:
        name = waiting.pop()
        if name in parts or name in intrinsics or name in declared:
            continue
        if name in functions:
            parts[name] = _host_text(functions[name], parts)
            waiting.extend(set(re.findall(r"@([\w.$]+)", functions[name])) - {name})
        elif name in variables:
            parts[name] = variables[name]
        elif name.startswith("rk.nvvm."):
            intrinsics[name] = nvvm(name.removeprefix("rk.nvvm."))
        elif re.fullmatch(r"rk\.(shl|lshr|ashr)\.i(32|64)", name):
            intrinsics[name] = _shift(name.removeprefix("rk."))
        elif match := re.fullmatch(r"rk\.fpto([su])i\.(float|double)\.i(32|64)", name):
            intrinsics[name] = _truncation(match.group(2), int(match.group(3)), match.group(1) == "s")
        elif name.startswith("llvm."):
            declared[name] = _declaration(path, name)
    return merge(types, *parts.values(), render(intrinsics), *declared.values())


def _host_text(text: str, parts: dict[str, str]) -> str:
    """One function's text, its inline PTX replaced by calls whose functions are added to the parts."""
    from refkit.cpu.ptx import meaning  # which itself stands on this package

    def replace(match: re.Match[str]) -> str:
        assembly = re.sub(r"\\([0-9A-Fa-f]{2})", lambda m: chr(int(m.group(1), 16)), match["text"])
        types = tuple(argument.rsplit(" ", 1)[0] for argument in match["arguments"].split(", "))
        host = meaning(assembly, match["constraints"], match["type"], types)
        parts[host.name] = host.definition
        return f"call {match['type']} @{host.name}({match['arguments']})"

    text = _ASSEMBLY.sub(replace, text)
    head, brace, body = text.partition("{\n")
    head = re.sub(r"^define (internal )?", "define linkonce_odr ", head.rstrip())
    return f"{head} alwaysinline nounwind {brace}{body}"


@functools.cache
def _declarations(path: Path) -> dict[str, str]:
    text = str(llvm.parse_bitcode(path.read_bytes()))
    found = re.findall(r"^(declare [^@\n]*@([\w.]+)\([^\n]*\)).*$", text, re.MULTILINE)
    return {name: line for line, name in found}


def _declaration(path: Path, name: str) -> str:
    return _declarations(path)[name]


def merge(*texts: str) -> str:
    """IR texts as one, where each function is declared once and not at all if it is defined."""
    text = "\n".join(texts)
    defined = set(re.findall(r"^define [^@\n]*@([\w.$]+)\(", text, re.MULTILINE))
    out = []
    for line in text.splitlines():
        if match := re.match(r"declare [^@]*@([\w.$]+)\(", line):
            if match.group(1) in defined:
                continue
            defined.add(match.group(1))
        out.append(line)
    return "\n".join(out) + "\n"


def _flushing(emit: Callable[..., ir.Value], ftz: bool) -> Callable[..., ir.Value]:
    if not ftz:
        return emit

    def flushed(b: ir.IRBuilder, *arguments: ir.Value) -> ir.Value:
        result = emit(b, *(approximate.flush(b, a) if a.type == F32 else a for a in arguments))
        return approximate.flush(b, result) if result.type == F32 else result

    return flushed


def _approximation(name: str, type_: ir.Type) -> Callable[..., ir.Value]:
    if name == "div":
        return approximate.divide
    if type_ == F32:
        return lambda b, x: approximate.approximate(b, name, x)
    if name == "rcp":
        return lambda b, x: b.fdiv(constant(F64, 1.0), x)
    return lambda b, x: b.fdiv(constant(F64, 1.0), intrinsic(b, "sqrt", x))


def nvvm(name: str) -> DeviceFunction:
    """The host meaning of an NVVM intrinsic of libdevice, named without `llvm.nvvm.`. KeyError if unknown."""
    ftz = ".ftz" in name
    parts = name.replace(".ftz", "").split(".")
    type_ = F64 if parts[-1] in ("d", "f64") else F32

    def of(count: int, emit: Callable[..., ir.Value], types: tuple[ir.Type, ...] = ()) -> DeviceFunction:
        emit = _flushing(emit, ftz)
        return DeviceFunction(type_, types or (type_,) * count, lambda b, a: emit(b, *a))

    if len(parts) == 3 and parts[1] in MODES and parts[0] in _OPERATIONS:
        operation, count = _OPERATIONS[parts[0]]
        return of(count, lambda b, *a: operation(b, *a, MODES[parts[1]]))
    if len(parts) == 3 and parts[1] == "approx":
        return of(2 if parts[0] == "div" else 1, _approximation(parts[0], type_))
    if parts[0] in ("floor", "ceil", "trunc", "round", "fabs"):
        spelt = "rint" if parts[0] == "round" else parts[0]  # NVVM's round is PTX's cvt.rni, ties to even
        return of(1, lambda b, x: intrinsic(b, spelt, x))
    if parts[0] in ("fmin", "fmax"):
        return of(2, arithmetic.larger if parts[0] == "fmax" else arithmetic.smaller)
    if parts[0] == "saturate":
        return of(1, arithmetic.saturate)
    return _conversion_or_integer(name, parts)


def _conversion_or_integer(name: str, parts: list[str]) -> DeviceFunction:
    same = {
        "lohi.i2d": DeviceFunction(F64, (I32, I32), lambda b, a: _join(b, *a)),
        "d2i.lo": arithmetic.FUNCTIONS["__nv_double2loint"],
        "d2i.hi": arithmetic.FUNCTIONS["__nv_double2hiint"],
        "mulhi.i": integers.FUNCTIONS["__nv_mulhi"],
        "mulhi.ui": integers.FUNCTIONS["__nv_umulhi"],
        "mulhi.ll": integers.FUNCTIONS["__nv_mul64hi"],
        "mulhi.ull": integers.FUNCTIONS["__nv_umul64hi"],
        "sad.i": integers.FUNCTIONS["__nv_sad"],
        "sad.ui": integers.FUNCTIONS["__nv_usad"],
        "prmt": DeviceFunction(I32, (I32,) * 3, lambda b, a: integers.permute_bytes(b, *a)),
    }
    if name in same:
        return same[name]
    source, target = parts[0].split("2")
    mode = MODES[parts[1]]
    return arithmetic.FUNCTIONS[f"__nv_{_KINDS[source]}2{_KINDS[target]}_{mode}"]


def _join(b: ir.IRBuilder, low: ir.Value, high: ir.Value) -> ir.Value:
    return from_bits(b, b.or_(b.shl(b.zext(high, I64), constant(I64, 32)), b.zext(low, I64)))
