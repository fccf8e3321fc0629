import ml_dtypes
import numpy as np
import pytest
from numba import cuda

from refkit.cuda_kernels import attention_unfused as kernels
from refkit.cuda_kernels.gemm import Tiles
from refkit.reference import attention as reference
from tests.cuda_kernels.adjoint import assert_adjoint

pytestmark = pytest.mark.cpu

TILES = Tiles(block_m=16, block_n=32, block_k=8, thread_m=4, thread_n=4)
SHAPES = [(1, 1, 1, 1, 1), (4, 2, 21, 37, 40), (3, 1, 37, 18, 7)]  # (H, Hkv, Tq, Tk, D)
MASKS = [("none", 0), ("none", 5), ("top_left", 7), ("bottom_right", 0), ("bottom_right", 3)]

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


def run(put, do, q, k, v, causal="none", window=0):
    """o, p, dq, dk, dv, float64."""
    device = [put(x) for x in (q, k, v)]
    o, p = unwritten(q.shape, q.dtype), unwritten((*q.shape[:3], k.shape[2]))
    gradients = [unwritten(x.shape, q.dtype) for x in (q, k, v)]
    kernels.attention_unfused(*device, o, p, causal=causal, window=window, tiles=TILES)
    kernels.attention_unfused_backward(put(do), *device, p, *gradients, causal=causal, window=window, tiles=TILES)
    return wide(*(x.copy_to_host() for x in (o, p, *gradients)))


@pytest.mark.parametrize("shape", SHAPES)
@each_mask
def test_forward_and_backward_agree_with_the_reference_of_the_fused_path(shape, causal, window, put):
    do, q, k, v = draw(shape)
    o, p, *gradients = run(put, do, q, k, v, causal, window)
    expected = reference.attention(*wide(q, k, v), None, causal, window)
    np.testing.assert_allclose(o, expected.o, rtol=0, atol=3e-6)
    seen = reference.visible(*p.shape[2:], causal, window)
    assert not p[..., ~seen].any()
    np.testing.assert_allclose(p.sum(axis=-1), np.broadcast_to(seen.any(axis=-1), p.shape[:3]), rtol=0, atol=1e-6)
    for got, value in zip(gradients, reference.attention_vjp(*wide(do, q, k, v), None, causal, window)):
        np.testing.assert_allclose(got, value, rtol=0, atol=1e-5)


def test_bfloat16(put):
    arrays = draw((4, 2, 21, 37, 40), ml_dtypes.bfloat16)
    o, _, *gradients = run(put, *arrays, "bottom_right")
    np.testing.assert_allclose(
        o, reference.attention(*wide(*arrays[1:]), None, "bottom_right").o, rtol=2**-8, atol=1e-5
    )
    for got, value in zip(gradients, reference.attention_vjp(*wide(*arrays), None, "bottom_right")):
        np.testing.assert_allclose(got, value, rtol=2**-8, atol=1e-4)


def test_forward_and_backward_kernels_together(put):
    do, q, k, v = draw((4, 2, 12, 19, 8), seed=5)
    _, _, *gradients = run(put, do, q, k, v, "top_left", 6)
    assert_adjoint(
        lambda q, k, v: reference.attention(q, k, v, None, "top_left", 6).o,
        lambda q, k, v, dy0: reference.attention_vjp(dy0, q, k, v, None, "top_left", 6),
        {"q": q, "k": k, "v": v},
        do,
        dict(zip("qkv", gradients)),
    )


def test_heads_are_split_and_merged(put):
    x = np.random.default_rng(0).standard_normal((2, 5, 3, 7)).astype(np.float32)
    y, back = unwritten((2, 3, 5, 7)), unwritten(x.shape)
    kernels.split_heads(put(x, "strided"), y, block=32)
    np.testing.assert_array_equal(y.copy_to_host(), x.swapaxes(1, 2))
    kernels.merge_heads(y, back)
    np.testing.assert_array_equal(back.copy_to_host(), x)


@each_mask
def test_masked_softmax_in_place_and_apart(causal, window, put):
    s, dp = np.random.default_rng(1).standard_normal((2, 2, 3, 9, 70)).astype(np.float32) * 4
    expected = reference.masked_softmax(*wide(s), 0.5, causal, window)
    in_place, apart = put(s), unwritten(s.shape)
    kernels.masked_softmax(in_place, in_place, window, 0.5, causal, block=64)
    kernels.masked_softmax(put(s), apart, window, 0.5, causal)
    np.testing.assert_array_equal(in_place.copy_to_host(), apart.copy_to_host())
    np.testing.assert_allclose(apart.copy_to_host(), expected, rtol=0, atol=1e-6)
    ds = put(dp)
    kernels.masked_softmax_backward(ds, apart, ds, window, 0.5, causal)
    expected = reference.masked_softmax_vjp(*wide(dp), *wide(apart.copy_to_host()), 0.5, causal, window)
    np.testing.assert_allclose(ds.copy_to_host(), expected, rtol=0, atol=1e-6)


def test_no_keys_and_no_queries(put):
    o, _, dq, _, _ = run(put, *draw((2, 1, 3, 0, 4)))
    assert not o.any()
    assert not dq.any()
    _, _, _, dk, dv = run(put, *draw((2, 1, 0, 3, 4)))
    assert not dk.any()
    assert not dv.any()


def test_wrong_arguments_are_named(put):
    _, q, k, v = (put(x) for x in draw((4, 2, 6, 5, 6)))
    o, p = unwritten(q.shape), unwritten((2, 4, 6, 5))
    with pytest.raises(ValueError, match=r"q has strides .*, expected a C-contiguous array of shape"):
        kernels.attention_unfused(put(draw((4, 2, 6, 5, 6))[1], "transposed"), k, v, o, p)
    three = unwritten((2, 3, 5, 6))
    with pytest.raises(ValueError, match="k has 3 heads, expected a divisor of the 4 heads of q"):
        kernels.attention_unfused(q, three, three, o, p)
    with pytest.raises(ValueError, match="p overlaps s"):
        kernels.masked_softmax(p[:, :, :3], p[:, :, 1:4])
    with pytest.raises(ValueError, match="window=-2"):
        kernels.masked_softmax(p, p, window=-2)
