import numpy as np
import pytest
from numba import cuda

import refkit.cpu
from refkit.cuda_kernels.gemm import in_groups, row_by_row

pytestmark = pytest.mark.cpu


def places(walk, tiles_m, tiles_n):
    """(tile_m, tile_n) of each block, in the order of their numbers."""

    @cuda.jit
    def record(out, tiles_m, tiles_n):
        block = cuda.blockIdx.x
        out[block, 0], out[block, 1] = walk(block, tiles_m, tiles_n)

    with refkit.cpu.emulate():
        out = cuda.device_array((tiles_m * tiles_n, 2), np.int64)
        record[tiles_m * tiles_n, 1](out, tiles_m, tiles_n)
        return [tuple(map(int, place)) for place in out.copy_to_host()]


@pytest.mark.parametrize("walk", [row_by_row, in_groups(1), in_groups(3)], ids=["rows", "groups of 1", "groups of 3"])
@pytest.mark.parametrize(("tiles_m", "tiles_n"), [(1, 1), (7, 5), (2, 9), (6, 1)])
def test_every_tile_is_made_once(walk, tiles_m, tiles_n):
    assert sorted(places(walk, tiles_m, tiles_n)) == [(m, n) for m in range(tiles_m) for n in range(tiles_n)]


def test_orders():
    assert places(row_by_row, 2, 3) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    assert places(in_groups(2), 3, 2) == [(0, 0), (1, 0), (0, 1), (1, 1), (2, 0), (2, 1)]
