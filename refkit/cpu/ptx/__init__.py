"""Host meanings of inline PTX.

`meaning(text, constraints, result_type, argument_types)` gives a function that computes what the assembly would. The
instructions are in `instructions/`, a file for each kind; `register` adds one of your own:

    from refkit.cpu import ptx

    @ptx.register(r"mul\\.wide\\.u8")
    def _mul_wide(frame, instruction):
        d, x, y = instruction.operands
        frame.write(d, frame.b.mul(frame.read(x, ptx.ptx_type("u16")), frame.read(y, ptx.ptx_type("u16"))))

Semantics are those of the PTX ISA 9.1. An instruction that a warp executes together (`mma.sync`, `ldmatrix`) hands its
registers to a function that serves all 32 lanes at once (`frame.collective`); one that waits, or that needs code of the
runtime's, calls it (`frame.device_call`).
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import pkgutil
import re
from dataclasses import dataclass

from llvmlite import ir

from refkit.cpu.device_library.build import I32, POINTER, VOID, module_text
from refkit.cpu.ptx import instructions, registry
from refkit.cpu.ptx.frame import Frame, reinterpret
from refkit.cpu.ptx.parse import Declaration, Instruction, UnknownInstruction, llvm_type, program, ptx_type
from refkit.cpu.ptx.parse import constraints as parse_constraints
from refkit.cpu.ptx.registry import register
from refkit.cpu.runtime.build import Library

__all__ = ["Frame", "Instruction", "Meaning", "UnknownInstruction", "meaning", "ptx_type", "register"]


@dataclass(frozen=True)
class Meaning:
    """A host function for one piece of inline PTX, whose main instruction is `opcode`.

    `definition` is IR text: `define linkonce_odr <result> @name(<arguments>)` and the declarations it needs. With
    `needs_thread` a first parameter `ptr %rk.thread` comes before the arguments, with `needs_site` then `i32 %rk.site`,
    the number of the place in the user's file. `needs_fiber`: the thread may wait there, or keeps state of its own.
    `libraries` hold functions that the definition calls.
    """

    name: str
    opcode: str
    definition: str
    needs_thread: bool
    needs_site: bool = False
    needs_fiber: bool = False
    libraries: tuple[Library, ...] = ()


def _load_instructions() -> None:
    for module in pkgutil.iter_modules(instructions.__path__):
        importlib.import_module(f"{instructions.__name__}.{module.name}")


_load_instructions()


def meaning(asm_text: str, constraints: str, result_type: str, argument_types: tuple[str, ...]) -> Meaning:
    """The host function that a call of this inline assembly is replaced by.

    Args:
        asm_text: PTX as in the IR, with operands `$0`, `$1`, ...; several statements and local registers may appear.
        constraints: LLVM's constraint string.
        result_type, argument_types: LLVM types of the call, as text.

    Raises:
        UnknownInstruction: names the instruction that has no host meaning.
    """
    return _meaning(asm_text, constraints, result_type.strip(), tuple(argument_types), registry.size())


@functools.cache
def _meaning(text: str, constraints: str, result_type: str, argument_types: tuple[str, ...], table: int) -> Meaning:
    digest = hashlib.sha256(repr((text, constraints, result_type, argument_types)).encode()).hexdigest()[:12]
    statements = program(text)
    opcode = _main_opcode([s.opcode for s in statements if isinstance(s, Instruction)])
    name = ".".join(("rk.ptx", re.sub(r"[^\w.]", "_", opcode), digest))
    signature = (constraints, result_type, argument_types)
    first = _define(ir.Module(), name, statements, *signature, threaded=True, sited=True)
    module = ir.Module()
    frame = _define(module, name, statements, *signature, threaded=first.uses_thread, sited=first.uses_site)
    libraries = tuple(sorted(frame.libraries, key=lambda library: library.name))
    return Meaning(name, opcode, module_text(module), frame.uses_thread, frame.uses_site, frame.needs_fiber, libraries)


def _main_opcode(opcodes: list[str]) -> str:
    """What a piece of assembly is there for: its first instruction that does more than set up registers."""
    beside = [opcode for opcode in opcodes if opcode.split(".")[0] not in ("setp", "selp", "mov", "cvta")]
    return (beside or opcodes or ["empty"])[0]


def _define(
    module: ir.Module,
    name: str,
    statements: list[Instruction | Declaration],
    constraints: str,
    result_type: str,
    argument_types: tuple[str, ...],
    *,
    threaded: bool,
    sited: bool,
) -> Frame:
    """Adds the function to the module; the frame knows what its body asks for."""
    result = llvm_type(result_type)
    types = [llvm_type(t) for t in argument_types]
    hidden = [POINTER] * threaded + [I32] * sited
    function = ir.Function(module, ir.FunctionType(result, hidden + types), name)
    function.linkage = "linkonce_odr"
    function.attributes.add("alwaysinline")
    function.attributes.add("nounwind")
    b = ir.IRBuilder(function.append_basic_block("entry"))
    for argument, label in zip(function.args, ["rk.thread"] * threaded + ["rk.site"] * sited):
        argument.name = label
    thread = function.args[0] if threaded else ir.Constant(POINTER, None)
    frame = Frame(b, thread, function.args[1] if sited else ir.Constant(I32, 0))
    outputs = _bind(frame, constraints, result, function.args[len(hidden) :])
    for statement in statements:
        if isinstance(statement, Declaration):
            frame.declare(statement)
        else:
            _emit(frame, statement)
    _return(frame, result, outputs)
    return frame


def _bind(frame: Frame, text: str, result: ir.Type, arguments: tuple[ir.Value, ...]) -> list[ir.Type]:
    """Names the operands `$0`, ...: outputs first, then inputs; a tied input gives its output the first value."""
    layout = parse_constraints(text)
    outputs = [] if result == VOID else list(result.elements) if isinstance(result, ir.LiteralStructType) else [result]
    if len(outputs) != layout.outputs or len(arguments) != len(layout.inputs):
        raise UnknownInstruction(text, "constraints that do not fit the types of the call")
    for i, type_ in enumerate(outputs):
        frame.types[f"${i}"] = type_
    for i, (argument, tied) in enumerate(zip(arguments, layout.inputs)):
        name = f"${len(outputs) + i}"
        frame.types[name] = argument.type
        frame.values[name] = argument
        if tied is not None:
            frame.values[f"${tied}"] = argument
    return outputs


def _emit(frame: Frame, instruction: Instruction) -> None:
    frame.guard(instruction)
    try:
        registry.emitter(instruction)(frame, instruction)
    except UnknownInstruction as unknown:
        raise UnknownInstruction(instruction.text, unknown.reason) from None
    except (KeyError, IndexError, ValueError) as error:
        raise UnknownInstruction(instruction.text, f"modifiers or operands that are not known ({error})") from error


def _return(frame: Frame, result: ir.Type, outputs: list[ir.Type]) -> None:
    b = frame.b
    if not outputs:
        b.ret_void()
        return
    values = [reinterpret(b, frame.read(f"${i}", type_), type_) for i, type_ in enumerate(outputs)]
    if not isinstance(result, ir.LiteralStructType):
        b.ret(values[0])
        return
    packed: ir.Value = ir.Constant(result, ir.Undefined)
    for i, value in enumerate(values):
        packed = b.insert_value(packed, value, i)
    b.ret(packed)
