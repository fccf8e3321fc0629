"""What launchers share: the decorator that checks arrays before a launch, declarations of arrays, views, checks."""

from __future__ import annotations

from .absent import present_or_empty
from .checks import ceil_div, check_block, check_multiple, check_positive, check_shape
from .declarations import FLOAT32, FLOATS, INTEGERS, ArrayArgument, add_into, read, update, write
from .decorator import launcher
from .fill_zero import fill_zero
from .streams import as_stream
from .views import transposed

__all__ = [
    "FLOAT32",
    "FLOATS",
    "INTEGERS",
    "ArrayArgument",
    "add_into",
    "as_stream",
    "ceil_div",
    "check_block",
    "check_multiple",
    "check_positive",
    "check_shape",
    "fill_zero",
    "launcher",
    "present_or_empty",
    "read",
    "transposed",
    "update",
    "write",
]
