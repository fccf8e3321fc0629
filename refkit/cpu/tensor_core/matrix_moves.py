"""`ldmatrix` and `stmatrix` of a warp (PTX ISA 9.1, "Warp Level Matrix Load/Store Instructions").

Lane 8 j + r holds the address of row r of matrix j. Register j of a lane holds two elements of matrix j: of row
lane / 4, columns 2 (lane % 4) and the next; transposed, of column lane / 4 and those rows.
"""

from collections.abc import Callable

from llvmlite import ir
from numba import cuda
from numba.cuda import types
from numba.cuda.extending import intrinsic

from ..runtime.primitives import address_of
from .numbers import LANES, registers_of

_HALF, _WORD = ir.IntType(16), ir.IntType(64)


@intrinsic
def half_at(typingctx, address):
    """The 16 bits at an address."""

    def generate(context, builder, signature, arguments):
        pointer = builder.inttoptr(arguments[0], _HALF.as_pointer())
        return builder.zext(builder.load(pointer, align=1), _WORD)

    return types.int64(types.int64), generate


@intrinsic
def set_half(typingctx, address, value):
    """Stores 16 bits at an address."""

    def generate(context, builder, signature, arguments):
        pointer = builder.inttoptr(arguments[0], _HALF.as_pointer())
        builder.store(builder.trunc(arguments[1], _HALF), pointer, align=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


def _element_address(trans: bool) -> Callable[..., int]:
    @cuda.jit(device=True)
    def element_address(lanes, matrix, lane, half):
        """Where the lower or upper half of a lane's register lies in shared memory."""
        group, place = lane >> 2, 2 * (lane & 3) + half
        row = place if trans else group
        column = group if trans else place
        return registers_of(lanes, 8 * matrix + row)[0] + 2 * column

    return element_address


def load_handler(count: int, trans: bool) -> Callable[..., None]:
    """`ldmatrix`: word 0 of a lane is its address, then come the registers that it gets."""
    element_address = _element_address(trans)

    def serve(first, unused):
        lanes = address_of(first)
        for lane in range(LANES):
            registers = registers_of(lanes, lane)
            for matrix in range(count):
                low = half_at(element_address(lanes, matrix, lane, 0))
                high = half_at(element_address(lanes, matrix, lane, 1))
                registers[1 + matrix] = low | (high << 16)

    return serve


def store_handler(count: int, trans: bool) -> Callable[..., None]:
    """`stmatrix`: word 0 of a lane is its address, then come the registers that it gives."""
    element_address = _element_address(trans)

    def serve(first, unused):
        lanes = address_of(first)
        for lane in range(LANES):
            registers = registers_of(lanes, lane)
            for matrix in range(count):
                word = registers[1 + matrix]
                set_half(element_address(lanes, matrix, lane, 0), word & 0xFFFF)
                set_half(element_address(lanes, matrix, lane, 1), (word >> 16) & 0xFFFF)

    return serve
