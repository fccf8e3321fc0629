"""Boxes of a matrix, as tensor maps name them, between global and shared memory (PTX ISA 9.1, "Tensors").

A map is a record of this executor's own, 128 bytes: `refkit.cpu.tensor_maps` encodes it. Lines of the box lie one
behind the other in shared memory; with a swizzle of 128, 64 or 32 bytes, bits 4 to 6 (5, 4) of each address are
exchanged with their exclusive or with bits 7 to 9 (8, 7).
"""

from numba import cuda

from .primitives import copy_bytes, fill_bytes, words

MAP_MAGIC = 0
MAP_ADDRESS = 1
MAP_ELEMENT = 2  # bytes of an element
MAP_LINES = 3
MAP_ELEMENTS = 4  # along the contiguous axis
MAP_LINE_BYTES = 5  # from one line to the next
MAP_BOX_LINES = 6
MAP_BOX_ELEMENTS = 7
MAP_SWIZZLE = 8  # bytes: 0, 32, 64 or 128
MAP_WORDS = 16
MAGIC = 0x5245464B4D4150
PIECE = 16  # bytes that a swizzle moves together


@cuda.jit(device=True)
def is_map(address):
    return words(address)[MAP_MAGIC] == MAGIC


@cuda.jit(device=True)
def box_bytes(tensor):
    return tensor[MAP_BOX_LINES] * tensor[MAP_BOX_ELEMENTS] * tensor[MAP_ELEMENT]


@cuda.jit(device=True)
def swizzled(address, swizzle):
    """Where a byte lies whose place without a swizzle would be `address`."""
    if swizzle == 0:
        return address
    return address ^ (((address >> 7) & (swizzle // PIECE - 1)) << 4)


@cuda.jit(device=True)
def part_inside(tensor, line, byte, size):
    """Of `size` bytes from a byte of a line on, those that the tensor has, as (first, end)."""
    if line < 0 or line >= tensor[MAP_LINES]:
        return 0, 0
    length = tensor[MAP_ELEMENTS] * tensor[MAP_ELEMENT]
    return min(max(-byte, 0), size), max(min(length - byte, size), 0)


@cuda.jit(device=True)
def move_box(shared, tensor, x, y, load):
    """Copies the box at (x, y): into shared memory with zeros where the tensor has nothing, or out of it."""
    row = tensor[MAP_BOX_ELEMENTS] * tensor[MAP_ELEMENT]
    swizzle = tensor[MAP_SWIZZLE]
    for i in range(tensor[MAP_BOX_LINES]):
        line = y + i
        for start in range(0, row, PIECE):
            size = min(PIECE, row - start)
            place = swizzled(shared + i * row + start, swizzle)
            byte = x * tensor[MAP_ELEMENT] + start
            first, end = part_inside(tensor, line, byte, size)
            other = tensor[MAP_ADDRESS] + line * tensor[MAP_LINE_BYTES] + byte
            if load:
                if first > 0 or end < size:
                    fill_bytes(place, 0, size)
                if end > first:
                    copy_bytes(place + first, other + first, end - first)
            elif end > first:
                copy_bytes(other + first, place + first, end - first)
