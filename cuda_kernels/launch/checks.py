"""Checks of launch sizes, each one line that names the value and what was expected."""

from __future__ import annotations

from typing import Any


def ceil_div(count: int, size: int) -> int:
    """The number of blocks of `size` that cover `count` items."""
    return -(-count // size)


def check_shape(name: str, array: Any, shape: tuple[int, ...]) -> None:
    """Raises ValueError unless `array` (None passes: an optional argument left out) has this shape."""
    if array is not None and tuple(array.shape) != shape:
        raise ValueError(f"{name} has shape {tuple(array.shape)}, expected {shape}")


def check_positive(name: str, value: int) -> None:
    """Raises ValueError unless `value` is at least 1."""
    if value < 1:
        raise ValueError(f"{name}={value} must be at least 1")


def check_multiple(name: str, value: int, factor_name: str, factor: int) -> None:
    """Raises ValueError unless `value` is a positive multiple of `factor`."""
    if value <= 0 or factor <= 0 or value % factor:
        raise ValueError(f"{name}={value} must be a positive multiple of {factor_name}={factor}")


def check_block(block: int) -> None:
    """Raises ValueError unless `block` threads are whole warps and at most 1,024."""
    if block <= 0 or block % 32 or block > 1024:
        raise ValueError(f"block={block} must be a multiple of 32, at most 1024")
