"""The decorator of launchers: arrays are checked against their declaration before anything is launched."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from . import shapes
from .absent import empty_array
from .declarations import ArrayArgument, name_of
from .foreign import as_device_array, current_device
from .overlap import check_overlaps, extent_of
from .streams import as_stream

Function = TypeVar("Function", bound=Callable[..., Any])
Pair = tuple[str, str]


def launcher(in_place: Pair | Iterable[Pair] = (), **arrays: ArrayArgument) -> Callable[[Function], Function]:
    """The decorator of a function that divides work and launches kernels; `arrays` declares its array arguments.

    The function takes its arrays by name, other values, and `stream` (keyword only). Its body sees Numba device arrays
    (an absent optional one has no elements, and as many axes as declared) and a Numba stream, 0 for the default stream.
    Raises ValueError (shape, device, overlap) or TypeError (dtype, no array) before the body runs. An output shares no
    element with another argument, but the two of a pair in `in_place` may be one and the same array.
    The declaration stays readable as the launcher's attribute `arrays`.
    """

    def decorate(function: Function) -> Function:
        return _decorated(function, arrays, _pairs(in_place))

    return decorate


def _pairs(in_place: Any) -> frozenset[frozenset[str]]:
    pairs = [in_place] if in_place and isinstance(in_place[0], str) else list(in_place)
    return frozenset(frozenset(pair) for pair in pairs)


def _decorated(function: Any, arrays: Mapping[str, ArrayArgument], in_place: frozenset[frozenset[str]]) -> Any:
    signature = inspect.signature(function)
    parameters = signature.parameters
    name = function.__name__
    _check_declaration(name, signature, arrays, in_place)
    order = tuple(key for key, value in parameters.items() if value.kind is value.POSITIONAL_OR_KEYWORD)
    declared = tuple((key, arrays[key]) for key in order if key in arrays)
    known = parameters.keys()
    required = frozenset(key for key, value in parameters.items() if value.default is value.empty)

    @functools.wraps(function)
    def launch(*args: Any, **kwargs: Any) -> Any:
        given = dict(zip(order, args))
        given.update(kwargs)
        if len(given) != len(args) + len(kwargs) or not required <= given.keys() <= known:
            try:
                signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{name}: {error}") from None
        stream = given["stream"] = as_stream(given.get("stream"), name)
        _prepare(name, given, declared, in_place, stream)
        return function(**given)

    launch.arrays = dict(arrays)  # type: ignore[attr-defined]
    launch.in_place = in_place  # type: ignore[attr-defined]
    return launch


def _prepare(
    name: str,
    given: dict[str, Any],
    declared: tuple[tuple[str, ArrayArgument], ...],
    in_place: frozenset[frozenset[str]],
    stream: Any,
) -> None:
    """Replaces the arrays in `given` by Numba device arrays that keep to the declaration."""
    device = current_device()
    present: list[tuple[str, ArrayArgument, Any]] = []
    absent: list[tuple[str, ArrayArgument]] = []
    for key, argument in declared:
        value = given.get(key)
        if value is None:
            if not argument.optional:
                raise TypeError(f"{name}: {key} is None, expected an array of shape {argument.shape}")
            absent.append((key, argument))
            continue
        array = given[key] = as_device_array(value, f"{name}: {key}", argument.written, stream, device)
        if name_of(array.dtype) not in argument.dtypes:
            raise TypeError(f"{name}: {key} has dtype {array.dtype}, expected {_listed(argument.dtypes)}")
        present.append((key, argument, array))
    shapes.check(name, present)
    check_overlaps(name, [extent_of(key, array, argument.written) for key, argument, array in present], in_place)
    for key, argument in absent:
        given[key] = empty_array(len(argument.dims), _absent_dtype(argument, present))


def _absent_dtype(argument: ArrayArgument, present: list[tuple[str, ArrayArgument, Any]]) -> Any:
    """The dtype of the first float input where the argument may have it, so that kernels compile once for it."""
    for _, other, array in present:
        if not other.written and "float" in (floating := name_of(array.dtype)):
            if floating in argument.dtypes:
                return array.dtype
            break
    return argument.dtypes[0]


def _listed(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + f" or {names[-1]}"


def _check_declaration(
    name: str, signature: inspect.Signature, arrays: Mapping[str, ArrayArgument], in_place: frozenset[frozenset[str]]
) -> None:
    """TypeError where a declaration does not fit the function: a mistake of its author, found on import."""
    parameters = signature.parameters
    for key in arrays:
        if key not in parameters:
            raise TypeError(f"launcher {name}: array {key!r} is declared, but is no parameter of {name}{signature}")
    stream = parameters.get("stream")
    if stream is None or stream.kind is not stream.KEYWORD_ONLY or stream.default is not None:
        raise TypeError(f"launcher {name}: expected a keyword-only parameter stream=None in {name}{signature}")
    for pair in in_place:
        if len(pair) != 2 or not pair <= arrays.keys() or not any(arrays[key].written for key in pair):
            raise TypeError(
                f"launcher {name}: in_place names {sorted(pair)}, expected two declared arrays, one written"
            )
    dims = [(key, dim) for key, argument in arrays.items() for dim in argument.dims]
    alone = {dim.name for _, dim in dims}
    for key, dim in dims:
        for part in dim.names:
            if part not in alone:
                raise TypeError(f"launcher {name}: {key} has the dim {dim.text!r}, but no array has {part} as a dim")
