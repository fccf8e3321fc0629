"""What one case gives to the launcher and to the reference: a pure function of the spec and the case."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from refkit.numerics.formats import FORMATS
from refkit.verify.arguments import ArrayArgument, In, Index, InOut, Scalar, storage_dtype
from refkit.verify.case import Case
from refkit.verify.errors import USERS_FAULTS, SpecError, raised_at
from refkit.verify.layouts import broadcast_axes
from refkit.verify.spec import KernelSpec
from refkit.verify.values import DISTRIBUTIONS, fit, integer_bound, integers, nonfinite

_LARGEST = {"float16": 2.0**7, "float8_e4m3fn": 2.0**4, "float8_e5m2": 2.0**6}
"""Magnitude that inputs are scaled down to where a spec stores this format, so that sums of squares do not overflow."""


@dataclass(frozen=True, eq=False)
class Inputs:
    """The arguments of one launch before any is placed in memory.

    `arrays`: for each `In`, `InOut` and `Index` its values as a C-ordered array of the storage dtype, None where it is
    absent. `scalars`: NumPy scalars of the declared dtype, and bools for flags. Both hold exactly what the reference
    is given in float64.
    """

    spec: KernelSpec
    case: Case
    arrays: Mapping[str, np.ndarray | None]
    scalars: Mapping[str, np.generic | bool]

    @property
    def output_shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each output."""
        return {name: self.spec.shape(name, self.case.dims) for name in self.spec.outputs}

    def for_reference(self) -> dict[str, Any]:
        """The reference's keyword arguments: floats as float64 arrays, indices as int64, scalars as Python numbers."""
        arguments: dict[str, Any] = {}
        for name, array in self.arrays.items():
            arguments[name] = None if array is None else array.astype(_reference_dtype(self.spec.arrays[name]))
        for name, value in self.scalars.items():
            arguments[name] = value if isinstance(value, bool) else _python_number(value)
        return self.spec.reference_arguments(arguments, self.case.dims, self.case.config)


def _reference_dtype(argument: ArrayArgument) -> type:
    if argument.is_float:
        return np.float64
    return np.uint64 if argument.dtype == "uint64" else np.int64


def _python_number(value: np.generic) -> float | int:
    return int(value) if isinstance(value, np.integer) else float(value)


def draw_inputs(spec: KernelSpec, case: Case) -> Inputs:
    """The inputs of `case`; each array depends on the seed, its own name and shape, and on nothing else that is drawn.

    `SpecError` where a callable of the spec gives another shape, or where the sizes do not fit into memory.
    """
    arrays: dict[str, np.ndarray | None] = {}
    for name, argument in spec.inputs.items():
        try:
            arrays[name] = None if name in case.absent else _draw_array(spec, case, name, argument)
        except MemoryError:
            shape = spec.shape(name, case.dims)
            message = f"{name!r} of shape {shape} does not fit into memory ({case.scenario}); lower the max of its dims"
            raise spec.wrong(message) from None
    scalars: dict[str, np.generic | bool] = {}
    for name, value in spec.plain_scalars().items():
        declared = spec.scalars[name]
        value = case.scalars.get(name, value)
        scalars[name] = storage_dtype(declared.dtype).type(value) if isinstance(declared, Scalar) else bool(value)
    return Inputs(spec, case, arrays, scalars)


def argument_rng(case: Case, name: str, purpose: str = "values") -> np.random.Generator:
    """The generator of one argument: other dims, layouts and arguments leave it as it is."""
    return np.random.default_rng((case.seed, zlib.crc32(f"{name} {purpose}".encode())))


