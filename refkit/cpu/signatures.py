"""Which declared signature an eagerly typed kernel runs with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba.cuda import types
from numba.cuda.np import numpy_support

Signature = tuple[Any, ...]
_NUMBERS = (types.Boolean, types.Integer, types.Float, types.Complex)


@dataclass(frozen=True)
class Address:
    """A number passed where a pointer is declared; `_numba_type_` is the name under which Numba looks for a type."""

    value: int
    _numba_type_: Any


def select_signature(kernel: str, declared: Sequence[Signature], actual: Signature) -> Signature:
    """The declared signature that takes arguments of the actual types with the least loss.

    Arrays fit where dtype and dimensions agree and the layout is the declared one, or the declared layout is any;
    numbers fit numbers, and addresses pointers, as in Numba. Raises TypeError with all signatures if none fits, in
    Numba's words, which programs look for.
    """
    fitting = [
        signature for signature in declared if len(signature) == len(actual) and all(map(fits, actual, signature))
    ]
    if not fitting:
        signatures = ", ".join(map(_text, declared))
        raise TypeError(
            f"{kernel}: No matching definition for argument type(s) {_text(actual)}; there are {signatures}"
        )
    return min(fitting, key=lambda signature: sum(map(_loss, actual, signature)))


def serving(wanted: Signature, known: Sequence[Signature]) -> Signature:
    """The signature to compile or to use for arguments of the wanted types, where few are to be compiled.

    The wanted one if it is known; else a known one that differs in taking arrays of any strides; else the wanted one
    with arrays of any strides in place of those in Fortran order, which Numba treats alike.
    """
    if wanted in known:
        return wanted
    for signature in known:
        if all(kind in (actual, _of_any_strides(actual)) for kind, actual in zip(signature, wanted)):
            return signature
    return tuple(
        _of_any_strides(kind) if isinstance(kind, types.Array) and kind.layout == "F" else kind for kind in wanted
    )


def _of_any_strides(kind: Any) -> Any:
    return kind.copy(layout="A") if isinstance(kind, types.Array) else kind


def fits(actual: Any, declared: Any) -> bool:
    """Whether an argument of the actual type can be passed where the signature declares another."""
    if actual == declared:
        return True
    if isinstance(declared, types.Array) and isinstance(actual, types.Array):
        same = (actual.dtype, actual.ndim) == (declared.dtype, declared.ndim)
        return same and declared.layout in ("A", actual.layout)
    if isinstance(declared, types.BaseTuple) and isinstance(actual, types.BaseTuple):
        return len(actual) == len(declared) and all(map(fits, actual, declared))
    if isinstance(declared, types.CPointer):
        return isinstance(actual, types.Integer)
    if not (isinstance(declared, _NUMBERS) and isinstance(actual, _NUMBERS)):
        return False
    return _rank(actual) <= max(_rank(declared), 1)


def convert(value: Any, declared: Any) -> Any:
    """A kernel argument as its declared type: numbers become NumPy scalars of that type, tuples by member.

    An address becomes an `Address`, which carries the type that its number alone does not have.
    """
    if isinstance(declared, types.BaseTuple):
        members = [convert(member, kind) for member, kind in zip(value, declared)]
        return type(value)(*members) if hasattr(value, "_fields") else tuple(members)
    if isinstance(declared, _NUMBERS):
        return np.asarray(value).astype(numpy_support.as_dtype(declared))[()]
    if isinstance(declared, types.CPointer):
        return Address(int(value), declared)
    return value


def _rank(number: Any) -> int:
    return next(rank for rank, kind in enumerate(_NUMBERS) if isinstance(number, kind))


def _loss(actual: Any, declared: Any) -> int:
    """0 for the same type, 1 for a safe conversion, 10 if it may lose digits, 100 if it changes the kind."""
    if actual == declared:
        return 0
    if not isinstance(declared, _NUMBERS):
        return 1
    source: np.dtype = numpy_support.as_dtype(actual)
    target: np.dtype = numpy_support.as_dtype(declared)
    if np.can_cast(source, target, "safe"):
        return 1
    return 10 if np.can_cast(source, target, "same_kind") else 100


def _text(signature: Signature) -> str:
    return f"({', '.join(map(str, signature))})"
