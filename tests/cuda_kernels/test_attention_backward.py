import ml_dtypes
import numpy as np
import pytest
from numba import cuda

from refkit.cuda_kernels import attention as forward_kernels
from refkit.cuda_kernels import attention_backward as kernels
from refkit.reference.attention import attention, attention_delta, attention_vjp
from tests.cuda_kernels.adjoint import assert_adjoint

pytestmark = pytest.mark.cpu

FUSED = {"own": 16, "other": 32, "depth": 48}
# (H, Hkv, Tq, Tk, D)
SHAPES = [(1, 1, 1, 1, 1), (4, 2, 21, 37, 40), (3, 1, 37, 18, 7)]
MASKS = [("none", 0), ("none", 5), ("top_left", 0), ("top_left", 7), ("bottom_right", 0), ("bottom_right", 3)]

each_mask = pytest.mark.parametrize(("causal", "window"), MASKS)


def draw(shape, dtype=np.float32, seed=0):
    """do, q, k, v."""
    H, Hkv, Tq, Tk, D = shape
    rng = np.random.default_rng((seed, *shape))
    queries, keys = (2, H, Tq, D), (2, Hkv, Tk, D)
    return [rng.standard_normal(s).astype(dtype) for s in (queries, queries, keys, keys)]


def wide(*arrays):
    return [np.asarray(array, np.float64) for array in arrays]


def unwritten(shape, dtype=np.float32):
    return cuda.to_device(np.full(shape, np.nan).astype(dtype))


def naive(do, q, k, v, o, lse, dq, dk, dv, **mask):
    delta = unwritten(lse.shape)
    kernels.attention_delta(do, o, delta, block=64)
    kernels.attention_dq_naive(do, q, k, v, lse, delta, dq, **mask)
    kernels.attention_dk_dv_naive(do, q, k, v, lse, delta, dk, dv, **mask)


def fused(*arrays, **mask):
    kernels.attention_backward(*arrays, **mask, **FUSED)


each_path = pytest.mark.parametrize("backward", [naive, fused], ids=["naive", "fused"])


def saved(q, k, v, *mask):
    """o and lse as a forward pass would have saved them."""
    o, lse = attention(*wide(q, k, v), *mask)
    return o.astype(q.dtype), lse.astype(np.float32)


def run(backward, put, do, q, k, v, causal="none", window=0, layout="contiguous"):
    gradients = [unwritten(x.shape, q.dtype) for x in (q, k, v)]
    statistics = [put(x) for x in saved(q, k, v, None, causal, window)]
    backward(*(put(x, layout) for x in (do, q, k, v)), *statistics, *gradients, causal=causal, window=window)
    return wide(*(gradient.copy_to_host() for gradient in gradients))


def assert_close(gradients, expected, rtol=0.0, atol=1e-5):
    for name, got, value in zip(("dq", "dk", "dv"), gradients, expected):
        np.testing.assert_allclose(got, value, rtol=rtol, atol=atol, err_msg=name)


@each_path
@pytest.mark.parametrize("shape", SHAPES)
@each_mask
def test_gradients(backward, shape, causal, window, put):
    arrays = draw(shape)
    gradients = run(backward, put, *arrays, causal, window)
    assert_close(gradients, attention_vjp(*wide(*arrays), None, causal, window))


def test_bfloat16(put):
    arrays = draw((4, 2, 21, 37, 40), ml_dtypes.bfloat16)
    gradients = run(fused, put, *arrays, "bottom_right")
    # o is stored in bfloat16, so that delta is off by 2^-9 of its terms, and every gradient is rounded once.
    assert_close(gradients, attention_vjp(*wide(*arrays), None, "bottom_right"), rtol=2**-7, atol=3e-2)


@each_path
@pytest.mark.parametrize("layout", ["strided", "transposed"])
def test_any_strides(backward, layout, put):
    arrays = draw((2, 2, 9, 11, 5))
    assert_close(run(backward, put, *arrays, layout=layout), attention_vjp(*wide(*arrays)))


@each_path
def test_queries_that_see_no_key_have_no_gradient_and_give_none(backward, put):
    do, q, k, v = draw((2, 1, 20, 5, 6))
    dq, dk, dv = run(backward, put, do, q, k, v, "bottom_right")
    assert not dq[:, :, :15].any()
    do[:, :, :15], q[:, :, :15] = 1e30, -1e30  # whatever stands in them
    again = run(backward, put, do, q, k, v, "bottom_right")
    for before, after in zip((dq, dk, dv), again):
        np.testing.assert_array_equal(before, after)


@each_path
def test_keys_that_no_query_sees_get_0(backward, put):
    _, dk, dv = run(backward, put, *draw((2, 1, 5, 40, 6)), "top_left")
    assert dk[:, :, :5].any()
    assert not dk[:, :, 5:].any()
    assert not dv[:, :, 5:].any()


