"""Accesses of several elements at once: whether all of one lies in the array that it begins in.

The index that such an access is made with is that of its first element, so that only its bytes tell where it ends.
"""

from numba import cuda

from .findings import record, sanitizer_of
from .layout import BLOCK_SHARED, BLOCK_SHARED_BYTES, THREAD_BLOCK
from .primitives import words
from .shadow import stop_launch
from .shadow_layout import (
    EXTENT_BASE,
    EXTENT_END,
    EXTENT_WORDS,
    PAST_END,
    SANITIZER_EXTENT_COUNT,
    SANITIZER_EXTENTS,
    SANITIZER_FLAGS,
    SANITIZER_SHARED_EXTENT_COUNT,
    SANITIZER_SHARED_EXTENTS,
    WATCH_MEMORY,
)


@cuda.jit(device=True)
def reach(extents, count, start):
    """How many bytes there are from `start` to the end of the array that holds it; the most of several, 0 for none."""
    most = 0
    for i in range(count):
        extent = words(extents + i * (8 * EXTENT_WORDS))
        if start >= extent[EXTENT_BASE]:
            most = max(most, extent[EXTENT_END] - start)
    return most


@cuda.jit(device=True)
def check_extent(thread, site, address, size, access, shared):
    """Reports an access that begins in an array and ends past it; with `shared`, one in no shared array as well.

    Memory outside shared memory that is no argument of the kernel is not known, and every access to it passes.
    """
    sanitizer = sanitizer_of(thread)
    if sanitizer[SANITIZER_FLAGS] & WATCH_MEMORY == 0:
        return
    block = words(thread[THREAD_BLOCK])
    offset = address - block[BLOCK_SHARED]
    if shared or (offset >= 0 and offset < block[BLOCK_SHARED_BYTES]):
        inside = reach(sanitizer[SANITIZER_SHARED_EXTENTS], sanitizer[SANITIZER_SHARED_EXTENT_COUNT], offset)
        known = True
    else:
        inside = reach(sanitizer[SANITIZER_EXTENTS], sanitizer[SANITIZER_EXTENT_COUNT], address)
        known = inside > 0
    if known and inside < size:
        record(thread, PAST_END, site, address, access, 0, 0, 0, size, inside)
        stop_launch(thread, site)


def within(thread, site, address, size, access, shared):
    check_extent(thread, site, address, size, access, shared != 0)
