"""mov, special registers, comparison and selection, and what only marks time (PTX ISA, "Special Registers")."""

from __future__ import annotations

import re

from llvmlite import ir

from refkit.cpu.device_library import approximate
from refkit.cpu.device_library.build import (
    F32,
    F64,
    I1,
    I32,
    I64,
    POINTER,
    VOID,
    constant,
    is_nan,
)
from refkit.cpu.ptx.frame import Frame
from refkit.cpu.ptx.parse import Instruction, UnknownInstruction, ptx_type, split
from refkit.cpu.ptx.registry import register

_CLOCK_MONOTONIC, _CLOCK_REALTIME = 1, 0
# The device that the executor is has one multiprocessor.
_FIXED = {"%smid": 0, "%nsmid": 1, "%gridid": 0, "%warpsize": 32, "WARP_SZ": 32}
_LANE_MASKS = {"lt", "le", "eq", "ge", "gt"}


def _nanoseconds(frame: Frame, clock: int) -> ir.Value:
    """The host's clock, as i64; all clocks of the device tick in nanoseconds."""
    b = frame.b
    with b.goto_entry_block():
        pair = b.alloca(ir.ArrayType(I64, 2))
    function = b.module.globals.get("clock_gettime")
    if function is None:
        function = ir.Function(b.module, ir.FunctionType(I32, [I32, POINTER]), "clock_gettime")
    b.call(function, [constant(I32, clock), pair])
    seconds, rest = (b.load(b.gep(pair, [constant(I32, i)], source_etype=I64), typ=I64) for i in range(2))
    return b.add(b.mul(seconds, constant(I64, 10**9)), rest)


def _lane_mask(frame: Frame, relation: str) -> ir.Value:
    b = frame.b
    lane = frame.device_call("rk.lane", I32)
    own = b.shl(constant(I32, 1), lane)
    below = b.sub(own, constant(I32, 1))
    return {
        "eq": lambda: own,
        "lt": lambda: below,
        "le": lambda: b.or_(own, below),
        "gt": lambda: b.not_(b.or_(own, below)),
        "ge": lambda: b.not_(below),
    }[relation]()


def special_register(frame: Frame, name: str) -> ir.Value | None:
    """The value of a special register (i32 or i64), or None for a name that is not one."""
    b = frame.b
    if name in _FIXED:
        return constant(I32, _FIXED[name])
    if match := re.fullmatch(r"%((?:tid|ntid|ctaid|nctaid)\.[xyz]|warpid)", name):
        return frame.device_call(f"nvvm.read.ptx.sreg.{match.group(1)}", I32)
    if name == "%laneid":
        return frame.device_call("rk.lane", I32)
    if name == "%nwarpid":
        threads = constant(I32, 31)
        product = constant(I32, 1)
        for axis in "xyz":
            product = b.mul(product, frame.device_call(f"nvvm.read.ptx.sreg.ntid.{axis}", I32))
        return b.udiv(b.add(product, threads), constant(I32, 32))
    if match := re.fullmatch(r"%lanemask_(\w\w)", name):
        return _lane_mask(frame, match.group(1)) if match.group(1) in _LANE_MASKS else None
    if name == "%dynamic_smem_size":
        return frame.device_call("rk.dynamic_shared_bytes", I32)
    if match := re.fullmatch(r"%(clock|globaltimer)(64|_lo|_hi)?", name):
        time = _nanoseconds(frame, _CLOCK_MONOTONIC if match.group(1) == "clock" else _CLOCK_REALTIME)
        if match.group(2) == "_hi":
            return b.trunc(b.lshr(time, constant(I64, 32)), I32)
        whole = match.group(2) == "64" or (match.group(1) == "globaltimer" and match.group(2) is None)
        return time if whole else b.trunc(time, I32)
    return None


@register(r"mov\.(pred|[bus](16|32|64)|f(32|64|16)|bf16|f16x2|bf16x2)")
def _move(frame: Frame, instruction: Instruction) -> None:
    target, source = instruction.operands
    type_ = ptx_type(instruction.parts[1])
    if target.startswith("{"):
        _scatter(frame, split(target[1:-1]), frame.read(source, type_))
    elif source.startswith("{"):
        frame.write(target, _gather(frame, split(source[1:-1]), type_))
    elif source.startswith("%") and not frame.is_register(source):
        value = special_register(frame, source)
        if value is None:
            raise UnknownInstruction(instruction.text, f"{source} is a special register that is not known")
        frame.write(target, value)
    else:
        frame.write(target, frame.read(source, type_))


