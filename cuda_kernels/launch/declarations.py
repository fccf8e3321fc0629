"""What a launcher says of an array: how it is used, its dims, the dtypes it may have, whether it may be left out.

A dim is a name, which has the same size everywhere in one call; an integer; or an expression of names, such as "2*I",
"V+1" or "-(-K//128)" (the blocks of 128 that cover K). "2*I" may be what I is known from.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from .dims import Dim, parse

Dtypes = Any
"""A dtype, or a tuple of them: NumPy dtypes, scalar types, or names such as "bfloat16", which NumPy alone lacks."""

FLOATS: tuple[str, ...] = ("float32", "bfloat16", "float16")
"""Storage formats of activations and weights."""

FLOAT32 = np.dtype(np.float32)
"""Sums, saved statistics and gradients of parameters; also a dtype for `cuda.device_array`."""

INTEGERS: tuple[str, ...] = ("int32", "int64")
"""Indices."""


@dataclass(frozen=True)
class ArrayArgument:
    """One array of a launcher: `access` is "read", "write", "add_into" or "update"; all but "read" are `written`."""

    access: str
    dims: tuple[Dim, ...]
    dtypes: tuple[str, ...]
    optional: bool
    written: bool

    @property
    def shape(self) -> str:
        """The shape as it is written in a docstring: (T, 2*I)."""
        inside = ", ".join(dim.text for dim in self.dims)
        return f"({inside},)" if len(self.dims) == 1 else f"({inside})"


def read(*dims: str | int, dtypes: Dtypes = FLOATS, optional: bool = False) -> ArrayArgument:
    """An array that kernels only read."""
    return _argument("read", dims, dtypes, optional)


def write(*dims: str | int, dtypes: Dtypes = FLOATS, optional: bool = False) -> ArrayArgument:
    """An array of which every element is written; what it held before is lost."""
    return _argument("write", dims, dtypes, optional)


def add_into(*dims: str | int, dtypes: Dtypes = FLOAT32, optional: bool = False) -> ArrayArgument:
    """An array that is added to (`+=`), as the gradients of parameters are."""
    return _argument("add_into", dims, dtypes, optional)


def update(*dims: str | int, dtypes: Dtypes = FLOATS, optional: bool = False) -> ArrayArgument:
    """An array that is read and replaced, as the state of an optimiser is."""
    return _argument("update", dims, dtypes, optional)


def _argument(access: str, dims: tuple[str | int, ...], dtypes: Dtypes, optional: bool) -> ArrayArgument:
    listed = dtypes if isinstance(dtypes, (tuple, list)) else (dtypes,)
    return ArrayArgument(
        access, tuple(parse(dim) for dim in dims), tuple(map(_dtype_name, listed)), optional, access != "read"
    )


def _dtype_name(dtype: Any) -> str:
    return dtype if isinstance(dtype, str) else np.dtype(dtype).name


@functools.lru_cache(maxsize=256)
def name_of(dtype: np.dtype[Any]) -> str:
    """The dtype's name; `dtype.name` is worked out anew each time, which costs a microsecond."""
    return str(dtype.name)
