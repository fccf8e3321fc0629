import numpy as np
import pytest
from numba import cuda

from refkit.cuda_kernels.column_parts import add_atomically, add_parts_kernel, part_and_column, store_part

pytestmark = pytest.mark.cpu


@cuda.jit
def places_kernel(columns, seen):
    part, column = part_and_column(columns)
    if column < columns:
        cuda.atomic.add(seen, (part, column), 1)


@pytest.mark.parametrize(("parts", "columns", "block"), [(1, 1, 32), (3, 64, 32), (4, 70, 32), (2, 5, 64)])
def test_each_column_of_each_part_has_one_thread(parts, columns, block):
    seen = cuda.to_device(np.zeros((parts, columns), np.int32))
    places_kernel[parts * -(-columns // block), block](columns, seen)
    assert (seen.copy_to_host() == 1).all()


@cuda.jit
def finish_kernel(values, sums, parts):
    part, column = cuda.blockIdx.x, cuda.threadIdx.x
    add_atomically(sums, part, column, values[part, column])
    store_part(parts, part, column, values[part, column])


def test_both_ways_to_finish_add_to_what_the_buffer_held():
    values = np.arange(15, dtype=np.float32).reshape(3, 5)
    by_atomics, by_parts = (cuda.to_device(np.full(5, 100, np.float32)) for _ in range(2))
    workspace = cuda.device_array((3, 5), np.float32)
    finish_kernel[3, 5](cuda.to_device(values), by_atomics, workspace)
    add_parts_kernel[2, 4](workspace, by_parts)
    expected = 100 + values.sum(axis=0)
    np.testing.assert_array_equal(by_atomics.copy_to_host(), expected)
    np.testing.assert_array_equal(by_parts.copy_to_host(), expected)