def _scatter(frame: Frame, targets: list[str], value: ir.Value) -> None:
    """Cuts a register into equal parts, the lowest first."""
    b = frame.b
    whole = b.bitcast(value, {F32: I32, F64: I64}[value.type]) if value.type in (F32, F64) else value
    part = ir.IntType(whole.type.width // len(targets))
    for i, target in enumerate(targets):
        frame.write(target, b.trunc(b.lshr(whole, constant(whole.type, i * part.width)), part))


def _gather(frame: Frame, sources: list[str], type_: ir.Type) -> ir.Value:
    b = frame.b
    whole = {F32: I32, F64: I64}.get(type_, type_)
    part = ir.IntType(whole.width // len(sources))
    value: ir.Value = constant(whole, 0)
    for i, source in enumerate(sources):
        value = b.or_(value, b.shl(b.zext(frame.read(source, part), whole), constant(whole, i * part.width)))
    return value


_RELATIONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_UNSIGNED = {"lo": "<", "ls": "<=", "hi": ">", "hs": ">="}


def _compared(b: ir.IRBuilder, relation: str, x: ir.Value, y: ir.Value, signed: bool) -> ir.Value:
    if x.type in (F32, F64):
        if relation in ("num", "nan"):
            unordered = b.or_(is_nan(b, x), is_nan(b, y))
            return unordered if relation == "nan" else b.not_(unordered)
        if relation in _RELATIONS:
            return b.fcmp_ordered(_RELATIONS[relation], x, y)
        return b.fcmp_unordered(_RELATIONS[relation.removesuffix("u")], x, y)
    if relation in _UNSIGNED:
        return b.icmp_unsigned(_UNSIGNED[relation], x, y)
    return (b.icmp_signed if signed else b.icmp_unsigned)(_RELATIONS[relation], x, y)


@register(r"setp\.\w+(\.(and|or|xor))?(\.ftz)?\.([bus](16|32|64)|f(32|64))")
def _set_predicate(frame: Frame, instruction: Instruction) -> None:
    b = frame.b
    name = instruction.parts[-1]
    x, y = (frame.read(o, ptx_type(name)) for o in instruction.operands[1:3])
    if "ftz" in instruction.parts:
        x, y = approximate.flush(b, x), approximate.flush(b, y)
    true = _compared(b, instruction.parts[1], x, y, name.startswith("s"))
    first, _, second = instruction.operands[0].partition("|")
    combine = {"and": b.and_, "or": b.or_, "xor": b.xor}.get(instruction.parts[2])
    for target, value in ((first, true), (second, b.not_(true))):
        if target:
            frame.write(target, combine(value, frame.read(instruction.operands[3], I1)) if combine else value)


@register(r"selp\.([bus](16|32|64)|f(32|64))")
def _select(frame: Frame, instruction: Instruction) -> None:
    type_ = ptx_type(instruction.parts[1])
    x, y = (frame.read(o, type_) for o in instruction.operands[1:3])
    frame.write(instruction.operands[0], frame.b.select(frame.read(instruction.operands[3], I1), x, y))


@register(r"slct(\.ftz)?\.([bus](16|32|64)|f(32|64))\.(s32|f32)")
def _select_by_sign(frame: Frame, instruction: Instruction) -> None:
    b = frame.b
    type_, chooser = (ptx_type(part) for part in instruction.parts[-2:])
    x, y = (frame.read(o, type_) for o in instruction.operands[1:3])
    c = frame.read(instruction.operands[3], chooser)
    positive = (
        b.fcmp_ordered(">=", c, constant(F32, 0.0)) if chooser == F32 else b.icmp_signed(">=", c, constant(I32, 0))
    )
    frame.write(instruction.operands[0], b.select(positive, x, y))


@register(r"activemask\.b32")
def _active_mask(frame: Frame, instruction: Instruction) -> None:
    frame.write(instruction.operands[0], frame.device_call("rk.activemask", I32))


@register(r"nanosleep\.u32")
def _sleep(frame: Frame, instruction: Instruction) -> None:
    """Any time up to twice the number is allowed, none among them; other threads run."""
    if frame.predicate is None:
        frame.device_call("rk.yield", VOID)
    else:
        with frame.b.if_then(frame.predicate):
            frame.device_call("rk.yield", VOID)


@register(r"brkpt|pmevent(\.mask)?|prefetchu?(\.\w+)*|applypriority(\.[\w:]+)*|discard(\.[\w:]+)*")
def _nothing(frame: Frame, instruction: Instruction) -> None:
    """Hints, and a breakpoint with no debugger attached: no effect on values."""