def _draw_array(spec: KernelSpec, case: Case, name: str, argument: ArrayArgument) -> np.ndarray:
    shape = spec.shape(name, case.dims)
    rng = argument_rng(case, name)
    if isinstance(argument, Index):
        array = _draw_indices(argument, shape, argument.below.evaluate(case.dims), rng)
    else:
        assert isinstance(argument, (In, InOut))
        array = _store(spec, argument, _draw_values(spec, case, name, argument, shape, rng), case.values)
    axes: tuple[int, ...] = ()
    if case.layout(name) == "broadcast" and 0 not in shape:
        axes = broadcast_axes(len(shape), argument_rng(case, name, "broadcast"))
    # What is repeated along the broadcast axes; without any, the array itself.
    kept = array[tuple(slice(0, 1) if axis in axes else slice(None) for axis in range(len(shape)))]
    if isinstance(argument, Index) and argument.out_of_range is not None and case.values == "out_of_range":
        kept = _with_a_wrong_index(argument, kept, argument.below.evaluate(case.dims), rng)
    return np.ascontiguousarray(np.broadcast_to(kept, shape), argument.storage).reshape(shape)


def _draw_values(
    spec: KernelSpec, case: Case, name: str, argument: In | InOut, shape: tuple[int, ...], rng: np.random.Generator
) -> np.ndarray:
    """Values before rounding, float64."""
    if callable(argument.values):
        return _drawn_by_the_user(spec, name, argument.values, shape, rng)
    if not argument.is_float:
        return _draw_whole_numbers(argument, shape, rng)
    if case.values == "integers":
        bound = integer_lane_bound(spec, case, argument)
        if argument.values == "positive":
            return np.abs(integers(rng, shape, bound - 1)) + 1
        if argument.values == "uniform":
            return rng.integers(0, 2, shape) / 2
        return integers(rng, shape, bound)
    if argument.values is None:
        return DISTRIBUTIONS[case.values](rng, shape)
    base = DISTRIBUTIONS[argument.values]
    return nonfinite(rng, shape, base) if case.values == "nonfinite" else base(rng, shape)


def _drawn_by_the_user(
    spec: KernelSpec, name: str, values: Callable[..., Any], shape: tuple[int, ...], rng: np.random.Generator
) -> np.ndarray:
    try:
        drawn = np.asarray(values(rng, shape))
        numbers = drawn.astype(np.float64)
    except USERS_FAULTS as error:
        where = raised_at(error) or spec.source
        raise SpecError(
            f"values of {name!r} raised {type(error).__name__}: {error} for shape {shape}", where
        ) from error
    if drawn.shape != shape:
        raise spec.wrong(f"values of {name!r} returned shape {drawn.shape}; expected {shape}")
    return numbers


def _store(spec: KernelSpec, argument: In | InOut, values: np.ndarray, lane: str) -> np.ndarray:
    if not argument.is_float:
        limits = np.iinfo(argument.storage)
        return np.clip(np.rint(values), limits.min, limits.max).astype(argument.storage)
    if callable(argument.values) or lane == "integers":
        largest = math.inf
    else:
        largest = min((_LARGEST.get(a.dtype, 2.0**20) for a in spec.arrays.values()), default=2.0**20)
    return fit(values, argument.storage, largest)


