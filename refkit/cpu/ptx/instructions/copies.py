"""`cp.async` and its groups (PTX ISA 9.1, "Data Movement: cp.async"); `runtime/copies.py` says when a copy arrives."""

from __future__ import annotations

from contextlib import nullcontext

from numba.cuda import types

from refkit.cpu.device_library.build import I32, I64, VOID, constant
from refkit.cpu.ptx.frame import Frame, reinterpret
from refkit.cpu.ptx.parse import Instruction, UnknownInstruction
from refkit.cpu.ptx.registry import register
from refkit.cpu.runtime import copies
from refkit.cpu.runtime.build import Library
from refkit.cpu.runtime.primitives import words_type

_i32, _i64 = types.int32, types.int64
LIBRARY = Library(
    "cp.async",
    (
        ("rk.copy.start", copies.start_copy, types.void, (words_type, _i32, _i64, _i64, _i64, _i64)),
        ("rk.copy.commit", copies.commit_group, types.void, (words_type,)),
        ("rk.copy.wait", copies.wait_group, types.void, (words_type, _i32)),
        ("rk.copy.wait_all", copies.wait_all, types.void, (words_type,)),
    ),
)
_SIZES = {"ca": (4, 8, 16), "cg": (16,)}


@register(r"cp\.async\.(ca|cg)\.shared(::cta)?\.global(\.L2::(cache_hint|64B|128B|256B))*")
def _start(frame: Frame, instruction: Instruction) -> None:
    destination, source, size, *rest = instruction.operands
    if "cache_hint" in instruction.opcode:
        rest = rest[:-1]  # the policy changes no value
    if int(size, 0) not in _SIZES[instruction.parts[2]] or len(rest) > 1:
        raise UnknownInstruction(instruction.text, "a size or ignore-src that is not known")
    b = frame.b
    frame.needs_fiber = True
    total = constant(I64, int(size, 0))
    read = b.zext(frame.read(rest[0], I32), I64) if rest else total
    addresses = [reinterpret(b, frame.address(operand), I64) for operand in (destination, source)]
    with b.if_then(frame.predicate) if frame.predicate is not None else nullcontext():
        frame.device_call("rk.copy.start", VOID, frame.site, *addresses, total, read, library=LIBRARY)


@register(r"createpolicy\.fractional\.L2::evict_(first|last|normal|unchanged)(\.L2::evict_\w+)?\.b64")
def _create_policy(frame: Frame, instruction: Instruction) -> None:
    """A policy is opaque, and nothing on the host looks at it."""
    frame.write(instruction.operands[0], constant(I64, 0))


def _call(frame: Frame, instruction: Instruction, name: str, *pending: str) -> None:
    frame.needs_fiber = True
    counts = [constant(I32, int(count, 0)) for count in pending]
    with frame.b.if_then(frame.predicate) if frame.predicate is not None else nullcontext():
        frame.device_call(name, VOID, *counts, library=LIBRARY)


@register(r"cp\.async\.commit_group")
def _commit(frame: Frame, instruction: Instruction) -> None:
    _call(frame, instruction, "rk.copy.commit")


@register(r"cp\.async\.wait_group")
def _wait(frame: Frame, instruction: Instruction) -> None:
    _call(frame, instruction, "rk.copy.wait", instruction.operands[0])


@register(r"cp\.async\.wait_all")
def _wait_all(frame: Frame, instruction: Instruction) -> None:
    _call(frame, instruction, "rk.copy.wait_all")
