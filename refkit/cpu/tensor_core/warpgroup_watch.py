"""What the sanitizers hear of the operands that a `wgmma` reads in shared memory."""

from numba import cuda

from ..runtime.layout import THREAD_BLOCK
from ..runtime.primitives import words
from ..runtime.products import check_alignment, note_unit, open_group
from .shared_matrix import UNIT, base_offset, start_of, swizzle_units, unit_across_k, unit_along_k

K_BYTES = 32
WARP_ROWS = 16


@cuda.jit(device=True)
def note_along_k(leader, start, descriptor, count, of_a, node):
    for row in range(count):
        warp = row // WARP_ROWS if of_a != 0 else 0
        for unit in range(K_BYTES // UNIT):
            note_unit(leader, warp, unit_along_k(start, descriptor, row, unit), UNIT, node)


@cuda.jit(device=True)
def note_across_k(leader, start, descriptor, count, size, of_a, node):
    per_unit = UNIT // size
    for unit in range(count // per_unit):
        warp = unit * per_unit // WARP_ROWS if of_a != 0 else 0
        for k in range(K_BYTES // size):
            note_unit(leader, warp, unit_across_k(start, descriptor, unit, k), UNIT, node)


def note_operand(leader, descriptor, count, across, size, of_a):
    """`count` rows of A, each read for the warp that owns it, or columns of B, read for the first warp.

    leader: the first thread of the warpgroup. across: 1 where M or N is contiguous. size: bytes of an element.
    """
    node = open_group(leader)
    start = start_of(words(leader[THREAD_BLOCK]), descriptor)
    check_alignment(leader, start, swizzle_units(descriptor), base_offset(descriptor))
    if across != 0:
        note_across_k(leader, start, descriptor, count, size, of_a, node)
    else:
        note_along_k(leader, start, descriptor, count, of_a, node)
