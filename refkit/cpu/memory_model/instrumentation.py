"""Adds a call before each access of a kernel in SSA form, with what tells the turns of the loops around it apart.

Lanes of a warp execute one instruction together where they stand at the same access in the same turn of every loop
around it: hardware brings lanes together again at the end of each branch and each loop. So each access passes, beside
its address, a number made of the turns of its loops, outermost first.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ..control_flow import LABEL, Function, Loop, parts
from ..debug_lines import Lines
from ..instrument import access, size_of
from ..pointers import Pointers

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


_OWN = ", !rk.own !{}"
"""Marks what the host meaning of an inline instruction reads and writes itself; its `rk.touch` says what the device
does instead."""
_MEMORY = re.compile(r"^(\s+(?:%\S+ = )?(?:load|store|atomicrmw|cmpxchg) .*?)\s*$", re.MULTILINE)
_TOUCH = re.compile(
    r"^\s+(?:tail )?call void @rk\.touch\.(?:shared_)?(?P<access>\w+)"
    r"\(ptr [^,]*, i32 (?P<site>\d+), ptr (?:\w+ )*(?P<pointer>%(?:\"[^\"]*\"|[-\w$.]+)), i64 (?P<size>\d+)\)"
)
_COPY = re.compile(
    r"^\s+(?:tail )?call void @rk\.copy\.start\(ptr [^,]*, i32 (?P<site>\d+), i64 (?P<to>[^,]+), i64 (?P<from>[^,]+), "
    r"i64 (?P<size>\d+), i64 (?P<read>[^,)]+)\)"
)
_DECLARED = re.compile(r"^declare [^@\n]*@(\"[^\"]*\"|[-\w$.]+)\(")
_DEFINED = re.compile(r"^define [^@\n]*@(\"[^\"]*\"|[-\w$.]+)\(", re.MULTILINE)


def with_definitions(text: str, definitions: Iterable[str]) -> str:
    """IR text together with the host meanings of its inline instructions, to be inlined: each may lie in a loop."""
    added = "\n".join(_MEMORY.sub(rf"\1{_OWN}", definition) for definition in definitions)
    if not added:
        return text
    seen = set(_DEFINED.findall(text)) | set(_DEFINED.findall(added))
    kept = []
    for line in f"{text}\n{added}".splitlines():
        if match := _DECLARED.match(line):
            if match.group(1) in seen:
                continue
            seen.add(match.group(1))
        kept.append(line)
    return "\n".join(kept)


def without_definitions(text: str) -> str:
    """IR text without the definitions that were inlined: they are added again, in full, when the kernel is linked."""
    return re.sub(r"^define [^@\n]*@\"?rk\.ptx\.[^\n]*\n.*?^\}\n?", "", text, flags=re.MULTILINE | re.DOTALL)


def inline_all(module: Any, passes: Any) -> None:
    """Makes every function of a parsed module part of its callers, so that each access knows all loops around it."""
    for function in module.functions:
        if not function.is_declaration and not function.name.startswith(("___numba_atomic", "rk.")):
            attributes = list(function.attributes)
            if not any(b"noinline" in attribute or b"optnone" in attribute for attribute in attributes):
                function.add_function_attribute("alwaysinline")
    passes.add_always_inliner_pass()


def instrument(text: str, sites: list[AccessSite], default_file: str, places: list[tuple[str, int]]) -> str:
    """IR text with a call `rk.trace(thread, site, address, turn)` before each access that is not the thread's own.

    Each access is appended to `sites`. places: (file, line) by the numbers that inline instructions go by.
    """
    lines = Lines(text, default_file)
    out: list[str] = []
    for define, body in parts(text):
        # the loops inside numba-cuda's atomic helpers are one atomic where the helper is called
        if not define or "@___numba_atomic" in define or "@rk." in define:
            out.extend([define, *body] if define else body)
        else:
            out.extend([define, *_instrumented(body, lines, sites, places)])
    return "\n".join(out)


def _instrumented(body: list[str], lines: Lines, sites: list[AccessSite], places: list[tuple[str, int]]) -> list[str]:
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
            if copy := _COPY.match(line):
                out.extend(_copied(copy, turn, sites, places))
            elif found := _touched(line, places) or _accessed(line, pointers, constants, lines):
                out.extend(_call(*found, turn, sites))
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


def _touched(line: str, places: list[tuple[str, int]]) -> tuple[AccessSite, str] | None:
    """What an inline instruction says about its access, and the pointer."""
    match = _TOUCH.match(line)
    if match is None:
        return None
    file, number = places[int(match["site"])]
    return AccessSite(file, number, match["access"], int(match["size"])), match["pointer"]


def _accessed(line: str, pointers: Pointers, constants: set[str], lines: Lines) -> tuple[AccessSite, str] | None:
    """What a load, store or atomic accesses, and the pointer; None for constants and the thread's own memory."""
    found = access(line)
    if found is None or found[2].startswith("@") or "!rk.own" in line:
        return None
    operation, kind, pointer = found
    roots = pointers.roots(pointer)
    if roots and roots <= set(pointers.allocas) | constants:
        return None
    file, number = lines.location(line)
    return AccessSite(file, number, operation, size_of(kind)), pointer


def _copied(copy: re.Match[str], turn: str, sites: list[AccessSite], places: list[tuple[str, int]]) -> list[str]:
    """The read and the write of an asynchronous copy from global to shared memory."""
    file, number = places[int(copy["site"])]
    out = []
    for access_kind, address, count in (("read", copy["from"], copy["read"]), ("write", copy["to"], copy["size"])):
        arguments = f"ptr %rk.thread, i32 {len(sites)}, i64 {address}, i64 {turn}, i64 {count}"
        out.append(f"  call void @rk.trace.some({arguments})")
        sites.append(AccessSite(file, number, access_kind, int(copy["size"])))
    return out


def _call(site: AccessSite, pointer: str, turn: str, sites: list[AccessSite]) -> list[str]:
    number = len(sites)
    sites.append(site)
    return [
        f"  %rk.traced.{number} = ptrtoint ptr {pointer} to i64",
        f"  call void @rk.trace(ptr %rk.thread, i32 {number}, i64 %rk.traced.{number}, i64 {turn})",
    ]
