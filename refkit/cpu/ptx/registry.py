"""The table of PTX instructions: an opcode pattern, and what emits it."""

from __future__ import annotations

import re
from collections.abc import Callable

from refkit.cpu.ptx.frame import Frame
from refkit.cpu.ptx.parse import Instruction, UnknownInstruction

Emitter = Callable[[Frame, Instruction], None]

_TABLE: list[tuple[re.Pattern[str], Emitter]] = []


def register(pattern: str) -> Callable[[Emitter], Emitter]:
    """Decorator: this function emits every instruction whose whole opcode matches the regular expression.

    The function reads operands with `frame.read(instruction.operands[1], type)`, builds on `frame.b` (an llvmlite
    IRBuilder) and assigns with `frame.write(instruction.operands[0], value)`. Where patterns overlap the one
    registered last holds, so that a program can add or replace instructions. It raises UnknownInstruction
    for a modifier that it does not know.
    """

    def add(emit: Emitter) -> Emitter:
        _TABLE.append((re.compile(pattern), emit))
        return emit

    return add


def emitter(instruction: Instruction) -> Emitter:
    """What emits the instruction; raises UnknownInstruction."""
    for pattern, emit in reversed(_TABLE):
        if pattern.fullmatch(instruction.opcode):
            return emit
    raise UnknownInstruction(instruction.text)


def size() -> int:
    """How many patterns are registered: a cached meaning holds only for the table it was made with."""
    return len(_TABLE)
