"""Descriptors by which `wgmma` finds a matrix in shared memory (PTX ISA 9.1, "Matrix Descriptor Format").

Bits 0-13: address / 16; 16-29: leading dimension byte offset / 16; 32-45: stride dimension byte offset / 16; 49-51:
base offset; 62-63: swizzle. A matrix is made of core matrices of 8 rows of 16 bytes; with a swizzle, of atoms of 8
rows of 128, 64 or 32 bytes in which 16-byte pieces are exchanged: piece p of row r lies in place of p ^ (r % 8),
p ^ (r / 2 % 4) or p ^ (r / 4 % 2). Atoms begin at multiples of their size (1,024, 512, 256 bytes).
"""

from __future__ import annotations

from numba import cuda, uint64

NO_SWIZZLE, SWIZZLE_128B, SWIZZLE_64B, SWIZZLE_32B = 0, 1, 2, 3
"""The swizzle field, in the order of the format."""


@cuda.jit(device=True)
def matrix_descriptor(address, leading_bytes, stride_bytes, swizzle):
    """The descriptor of a matrix at a shared address; takes part: the calling thread.

    K contiguous ("K-major"), swizzled: stride_bytes from 8 rows to the next 8, leading_bytes is not used (1).
    M or N contiguous, swizzled: leading_bytes from one atom along M or N to the next, stride_bytes to the next 8 of K.
    Without a swizzle: leading_bytes between core matrices along K, stride_bytes along M or N (the other way round
    where M or N is contiguous).
    """
    return (
        ((uint64(address) & uint64(0x3FFFF)) >> uint64(4))
        | (uint64(leading_bytes) >> uint64(4)) << uint64(16)
        | (uint64(stride_bytes) >> uint64(4)) << uint64(32)
        | uint64(swizzle) << uint64(62)
    )
