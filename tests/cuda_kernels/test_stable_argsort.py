import numpy as np
import pytest

from refkit.cuda_kernels.stable_argsort import stable_argsort

pytestmark = pytest.mark.cpu


@pytest.mark.parametrize("below", [1, 2, 16, 17, 300, 70_000])
@pytest.mark.parametrize("count", [1, 31, 64, 65, 1000])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_positions_come_by_key_and_then_by_position(below, count, dtype, put):
    keys = np.random.default_rng((below, count)).integers(0, below, count).astype(dtype)
    order = stable_argsort(put(keys, "strided"), below, block=64).copy_to_host()
    np.testing.assert_array_equal(order, np.argsort(keys, kind="stable"))


def test_more_blocks_than_one_round_of_the_scan_takes(put):
    keys = np.random.default_rng(5).integers(0, 50, 3000)  # 16 digits x 94 blocks = 1,504 counts, 256 a round
    order = stable_argsort(put(keys), 50, block=32).copy_to_host()
    np.testing.assert_array_equal(order, np.argsort(keys, kind="stable"))


def test_no_keys_give_no_positions(put):
    assert stable_argsort(put(np.zeros(0, np.int64)), 5).shape == (0,)
