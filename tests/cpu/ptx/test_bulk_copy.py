"""Bulk copies and tensor maps on the executor: what they move, how late, and what the driver refuses to encode."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda, int32, uint8, uint32, uint64

from refkit.cpu import SANITIZERS, emulate
from refkit.cuda_kernels import ptx
from refkit.cuda_kernels.ptx.tensor_maps import encode_tiled, on_device

pytestmark = pytest.mark.cpu
SCHEDULES = [None, 0, 3]


@cuda.jit
def through_shared(x, y, size, early):
    """y = x by a bulk load and a bulk store; `early` keeps what lies in shared memory before the wait."""
    shared = cuda.shared.array(1024, uint8, alignment=128)
    barriers = cuda.shared.array(1, uint64)
    full, tile = ptx.shared_address(barriers, 0), ptx.shared_address(shared, 0)
    ptx.mbarrier_init(full, uint32(1))
    ptx.fence_mbarrier_init()
    ptx.mbarrier_arrive_expect_tx(full, size)
    ptx.cp_async_bulk_load(tile, ptx.global_address(x, 0), size, full)
    if early.size > 0:
        for i in range(early.size):
            early[i] = shared[i]
    ptx.mbarrier_wait_parity(full, uint32(0))
    ptx.cp_async_bulk_store(ptx.global_address(y, 0), tile, size)
    ptx.cp_async_bulk_commit_group()
    ptx.cp_async_bulk_wait_group(0)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("size", [16, 1024])
def test_bytes_go_in_and_out(schedule, size):
    x = np.random.default_rng(size).integers(0, 256, 1024).astype(np.uint8)
    with emulate(sanitize=SANITIZERS, schedule=schedule):
        y = cuda.to_device(np.zeros(1024, np.uint8))
        through_shared[1, 1](x, y, np.uint32(size), np.zeros(0, np.uint8))
        got = y.copy_to_host()
    np.testing.assert_array_equal(got[:size], x[:size])
    assert not got[size:].any()


def test_a_load_lands_when_it_is_waited_for_and_no_earlier():
    x = np.arange(64, dtype=np.uint8)
    with emulate():
        early, y = cuda.to_device(np.zeros(64, np.uint8)), cuda.to_device(np.zeros(64, np.uint8))
        through_shared[1, 1](x, y, np.uint32(64), early)
        np.testing.assert_array_equal(y.copy_to_host(), x)
        assert (early.copy_to_host() == 0xFF).all()


def test_what_a_store_has_written_counts_as_written():
    with emulate(sanitize=("uninitialized",)):
        x, y, z = np.ones(256, np.uint8), cuda.device_array(256, np.uint8), cuda.device_array(256, np.uint8)
        through_shared[1, 1](x, y, np.uint32(256), np.zeros(0, np.uint8))
        through_shared[1, 1](y, z, np.uint32(256), np.zeros(0, np.uint8))
        assert z.copy_to_host().all()


@pytest.mark.parametrize("waits", [True, False])
def test_a_store_reads_its_source_at_the_wait(waits):
    @cuda.jit
    def kernel(y):
        shared = cuda.shared.array(16, uint8, alignment=128)
        for i in range(16):
            shared[i] = 1
        ptx.fence_proxy_async()
        ptx.cp_async_bulk_store(ptx.global_address(y, 0), ptx.shared_address(shared, 0), uint32(16))
        ptx.cp_async_bulk_commit_group()
        if waits:
            ptx.cp_async_bulk_wait_group_read(0)
        for i in range(16):
            shared[i] = 2

    with emulate():
        y = cuda.to_device(np.zeros(16, np.uint8))
        kernel[1, 1](y)
        assert set(y.copy_to_host()) == {1 if waits else 2}


def test_groups_of_stores_are_waited_for_one_after_the_other():
    @cuda.jit
    def kernel(y, seen):
        shared = cuda.shared.array(32, uint8, alignment=128)
        for i in range(32):
            shared[i] = 1
        ptx.fence_proxy_async()
        for half in range(2):
            target, source = ptx.global_address(y, 16 * half), ptx.shared_address(shared, 16 * half)
            ptx.cp_async_bulk_store(target, source, uint32(16))
            ptx.cp_async_bulk_commit_group()
        ptx.cp_async_bulk_wait_group(1)
        seen[0], seen[1] = y[0], y[16]
        ptx.cp_async_bulk_wait_group(0)

    with emulate():
        y, seen = cuda.to_device(np.zeros(32, np.uint8)), cuda.to_device(np.zeros(2, np.uint8))
        kernel[1, 1](y, seen)
        assert list(seen.copy_to_host()) == [1, 0]
        assert y.copy_to_host().all()


@cuda.jit
def box_load(maps, x, y, size, image):
    """The bytes of a box as they lie in shared memory."""
    shared = cuda.shared.array(16384, uint8, alignment=1024)
    barriers = cuda.shared.array(1, uint64)
    full = ptx.shared_address(barriers, 0)
    ptx.mbarrier_init(full, uint32(1))
    ptx.fence_mbarrier_init()
    ptx.mbarrier_arrive_expect_tx(full, size)
    map_address = ptx.global_address(maps, (0, 0))
    ptx.cp_async_bulk_tensor_2d_load(ptx.shared_address(shared, 0), map_address, x, y, full)
    ptx.mbarrier_wait_parity(full, uint32(0))
    for i in range(image.size):
        image[i] = shared[i]


@cuda.jit
def box_store(maps, x, y, image):
    """The box that lies in shared memory as `image` says, to the tensor."""
    shared = cuda.shared.array(16384, uint8, alignment=1024)
    for i in range(image.size):
        shared[i] = image[i]
    ptx.fence_proxy_async()
    map_address = ptx.global_address(maps, (0, 0))
    ptx.cp_async_bulk_tensor_2d_store(map_address, x, y, ptx.shared_address(shared, 0))
    ptx.cp_async_bulk_commit_group()
    ptx.cp_async_bulk_wait_group(0)


def boxed(matrix: np.ndarray, x: int, y: int, box: tuple[int, int]) -> np.ndarray:
    """The box at (x, y) with zeros outside of the matrix, one index after the other."""
    out = np.zeros(box, matrix.dtype)
    for i in range(box[0]):
        for j in range(box[1]):
            if 0 <= y + i < matrix.shape[0] and 0 <= x + j < matrix.shape[1]:
                out[i, j] = matrix[y + i, x + j]
    return out


def image_of(box: np.ndarray, swizzle: int) -> np.ndarray:
    """Lines one behind the other; 16-byte piece p of the 128 bytes number r lies in place of p ^ (r mod width)."""
    plain = np.ascontiguousarray(box).view(np.uint8).reshape(-1, 16)
    if not swizzle:
        return plain.reshape(-1)
    image = np.empty_like(plain)
    for piece in range(len(plain)):
        image[piece ^ (piece // 8 % (swizzle // 16))] = plain[piece]
    return image.reshape(-1)


BOXES = [
    ("uint16", 128, (16, 64), 5, 3),
    ("uint16", 64, (8, 32), -7, -2),
    ("uint32", 32, (16, 8), 80, 28),
    ("uint8", 128, (8, 128), 30, 31),
    ("float32", 0, (5, 20), 68, -4),
]


@pytest.mark.parametrize(("dtype", "swizzle", "box", "x", "y"), BOXES)
@pytest.mark.parametrize("sanitize", [(), SANITIZERS], ids=["plain", "watched"])
def test_a_box_arrives_swizzled_and_with_zeros_outside(dtype, swizzle, box, x, y, sanitize):
    rng = np.random.default_rng(1)
    matrix = rng.integers(1, 200, (33, 96)).astype(dtype)[:, :84]
    lines = np.zeros((33, 96), dtype)
    lines[:, :84] = matrix
    wanted = image_of(boxed(matrix, x, y, box), swizzle)
    with emulate(sanitize=sanitize):
        device = cuda.to_device(lines)
        address = device.__cuda_array_interface__["data"][0]
        maps = on_device([encode_tiled(address, dtype, matrix.shape, lines.strides[0], box, swizzle)], 0)
        image = cuda.device_array(wanted.size, np.uint8)
        box_load[1, 1](maps, np.int32(x), np.int32(y), np.uint32(wanted.size), image)
        np.testing.assert_array_equal(image.copy_to_host(), wanted)


@pytest.mark.parametrize(("dtype", "swizzle", "box", "x", "y"), BOXES)
def test_a_box_is_stored_as_far_as_the_tensor_reaches(dtype, swizzle, box, x, y):
    values = np.random.default_rng(2).integers(1, 200, box).astype(dtype)
    wanted = np.zeros((33, 96), dtype)
    for i in range(box[0]):
        for j in range(box[1]):
            if 0 <= y + i < 33 and 0 <= x + j < 84:
                wanted[y + i, x + j] = values[i, j]
    with emulate(sanitize=SANITIZERS):
        device = cuda.to_device(np.zeros((33, 96), dtype))
        address = device.__cuda_array_interface__["data"][0]
        maps = on_device([encode_tiled(address, dtype, (33, 84), wanted.strides[0], box, swizzle)], 0)
        box_store[1, 1](maps, np.int32(x), np.int32(y), image_of(values, swizzle))
        np.testing.assert_array_equal(device.copy_to_host(), wanted)


REFUSED = [
    ({"offset": 4}, "globalAddress"),
    ({"line_bytes": 68}, "globalStrides"),
    ({"box": (8, 300)}, "boxDim"),
    ({"box": (8, 6)}, "multiple of 16"),
    ({"box": (8, 64), "swizzle": 128}, "swizzle's 128"),
]


@pytest.mark.parametrize(("changes", "words"), REFUSED)
def test_maps_that_the_driver_refuses(changes, words):
    with emulate():
        device = cuda.to_device(np.zeros((32, 64), np.float32))
        address = device.__cuda_array_interface__["data"][0] + changes.get("offset", 0)
        arguments = changes.get("line_bytes", 256), changes.get("box", (8, 16)), changes.get("swizzle", 0)
        with pytest.raises(RuntimeError, match="no tensor map of float32") as caught:
            encode_tiled(address, "float32", (32, 64), *arguments)
    assert words in str(caught.value)


def test_kernels_written_for_hopper_need_no_call_under_emulation():
    @cuda.jit
    def kernel(y):
        ptx.wgmma_fence()
        y[0] = int32(1)

    with emulate():
        y = cuda.to_device(np.zeros(1, np.int32))
        kernel[1, 128](y)
        assert y.copy_to_host()[0] == 1


def test_dynamic_shared_memory_begins_where_its_alignment_wants():
    @cuda.jit
    def kernel(y):
        barriers = cuda.shared.array(3, uint64)
        tiles = cuda.shared.array(0, uint8, alignment=1024)
        barriers[0], tiles[0] = 1, 1
        y[0] = ptx.shared_address(tiles, 0) % uint64(1024)
        y[1] = ptx.shared_address(tiles, 0) - ptx.shared_address(barriers, 0)

    with emulate():
        y = cuda.device_array(2, np.uint64)
        kernel[1, 1, 0, 4096](y)
        assert list(y.copy_to_host()) == [0, 1024]
