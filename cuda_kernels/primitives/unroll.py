"""A loop that is unrolled for certain, so that arrays indexed by its counter stay in registers.

A local array is kept in registers only where every index is a constant once loops are unrolled, and the compiler
unrolls a loop only while its body is small. `unrolled(body, count)` writes the iterations out one after the other.
"""

from __future__ import annotations

import functools
from typing import Any

from numba import cuda


@functools.cache
def unrolled(body: Any, count: int) -> Any:
    """The device function (*arguments) that calls body(0, *arguments), ..., body(count - 1, *arguments).

    body: a device function that returns nothing; arrays among the arguments are passed on by reference.
    """
    last = count - 1
    if count == 1:

        @cuda.jit(device=True, forceinline=True)
        def once(*arguments):
            body(last, *arguments)

        return once
    before = unrolled(body, count - 1)

    @cuda.jit(device=True, forceinline=True)
    def iterations(*arguments):
        before(*arguments)
        body(last, *arguments)

    return iterations
