import numpy as np
import pytest
from numba import cuda

from refkit.cuda_kernels.launch import fill_zero

pytestmark = pytest.mark.cpu


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
@pytest.mark.parametrize("shape", [(1,), (130,), (7, 19), (2, 3, 5, 4), (0,), (3, 0)])
def test_every_element_becomes_zero(shape, dtype):
    array = cuda.to_device(np.ones(shape, dtype))
    fill_zero(array, 64, 0)
    assert not array.copy_to_host().any()


def test_what_lies_between_the_elements_of_a_strided_array_stays():
    whole = cuda.to_device(np.ones((6, 8), np.float32))
    fill_zero(whole[1:5:2, ::3], 32, 0)
    expected = np.ones((6, 8), np.float32)
    expected[1:5:2, ::3] = 0
    np.testing.assert_array_equal(whole.copy_to_host(), expected)
