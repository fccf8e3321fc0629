"""Bulk copies and the async proxy's fence (PTX ISA 9.1, "cp.async.bulk", "cp.async.bulk.tensor", "fence.proxy").

`runtime/bulk_copies.py` says when a copy is carried out.
"""

from __future__ import annotations

import re
from contextlib import nullcontext

from llvmlite import ir
from numba.cuda import types

from refkit.cpu.device_library.build import I32, I64, VOID, constant
from refkit.cpu.ptx.frame import Frame, reinterpret
from refkit.cpu.ptx.parse import Instruction, UnknownInstruction, split
from refkit.cpu.ptx.registry import register
from refkit.cpu.runtime import async_proxy, bulk_copies
from refkit.cpu.runtime.build import Library
from refkit.cpu.runtime.primitives import words_type

_i32, _i64 = types.int32, types.int64
_AT = (words_type, _i32)
LIBRARY = Library(
    "bulk copies",
    (
        ("rk.bulk.load", bulk_copies.start_load, types.void, (*_AT, _i64, _i64, _i64, _i64)),
        ("rk.bulk.store", bulk_copies.start_store, types.void, (*_AT, _i64, _i64, _i64)),
        ("rk.bulk.load.box", bulk_copies.start_box_load, types.void, (*_AT, _i64, _i64, _i64, _i64, _i64)),
        ("rk.bulk.store.box", bulk_copies.start_box_store, types.void, (*_AT, _i64, _i64, _i64, _i64)),
        ("rk.bulk.commit", bulk_copies.commit_stores, types.void, _AT),
        ("rk.bulk.wait", bulk_copies.wait_stores, types.void, (*_AT, _i64, _i64)),
        ("rk.fence.proxy.async", async_proxy.fence_proxy, types.void, _AT),
    ),
)
_HINT = r"(\.L2::cache_hint)?"
_BOX = re.compile(r"\[\s*([^,\s]+)\s*,\s*\{([^}]*)\}\s*\]")


def _effect(frame: Frame, name: str, *values: ir.Value) -> None:
    frame.needs_fiber = True
    with frame.b.if_then(frame.predicate) if frame.predicate is not None else nullcontext():
        frame.device_call(name, VOID, frame.site, *values, library=LIBRARY)


def _address(frame: Frame, operand: str) -> ir.Value:
    return reinterpret(frame.b, frame.address(operand), I64)


def _box(frame: Frame, operand: str) -> tuple[ir.Value, list[ir.Value]]:
    """The address of the tensor map and the coordinates of `[map, {x, y}]`."""
    match = _BOX.fullmatch(operand)
    if not match:
        raise UnknownInstruction(operand, "not a tensor map with coordinates")
    coordinates = [frame.b.sext(frame.read(name, I32), I64) for name in split(match.group(2))]
    return _address(frame, f"[{match.group(1)}]"), coordinates


@register(rf"cp\.async\.bulk\.shared::(cluster|cta)\.global\.mbarrier::complete_tx::bytes{_HINT}")
def _load(frame: Frame, instruction: Instruction) -> None:
    destination, source, size, barrier, *_ = instruction.operands
    places = [_address(frame, operand) for operand in (destination, source)]
    count = frame.b.zext(frame.read(size, I32), I64)
    _effect(frame, "rk.bulk.load", *places, count, _address(frame, barrier))


@register(rf"cp\.async\.bulk\.global\.shared::cta\.bulk_group{_HINT}")
def _store(frame: Frame, instruction: Instruction) -> None:
    destination, source, size, *_ = instruction.operands
    places = [_address(frame, operand) for operand in (destination, source)]
    _effect(frame, "rk.bulk.store", *places, frame.b.zext(frame.read(size, I32), I64))


@register(rf"cp\.async\.bulk\.tensor\.2d\.shared::(cluster|cta)\.global(\.tile)?\.mbarrier::complete_tx::bytes{_HINT}")
def _load_box(frame: Frame, instruction: Instruction) -> None:
    destination, box, barrier, *_ = instruction.operands
    tensor_map, (x, y) = _box(frame, box)
    _effect(frame, "rk.bulk.load.box", _address(frame, destination), tensor_map, x, y, _address(frame, barrier))


@register(rf"cp\.async\.bulk\.tensor\.2d\.global\.shared::cta(\.tile)?\.bulk_group{_HINT}")
def _store_box(frame: Frame, instruction: Instruction) -> None:
    box, source, *_ = instruction.operands
    tensor_map, (x, y) = _box(frame, box)
    _effect(frame, "rk.bulk.store.box", tensor_map, x, y, _address(frame, source))


@register(r"cp\.async\.bulk\.commit_group")
def _commit(frame: Frame, instruction: Instruction) -> None:
    _effect(frame, "rk.bulk.commit")


@register(r"cp\.async\.bulk\.wait_group(\.read)?")
def _wait(frame: Frame, instruction: Instruction) -> None:
    pending = constant(I64, int(instruction.operands[0], 0))
    _effect(frame, "rk.bulk.wait", pending, constant(I64, int(instruction.parts[-1] == "read")))


@register(r"fence\.proxy\.async(\.(global|shared::(cta|cluster)))?")
def _fence(frame: Frame, instruction: Instruction) -> None:
    _effect(frame, "rk.fence.proxy.async")


@register(r"fence\.proxy\.tensormap::generic\.(acquire|release)\.(cta|cluster|gpu|sys)")
def _fence_tensor_map(frame: Frame, instruction: Instruction) -> None:
    """Maps come from the host before the launch: nothing is left to order."""
