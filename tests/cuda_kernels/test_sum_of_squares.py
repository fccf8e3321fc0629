import ml_dtypes
import numpy as np
import pytest

from refkit.cuda_kernels import sum_of_squares as kernels

pytestmark = pytest.mark.cpu

LAUNCHERS = [
    kernels.sum_of_squares_block,
    kernels.sum_of_squares_atomic,
    kernels.sum_of_squares_two_stage,
    kernels.sum_of_squares_two_stage_vectorised,
]
EACH = pytest.mark.parametrize("launch", LAUNCHERS, ids=lambda launch: launch.__name__)


def integers(*shape, dtype=np.float32):
    return np.random.default_rng(shape).integers(-3, 4, shape).astype(dtype)


@EACH
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.float16])
@pytest.mark.parametrize("shape", [(1,), (31,), (5000,), (3, 7), (20, 128)])
def test_the_total_grows_by_the_sum(launch, shape, dtype, put):
    x, total = integers(*shape, dtype=dtype), put(np.array([5], np.float32))
    launch(put(x), total, block=64)
    assert total.copy_to_host()[0] == 5 + (x.astype(float) ** 2).sum()


@EACH
@pytest.mark.parametrize("layout", ["strided", "transposed"])
def test_any_strides(launch, layout, put):
    x, total = integers(9, 70), put(np.zeros(1, np.float32))
    launch(put(x, layout), total, block=32)
    assert total.copy_to_host()[0] == (x**2).sum()


@EACH
def test_several_tensors_share_a_total_and_no_elements_add_nothing(launch, put):
    total, tensors = put(np.zeros(1, np.float32)), [integers(40), integers(3, 5), np.zeros((0, 4), np.float32)]
    for x in tensors:
        launch(put(x), total)
    assert total.copy_to_host()[0] == sum((x**2).sum() for x in tensors)


def test_two_stages_give_the_same_bits_twice(put):
    x, results = put(np.random.default_rng(1).standard_normal(9000).astype(np.float32)), set()
    for _ in range(3):
        total = put(np.zeros(1, np.float32))
        kernels.sum_of_squares_two_stage(x, total, block=32)
        results.add(total.copy_to_host().tobytes())
    assert len(results) == 1


def test_wrong_arguments_are_named(put):
    x = put(integers(4))
    with pytest.raises(ValueError, match="block=48 must be a multiple of 32"):
        kernels.sum_of_squares_two_stage(x, put(np.zeros(1, np.float32)), block=48)
    with pytest.raises(TypeError, match="total has dtype float16, expected float32"):
        kernels.sum_of_squares_block(x, put(np.zeros(1, np.float16)))
    with pytest.raises(ValueError, match=r"total has shape \(2,\), expected \(1,\)"):
        kernels.sum_of_squares_block(x, put(np.zeros(2, np.float32)))
