import ml_dtypes
import numpy as np
import pytest
from numba import cuda

import refkit.cpu
from refkit.cuda_kernels import dropout as kernels
from refkit.reference.dropout import dropout, dropout_mask, dropout_vjp, dropout_with_mask, philox4x32
from tests.cuda_kernels.adjoint import assert_adjoint

pytestmark = pytest.mark.cpu

FORWARD = [kernels.dropout_forward, kernels.dropout_forward_vectorised]
FORMATS = [np.float32, ml_dtypes.bfloat16, np.float16]
RULE = (0.5, 12345678901, 3)  # scales by 2: exact in every format


def values(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(dtype)


def run(launch, x, *rule, **config):
    y = cuda.to_device(np.full(x.shape, np.nan).astype(x.dtype))
    launch(cuda.to_device(x), *rule, y, **config)
    return y.copy_to_host()


@pytest.mark.parametrize("launch", FORWARD)
@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("shape", [(1,), (7,), (203,), (5, 16), (9, 11)])
def test_mask_and_scale_are_those_of_the_reference(launch, dtype, shape):
    x = values(*shape, dtype=dtype)
    y = run(launch, x, *RULE, block=32)
    np.testing.assert_array_equal(y.astype(float), dropout(x.astype(float), *RULE))


@pytest.mark.parametrize("layout", ["strided", "transposed"])
def test_the_mask_does_not_depend_on_the_layout(layout, put):
    x = values(12, 20)
    y = put(np.full((12, 20), np.nan, np.float32), layout)
    kernels.dropout_forward_vectorised(put(x, layout), *RULE, y)
    np.testing.assert_array_equal(y.copy_to_host(), dropout(x, *RULE))


@pytest.mark.parametrize("p", [0.0, 0.3, 1.0])
def test_the_backward_pass_reuses_the_mask_or_makes_it_again(p, put):
    x, dy, seed, offset = values(9, 14), values(9, 14, seed=1), -5, 2**35 + 1
    y, mask = put(np.full_like(x, np.nan)), put(np.full(x.shape, 77, np.uint8))
    kernels.dropout_forward_with_mask(put(x), p, seed, offset, y, mask)
    np.testing.assert_array_equal(mask.copy_to_host(), dropout_mask(x.shape, np.float32(p), seed, offset))
    np.testing.assert_array_equal(y.copy_to_host(), run(kernels.dropout_forward, x, p, seed, offset))
    reused = put(np.full_like(x, np.nan))
    kernels.dropout_backward_from_mask(put(dy), mask, p, reused)
    made_again = run(kernels.dropout_backward_regenerated, dy, p, seed, offset)
    np.testing.assert_array_equal(reused.copy_to_host(), made_again)
    np.testing.assert_allclose(made_again, dropout_with_mask(dy, mask.copy_to_host(), np.float32(p)), rtol=2e-7)


@pytest.mark.parametrize("launch", FORWARD)
def test_an_element_whose_number_is_p_itself_is_kept(launch):
    x, seed, offset = np.ones(8, np.float32), 1, 2
    counter = np.array([[1, 0, offset, 0]], np.uint32)  # elements 4 to 7
    fraction = float(philox4x32(counter, np.array([seed, 0], np.uint32))[0, 2] >> 8) / 2**24
    assert run(launch, x, fraction, seed, offset)[6] != 0
    assert run(launch, x, np.nextafter(np.float32(fraction), np.float32(1)), seed, offset)[6] == 0


def test_adjoint():
    x, dy, rule = values(9, 14), values(9, 14, seed=1), (0.25, 7, 11)
    dx = run(kernels.dropout_backward_regenerated, dy, *rule)
    assert_adjoint(lambda x: dropout(x, *rule), lambda x, dy0: (dropout_vjp(dy0, *rule),), {"x": x}, dy, {"x": dx})


def test_any_order_of_threads_gives_the_same_mask():
    x, results = values(130), []
    for schedule in (None, 0, 1):
        with refkit.cpu.emulate(schedule=schedule):
            results.append(run(kernels.dropout_forward, x, *RULE, block=32).tobytes())
    assert len(set(results)) == 1


@pytest.mark.parametrize("p", [-0.1, 1.5, float("nan")])
def test_a_p_that_is_no_probability_is_refused(p):
    with pytest.raises(ValueError, match=f"p={p} must lie between 0 and 1"):
        run(kernels.dropout_forward, values(4), p, 0, 0)


def test_wrong_arguments_are_named(put):
    with pytest.raises(ValueError, match="offset=18446744073709551616 does not fit into 64 bits"):
        run(kernels.dropout_forward, values(4), 0.5, 0, 2**64)
    x = put(values(3, 4))
    with pytest.raises(TypeError, match="mask has dtype float32, expected uint8"):
        kernels.dropout_backward_from_mask(x, x, 0.5, put(values(3, 4)))
