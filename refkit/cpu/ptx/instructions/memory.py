"""Loads, stores, atomics and fences (PTX ISA, "Data Movement", "Memory Consistency Model").

State spaces are all host memory; cache operators and eviction hints have no effect on values. A volatile, relaxed or
acquire load is an atomic of that order, and likewise a store.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

from llvmlite import ir

from refkit.cpu.device_library.build import F32, F64, I32, I64, VOID, constant
from refkit.cpu.ptx.frame import Frame, reinterpret
from refkit.cpu.ptx.parse import Instruction, UnknownInstruction, ptx_type, split
from refkit.cpu.ptx.registry import register

_SPACE = r"(\.(global|shared|shared::cta|local|const))?"
_HINTS = r"(\.(ca|cg|cs|lu|cv|wb|wt|nc|L1::\w+|L2::\w+|level::\w+))*"
_ORDER = r"(\.(weak|volatile|relaxed|acquire|release|acq_rel))?(\.(cta|cluster|gpu|sys))?"
_VALUE = r"(\.v[248])?\.([bus](8|16|32|64)|f(32|64))"
_ORDERS = {
    "volatile": "monotonic",
    "relaxed": "monotonic",
    "acquire": "acquire",
    "release": "release",
    "acq_rel": "acq_rel",
}


def _order(instruction: Instruction) -> str | None:
    return next((_ORDERS[part] for part in instruction.parts if part in _ORDERS), None)


def _is_shared(instruction: Instruction) -> bool:
    return any(part.startswith("shared") for part in instruction.parts)


def _guarded(frame: Frame, effect: Callable[[], None]) -> None:
    """Runs the emitter of a side effect under the instruction's predicate."""
    with frame.b.if_then(frame.predicate) if frame.predicate is not None else nullcontext():
        effect()


@register(rf"ld{_ORDER}{_SPACE}{_HINTS}{_VALUE}")
def _load(frame: Frame, instruction: Instruction) -> None:
    b = frame.b
    if frame.predicate is not None:
        raise UnknownInstruction(instruction.text, "a load under a predicate")
    name = instruction.parts[-1]
    type_ = ptx_type(name)
    address = frame.address(instruction.operands[1])
    order = _order(instruction)
    target = instruction.operands[0]
    targets = split(target[1:-1]) if target.startswith("{") else [target]
    frame.touch("atomic" if order else "read", address, len(targets) * _bytes(type_), shared=_is_shared(instruction))
    for i, register_ in enumerate(targets):
        place = b.gep(address, [constant(I32, i)], source_etype=type_)
        if order:
            integer = _integer(type_)
            value = reinterpret(b, b.load_atomic(place, order, integer.width // 8, typ=integer), type_)
        else:
            value = b.load(place, typ=type_)
        if name.startswith("s") and value.type != I64:
            value = b.sext(value, I64)
        frame.write(register_, value)


@register(rf"st{_ORDER}{_SPACE}{_HINTS}{_VALUE}")
def _store(frame: Frame, instruction: Instruction) -> None:
    b = frame.b
    type_ = ptx_type(instruction.parts[-1])
    order = _order(instruction)
    source = instruction.operands[1]

    def effect() -> None:
        address = frame.address(instruction.operands[0])
        sources = split(source[1:-1]) if source.startswith("{") else [source]
        size, shared = len(sources) * _bytes(type_), _is_shared(instruction)
        frame.touch("atomic" if order else "write", address, size, shared=shared)
        for i, operand in enumerate(sources):
            place = b.gep(address, [constant(I32, i)], source_etype=type_)
            value = frame.read(operand, type_)
            if order:
                integer = _integer(type_)
                b.store_atomic(reinterpret(b, value, integer), place, order, integer.width // 8)
            else:
                b.store(value, place)

    _guarded(frame, effect)


def _integer(type_: ir.Type) -> ir.IntType:
    return {F32: I32, F64: I64}.get(type_, type_)


def _bytes(type_: ir.Type) -> int:
    return int(_integer(type_).width) // 8


_OPERATIONS = {"add": "add", "and": "and", "or": "or", "xor": "xor", "exch": "xchg"} | {
    "inc": "uinc_wrap",
    "dec": "udec_wrap",
}
_ATOMIC = rf"{_ORDER}{_SPACE}\.(add|and|or|xor|exch|inc|dec|min|max|cas)\.([bus](16|32|64)|f(32|64))"


def _atomic(frame: Frame, instruction: Instruction, address: str, operands: tuple[str, ...]) -> ir.Value:
    b = frame.b
    operation, name = instruction.parts[-2:]
    type_ = ptx_type(name)
    order = _order(instruction) or "monotonic"
    place = frame.address(address)
    frame.touch("atomic", place, _bytes(type_), shared=_is_shared(instruction))
    if operation == "cas":
        expected, new = (frame.read(o, type_) for o in operands)
        weaker = {"acq_rel": "acquire", "release": "monotonic"}.get(order, order)
        return b.extract_value(b.cmpxchg(place, expected, new, order, weaker), 0)
    value = frame.read(operands[0], type_)
    if operation in ("min", "max"):
        llvm_name = operation if name.startswith("s") else "u" + operation
    else:
        llvm_name = "fadd" if type_ in (F32, F64) and operation == "add" else _OPERATIONS[operation]
    return b.atomic_rmw(llvm_name, place, value, order)


@register(rf"atom{_ATOMIC}")
def _atomic_value(frame: Frame, instruction: Instruction) -> None:
    if frame.predicate is not None:
        raise UnknownInstruction(instruction.text, "an atomic with a result under a predicate")
    target, address, *operands = instruction.operands
    frame.write(target, _atomic(frame, instruction, address, tuple(operands)))


@register(rf"red{_ATOMIC}")
def _reduce(frame: Frame, instruction: Instruction) -> None:
    address, *operands = instruction.operands
    _guarded(frame, lambda: _atomic(frame, instruction, address, tuple(operands)) and None)


@register(r"(membar\.(cta|gl|sys)|fence(\.(sc|acq_rel))?\.(cta|cluster|gpu|sys))")
def _fence(frame: Frame, instruction: Instruction) -> None:
    scope = instruction.parts[-1]
    frame.device_call(f"nvvm.membar.{scope if scope in ('cta', 'sys') else 'gl'}", VOID)
