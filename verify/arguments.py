"""The arguments of a launcher, as a spec declares them. Each checks itself and names the value that is wrong."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import ml_dtypes
import numpy as np

from refkit.verify.dims import DimExpression, as_dim
from refkit.verify.errors import SpecError, caller_location
from refkit.verify.layouts import LAYOUTS
from refkit.verify.values import SCALARS, SPEC_VALUES

FLOATS = ("float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")

Values = str | Callable[[np.random.Generator, tuple[int, ...]], np.ndarray] | None


def storage_dtype(name: str) -> np.dtype:
    """The NumPy dtype of a storage format by name; ml_dtypes supplies bfloat16 and the 8-bit floats."""
    return np.dtype(getattr(ml_dtypes, name, name))


class Argument:
    """One parameter of a launcher.

    `role` says what it is to the launcher; `given` is True where the reference receives it.
    """

    role: ClassVar[str]
    given: ClassVar[bool] = True


@dataclass(frozen=True, init=False)
class ArrayArgument(Argument):
    """An array argument: `dims` are expressions, `dtype` a storage format by name.

    `layouts` None means those of the spec for inputs, and contiguous for outputs.
    """

    dims: tuple[DimExpression, ...]
    dtype: str
    layouts: tuple[str, ...] | None
    source: str

    def _fill(self, dims: Sequence[object], dtype: object, layouts: object, allowed: Sequence[str]) -> None:
        what = type(self).__name__
        # A NumPy or ml_dtypes type is as good as its name.
        name = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", getattr(dtype, "name", repr(dtype)))
        if name not in allowed:
            raise SpecError(f"{what}: dtype is {name!r}; expected one of {', '.join(allowed)}")
        object.__setattr__(self, "dims", tuple(as_dim(dim) for dim in dims))
        object.__setattr__(self, "dtype", name)
        object.__setattr__(self, "layouts", None if layouts is None else check_layouts(layouts, what))
        object.__setattr__(self, "source", caller_location())

    @property
    def storage(self) -> np.dtype:
        """The NumPy dtype that the array is stored in."""
        return storage_dtype(self.dtype)

    @property
    def is_float(self) -> bool:
        """True for a floating-point storage format."""
        return self.dtype in FLOATS

    @property
    def is_output(self) -> bool:
        """True where the launcher writes the array: `Out` and `InOut`."""
        return isinstance(self, (Out, InOut))

    @property
    def is_optional(self) -> bool:
        """True where the launcher takes None in its place."""
        return isinstance(self, In) and self.optional


@dataclass(frozen=True, init=False)
class In(ArrayArgument):
    """An input array that the kernel only reads.

    `values`: None (the mixture), a name of `values.py`, or a callable `(rng, shape) -> array`. `optional=True`: the
    launcher and the reference also take None.
    """

    values: Values
    optional: bool
    role = "input"

    def __init__(
        self,
        *dims: DimExpression | int,
        dtype: str = "float32",
        values: Values = None,
        optional: bool = False,
        layouts: Sequence[str] | None = None,
    ) -> None:
        self._fill(dims, dtype, layouts, FLOATS + INTEGERS)
        object.__setattr__(self, "values", check_values(values, "In"))
        object.__setattr__(self, "optional", check_bool(optional, "In: optional"))


@dataclass(frozen=True, init=False)
class Out(ArrayArgument):
    """An output array that the kernel writes in full; contiguous unless `layouts` lists others."""

    role = "output"
    given = False

    def __init__(
        self, *dims: DimExpression | int, dtype: str = "float32", layouts: Sequence[str] | None = None
    ) -> None:
        self._fill(dims, dtype, layouts, FLOATS + INTEGERS)
        check_output_layouts(self)


@dataclass(frozen=True, init=False)
class InOut(ArrayArgument):
    """An array that the kernel updates: the reference receives the old value and returns the new one."""

    values: Values
    role = "updated"

    def __init__(
        self,
        *dims: DimExpression | int,
        dtype: str = "float32",
        values: Values = None,
        layouts: Sequence[str] | None = None,
    ) -> None:
        self._fill(dims, dtype, layouts, FLOATS + INTEGERS)
        check_output_layouts(self)
        object.__setattr__(self, "values", check_values(values, "InOut"))


@dataclass(frozen=True, init=False)
class Index(ArrayArgument):
    """An array of indices from 0 to `below` - 1.

    `unique`: no index occurs twice in the whole array. `ignore`: an index that the operator skips, drawn among the
    others. `out_of_range="error"`: the launcher promises an exception for an index outside the range, and only then
    are such indices tried.
    """

    below: DimExpression
    unique: bool
    ignore: int | None
    out_of_range: str | None
    role = "index"

    def __init__(
        self,
        *dims: DimExpression | int,
        below: DimExpression | int,
        unique: bool = False,
        ignore: int | None = None,
        dtype: str = "int64",
        out_of_range: str | None = None,
        layouts: Sequence[str] | None = None,
    ) -> None:
        self._fill(dims, dtype, layouts, INTEGERS)
        if ignore is not None and (not isinstance(ignore, numbers.Integral) or isinstance(ignore, bool)):
            raise SpecError(f"Index: ignore is {ignore!r}; expected an integer or None")
        limits = np.iinfo(self.storage)
        if ignore is not None and not limits.min <= ignore <= limits.max:
            raise SpecError(f"Index: ignore is {ignore}, which {self.dtype} does not hold")
        if out_of_range not in (None, "error"):
            raise SpecError(f"Index: out_of_range is {out_of_range!r}; expected None or 'error'")
        object.__setattr__(self, "below", as_dim(below))
        object.__setattr__(self, "unique", check_bool(unique, "Index: unique"))
        object.__setattr__(self, "ignore", None if ignore is None else int(ignore))
        object.__setattr__(self, "out_of_range", out_of_range)


@dataclass(frozen=True, init=False)
class Scalar(Argument):
    """A number, passed as a NumPy scalar of `dtype`.

    `values`: one number, a sequence of numbers to choose from (the first is the plainest), or a name: `"normal"`,
    `"uniform"` (0 to 1), `"positive"`, `"integers"`. `values` keeps the choices, rounded to `dtype`.
    """

    values: tuple[float | int, ...]
    dtype: str
    named: str | None
    source: str
    role = "scalar"

    def __init__(self, values: Any, dtype: str = "float32") -> None:
        if dtype not in FLOATS + INTEGERS:
            raise SpecError(f"Scalar: dtype is {dtype!r}; expected one of {', '.join(FLOATS + INTEGERS)}")
        named = values if isinstance(values, str) else None
        if named is not None and named not in SCALARS:
            raise SpecError(f"Scalar: values is {named!r}; expected one of {', '.join(SCALARS)}, or numbers")
        if named is not None:
            choices: tuple[Any, ...] = SCALARS[named]
        else:
            choices = (values,) if isinstance(values, numbers.Real) else _numbers(values)
        if not choices:
            raise SpecError("Scalar: values is empty; expected at least one number")
        object.__setattr__(self, "values", tuple(dict.fromkeys(_rounded(value, dtype) for value in choices)))
        object.__setattr__(self, "dtype", dtype)
        object.__setattr__(self, "named", named)
        object.__setattr__(self, "source", caller_location())


@dataclass(frozen=True)
class Flag(Argument):
    """True or False, each tried."""

    role = "flag"


def _numbers(values: Any) -> tuple[Any, ...]:
    try:
        choices = tuple(values)
    except TypeError:
        choices = (values,)
    for value in choices:
        if not isinstance(value, numbers.Real):
            raise SpecError(f"Scalar: values holds {value!r}; expected a number")
    return choices


def _rounded(value: Any, dtype: str) -> float | int:
    try:
        with np.errstate(over="ignore"):
            stored = np.asarray(value).astype(storage_dtype(dtype))
    except OverflowError:
        raise SpecError(f"Scalar: {value!r} does not fit {dtype}") from None
    if dtype in FLOATS:
        return float(stored)
    if stored != value:
        raise SpecError(f"Scalar: {value!r} does not fit {dtype}")
    return int(stored)


def check_bool(value: object, what: str) -> bool:
    """`value`, or `SpecError` where it is not True or False."""
    if not isinstance(value, bool):
        raise SpecError(f"{what} is {value!r}; expected True or False")
    return value


def check_values(values: Any, what: str) -> Values:
    """`values`, or `SpecError` where it is neither None, nor a known name, nor callable."""
    if values is None or callable(values) or values in SPEC_VALUES:
        return values
    raise SpecError(
        f"{what}: values is {values!r}; expected None, one of {', '.join(SPEC_VALUES)}, or a callable (rng, shape)"
    )


def check_layouts(layouts: Any, what: str) -> tuple[str, ...]:
    """`layouts` as a tuple of known names, contiguous first; `SpecError` names an unknown one."""
    if isinstance(layouts, str) or not isinstance(layouts, Sequence):
        raise SpecError(f"{what}: layouts is {layouts!r}; expected a tuple of {', '.join(LAYOUTS)}")
    for name in layouts:
        if name not in LAYOUTS:
            raise SpecError(f"{what}: layout {name!r} is unknown; expected one of {', '.join(LAYOUTS)}")
    # Shrinking goes towards the first, which is the plainest where it is allowed at all.
    return tuple(sorted(set(layouts), key=list(LAYOUTS).index))


def check_output_layouts(argument: ArrayArgument) -> None:
    """`SpecError` where an output lists `broadcast`: several elements would share one address."""
    if argument.layouts is not None and "broadcast" in argument.layouts:
        raise SpecError(f"{type(argument).__name__}: layout 'broadcast' is for inputs only")
