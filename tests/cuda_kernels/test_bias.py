import ml_dtypes
import numpy as np
import pytest
from numba import cuda

from refkit.cuda_kernels import bias as kernels
from refkit.reference.bias import bias, bias_vjp
from tests.cuda_kernels.adjoint import assert_adjoint

pytestmark = pytest.mark.cpu

BACKWARD = [
    kernels.bias_backward_naive,
    kernels.bias_backward,
    kernels.bias_backward_atomic,
    kernels.bias_backward_two_stage,
]
EACH = pytest.mark.parametrize("launch", BACKWARD, ids=lambda launch: launch.__name__)
FORMATS = [np.float32, ml_dtypes.bfloat16, np.float16]


def integers(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng((seed, *shape)).integers(-3, 4, shape).astype(dtype)


@pytest.mark.parametrize("launch", [kernels.bias_forward, kernels.bias_forward_vectorised])
@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize(("shape", "layout"), [((3, 8), "contiguous"), ((5, 7), "contiguous"), ((4, 16), "strided")])
def test_forward(launch, dtype, shape, layout, put):
    x, b = integers(*shape, dtype=dtype), integers(shape[1], dtype=dtype)
    y = cuda.to_device(np.full(shape, np.nan).astype(dtype))
    launch(put(x, layout), put(b, layout), y)
    np.testing.assert_array_equal(y.copy_to_host().astype(float), bias(x.astype(float), b.astype(float)))


@EACH
@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("shape", [(1, 1), (37, 5), (9, 70)])
def test_gradient_is_added_to_what_the_buffer_held(launch, shape, dtype, put):
    dy, held = integers(*shape, dtype=dtype), integers(shape[1], seed=1)
    db = put(held)
    launch(put(dy, "transposed"), db)
    np.testing.assert_array_equal(db.copy_to_host(), held + dy.astype(float).sum(axis=0))


@EACH
def test_adjoint(launch, put):
    rng = np.random.default_rng(4)
    x, dy, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((50, 6), (50, 6), (6,)))
    db = put(np.zeros(6, np.float32))
    launch(put(dy), db)
    gradients = {"x": dy, "b": db.copy_to_host()}
    assert_adjoint(bias, lambda x, b, dy0: bias_vjp(dy0), {"x": x, "b": b}, dy, gradients)


@pytest.mark.parametrize("launch", BACKWARD[2:], ids=lambda launch: launch.__name__)
@pytest.mark.parametrize("rows_per_part", [1, 7, 1000])
def test_parts_that_do_not_divide_the_rows_lose_none(launch, rows_per_part, put):
    dy, db = integers(25, 40), put(np.zeros(40, np.float32))
    launch(put(dy), db, rows_per_part=rows_per_part, block=32)
    np.testing.assert_array_equal(db.copy_to_host(), dy.sum(axis=0))


@EACH
def test_no_rows_and_no_columns(launch, put):
    held = integers(3)
    db = put(held)
    launch(put(np.zeros((0, 3), np.float32)), db)
    np.testing.assert_array_equal(db.copy_to_host(), held)
    launch(put(np.zeros((4, 0), np.float32)), put(np.zeros(0, np.float32)))


def test_wrong_arguments_are_named(put):
    dy, db = put(integers(4, 3)), put(integers(3))
    with pytest.raises(ValueError, match="rows_per_part=0 must be at least 1"):
        kernels.bias_backward_two_stage(dy, db, rows_per_part=0)
    with pytest.raises(TypeError, match="db has dtype float16, expected float32"):
        kernels.bias_backward_atomic(dy, put(np.zeros(3, np.float16)))
    with pytest.raises(ValueError, match=r"b has shape \(4,\), expected \(3,\)"):
        kernels.bias_forward(dy, put(integers(4)), put(integers(4, 3)))
