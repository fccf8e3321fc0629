"""`mma.sync` on 8-bit integers: exact products, summed in 32 bits that wrap or clamp (PTX ISA 9.1, "mma")."""

from collections.abc import Callable

from numba import cuda
from numba.cuda import types

from ..runtime.primitives import address_of
from .fragments import a_column, a_row, b_column, b_row, c_column, c_row
from .instruction import MmaInstruction
from .numbers import LANES, registers_of

N = 8
_LEAST, _MOST = -(2**31), 2**31 - 1


@cuda.jit(device=True)
def signed_byte(byte, signed):
    return byte - 256 if signed and byte >= 128 else byte


def handler(instruction: MmaInstruction) -> Callable[..., None]:
    """The function that serves a warp: reads A, B and C of all lanes and stores D."""
    m_size, k_size, clamps = instruction.m, instruction.k, instruction.satfinite
    a_signed, b_signed = instruction.a == "s8", instruction.b == "s8"
    a_count, b_count, elements = instruction.a_registers, instruction.b_registers, instruction.c_registers
    c_word, d_word = a_count + b_count, a_count + b_count + elements
    a_size, b_size, per = m_size * k_size, k_size * N, instruction.per_register

    def serve(first, unused):
        lanes = address_of(first)
        a, b = cuda.local.array(a_size, types.int32), cuda.local.array(b_size, types.int32)
        for lane in range(LANES):
            registers = registers_of(lanes, lane)
            for register in range(a_count):
                for part in range(per):
                    place = a_row(lane, register) * k_size + a_column(lane, register, part, per)
                    a[place] = signed_byte((registers[register] >> (8 * part)) & 0xFF, a_signed)
            for register in range(b_count):
                for part in range(per):
                    place = b_column(lane) * k_size + b_row(lane, register, part, per)
                    b[place] = signed_byte((registers[a_count + register] >> (8 * part)) & 0xFF, b_signed)
        for lane in range(LANES):
            registers = registers_of(lanes, lane)
            for element in range(elements):
                row, column = c_row(lane, element) * k_size, c_column(lane, element) * k_size
                total = ((registers[c_word + element] & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000
                for k in range(k_size):
                    total += a[row + k] * b[column + k]
                if clamps:
                    total = min(max(total, _LEAST), _MOST)
                registers[d_word + element] = total & 0xFFFFFFFF

    return serve
