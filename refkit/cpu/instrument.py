"""Adds the sanitizers' calls to the text of a kernel in SSA form: before each access, and beside each local array.

Memory that is provably the thread's own (its stack) is left alone, except for local arrays (`local_arrays`).
"""

import re

from .accumulators import Accumulators
from .debug_lines import Lines
from .faults import Unsupported
from .local_arrays import Shadows
from .pointers import NAME as _NAME
from .pointers import Pointers

_LOAD = re.compile(
    rf"^\s+%({_NAME}) = load (?:atomic )?(?:volatile )?(?P<type>\{{[^}}]*\}}|[^,]+), ptr (?P<pointer>[%@]{_NAME})"
)
_STORE = re.compile(
    r"^\s+store (?:atomic )?(?:volatile )?(?P<type><[^>]*>|\[[^%]*\]|\{[^}]*\}|\S+) [^\n]*?, "
    rf"ptr (?P<pointer>[%@]{_NAME})"
)
_RMW = re.compile(rf"^\s+%({_NAME}) = atomicrmw (?:volatile )?\w+ ptr (?P<pointer>[%@]{_NAME}), (?P<type>\w+) ")
_CMPXCHG = re.compile(rf"^\s+%({_NAME}) = cmpxchg (?:weak )?(?:volatile )?ptr (?P<pointer>[%@]{_NAME}), (?P<type>\w+) ")
_ATOMIC_CALL = re.compile(
    rf"^\s+%({_NAME}) = (?:tail )?call (?P<type>\w+) @(?:rk\.atomic\.|nvvm\.atomic\.|___numba_atomic_)[\w.]*"
    rf"\((?:ptr %rk\.thread, )?ptr (?:\w+ )*(?P<pointer>[%@]{_NAME})"
)
_ACCESSES = (
    (_LOAD, "read"),
    (_STORE, "write"),
    (_RMW, "atomic"),
    (_CMPXCHG, "atomic"),
    (_ATOMIC_CALL, "atomic"),
)
_BOUNDS = re.compile(
    r"^(?P<head>\s+call void @rk\.bounds\(ptr %rk\.thread, i32 \d+, )ptr (?:\w+ )*"
    rf"(?P<pointer>[%@]{_NAME})(?P<tail>,.*)$"
)
_BYTES = {
    "i1": 1,
    "i8": 1,
    "i16": 2,
    "half": 2,
    "bfloat": 2,
    "i32": 4,
    "float": 4,
    "i64": 8,
    "double": 8,
    "ptr": 8,
    "i128": 16,
}


def instrument(text: str, sites: list[tuple[str, int]], default_file: str) -> str:
    """IR text of a kernel with the sanitizers' calls; the place of each is appended to `sites`."""
    lines = Lines(text, default_file)
    out: list[str] = []
    body: list[str] | None = None
    for line in text.splitlines():
        if line.startswith("define "):
            out.append(line)
            # the compare-and-swap loops of numba-cuda's helpers are checked as one atomic where they are called
            body = None if "@___numba_atomic" in line or "@rk." in line else []
        elif body is not None and line == "}":
            out.extend(_Function(body, lines, sites).instrumented())
            out.append(line)
            body = None
        elif body is not None:
            body.append(line)
        else:
            out.append(line)
    return "\n".join(out)


def access(line: str) -> tuple[str, str, str] | None:
    """`(operation, LLVM type, pointer)` of an instruction that accesses memory (read, write, atomic), or None."""
    for pattern, operation in _ACCESSES:
        if match := pattern.match(line):
            return operation, match["type"], match["pointer"]
    return None


