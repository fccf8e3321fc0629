import ml_dtypes
import numpy as np
import pytest
from numba import cuda

from refkit.cuda_kernels import attention as kernels
from refkit.cuda_kernels.attention_views import packed_views
from refkit.reference.attention import attention

pytestmark = pytest.mark.cpu

FUSED = {"block_q": 8, "block_k": 16, "depth": 48}
# (H, Hkv, Tq, Tk, D)
SHAPES = [(1, 1, 1, 1, 1), (4, 2, 21, 37, 40), (3, 1, 37, 18, 7)]
MASKS = [("none", 0), ("none", 5), ("top_left", 0), ("top_left", 7), ("bottom_right", 0), ("bottom_right", 3)]

each_launcher = pytest.mark.parametrize(
    ("launch", "tiles"), [(kernels.attention_naive, {}), (kernels.attention_fused, FUSED)], ids=["naive", "fused"]
)


def draw(shape, dtype=np.float32, seed=0):
    H, Hkv, Tq, Tk, D = shape
    rng = np.random.default_rng((seed, *shape))
    return [rng.standard_normal((2, *s)).astype(dtype) for s in ((H, Tq, D), (Hkv, Tk, D), (Hkv, Tk, D))]


def wide(*arrays):
    return [np.asarray(array, np.float64) for array in arrays]


def run(launch, q, k, v, dtype=np.float32, **options):
    """o and lse of device arrays, as float64."""
    o = cuda.to_device(np.full(q.shape, np.nan).astype(dtype))
    lse = cuda.to_device(np.full(q.shape[:3], np.nan, np.float32))
    launch(q, k, v, o, lse, **options)
    return wide(o.copy_to_host(), lse.copy_to_host())


@each_launcher
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("causal", "window"), MASKS)
def test_forward(launch, tiles, shape, causal, window, put):
    q, k, v = draw(shape)
    o, lse = run(launch, put(q), put(k), put(v), causal=causal, window=window, **tiles)
    expected = attention(*wide(q, k, v), None, causal, window)
    np.testing.assert_allclose(o, expected.o, rtol=0, atol=3e-6)
    np.testing.assert_allclose(lse, expected.lse, rtol=1e-6, atol=3e-6)


def test_bfloat16_is_rounded_once_on_its_way_out(put):
    q, k, v = draw((4, 2, 21, 37, 40), ml_dtypes.bfloat16)
    o, lse = run(kernels.attention_fused, put(q), put(k), put(v), ml_dtypes.bfloat16, scale=0.3, **FUSED)
    expected = attention(*wide(q, k, v), 0.3)
    np.testing.assert_allclose(o, expected.o, rtol=2**-8, atol=1e-5)
    np.testing.assert_allclose(lse, expected.lse, rtol=1e-6)


@each_launcher
def test_any_strides(launch, tiles, put):
    q, k, v = draw((2, 2, 9, 11, 5))
    o, _ = run(launch, put(q, "transposed"), put(k, "strided"), put(v, "transposed"), **tiles)
    np.testing.assert_allclose(o, attention(*wide(q, k, v)).o, rtol=0, atol=3e-6)


@each_launcher
def test_a_window_of_one_key_gives_that_key_s_value_to_the_bit(launch, tiles, put):
    q, k, v = draw((2, 1, 19, 19, 6))
    o, lse = run(launch, put(q), put(k), put(v), causal="top_left", window=1, scale=1.0, **tiles)
    np.testing.assert_array_equal(o, np.broadcast_to(v, q.shape))
    np.testing.assert_allclose(lse, (wide(q)[0] * wide(k)[0]).sum(axis=-1), rtol=0, atol=3e-6)


@each_launcher
def test_queries_that_see_no_key(launch, tiles, put):
    q, k, v = draw((2, 1, 20, 5, 6))
    o, lse = run(launch, put(q), put(k), put(v), causal="bottom_right", **tiles)
    assert not o[:, :, :15].any()
    assert np.isneginf(lse[:, :, :15]).all()
    assert np.isfinite(lse[:, :, 15:]).all()


@each_launcher
def test_no_keys_at_all_and_no_queries(launch, tiles, put):
    q, k, v = draw((2, 1, 3, 0, 4))
    o, lse = run(launch, put(q), put(k), put(v), **tiles)
    assert not o.any()
    assert np.isneginf(lse).all()
    o, lse = run(launch, put(q[:, :, :0]), put(k), put(v), **tiles)
    assert o.size == lse.size == 0


