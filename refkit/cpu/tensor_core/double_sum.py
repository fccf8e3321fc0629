"""`mma.sync` on float64: one fused multiply-add after the other, k ascending, each rounded to nearest even."""

from collections.abc import Callable

from numba import cuda
from numba.cuda import types

from ..runtime.primitives import address_of
from .fragments import b_column, c_column, c_row
from .instruction import MmaInstruction
from .numbers import LANES, bits_of, double_of, fused_multiply_add, registers_of

M, N, K = 8, 8, 4
A_SIZE, B_SIZE, ELEMENTS = M * K, N * K, M * N // LANES


def handler(instruction: MmaInstruction) -> Callable[..., None]:
    """The function that serves a warp of m8n8k4: reads A, B and C of all lanes and stores D."""

    def serve(first, unused):
        lanes = address_of(first)
        a, b = cuda.local.array(A_SIZE, types.float64), cuda.local.array(B_SIZE, types.float64)
        for lane in range(LANES):
            registers = registers_of(lanes, lane)
            a[(lane >> 2) * K + (lane & 3)] = double_of(registers[0])
            b[b_column(lane) * K + (lane & 3)] = double_of(registers[1])
        for lane in range(LANES):
            registers = registers_of(lanes, lane)
            for element in range(ELEMENTS):
                row, column = c_row(lane, element) * K, c_column(lane, element) * K
                total = double_of(registers[2 + element])
                for k in range(K):
                    total = fused_multiply_add(a[row + k], b[column + k], total)
                registers[4 + element] = bits_of(total)

    return serve
