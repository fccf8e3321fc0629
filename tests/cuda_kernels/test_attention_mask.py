import numpy as np
import pytest
from numba import cuda

from refkit.cuda_kernels.attention_mask import MASKS, band, sees, visible_keys, visible_queries
from refkit.reference.attention import visible

pytestmark = pytest.mark.cpu

SIZES = [(1, 1), (5, 5), (3, 8), (8, 3), (6, 1)]


@cuda.jit
def ranges_kernel(lower, upper, keys_of, queries_of, seen):
    i, j = cuda.grid(2)
    queries, keys = seen.shape
    if i < queries and j < keys:
        seen[i, j] = sees(i, j, lower, upper)
        if j == 0:
            keys_of[i, 0], keys_of[i, 1] = visible_keys(i, i, lower, upper, keys)
        if i == 0:
            queries_of[j, 0], queries_of[j, 1] = visible_queries(j, j, lower, upper, queries)


@pytest.mark.parametrize("causal", MASKS)
@pytest.mark.parametrize("window", [0, 1, 3, 100])
def test_the_band_is_the_mask_of_the_reference(causal, window):
    for Tq, Tk in SIZES:
        lower, upper = band(causal, window, Tq, Tk)
        expected = visible(Tq, Tk, causal, window)
        keys_of, queries_of = (cuda.to_device(np.full((n, 2), -1)) for n in (Tq, Tk))
        seen = cuda.to_device(np.zeros((Tq, Tk), np.int32))
        ranges_kernel[(1, 1), (8, 8)](lower, upper, keys_of, queries_of, seen)
        np.testing.assert_array_equal(seen.copy_to_host() == 1, expected)
        for i, (first, end) in enumerate(keys_of.copy_to_host()):
            assert list(range(first, end)) == np.flatnonzero(expected[i]).tolist()
        for j, (first, end) in enumerate(queries_of.copy_to_host()):
            assert list(range(first, end)) == np.flatnonzero(expected[:, j]).tolist()


def test_wrong_masks_are_named():
    with pytest.raises(ValueError, match="causal='lower' is unknown; expected 'none', 'top_left' or 'bottom_right'"):
        band("lower", 0, 3, 3)
    with pytest.raises(ValueError, match="window=-1 must be 0"):
        band("none", -1, 3, 3)
