"""Warp operations against the PTX ISA, restated in NumPy: shuffles, votes, matches, syncwarp, activemask."""

import numpy as np
import pytest
from llvmlite import ir
from numba import cuda, types
from numba.cuda import cgutils
from numba.cuda.extending import intrinsic

from refkit.cpu import Deadlock, emulate

pytestmark = pytest.mark.cpu

FULL = 0xFFFFFFFF
IDX, UP, DOWN, XOR = range(4)


def shuffled(mode: int, value: np.ndarray, operand: int, clamp: int) -> tuple[np.ndarray, np.ndarray]:
    """What each of 32 lanes receives, and whether its source was in range (PTX ISA 9.1, shfl.sync)."""
    lane = np.arange(32)
    segment, bound = (clamp >> 8) & 31, clamp & 31
    last = (lane & segment) | (bound & ~segment & 31)
    operand &= 31
    source = {
        IDX: (lane & segment) | (operand & ~segment & 31),
        UP: lane - operand,
        DOWN: lane + operand,
        XOR: lane ^ operand,
    }[mode]
    valid = source >= last if mode == UP else source <= last
    return value[np.where(valid, source, lane)], valid


def shuffle_intrinsic(mode: int):
    @intrinsic
    def shuffle(typingctx, mask, value, operand, clamp):
        """(value received, source in range): the instruction with its clamp operand, which Numba's functions fix."""

        def codegen(context, builder, signature, arguments):
            i32 = ir.IntType(32)
            kind = ir.FunctionType(ir.LiteralStructType((i32, ir.IntType(1))), [i32] * 5)
            function = cgutils.get_or_insert_function(builder.module, kind, "llvm.nvvm.shfl.sync.i32")
            mask, value, operand, clamp = arguments
            pair = builder.call(function, (mask, i32(mode), value, operand, clamp))
            wide = builder.zext(builder.extract_value(pair, 1), i32)
            return cgutils.pack_array(builder, [builder.extract_value(pair, 0), wide])

        return types.UniTuple(types.int32, 2)(types.int32, types.int32, types.int32, types.int32), codegen

    return shuffle


def shuffle_kernel(mode: int):
    instruction = shuffle_intrinsic(mode)

    @cuda.jit
    def kernel(source, operand, clamp, received, valid):
        lane = cuda.threadIdx.x
        value, in_range = instruction(np.int32(-1), source[lane], np.int32(operand), np.int32(clamp))
        received[lane] = value
        valid[lane] = in_range

    return kernel


SHUFFLES = {mode: shuffle_kernel(mode) for mode in (IDX, UP, DOWN, XOR)}


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16, 32])
@pytest.mark.parametrize("mode", [IDX, UP, DOWN, XOR])
def test_shuffle_in_segments_of_every_width(mode, width):
    source = np.random.default_rng(1).integers(-(2**31), 2**31 - 1, 32, dtype=np.int32)
    clamp = (32 - width) << 8 | (0 if mode == UP else 31)
    with emulate(workers=1):
        for operand in (0, 1, 3, 7, 17, 31, 32, 33):
            received, valid = np.zeros(32, np.int32), np.zeros(32, np.int32)
            SHUFFLES[mode][1, 32](source, operand, clamp, received, valid)
            expected, in_range = shuffled(mode, source, operand, clamp)
            np.testing.assert_array_equal(received, expected)
            np.testing.assert_array_equal(valid, in_range)


@cuda.jit
def numba_shuffles(x, operand, out):
    lane = cuda.laneid
    i = cuda.grid(1)
    out[0, i] = cuda.shfl_sync(FULL, x[i], operand)
    out[1, i] = cuda.shfl_up_sync(FULL, x[i], operand)
    out[2, i] = cuda.shfl_down_sync(FULL, x[i], operand)
    out[3, i] = cuda.shfl_xor_sync(FULL, x[i], operand)
    out[4, i] = cuda.shfl_sync(FULL, x[i], 31 - lane)


@pytest.mark.parametrize("schedule", [None, 2])
@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64"])
def test_shuffles_of_every_type(dtype, schedule):
    rng = np.random.default_rng(2)
    if dtype.startswith("int"):
        limits = np.iinfo(dtype)
        x = rng.integers(limits.min, limits.max, 96, dtype=dtype)
    else:
        x = rng.standard_normal(96).astype(dtype)
        x[[3, 40]] = np.nan, -0.0
    with emulate(schedule=schedule):
        for operand in (0, 5, 31):
            out = np.zeros((5, 96), dtype)
            numba_shuffles[1, 96](x, operand, out)
            warps = x.reshape(3, 32)
            for mode, clamp in ((IDX, 31), (UP, 0), (DOWN, 31), (XOR, 31)):
                expected = np.concatenate([shuffled(mode, warp, operand, clamp)[0] for warp in warps])
                np.testing.assert_array_equal(out[mode].view(f"i{x.itemsize}"), expected.view(f"i{x.itemsize}"))
            np.testing.assert_array_equal(out[4].view(f"i{x.itemsize}"), warps[:, ::-1].ravel().view(f"i{x.itemsize}"))


