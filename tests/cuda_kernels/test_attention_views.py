import numpy as np
import pytest
from numba import cuda

from refkit.cuda_kernels.attention_views import heads_of, packed_views, swapped

pytestmark = pytest.mark.cpu


def counting(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def test_heads_of_a_projection():
    x = counting(2, 5, 12)
    heads = heads_of(cuda.to_device(x), 3)
    np.testing.assert_array_equal(heads.copy_to_host(), x.reshape(2, 5, 3, 4).transpose(0, 2, 1, 3))


@pytest.mark.parametrize("kv_heads", [None, 1, 2])
def test_packed_views_are_the_heads_of_q_k_and_v(kv_heads):
    columns = 4 + 2 * (kv_heads or 4)
    x = counting(2, 5, columns * 3)
    views = packed_views(cuda.to_device(x), 4, kv_heads)
    parts = np.split(x.reshape(2, 5, columns, 3).transpose(0, 2, 1, 3), [4, 4 + (kv_heads or 4)], axis=1)
    for view, part in zip(views, parts):
        np.testing.assert_array_equal(view.copy_to_host(), part)


def test_packed_views_share_the_memory_of_the_projection():
    qkv = cuda.to_device(counting(1, 2, 6))
    _, k, _ = packed_views(qkv, 1)
    k[0, 0, 1, 1] = -1.0
    assert qkv.copy_to_host()[0, 1].tolist() == [6, 7, 8, -1, 10, 11]


def test_views_of_a_projection_inside_a_larger_array():
    x = counting(3, 5, 20)
    q, _, v = packed_views(cuda.to_device(x)[1:, ::2, 1:13], 2)
    part = x[1:, ::2, 1:13]
    np.testing.assert_array_equal(q.copy_to_host(), part[:, :, :4].reshape(2, 3, 2, 2).transpose(0, 2, 1, 3))
    np.testing.assert_array_equal(v.copy_to_host(), part[:, :, 8:].reshape(2, 3, 2, 2).transpose(0, 2, 1, 3))


def test_swapped_exchanges_the_last_two_axes():
    x = counting(2, 3, 4)
    np.testing.assert_array_equal(swapped(cuda.to_device(x)).copy_to_host(), x.swapaxes(1, 2))


def test_columns_that_do_not_divide_are_named():
    with pytest.raises(ValueError, match="heads=5 must be positive and divide the 12 columns"):
        heads_of(cuda.to_device(counting(1, 2, 12)), 5)
    with pytest.raises(ValueError, match=r"qkv has 12 columns, expected a multiple of .* = 4 \+ 2 \* 2"):
        packed_views(cuda.to_device(counting(1, 2, 12)), 4, 2)
