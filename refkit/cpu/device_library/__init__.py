"""Host meanings of the external functions that a numba-cuda kernel declares but does not define.

`definitions(names, libdevice=None)` is LLVM IR text to be parsed as a module of its own and linked into the kernel's.
By default `__nv_*` functions go through the host's libm (`elementary.py`), because that needs no NVIDIA package,
compiles in milliseconds, and gives the same float32 results on every machine: each is evaluated in float64 and rounded.
With `libdevice=find_libdevice()` the elementary functions come from NVIDIA's bitcode instead, whose operations
and so whose errors are those of a GPU, at the price of parsing 350 functions for every kernel that uses one.
Everything else (rounding modes, conversions, integer and half-precision functions) is exact, and the same either way.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from refkit.cpu.device_library import (
    approximate,
    arithmetic,
    bitcode,
    elementary,
    integers,
    reference_counts,
    shims,
    special,
)
from refkit.cpu.device_library.bitcode import find_libdevice
from refkit.cpu.device_library.build import DeviceFunction, render

__all__ = ["UnknownDeviceFunction", "definitions", "find_libdevice", "is_known", "known_libdevice_functions"]

_LIBDEVICE: dict[str, DeviceFunction] = (
    integers.FUNCTIONS | arithmetic.FUNCTIONS | elementary.FUNCTIONS | special.FUNCTIONS | approximate.FUNCTIONS
)


# What libdevice computes in its own way; everything else is exact, and one meaning serves both routes.
_INEXACT = frozenset(elementary.FUNCTIONS | special.FUNCTIONS | approximate.FUNCTIONS)


class UnknownDeviceFunction(LookupError):
    """An external function for which the CPU executor has no host meaning; `name` is its symbol."""

    def __init__(self, name: str) -> None:
        super().__init__(f"device function {name} has no meaning on the CPU")
        self.name = name


def known_libdevice_functions() -> frozenset[str]:
    """Every `__nv_*` name that `definitions` knows without libdevice."""
    return frozenset(_LIBDEVICE)


def _resolve(name: str) -> DeviceFunction:
    function = _LIBDEVICE.get(name) or reference_counts.FUNCTIONS.get(name) or shims.resolve(name)
    if function is None:
        raise UnknownDeviceFunction(name)
    return function


def is_known(name: str) -> bool:
    """Whether `definitions` has a meaning for this symbol."""
    try:
        _resolve(name)
    except UnknownDeviceFunction:
        return False
    return True


def definitions(names: Iterable[str], *, libdevice: Path | None = None) -> str:
    """LLVM IR text that defines each named external function with the signature numba-cuda declares.

    Args:
        names: symbols, such as `__nv_expf` or `_ZmlRK13__nv_bfloat16S1__nbst`; repeats are harmless.
        libdevice: path of `libdevice.10.bc`, or None for the host's libm.

    Returns: definitions that are `linkonce_odr alwaysinline`, and the declarations they need, without a target
    triple. Add no fast-math flag to them.

    Raises:
        UnknownDeviceFunction: names the first symbol that has no host meaning.
    """
    wanted = sorted(set(names))
    if libdevice is None:
        return render({name: _resolve(name) for name in wanted})
    theirs = bitcode.names(libdevice)
    taken = [name for name in wanted if name in theirs and (name in _INEXACT or name not in _LIBDEVICE)]
    own = render({name: _resolve(name) for name in wanted if name not in taken})
    return bitcode.merge(own, bitcode.definitions(taken, libdevice))