@cuda.jit
def halves(x, out):
    lane = cuda.threadIdx.x
    if lane < 16:
        out[lane] = cuda.shfl_down_sync(0x0000FFFF, x[lane], 1)
    else:
        out[lane] = cuda.shfl_up_sync(0xFFFF0000, x[lane], 1)


@pytest.mark.parametrize("schedule", [None, 0, 9])
def test_partial_masks_in_two_branches(schedule):
    x = np.arange(32, dtype=np.int32) * 10
    out = np.zeros(32, np.int32)
    with emulate(schedule=schedule):
        halves[1, 32](x, out)
    lane = np.arange(32)
    known = (lane != 15) & (lane != 16)  # these two read a lane outside their mask
    np.testing.assert_array_equal(out[known], np.where(lane < 16, np.minimum(lane + 1, 31), lane - 1)[known] * 10)


@cuda.jit
def nested_masks(out):
    """Lane 1 is in lane 0's mask, but first completes an operation of its own."""
    lane = cuda.threadIdx.x
    if lane == 0:
        out[0] = cuda.shfl_sync(0x3, 100, 1)
    elif lane == 1:
        alone = cuda.shfl_sync(0x2, 7, 1)
        out[1] = cuda.shfl_sync(0x3, alone, 0)
        out[2] = alone


@pytest.mark.parametrize("schedule", [None, 0, 1, 2])
def test_a_lane_completes_a_smaller_mask_while_a_larger_one_waits_for_it(schedule):
    out = np.zeros(3, np.int32)
    with emulate(schedule=schedule):
        nested_masks[1, 32](out)
    assert out.tolist() == [7, 100, 7]


@cuda.jit
def exited_lanes(x, limit, out):
    """Lanes past the limit have returned; an operation whose mask names them does not wait for them."""
    lane = cuda.threadIdx.x
    if lane >= limit:
        return
    out[0, lane] = cuda.ballot_sync(FULL, x[lane])
    out[1, lane] = cuda.shfl_sync(FULL, x[lane], 0)
    cuda.syncwarp(FULL)


def test_exited_lanes_are_not_waited_for():
    x = np.ones(32, np.int32) * 3
    out = np.zeros((2, 32), np.int32)
    with emulate():
        exited_lanes[1, 32](x, 20, out)
    assert (out[0, :20] == (1 << 20) - 1).all()
    assert (out[1, :20] == 3).all()
    assert (out[:, 20:] == 0).all()


@cuda.jit
def votes(x, out):
    lane = cuda.threadIdx.x
    predicate = x[lane] != 0
    out[0, lane] = cuda.all_sync(FULL, predicate)
    out[1, lane] = cuda.any_sync(FULL, predicate)
    out[2, lane] = cuda.eq_sync(FULL, predicate)
    out[3, lane] = cuda.ballot_sync(FULL, predicate)


@pytest.mark.parametrize("bits", [0, FULL, 1, 0x80000000, 0x0F0F1234])
def test_votes(bits):
    x = (bits >> np.arange(32)) & 1
    out = np.zeros((4, 32), np.int64)
    with emulate():
        votes[1, 32](x.astype(np.int32), out)
    expected = [bits == FULL, bits != 0, bits in (0, FULL)]
    for row, value in zip(out, expected):
        np.testing.assert_array_equal(row != 0, np.full(32, value))
    assert (out[3] & FULL == bits).all()


@cuda.jit
def masked_votes(x, out):
    lane = cuda.threadIdx.x
    if lane % 2:
        out[0, lane] = cuda.ballot_sync(0xAAAAAAAA, x[lane])
        out[1, lane] = cuda.all_sync(0xAAAAAAAA, x[lane])


def test_votes_count_the_lanes_of_their_mask_alone():
    x = (np.arange(32) % 2).astype(np.int32)
    out = np.zeros((2, 32), np.int64)
    with emulate():
        masked_votes[1, 32](x, out)
    assert (out[0, 1::2] & FULL == 0xAAAAAAAA).all()
    assert (out[1, 1::2] == 1).all()


def match_kernel(mask: int):
    @cuda.jit
    def kernel(x, some, every, same):
        lane = cuda.threadIdx.x
        if (mask >> lane) & 1:
            some[lane] = cuda.match_any_sync(mask, x[lane])
            lanes, equal = cuda.match_all_sync(mask, x[lane])
            every[lane] = lanes
            same[lane] = equal

    return kernel


