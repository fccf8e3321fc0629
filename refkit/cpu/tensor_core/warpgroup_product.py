"""`wgmma.mma_async` of a warpgroup: operands from shared memory or registers, sums as in `fused_sum`.

Register i of a thread's accumulator holds row 16 (warp % 4) + lane / 4 + 8 (i / 2 % 2), column 8 (i / 4) + 2 (lane % 4)
+ i % 2 (PTX ISA 9.1, "Register Fragments and Shared Memory Matrix Layouts for wgmma"). The words of a thread: A (four
registers or a descriptor), the descriptor of B, whether to add to the accumulator, and the accumulator, which becomes
the result.
"""

from collections.abc import Callable

from llvmlite import ir
from numba import cuda
from numba.cuda import cgutils, types
from numba.cuda.extending import intrinsic

from ..runtime.layout import BLOCK_SHARED, BLOCK_SHARED_BYTES, THREAD_BLOCK, THREAD_WORKER, WORKER_SANITIZER
from ..runtime.primitives import address_of, words, words_type
from .fragments import a_column, a_row
from .fused_sum import N, _block_sum
from .numbers import ENCODINGS, decoder, registers_of
from .rounding import to_float_toward_zero
from .shared_matrix import UNIT, start_of, unit_across_k, unit_along_k
from .wgmma_instruction import M, WgmmaInstruction

_WORD = ir.IntType(64)
NOTE_OPERAND = "rk.wgmma.operand"


def _reader(size: int) -> Callable[..., int]:
    """A device function that reads an unsigned integer of `size` bytes at an address."""
    kind = ir.IntType(8 * size)

    @intrinsic
    def bits_at(typingctx, address):
        def generate(context, builder, signature, arguments):
            pointer = builder.inttoptr(arguments[0], kind.as_pointer())
            return builder.zext(builder.load(pointer, align=1), _WORD)

        return types.int64(types.int64), generate

    return bits_at


@intrinsic
def note_operand(typingctx, leader, descriptor, count, across, size, of_a):
    """Tells the sanitizers of an operand in shared memory: `warpgroup_watch.note_operand`, which all forms share."""

    def generate(context, builder, signature, arguments):
        kind = ir.FunctionType(ir.VoidType(), [argument.type for argument in arguments])
        builder.call(cgutils.get_or_insert_function(builder.module, kind, NOTE_OPERAND), arguments)
        return context.get_dummy_value()

    return types.void(words_type, *[types.int64] * 5), generate


@cuda.jit(device=True)
def is_inside(block, address):
    """Whether a unit lies in the block's shared memory."""
    offset = address - block[BLOCK_SHARED]
    return offset >= 0 and offset + UNIT <= block[BLOCK_SHARED_BYTES]


