"""Shapes of the arrays of one call against their dims: the same name has the same size everywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .declarations import ArrayArgument

Present = list[tuple[str, "ArrayArgument", Any]]


def check(launcher: str, present: Present) -> None:
    """ValueError where an array has another number of axes, or another shape, than its dims and the other arrays say.

    A name is known from the first array that has it alone or times a number; expressions are checked at the end.
    """
    sizes: dict[str, int] = {}
    later = False
    for name, argument, array in present:
        shape = array.shape
        if len(shape) != len(argument.dims):
            raise ValueError(
                f"{launcher}: {name} has shape {tuple(shape)}, expected {len(argument.dims)} axes {argument.shape}"
            )
        for dim, length in zip(argument.dims, shape):
            if not dim.name:
                later = True
            elif dim.name not in sizes and length % dim.factor == 0:
                sizes[dim.name] = length // dim.factor
            elif dim.name not in sizes or sizes[dim.name] * dim.factor != length:
                raise _mismatch(launcher, name, present, sizes)
    if later:
        for name, argument, array in present:
            for dim, length in zip(argument.dims, array.shape):
                if not dim.name and all(part in sizes for part in dim.names) and dim.size(sizes) != length:
                    raise _mismatch(launcher, name, present, sizes)


def _mismatch(launcher: str, name: str, present: Present, sizes: dict[str, int]) -> ValueError:
    """The error, which says where each size of the expected shape comes from."""
    argument, array = next((argument, array) for key, argument, array in present if key == name)
    expected = ", ".join(
        str(dim.size(sizes)) if all(part in sizes for part in dim.names) else dim.text for dim in argument.dims
    )
    expected = f"({expected},)" if len(argument.dims) == 1 else f"({expected})"
    sources = [
        f"{part} = {sizes[part]} in {source}"
        for part in dict.fromkeys(part for dim in argument.dims for part in dim.names)
        if part in sizes and (source := _source(part, present)) != name
    ]
    where = f" ({', '.join(sources)})" if sources else ""
    symbols = "" if argument.shape == expected else f" = {argument.shape}"
    return ValueError(f"{launcher}: {name} has shape {tuple(array.shape)}, expected {expected}{symbols}{where}")


def _source(part: str, present: Present) -> str:
    """The first array that has the name alone or times a number: the one its size was taken from."""
    return next(name for name, argument, _ in present if any(dim.name == part for dim in argument.dims))