@pytest.mark.parametrize("mask", [FULL, 0x00FF0F01])
@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64"])
def test_match(dtype, mask):
    kernel = match_kernel(mask)
    rng = np.random.default_rng(3)
    taking_part = [lane for lane in range(32) if (mask >> lane) & 1]
    # equal in the low 32 bits, different above: a 64-bit match has to look at both halves
    wide = (2**40 if dtype == "int64" else 1) * rng.integers(0, 3, 32)
    with emulate():
        for x in (wide.astype(dtype), np.full(32, 5, dtype)):
            some, every, same = (np.zeros(32, np.int64) for _ in range(3))
            kernel[1, 32](x, some, every, same)
            for lane in taking_part:
                equal = sum(1 << other for other in taking_part if x[other] == x[lane])
                assert some[lane] & FULL == equal
                assert every[lane] & FULL == (mask if equal == mask else 0)
                assert bool(same[lane]) == (equal == mask)


@cuda.jit
def exchange_in_warp(x, out):
    buffer = cuda.shared.array(64, types.float32)
    thread = cuda.threadIdx.x
    buffer[thread] = x[thread]
    cuda.syncwarp(FULL)
    out[thread] = buffer[thread ^ 31]


@pytest.mark.parametrize("schedule", [None, 0, 1, 2, 3])
def test_syncwarp_orders_shared_memory_in_the_warp(schedule):
    x = np.arange(64, dtype=np.float32)
    out = np.zeros(64, np.float32)
    with emulate(schedule=schedule):
        exchange_in_warp[1, 64](x, out)
    np.testing.assert_array_equal(out, x.reshape(2, 32)[:, ::-1].ravel())


@cuda.jit
def active(out):
    lane = cuda.laneid
    out[0, lane] = cuda.activemask()
    if lane % 4 == 1:  # noqa: SIM114  two branches are the point
        out[1, lane] = cuda.activemask()
    elif lane > 20:
        out[1, lane] = cuda.activemask()


def test_activemask_in_divergent_code_holds_the_caller_and_only_lanes_of_its_branch():
    out = np.zeros((2, 32), np.int64)
    with emulate():
        active[1, 32](out)
    lane = np.arange(32)
    assert (out[0] & FULL == FULL).all()
    for branch in (lane % 4 == 1, (lane > 20) & (lane % 4 != 1)):
        members = sum(1 << int(i) for i in lane[branch])
        got = out[1, branch] & FULL
        assert ((got >> lane[branch]) & 1 == 1).all()
        assert (got & ~members == 0).all()


@cuda.jit
def special_lanes(out):
    i = cuda.threadIdx.x + cuda.blockDim.x * cuda.threadIdx.y
    out[0, i] = cuda.laneid
    out[1, i] = cuda.lanemask_lt()
    out[2, i] = cuda.warpsize


def test_lane_registers_follow_the_linear_thread_index():
    out = np.zeros((3, 70), np.int64)
    with emulate():
        special_lanes[1, (10, 7)](out)
    lane = np.arange(70) % 32
    np.testing.assert_array_equal(out[0], lane)
    np.testing.assert_array_equal(out[1] & FULL, (1 << lane) - 1)
    assert (out[2] == 32).all()


@cuda.jit
def warp_sums(x, out):
    i = cuda.grid(1)
    value = x[i]
    step = 16
    while step > 0:
        value += cuda.shfl_down_sync(FULL, value, step)
        step //= 2
    if cuda.laneid == 0:
        out[i // 32] = value


def test_warp_reduction_over_many_blocks_on_several_workers():
    x = np.random.default_rng(4).integers(-1000, 1000, 64 * 256)
    out = np.zeros(64 * 8, np.int64)
    with emulate(workers=3):
        warp_sums[64, 256](x, out)
    np.testing.assert_array_equal(out, x.reshape(-1, 32).sum(1))


@cuda.jit
def lane_missing(out):
    lane = cuda.threadIdx.x
    if lane != 5:
        out[lane] = cuda.shfl_sync(FULL, lane, 0)
    else:
        cuda.syncthreads()


def test_a_lane_that_never_comes_is_a_deadlock_with_its_mask():
    with (
        emulate(),
        pytest.raises(
            Deadlock, match=r"31 threads .*wait at a warp operation.*0xffffffff.*1 thread .*thread \(5, 0, 0\)"
        ),
    ):
        lane_missing[1, 32](np.zeros(32, np.int32))


@cuda.jit
def not_in_own_mask(out):
    out[cuda.threadIdx.x] = cuda.ballot_sync(0x1, 1)


def test_a_lane_outside_its_own_mask_never_completes():
    with emulate(), pytest.raises(Deadlock, match="0x00000001"):
        not_in_own_mask[1, 32](np.zeros(32, np.int32))