def _operand(instruction: WgmmaInstruction, of_a: bool) -> Callable[..., None]:
    """A device function that spreads rows of A (row by row) or columns of B (line of K by line) over two arrays.

    `unpack(block, start, descriptor, first, values, exponents)`: `first` is the first column of B; A comes whole.
    """
    encoding = ENCODINGS[instruction.a if of_a else instruction.b]
    decode = decoder(encoding, encoding.least_exponent)
    size, shift, k_size = instruction.element_bytes, encoding.shift, instruction.k
    across = instruction.a_across if of_a else instruction.b_across
    sign = instruction.a_sign if of_a else instruction.b_sign
    count = M if of_a else N
    per_unit = UNIT // size
    outer, units = (k_size, count // per_unit) if across else (count, k_size // per_unit)
    nan = (1 << (8 * size)) - 1
    row_step, k_step = (k_size, 1) if of_a else (1, N)
    bits_at = _reader(size)

    @cuda.jit(device=True)
    def unpack(block, start, descriptor, first, values, exponents):
        for i in range(outer):
            for unit in range(units):
                if across:
                    address = unit_across_k(start, descriptor, first // per_unit + unit, i)
                else:
                    address = unit_along_k(start, descriptor, first + i, unit)
                inside = is_inside(block, address)
                for part in range(per_unit):
                    bits = bits_at(address + part * size) if inside else nan
                    value, exponent = decode(bits >> shift)
                    along = unit * per_unit + part
                    place = along * row_step + i * k_step if across else i * row_step + along * k_step
                    values[place] = sign * value
                    exponents[place] = exponent

    return unpack


def _registers(instruction: WgmmaInstruction) -> Callable[..., None]:
    """A device function that spreads A out of the registers of 128 threads, each warp 16 rows as in `mma.sync`."""
    encoding = ENCODINGS[instruction.a]
    decode = decoder(encoding, encoding.least_exponent)
    width, shift, k_size, sign = 8 * instruction.element_bytes, encoding.shift, instruction.k, instruction.a_sign
    per = 32 // width
    mask = (1 << (width - shift)) - 1

    @cuda.jit(device=True)
    def unpack(threads, values, exponents):
        for thread in range(128):
            registers = registers_of(threads, thread)
            lane, first_row = thread & 31, 16 * (thread >> 5)
            for register in range(4):
                word = registers[register] >> shift
                for part in range(per):
                    value, exponent = decode((word >> (part * width)) & mask)
                    row = first_row + a_row(lane, register)
                    place = row * k_size + a_column(lane, register, part, per)
                    values[place] = sign * value
                    exponents[place] = exponent

    return unpack


def handler(instruction: WgmmaInstruction) -> Callable[..., None]:
    """The function that serves a warpgroup."""
    summation = instruction.summation
    k_size, columns = instruction.k, instruction.n // N
    in_registers, a_words = instruction.a_in_registers, instruction.a_words
    b_word, add_word, first_sum = a_words, a_words + 1, a_words + 2
    read_a = _registers(instruction) if in_registers else _operand(instruction, True)
    read_b = _operand(instruction, False)
    add_block = _block_sum(instruction.as_mma, summation)
    decode_c = decoder(ENCODINGS["f32"], ENCODINGS["f32"].least_exponent)
    convert = to_float_toward_zero(summation.result_bits)
    a_across, b_across = int(instruction.a_across), int(instruction.b_across)
    size, width = instruction.element_bytes, instruction.n
    a_size, b_size, c_size = M * k_size, N * k_size, M * N

    def serve(first, unused):
        threads = address_of(first)
        block = words(first[THREAD_BLOCK])
        a, a_exponents = cuda.local.array(a_size, types.float64), cuda.local.array(a_size, types.int64)
        b, b_exponents = cuda.local.array(b_size, types.float64), cuda.local.array(b_size, types.int64)
        c, c_exponents = cuda.local.array(c_size, types.float64), cuda.local.array(c_size, types.int64)
        sums, scales = cuda.local.array(N, types.float64), cuda.local.array(N, types.float64)
        alignments = cuda.local.array(N, types.int64)
        operands = registers_of(threads, 0)
        watched = words(first[THREAD_WORKER])[WORKER_SANITIZER] != 0
        adds = operands[add_word] & 1
        if in_registers:
            read_a(threads, a, a_exponents)
        else:
            if watched:
                note_operand(first, operands[0], M, a_across, size, 1)
            read_a(block, start_of(block, operands[0]), operands[0], 0, a, a_exponents)
        b_descriptor = operands[b_word]
        b_start = start_of(block, b_descriptor)
        if watched:
            note_operand(first, b_descriptor, width, b_across, size, 0)
        for column in range(columns):
            read_b(block, b_start, b_descriptor, column * N, b, b_exponents)
            for m in range(M):
                thread = 32 * (m >> 4) + 4 * (m & 7)
                element = first_sum + 4 * column + 2 * ((m >> 3) & 1)
                for n in range(N):
                    bits = registers_of(threads, thread + (n >> 1))[element + (n & 1)] if adds != 0 else 0
                    c[m * N + n], c_exponents[m * N + n] = decode_c(bits & 0xFFFFFFFF)
                add_block(m, 0, a, a_exponents, b, b_exponents, c, c_exponents, sums, alignments, scales)
                for n in range(N):
                    registers_of(threads, thread + (n >> 1))[element + (n & 1)] = convert(sums[n] + 0.0)

    return serve