def test_tiles_of_keys_that_no_query_of_the_tile_sees_are_not_visited(put):
    q, k, v = draw((1, 1, 40, 40, 4))
    expected = attention(*wide(q, k, v), None, "top_left", 9)
    # The tile of queries 24 to 31 begins with key 24 - 8 and has keys 16 to 31.
    k[:, :, :16] = v[:, :, 32:] = np.nan
    o, _ = run(kernels.attention_fused, put(q), put(k), put(v), causal="top_left", window=9, **FUSED)
    np.testing.assert_allclose(o[:, :, 24:32], expected.o[:, :, 24:32], rtol=0, atol=3e-6)
    assert np.isnan(o[:, :, :24]).any()


@each_launcher
def test_scores_far_beyond_the_range_of_exp(launch, tiles, put):
    q, k, v = draw((1, 1, 9, 40, 4))
    q[...], k[..., 0] = 100.0, 100.0 * np.arange(40)  # one key stands thousands above the others
    o, lse = run(launch, put(q), put(k), put(v), **tiles)
    np.testing.assert_allclose(o, np.broadcast_to(v[:, :, -1:], o.shape), rtol=1e-6)
    assert (lse > 1e5).all()


@each_launcher
def test_nan_in_q_or_k_reaches_the_queries_that_see_it_and_no_others(launch, tiles, put):
    q, k, v = draw((1, 1, 20, 20, 4))
    q[:, :, 3, 2] = k[:, :, 9, 0] = np.nan
    o, lse = run(launch, put(q), put(k), put(v), causal="top_left", window=5, **tiles)
    struck = np.isin(np.arange(20), [3, 9, 10, 11, 12, 13])
    assert np.isnan(o[:, :, struck]).all()
    assert np.isnan(lse[:, :, struck]).all()
    assert np.isfinite(o[:, :, ~struck]).all()
    assert np.isfinite(lse[:, :, ~struck]).all()


def test_default_tiles_of_wide_heads(put):
    q, k, v = draw((1, 1, 33, 40, 100))
    o, _ = run(kernels.attention_fused, put(q), put(k), put(v), causal="bottom_right")
    np.testing.assert_allclose(o, attention(*wide(q, k, v), None, "bottom_right").o, rtol=0, atol=3e-6)


def test_a_packed_projection_gives_what_its_parts_give(put):
    qkv = np.random.default_rng(3).standard_normal((2, 19, 3 * 4 * 5)).astype(np.float32)
    o = put(np.full((2, 19, 20), np.nan, np.float32))
    lse = put(np.full((2, 4, 19), np.nan, np.float32))
    kernels.attention_packed(put(qkv), o, lse, causal="top_left", **FUSED)
    parts = [part.reshape(2, 19, 4, 5).swapaxes(1, 2) for part in np.split(qkv, 3, axis=2)]
    expected = attention(*wide(*parts), None, "top_left")
    np.testing.assert_allclose(o.copy_to_host(), expected.o.swapaxes(1, 2).reshape(2, 19, 20), rtol=0, atol=3e-6)
    np.testing.assert_allclose(lse.copy_to_host(), expected.lse, rtol=0, atol=3e-6)


def test_views_of_a_packed_projection_with_fewer_heads_of_k_and_v(put):
    qkv = np.random.default_rng(4).standard_normal((2, 19, (4 + 2 + 2) * 5)).astype(np.float32)
    views = packed_views(put(qkv), 4, 2)
    o, _ = run(kernels.attention_fused, *views, **FUSED)
    heads = qkv.reshape(2, 19, 8, 5).swapaxes(1, 2)
    expected = attention(*wide(heads[:, :4], heads[:, 4:6], heads[:, 6:]))
    np.testing.assert_allclose(o, expected.o, rtol=0, atol=3e-6)


def test_wrong_arguments_are_named(put):
    q, k, v = (put(x) for x in draw((3, 2, 4, 5, 6)))
    o, lse = cuda.device_array(q.shape, np.float32), cuda.device_array(q.shape[:3], np.float32)
    for launch in (kernels.attention_naive, kernels.attention_fused):
        with pytest.raises(ValueError, match="k has 2 heads, expected a divisor of the 3 heads of q"):
            launch(q, k, v, o, lse)
    with pytest.raises(ValueError, match="causal='yes' is unknown"):
        kernels.attention_fused(q, k, v, o, lse, causal="yes")
    with pytest.raises(ValueError, match="attention_fused: v has shape"):
        kernels.attention_fused(q, k, v[:, :1], o, lse)
    with pytest.raises(ValueError, match="attention_fused: o overlaps q"):
        kernels.attention_fused(q, k, v, q, lse)
    with pytest.raises(TypeError, match="lse has dtype bfloat16, expected float32"):
        kernels.attention_fused(q, k, v, o, cuda.device_array(q.shape[:3], ml_dtypes.bfloat16))
    none = cuda.device_array((2, 0, 4), np.float32)
    with pytest.raises(ValueError, match="expected at least one head"):
        kernels.attention_packed(cuda.device_array((2, 4, 18), np.float32), o[:, 0], none)