def _draw_whole_numbers(argument: In | InOut, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    if argument.values == "positive":
        return rng.integers(1, 9, shape).astype(np.float64)
    low = 0 if argument.dtype.startswith("u") else -8
    return rng.integers(low, 9, shape).astype(np.float64)


def _draw_indices(argument: Index, shape: tuple[int, ...], below: int, rng: np.random.Generator) -> np.ndarray:
    """Indices in one of several patterns: uniform, all equal, few distinct, sorted, counting, the two ends."""
    size = math.prod(shape)
    if size == 0:
        return np.zeros(shape, np.int64)
    if argument.unique:
        return rng.permutation(below)[:size].reshape(shape)
    pattern = int(rng.integers(7))
    if pattern == 0:
        drawn = np.full(size, rng.integers(below))
    elif pattern == 1:
        drawn = rng.choice(rng.integers(below, size=3), size)
    elif pattern == 2:
        drawn = np.sort(rng.integers(below, size=size))
    elif pattern == 3:
        drawn = np.arange(size) % below
    elif pattern == 4:
        drawn = rng.choice((0, below - 1), size)
    else:
        drawn = rng.integers(below, size=size)
    if argument.ignore is not None:
        share = (0.0, 0.3, 0.3, 1.0)[int(rng.integers(4))]
        drawn = np.where(rng.random(size) < share, argument.ignore, drawn)
    return drawn.reshape(shape)


def _with_a_wrong_index(argument: Index, indices: np.ndarray, below: int, rng: np.random.Generator) -> np.ndarray:
    """A copy with one index out of range: one past the end, far past it, or -1."""
    limits = np.iinfo(argument.storage)
    wrong = [index for index in (below, below + 1000, -1) if limits.min <= index <= limits.max]
    wrong = [index for index in wrong if index != argument.ignore]
    changed = indices.copy()
    if changed.size and wrong:
        changed.reshape(-1)[int(rng.integers(changed.size))] = wrong[int(rng.integers(len(wrong)))]
    return changed


def has_a_wrong_index(spec: KernelSpec, case: Case) -> bool:
    """True where the case gives the launcher an index that the spec promises to refuse."""
    for name, argument in spec.inputs.items():
        if isinstance(argument, Index) and argument.out_of_range is not None and case.values == "out_of_range":
            array, below = draw_inputs(spec, case).arrays[name], argument.below.evaluate(case.dims)
            assert array is not None
            outside = (array < 0) | (array >= below)
            if np.any(outside if argument.ignore is None else outside & (array != argument.ignore)):
                return True
    return False


# -- the integer-exact lane ---------------------------------------------------------------------------------------


def integer_lane_bound(spec: KernelSpec, case: Case, argument: ArrayArgument) -> int:
    """The largest integer that `argument` holds in the integer-exact lane; see `values.integer_bound`.

    A sum has at most as many terms as the largest input has elements, and one for the old value of an `InOut`.
    """
    terms = 1 + max((math.prod(spec.shape(name, case.dims)) for name in spec.inputs), default=1)
    factor = 1.0
    for name, declared in spec.scalars.items():
        if isinstance(declared, Scalar) and declared.dtype in FORMATS:
            value = float(case.scalars.get(name, declared.values[0]))
            if math.isfinite(value):
                factor *= max(1.0, abs(value)) * min(value.as_integer_ratio()[1], 2**30)
    multiply = spec.precision.multiply_format
    # The fp8 units of Ada and Hopper keep 13 bits of a sum.
    kept = 13 if multiply.name.startswith("float8") else spec.precision.accumulate_format.significand
    return integer_bound(
        terms,
        significand=kept,
        storage_significand=min(FORMATS[argument.dtype].significand, multiply.significand),
        factor=factor,
    )


def scalar_choices(declared: Scalar, lane: str) -> tuple[float | int, ...]:
    """What a scalar is drawn from: in the integer-exact lane its small integers, or else its powers of two, if any."""
    if lane != "integers" or declared.dtype not in FORMATS:
        return declared.values
    whole = tuple(value for value in declared.values if abs(value) <= 8 and float(value).is_integer())
    binary = tuple(value for value in declared.values if abs(value) <= 8 and float(value * 8).is_integer())
    return whole or binary or declared.values


def integer_lane_obstacle(spec: KernelSpec) -> str:
    """Why the values of the integer-exact lane would not be integers for this spec; '' where they are."""
    for name, argument in spec.inputs.items():
        if isinstance(argument, (In, InOut)) and argument.is_float and callable(argument.values):
            return f"the values of {name!r} come from a function of the spec"
    for name, declared in spec.scalars.items():
        if isinstance(declared, Scalar) and declared.dtype in FORMATS:
            choices = scalar_choices(declared, "integers")
            if not all(float(value * 8).is_integer() for value in choices):
                return f"the scalar {name!r} takes no value that is a small integer or a power of two"
    return ""