@each_path
def test_no_queries_leave_0_and_no_keys_too(backward, put):
    _, dk, dv = run(backward, put, *draw((2, 1, 0, 3, 4)))
    assert not dk.any()
    assert not dv.any()
    dq, _, _ = run(backward, put, *draw((2, 1, 3, 0, 4)))
    assert not dq.any()


def test_delta_of_rows_longer_than_a_warp_is_exact_on_integers(put):
    do, o = (np.random.default_rng(seed).integers(-4, 5, (2, 3, 7, 70)).astype(np.float32) for seed in (1, 2))
    delta = unwritten((2, 3, 7))
    kernels.attention_delta(put(do, "strided"), put(o), delta, block=96)
    np.testing.assert_array_equal(delta.copy_to_host(), attention_delta(do, o))


def test_the_same_bits_twice(put):
    arrays = draw((4, 1, 40, 50, 8))
    first, second = (run(fused, put, *arrays, "bottom_right", 20) for _ in range(2))
    for a, b in zip(first, second):
        np.testing.assert_array_equal(a, b)


def test_default_tiles_of_wide_heads(put):
    do, q, k, v = draw((1, 1, 33, 40, 100))
    gradients = run(kernels.attention_backward, put, do, q, k, v, "bottom_right")
    assert_close(gradients, attention_vjp(*wide(do, q, k, v), None, "bottom_right"))


def test_gradients_of_a_packed_projection_fill_one_array(put):
    rng = np.random.default_rng(3)
    qkv, do = (rng.standard_normal((2, 19, columns)).astype(np.float32) for columns in (60, 20))
    q, k, v = (part.reshape(2, 19, 4, 5).swapaxes(1, 2) for part in np.split(qkv, 3, axis=2))
    o, lse = saved(q, k, v, None, "top_left")
    dqkv = unwritten(qkv.shape)
    o = np.ascontiguousarray(o.swapaxes(1, 2)).reshape(2, 19, 20)
    kernels.attention_packed_backward(put(do), put(qkv), put(o), put(lse), dqkv, causal="top_left", **FUSED)
    expected = attention_vjp(*wide(do.reshape(2, 19, 4, 5).swapaxes(1, 2), q, k, v), None, "top_left")
    expected = np.concatenate([x.swapaxes(1, 2).reshape(2, 19, 20) for x in expected], axis=2)
    np.testing.assert_allclose(dqkv.copy_to_host(), expected, rtol=0, atol=1e-5)


@each_path
@pytest.mark.parametrize(("causal", "window"), [("none", 0), ("top_left", 6), ("bottom_right", 0)])
def test_forward_and_backward_kernels_together(backward, causal, window, put):
    do, q, k, v = draw((4, 2, 12, 19, 8), seed=5)
    mask = {"causal": causal, "window": window}
    device = [put(x) for x in (q, k, v)]
    o, lse = unwritten(q.shape), unwritten(q.shape[:3])
    forward_kernels.attention_fused(*device, o, lse, block_q=8, block_k=16, depth=48, **mask)
    gradients = [unwritten(x.shape) for x in (q, k, v)]
    backward(put(do), *device, o, lse, *gradients, **mask)
    assert_adjoint(
        lambda q, k, v: attention(q, k, v, None, causal, window).o,
        lambda q, k, v, dy0: attention_vjp(dy0, q, k, v, None, causal, window),
        {"q": q, "k": k, "v": v},
        do,
        {name: gradient.copy_to_host() for name, gradient in zip("qkv", gradients)},
    )


def test_wrong_arguments_are_named(put):
    do, q, k, v = (put(x) for x in draw((3, 2, 4, 5, 6)))
    lse, delta = unwritten(q.shape[:3]), unwritten(q.shape[:3])
    dq, dk, dv = (unwritten(x.shape) for x in (q, k, v))
    for launch in (kernels.attention_dq_naive, kernels.attention_dq):
        with pytest.raises(ValueError, match="k has 2 heads, expected a divisor of the 3 heads of q"):
            launch(do, q, k, v, lse, delta, dq)
    for launch in (kernels.attention_dk_dv_naive, kernels.attention_dk_dv):
        with pytest.raises(ValueError, match="k has 2 heads, expected a divisor of the 3 heads of q"):
            launch(do, q, k, v, lse, delta, dk, dv)
    with pytest.raises(ValueError, match="attention_dk_dv: dk overlaps dv"):
        kernels.attention_dk_dv(do, q, k, v, lse, delta, dk, dk)
    with pytest.raises(ValueError, match="attention_backward: dk has shape"):
        kernels.attention_backward(do, q, k, v, q, lse, dq, dq, dv)
    with pytest.raises(ValueError, match="block=40 must be a multiple of 32"):
        kernels.attention_delta(do, q, delta, block=40)
