"""Adds the sanitizers' calls to the text of a kernel in SSA form: before each access, and beside each local array.

Memory that is provably the thread's own (its stack) is left alone. A local array gets a shadow of the same type, and is
indexed
by the same instructions, so that LLVM can keep both in registers once the loops around them are unrolled.
"""

import re
from collections.abc import Callable

from .debug_lines import Lines
from .faults import Unsupported

_NAME = r'(?:"[^"]*"|[-\w$.]+)'
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
_ALLOCA = re.compile(
    rf"^\s+%(?P<name>{_NAME}) = alloca (?P<type>\[.*\]|\{{.*\}}|\S+?)(?:, align \d+)?(?:, !dbg ![0-9]+)?$"
)
_ADDRESS = re.compile(
    rf"^\s+%(?P<name>{_NAME}) = (?:getelementptr|bitcast|addrspacecast|select|phi|freeze)\b(?P<rest>.*)$"
)
_POINTER = re.compile(rf"ptr (?P<pointer>%{_NAME})")
_BOUNDS = re.compile(
    r"^(?P<head>\s+call void @rk\.bounds\(ptr %rk\.thread, i32 \d+, )ptr (?:\w+ )*"
    rf"(?P<pointer>[%@]{_NAME})(?P<tail>,.*)$"
)
_FILL = re.compile(rf"@llvm\.memset\.[\w.]+\(ptr (?:[\w() ]+ )?(?P<pointer>%{_NAME}),")

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

Size = Callable[[str], int]


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


class Pointers:
    """Where the pointers of one function come from."""

    def __init__(self, body: list[str]) -> None:
        self.allocas: dict[str, str] = {}
        self.sources: dict[str, set[str]] = {}
        for line in body:
            if match := _ALLOCA.match(line):
                self.allocas["%" + match["name"]] = match["type"]
            elif match := _ADDRESS.match(line):
                self.sources["%" + match["name"]] = set(_POINTER.findall(match["rest"])) | set(
                    re.findall(rf"\[ (%{_NAME}), ", match["rest"]) if " phi ptr" in line else []
                )

    def roots(self, pointer: str) -> set[str]:
        """The pointers that a pointer is computed from, back to where they enter the function."""
        found, pending, seen = set(), [pointer], set()
        while pending:
            name = pending.pop()
            if name in seen:
                continue
            seen.add(name)
            sources = self.sources.get(name)
            if sources:
                pending.extend(sources)
            else:
                found.add(name)
        return found


class _Function(Pointers):
    """One function and its instrumented lines."""

    def __init__(self, body: list[str], lines: Lines, sites: list[tuple[str, int]]) -> None:
        super().__init__(body)
        self.body, self.lines, self.sites = body, lines, sites
        self.arrays = {name for name, kind in self.allocas.items() if kind.startswith("[")}
        self.shadowed: set[str] = set()

    def instrumented(self) -> list[str]:
        out: list[str] = []
        for line in self.body:
            match = _ALLOCA.match(line)
            if match and "%" + match["name"] in self.arrays:
                out += [line, *self._shadow_array("%" + match["name"], match["type"])]
                continue
            if match := _BOUNDS.match(line):
                # the address of a local array must not escape: LLVM could no longer keep it in registers
                if self.roots(match["pointer"]) & set(self.allocas):
                    line = f"{match['head']}ptr null{match['tail']}"
                out.append(line)
                continue
            out += self._before(line)
            out.append(line)
            if shadow := self._shadow_address(line):
                out.append(shadow)
        return out

    def _before(self, line: str) -> list[str]:
        """The calls that stand before an instruction."""
        found = access(line)
        return self._check(line, *found) if found else []

    def _check(self, line: str, operation: str, kind: str, pointer: str) -> list[str]:
        if pointer.startswith("@"):
            return []  # constants and the environment: no kernel writes them
        roots = self.roots(pointer)
        if roots and roots <= set(self.allocas):
            return self._check_local(line, operation, kind, pointer, roots)
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

    def _check_local(self, line: str, operation: str, kind: str, pointer: str, roots: set[str]) -> list[str]:
        if not roots <= self.arrays or not self._has_shadow(pointer):
            return []
        if kind.startswith("["):
            return []  # Numba's own zero fill of the whole array: not a write of the kernel's
        shadow = _shadow_name(pointer)
        if operation == "write":
            return [f"  store i8 1, ptr {shadow}"]
        site = self._site(line)
        flag = f"%rk.written.{site}"
        return [
            f"  {flag} = load i8, ptr {shadow}",
            f"  call void @rk.local_read(ptr %rk.thread, i32 {site}, i8 {flag})",
        ]

    def _has_shadow(self, pointer: str) -> bool:
        return pointer in self.arrays or pointer in self.shadowed

    def _shadow_array(self, name: str, kind: str) -> list[str]:
        return [
            f"  {_shadow_name(name)} = alloca {kind}, align 16",
            f"  store {kind} zeroinitializer, ptr {_shadow_name(name)}",
        ]

    def _shadow_address(self, line: str) -> str | None:
        """The same address computation on the shadow, for one that starts at a local array."""
        match = _ADDRESS.match(line)
        if not match or " getelementptr " not in line:
            return None
        pointers = _POINTER.findall(match["rest"])
        if len(pointers) != 1 or not self._has_shadow(pointers[0]):
            return None
        name = "%" + match["name"]
        self.shadowed.add(name)
        rest = re.sub(
            r", !dbg ![0-9]+", "", match["rest"].replace(f"ptr {pointers[0]}", f"ptr {_shadow_name(pointers[0])}")
        )
        return f"  {_shadow_name(name)} = getelementptr{rest}"


def _shadow_name(pointer: str) -> str:
    return '%"rk.shadow.' + pointer[1:].strip('"') + '"'


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
