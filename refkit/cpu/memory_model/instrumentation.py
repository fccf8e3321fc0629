"""Adds a call before each access of a kernel in SSA form, with what tells the turns of the loops around it apart.

Lanes of a warp execute one instruction together where they stand at the same access in the same turn of every loop
around it: hardware brings lanes together again at the end of each branch and each loop. So each access passes, beside
its address, a number made of the turns of its loops, outermost first.
"""

import re
from dataclasses import dataclass
from typing import Any

from ..control_flow import LABEL, Function, Loop, parts
from ..debug_lines import Lines
from ..instrument import Pointers, access, size_of

_FACTOR = 0x9E3779B97F4A7C15 - (1 << 64)  # odd, so that turns of different loops do not cancel
_PHI = re.compile(r" = phi ")
_FROM_CONSTANT = re.compile(r"^\s+(%(?:\"[^\"]*\"|[-\w$.]+)) = getelementptr\b[^\n]*\bptr @")


@dataclass(frozen=True)
class AccessSite:
    """One instruction that accesses memory: where it stands in the user's file, and what each lane moves."""

    file: str
    line: int
    access: str  # "read", "write" or "atomic"
    bytes_per_lane: int


PASSES = ("new_gvn", "instruction_combine", "simplify_cfg", "loop_simplify")
"""What the device's compiler is sure to do as well: an element that is read twice in a row is one access."""


def inline_all(module: Any, passes: Any) -> None:
    """Makes every function of a parsed module part of its callers, so that each access knows all loops around it."""
    for function in module.functions:
        if not function.is_declaration and not function.name.startswith(("___numba_atomic", "rk.")):
            attributes = list(function.attributes)
            if not any(b"noinline" in attribute or b"optnone" in attribute for attribute in attributes):
                function.add_function_attribute("alwaysinline")
    passes.add_always_inliner_pass()


def instrument(text: str, sites: list[AccessSite], default_file: str) -> str:
    """IR text with a call `rk.trace(thread, site, address, turn)` before each access that is not the thread's own.

    Each access is appended to `sites`.
    """
    lines = Lines(text, default_file)
    out: list[str] = []
    for define, body in parts(text):
        # the loops inside numba-cuda's atomic helpers are one atomic where the helper is called
        if not define or "@___numba_atomic" in define or "@rk." in define:
            out.extend([define, *body] if define else body)
        else:
            out.extend([define, *_instrumented(body, lines, sites)])
    return "\n".join(out)


def _instrumented(body: list[str], lines: Lines, sites: list[AccessSite]) -> list[str]:
    function = Function(body)
    pointers = Pointers(body)
    constants = {match.group(1) for line in body if (match := _FROM_CONSTANT.match(line))}
    loops = [loop for loop in function.loops() if _is_natural(function, loop)]
    headers = {loop.header: loop for loop in loops}
    predecessors = _predecessors(function)
    out: list[str] = []
    for label in function.order:
        block = function.blocks[label]
        first = max((i + 1 for i, line in enumerate(block) if _PHI.search(line)), default=bool(LABEL.match(block[0])))
        enclosing = sorted((loop for loop in loops if label in loop.body), key=lambda loop: -len(loop.body))
        head = int(bool(LABEL.match(block[0])))
        out.extend(block[:head])
        if label in headers:
            out.append(_turn(headers[label], predecessors[label]))
        out.extend(block[head:first])
        if label in headers:
            out.extend(_key(enclosing))
        turn = _named("key", enclosing[-1].header) if enclosing else "0"
        for line in block[first:]:
            out.extend(_call(line, turn, pointers, constants, lines, sites))
            out.append(line)
    return out


def _predecessors(function: Function) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for label, targets in function.successors.items():
        for target in dict.fromkeys(targets):
            found.setdefault(target, []).append(label)
    return found


def _is_natural(function: Function, loop: Loop) -> bool:
    """Whether a loop is entered at its header alone; turns of any other cannot be counted there."""
    outside = (label for label in function.order if label not in loop.body)
    entered = {target for label in outside for target in function.successors[label] if target in loop.body}
    return entered == {loop.header}


def _named(what: str, label: str) -> str:
    return f'%"rk.{what}.' + label.strip('"') + '"'


def _turn(loop: Loop, predecessors: list[str]) -> str:
    """The phi that counts a loop's turns from 0."""
    following = _named("next", loop.header)
    ways = ", ".join(f"[ {following if label in loop.body else 0}, %{label} ]" for label in predecessors)
    return f"  {_named('turn', loop.header)} = phi i64 {ways}"


def _key(enclosing: list[Loop]) -> list[str]:
    """What follows the phis of the innermost of the loops: the next turn, and the number made of all turns."""
    loop = enclosing[-1]
    turn, key = _named("turn", loop.header), _named("key", loop.header)
    lines = [f"  {_named('next', loop.header)} = add i64 {turn}, 1"]
    outer = _named("key", enclosing[-2].header) if len(enclosing) > 1 else "0"
    scaled = _named("scaled", loop.header)
    return [*lines, f"  {scaled} = mul i64 {outer}, {_FACTOR}", f"  {key} = add i64 {scaled}, {turn}"]


def _call(
    line: str, turn: str, pointers: Pointers, constants: set[str], lines: Lines, sites: list[AccessSite]
) -> list[str]:
    found = access(line)
    if found is None or found[2].startswith("@"):
        return []
    operation, kind, pointer = found
    roots = pointers.roots(pointer)
    if roots and roots <= set(pointers.allocas) | constants:
        return []  # the thread's own memory, or constants
    file, number = lines.location(line)
    site = len(sites)
    sites.append(AccessSite(file, number, operation, size_of(kind)))
    return [
        f"  %rk.traced.{site} = ptrtoint ptr {pointer} to i64",
        f"  call void @rk.trace(ptr %rk.thread, i32 {site}, i64 %rk.traced.{site}, i64 {turn})",
    ]
