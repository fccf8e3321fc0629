"""Floating-point `mma.sync` of a warp: terms aligned, truncated, and then summed exactly (see `model.py`)."""

from collections.abc import Callable

from numba import cuda
from numba.cuda import types

from ..runtime.primitives import address_of
from .fragments import a_column, a_row, b_column, b_row, c_column, c_row
from .instruction import MmaInstruction
from .model import Summation
from .numbers import ENCODINGS, LANES, decoder, float_bits, float_of, power_of_two, registers_of, truncate
from .rounding import FLOAT_NAN, to_float_toward_zero, to_half_nearest

N = 8  # columns of B: the inner loops run over them, so that LLVM makes vectors of them


def _unpacker(instruction: MmaInstruction, summation: Summation, operand: str) -> Callable[..., None]:
    """A device function that spreads A (as 16 x K) or B (as K x 8) over two arrays: values and exponents."""
    encoding = ENCODINGS[getattr(instruction, operand)]
    least = summation.operand_exponent
    decode = decoder(encoding, encoding.least_exponent if least is None else least)
    per, width, shift = instruction.per_register, instruction.bits, encoding.shift
    mask = (1 << (width - shift)) - 1
    count = instruction.a_registers if operand == "a" else instruction.b_registers
    first_word = 0 if operand == "a" else instruction.a_registers
    k_size, of_a, paired = instruction.k, operand == "a", summation.paired_bytes

    @cuda.jit(device=True)
    def unpack(first, values, exponents):
        for lane in range(LANES):
            registers = registers_of(first, lane)
            for register in range(count):
                word = registers[first_word + register] >> shift
                for part in range(per):
                    value, exponent = decode((word >> (part * width)) & mask)
                    if of_a:
                        k = a_column(lane, register, part, per)
                    else:
                        k = b_row(lane, register, part, per)
                    if paired:
                        k = ((k >> 1) & 1) * (k_size // 2) + (k >> 2) * 2 + (k & 1)
                    place = a_row(lane, register) * k_size + k if of_a else k * N + b_column(lane)
                    values[place] = value
                    exponents[place] = exponent

    return unpack


def _accumulator(instruction: MmaInstruction) -> tuple[Callable[..., int], Callable[..., None]]:
    """Device functions that read an element of C from a lane's registers, and write one of D."""
    half = instruction.accumulator == "f16"
    c_word = instruction.a_registers + instruction.b_registers
    d_word = c_word + instruction.c_registers

    @cuda.jit(device=True)
    def read(registers, element):
        if half:
            return (registers[c_word + (element >> 1)] >> (16 * (element & 1))) & 0xFFFF
        return registers[c_word + element]

    @cuda.jit(device=True)
    def write(registers, element, bits):
        if half:
            if element & 1 == 0:
                registers[d_word + (element >> 1)] = bits
            else:
                registers[d_word + (element >> 1)] |= bits << 16
        else:
            registers[d_word + element] = bits

    return read, write


def _block_sum(instruction: MmaInstruction, summation: Summation) -> Callable[..., None]:
    """A device function that adds one block of K of one row of A to eight elements of C, unrounded."""
    k_size, block = instruction.k, summation.block
    fraction, least = summation.fraction_bits, summation.least_alignment

    @cuda.jit(device=True)
    def add(m, start, a, a_exponents, b, b_exponents, c, c_exponents, sums, alignments, scales):
        for n in range(N):
            alignments[n] = max(c_exponents[m * N + n], least)
        for k in range(start, start + block):
            exponent = a_exponents[m * k_size + k]
            for n in range(N):
                alignments[n] = max(alignments[n], exponent + b_exponents[k * N + n])
        for n in range(N):
            scales[n] = power_of_two(fraction - alignments[n])
            sums[n] = truncate(c[m * N + n] * scales[n])
        for k in range(start, start + block):
            factor = a[m * k_size + k]
            for n in range(N):
                sums[n] += truncate(factor * b[k * N + n] * scales[n])
        for n in range(N):
            sums[n] *= power_of_two(alignments[n] - fraction)

    return add


def handler(instruction: MmaInstruction, summation: Summation) -> Callable[..., None]:
    """The function that serves a warp: reads A, B and C of all lanes and stores D."""
    m_size, k_size = instruction.m, instruction.k
    blocks, block, c_last = instruction.k // summation.block, summation.block, summation.c_last
    unpack_a, unpack_b = (_unpacker(instruction, summation, operand) for operand in "ab")
    read_c, write_d = _accumulator(instruction)
    add_block = _block_sum(instruction, summation)
    encoding = ENCODINGS[instruction.accumulator]
    decode_c = decoder(encoding, encoding.least_exponent)
    convert = to_half_nearest if instruction.accumulator == "f16" else to_float_toward_zero(summation.result_bits)
    a_size, b_size, c_size, elements = m_size * k_size, k_size * N, m_size * N, m_size * N // LANES

    def serve(first, unused):
        lanes = address_of(first)
        a, a_exponents = cuda.local.array(a_size, types.float64), cuda.local.array(a_size, types.int64)
        b, b_exponents = cuda.local.array(b_size, types.float64), cuda.local.array(b_size, types.int64)
        c, c_exponents = cuda.local.array(c_size, types.float64), cuda.local.array(c_size, types.int64)
        sums, scales = cuda.local.array(N, types.float64), cuda.local.array(N, types.float64)
        alignments, results = cuda.local.array(N, types.int64), cuda.local.array(c_size, types.int64)
        unpack_a(lanes, a, a_exponents)
        unpack_b(lanes, b, b_exponents)
        for lane in range(LANES):
            for element in range(elements):
                place = c_row(lane, element) * N + c_column(lane, element)
                bits = 0 if c_last else read_c(registers_of(lanes, lane), element)
                c[place], c_exponents[place] = decode_c(bits)
        for index in range(blocks):
            for m in range(m_size):
                add_block(m, index * block, a, a_exponents, b, b_exponents, c, c_exponents, sums, alignments, scales)
                for n in range(N):
                    bits = convert(sums[n] + 0.0)
                    results[m * N + n] = bits
                    c[m * N + n], c_exponents[m * N + n] = decode_c(bits)
        for lane in range(LANES):
            registers = registers_of(lanes, lane)
            for element in range(elements):
                bits = results[c_row(lane, element) * N + c_column(lane, element)]
                if c_last:
                    bits = float_sum(bits, read_c(registers, element))
                write_d(registers, element, bits)

    return serve


@cuda.jit(device=True)
def float_sum(x, y):
    """The bits of the sum of two float32, to nearest even; the sum in float64 leaves nothing to round twice."""
    total = float_of(x) + float_of(y)
    return FLOAT_NAN if total != total else float_bits(total)
