"""Shadows of local arrays: one byte of each element says whether the kernel has written it.

A shadow has the array's type and is indexed by the same instructions, so that LLVM can keep both in registers once the
loops around them are unrolled. An array whose address leaves the function has no shadow: who else writes is unknown.
A device function that is handed a local array is therefore made part of its caller first (`receivers`).
"""

import re
from collections.abc import Callable, Mapping

from .control_flow import names, parts
from .pointers import NAME, Pointers, address, allocation, replaced

_CALL = re.compile(rf"\bcall [^@\n]*@(?P<callee>{NAME})\((?P<arguments>.*)\)")
_HARMLESS = re.compile(r"rk\.(zero|bounds)$|llvm\.lifetime\.")
"""Calls that neither write an array nor keep its address; `rk.zero` is Numba's own fill of the whole array."""
_ZERO = re.compile(rf"^\s+(?:tail )?call void @rk\.zero\(ptr %rk\.thread, ptr (?:\w+ )*(?P<pointer>%{NAME}), ")
_VALUE = re.compile(rf"%{NAME}")
_POINTER = re.compile(rf"\bptr (?:[\w()]+ )*(%{NAME})")
_NOT_DATA = ("%rk.thread", "%.ret")


def receivers(text: str) -> set[str]:
    """The functions of IR text in SSA form that are handed a local array, from whatever depth."""
    bodies = {names(define)[0]: body for define, body in parts(text) if define}
    pointers = {name: Pointers(body) for name, body in bodies.items()}
    calls = {name: list(_calls(body)) for name, body in bodies.items()}
    found: set[str] = set()
    pending = list(bodies)
    while pending:
        name = pending.pop()
        for callee, arguments in calls[name]:
            if callee in bodies and callee not in found and _hands_on(pointers[name], arguments, name in found):
                found.add(callee)
                pending.append(callee)
    return found


def _calls(body: list[str]) -> list[tuple[str, set[str]]]:
    """Each call of a function: whom, and the pointers it passes."""
    matches = (_CALL.search(line) for line in body)
    return [(match["callee"].strip('"'), set(_POINTER.findall(match["arguments"]))) for match in matches if match]


def _hands_on(pointers: Pointers, arguments: set[str], received: bool) -> bool:
    """Whether an argument points into a local array; in a function that was handed one, any parameter may."""
    roots = {root for argument in arguments for root in pointers.roots(argument)}
    parameters = {root for root in roots if root not in pointers.allocas and root not in _NOT_DATA}
    return not roots.isdisjoint(_arrays(pointers)) or (received and bool(parameters))


def _arrays(pointers: Pointers) -> set[str]:
    """The local arrays among a function's stack memory: other arrays there hold tuples, which Numba fills itself."""
    return {name for name, kind in pointers.allocas.items() if kind.startswith("[") and "_cudapy_lmem" in name}


class Shadows:
    """The shadows of the local arrays of one function."""

    def __init__(self, body: list[str], pointers: Pointers, accessed: Callable[[str], str]) -> None:
        """accessed: the pointer through which a line reads or writes, or an empty string."""
        arrays = _arrays(pointers)
        roots = {name: pointers.roots(name) for name in (*arrays, *pointers.sources)}
        local = {name for name, found in roots.items() if found & arrays}
        escaped = {root for line in body for name in _leaving(line, local, accessed) for root in roots[name]}
        # an element that is reached in two ways, of which only one has a shadow, cannot be told apart
        escaped |= {root for name in local if not roots[name] <= arrays for root in roots[name]}
        changed = True
        while changed:
            mixed = {root for name in local if roots[name] & escaped for root in roots[name]}
            changed = not mixed <= escaped
            escaped |= mixed
        self._arrays = {name: pointers.allocas[name] for name in arrays - escaped}
        self._names: Mapping[str, str] = {
            name: _shadow_name(name) for name in local if roots[name] <= set(self._arrays)
        }

    def of(self, pointer: str) -> str:
        """The pointer into the shadow that goes with a pointer into an array; empty where there is none."""
        return self._names.get(pointer, "")

    def beside(self, line: str) -> list[str]:
        """The instructions on shadows that follow a line: memory taken, an address computed, all of it unwritten."""
        if (match := allocation(line)) and (shadow := self.of("%" + match["name"])):
            kind = match["type"]
            return [f"  {shadow} = alloca {kind}, align 16", f"  store {kind} zeroinitializer, ptr {shadow}"]
        if (match := _ZERO.match(line)) and match["pointer"] in self._arrays:
            return [f"  store {self._arrays[match['pointer']]} zeroinitializer, ptr {self.of(match['pointer'])}"]
        if (match := address(line)) and (shadow := self.of("%" + match["name"])):
            rest = re.sub(r", !dbg ![0-9]+", "", match["rest"])
            return [f"  {shadow} = {replaced(rest, dict(self._names))}"]
        return []


def _leaving(line: str, local: set[str], accessed: Callable[[str], str]) -> set[str]:
    """The pointers into local arrays with which a line does more than to access memory or to compute an address."""
    values = _VALUE.findall(line)
    used = local.intersection(values)
    if not used or allocation(line) or address(line) or " icmp " in line:
        return set()
    if (match := _CALL.search(line)) and _HARMLESS.match(match["callee"]):
        return set()
    pointer = accessed(line)
    return used - {pointer} if values.count(pointer) == 1 else used


def _shadow_name(pointer: str) -> str:
    return '%"rk.shadow.' + pointer[1:].strip('"') + '"'
