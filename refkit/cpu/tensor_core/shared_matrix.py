"""Where `wgmma` finds its operands in shared memory, by descriptor (PTX ISA 9.1, "Asynchronous Warpgroup Level Matrix
Shared Memory Layout", "Matrix Descriptor Format"), in Numba's dialect.

A descriptor's fields, in 16 bytes except for the last two: bits 0-13 the address, 16-29 the leading and 32-45 the
stride offset, 49-51 the base offset, 62-63 the swizzle (0 none, 1, 2, 3: 128, 64, 32 bytes). A unit is 16 bytes along
the contiguous axis; a line is as many units as the swizzle is wide, one without.
K contiguous: eight rows of M or N are eight lines, `stride` leads to the next eight; without a swizzle `leading` leads
to the second unit of K. M or N contiguous: eight rows of K are eight lines, `stride` leads to the next eight and
`leading` to the next line's width of M or N; without a swizzle `leading` leads to the next eight of K and `stride` to
the next unit. A swizzle replaces bits 4 to 6 (5, 4) of an address by their exclusive or with bits 7 to 9 (8, 7).
"""

from numba import cuda

from ..runtime.layout import BLOCK_SHARED

ADDRESS_MASK = 0x3FFFF
UNIT = 16


@cuda.jit(device=True)
def swizzle_units(descriptor):
    """Units in a line of the layout: 8, 4 or 2, or 1 without a swizzle."""
    mode = (descriptor >> 62) & 3
    return 1 if mode == 0 else 16 >> mode


@cuda.jit(device=True)
def start_of(block, descriptor):
    """The address of the first element: where a block's shared memory has these low 18 bits."""
    base = block[BLOCK_SHARED]
    return base + ((((descriptor & 0x3FFF) << 4) - base) & ADDRESS_MASK)


@cuda.jit(device=True)
def leading_bytes(descriptor):
    return ((descriptor >> 16) & 0x3FFF) << 4


@cuda.jit(device=True)
def stride_bytes(descriptor):
    return ((descriptor >> 32) & 0x3FFF) << 4


@cuda.jit(device=True)
def base_offset(descriptor):
    return (descriptor >> 49) & 7


@cuda.jit(device=True)
def swizzled(address, units):
    return address ^ (((address >> 7) & (units - 1)) << 4)


@cuda.jit(device=True)
def unit_along_k(start, descriptor, row, unit):
    """The address of 16 bytes of a row (of M or N), where K is contiguous."""
    units = swizzle_units(descriptor)
    along = leading_bytes(descriptor) if units == 1 else UNIT
    place = start + (row & 7) * (units * UNIT) + (row >> 3) * stride_bytes(descriptor) + unit * along
    return swizzled(place, units)


@cuda.jit(device=True)
def unit_across_k(start, descriptor, unit, k):
    """The address of 16 bytes along M or N, of one line of K, where M or N is contiguous."""
    units = swizzle_units(descriptor)
    leading, stride = leading_bytes(descriptor), stride_bytes(descriptor)
    if units == 1:
        leading, stride = stride, leading
    line = (k & 7) * (units * UNIT) + (k >> 3) * stride
    return swizzled(start + line + (unit // units) * leading + (unit % units) * UNIT, units)