class _Function:
    """One function and its instrumented lines."""

    def __init__(self, body: list[str], lines: Lines, sites: list[tuple[str, int]]) -> None:
        self.body, self.lines, self.sites = body, lines, sites
        self.pointers = Pointers(body)
        self.accumulators = Accumulators(body)
        self.shadows = Shadows(body, self.pointers, lambda line: (access(line) or ("", "", ""))[2])

    def instrumented(self) -> list[str]:
        out: list[str] = []
        for line in self.body:
            if match := _BOUNDS.match(line):
                # the address of a local array must not escape: LLVM could no longer keep it in registers
                if self.pointers.roots(match["pointer"]) & set(self.pointers.allocas):
                    line = f"{match['head']}ptr null{match['tail']}"
                out.append(line)
                continue
            out += [*self._before(line), line, *self.shadows.beside(line)]
        return out

    def _before(self, line: str) -> list[str]:
        """The calls that stand before an instruction."""
        found = access(line)
        return self._check(line, *found) if found else self._product(line)

    def _product(self, line: str) -> list[str]:
        """The checks of what a `wgmma` takes as its accumulator."""
        pointers, adds, place = self.accumulators.operands(line)
        out: list[str] = []
        for pointer in pointers:
            if shadow := self.shadows.of(pointer):
                self.sites.append(self.sites[place])
                site = len(self.sites) - 1
                out += self._tag(shadow, site)
                arguments = f"i32 {site}, i32 %rk.tag.{site}, i32 {adds}"
                out.append(f"  call void @rk.accumulator.operand(ptr %rk.thread, {arguments})")
        return out

    def _tag(self, shadow: str, site: int) -> list[str]:
        return [f"  %rk.byte.{site} = load i8, ptr {shadow}", f"  %rk.tag.{site} = zext i8 %rk.byte.{site} to i32"]

    def _check_accumulator(self, line: str, operation: str, shadow: str) -> list[str]:
        """Accesses to a local array of one-element kind in a function with products: tags instead of ones."""
        if self.accumulators.feeds_products_only(line):
            return []
        site = self._site(line)
        if operation == "write" and self.accumulators.stores_result(line):
            kind, out = "group", []
        else:
            kind, number = "plain", 1 if operation == "write" else 0
            arguments = f"i32 {site}, i32 %rk.tag.{site}, i32 {number}"
            out = [
                *self._tag(shadow, site),
                f"  call void @rk.accumulator.access(ptr %rk.thread, {arguments})",
            ]
        if operation == "write":
            out += [
                f"  %rk.new.{site} = call i32 @rk.accumulator.{kind}(ptr %rk.thread)",
                f"  %rk.new.byte.{site} = trunc i32 %rk.new.{site} to i8",
                f"  store i8 %rk.new.byte.{site}, ptr {shadow}, align 1",
            ]
        return out

    def _check(self, line: str, operation: str, kind: str, pointer: str) -> list[str]:
        if pointer.startswith("@"):
            return []  # constants and the environment: no kernel writes them
        roots = self.pointers.roots(pointer)
        if roots and roots <= set(self.pointers.allocas):
            return self._check_local(line, operation, kind, pointer)
        size = size_of(kind)
        address = f"%rk.address.{len(self.sites)}"
        site = self._site(line)
        return [
            f"  {address} = ptrtoint ptr {pointer} to i64",
            f"  call void @rk.{operation}(ptr %rk.thread, i32 {site}, i64 {address}, i64 {size})",
        ]

    def _site(self, line: str) -> int:
        self.sites.append(self.lines.location(line))
        return len(self.sites) - 1

    def _check_local(self, line: str, operation: str, kind: str, pointer: str) -> list[str]:
        shadow = self.shadows.of(pointer)
        if not shadow:
            return []
        if self.accumulators.present and kind == "float":
            return self._check_accumulator(line, operation, shadow)
        if operation == "write":
            whole = kind[0] in "[<{"
            written = f"<{size_of(kind)} x i8> splat (i8 1)" if whole else "i8 1"
            return [f"  store {written}, ptr {shadow}, align 1"]
        site = self._site(line)
        flag = f"%rk.written.{site}"
        return [
            f"  {flag} = load i8, ptr {shadow}",
            f"  call void @rk.local_read(ptr %rk.thread, i32 {site}, i8 {flag})",
        ]


def size_of(kind: str) -> int:
    """Bytes of an LLVM type that is loaded or stored."""
    kind = kind.strip()
    if kind in _BYTES:
        return _BYTES[kind]
    if match := re.match(r"[<\[](\d+) x (.*)[>\]]$", kind):
        return int(match.group(1)) * size_of(match.group(2))
    if match := re.match(r"i(\d+)$", kind):
        return -(-int(match.group(1)) // 8)
    if kind.startswith("{"):
        return sum(size_of(member) for member in kind.strip("{} ").split(", "))
    raise Unsupported(f"an access of LLVM type {kind}")
