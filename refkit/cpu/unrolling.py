"""Asks LLVM to unroll the short loops that index a local array.

Only constant indices let the array live in registers, as with ptxas.
"""

import re

from .control_flow import DEFINITION, OPERAND, Function, Loop, parts
from .loops import ending

_LOCAL_ARRAY = re.compile(r"= alloca \[")
_INDEX_ARITHMETIC = re.compile(r"(add|sub|mul|shl|or|xor|and|zext|sext|trunc|select|icmp|getelementptr)\b")
_MOST_UNROLLED = 64 + 2  # turns; an ending counts up to two too many
_UNROLL_IN_FULL = '!1000 = !{!"llvm.loop.unroll.full"}'
_FIRST_LOOP_METADATA = 1001


def unroll_local_arrays(text: str) -> str:
    """The text with a request to unroll the short loops whose counter indexes a local array."""
    out: list[str] = []
    metadata: list[str] = []
    for define, body in parts(text):
        out.extend([define, *_with_unrolling(body, metadata)] if define else body)
    return "\n".join([*out, *metadata, *([_UNROLL_IN_FULL] if metadata else [])])


def _with_unrolling(text_lines: list[str], metadata: list[str]) -> list[str]:
    found = (DEFINITION.match(line) for line in text_lines if _LOCAL_ARRAY.search(line))
    arrays = {match.group(1) for match in found if match}
    if not arrays:
        return text_lines
    function = Function(text_lines)
    for loop in function.loops():
        end = ending(function, loop)
        if end is None or (end.turns or 1 << 63) > _MOST_UNROLLED or not _indexes(function, loop, arrays):
            continue
        number = _FIRST_LOOP_METADATA + len(metadata)
        metadata.append(f"!{number} = distinct !{{!{number}, !1000}}")
        for latch in loop.latches:
            block = function.blocks[latch]
            position = max(i for i, line in enumerate(block) if line.startswith("  br "))
            block[position] += f", !llvm.loop !{number}"
    return list(function.lines())


def _indexes(function: Function, loop: Loop, arrays: set[str]) -> bool:
    """Whether a local array is indexed by what is computed from the loop's counters."""
    phis = [line for line in function.blocks[loop.header] if " = phi i" in line]
    derived = {match.group(1) for line in phis if (match := DEFINITION.match(line))}
    lines = function.text(loop.body).splitlines()
    for _ in range(4):  # blocks need not stand in the order of the data flow
        before = len(derived)
        for line in lines:
            match = DEFINITION.match(line)
            if not match or not _INDEX_ARITHMETIC.match(match.group(2)):
                continue
            operands = set(OPERAND.findall(match.group(2)))
            if match.group(2).startswith("getelementptr") and operands & arrays and operands & derived:
                return True
            if operands & derived:
                derived.add(match.group(1))
        if len(derived) == before:
            break
    return False
