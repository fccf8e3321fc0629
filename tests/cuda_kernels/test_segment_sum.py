import ml_dtypes
import numpy as np
import pytest
from numba import cuda

from refkit.cuda_kernels import segment_sum as kernels
from refkit.reference.segment_sum import (
    segment_sum,
    segment_sum_by_ids,
    segment_sum_by_ids_vjp,
    segment_sum_vjp,
)

from .adjoint import assert_adjoint

pytestmark = pytest.mark.cpu

BY_OFFSETS = [kernels.segment_sum_naive, kernels.segment_sum_block]
BY_IDS = [kernels.segment_sum_by_ids_atomic, kernels.segment_sum_by_ids_sorted]
OFFSETS = [[0, 3, 3, 90, 97], [5, 6], [0, 0, 0], [97, 97], [0, 97], [0, *range(1, 98)]]
T, D = 97, 35


def each(launchers):
    return pytest.mark.parametrize("launch", launchers, ids=lambda launch: launch.__name__)


def integers(*shape, dtype=np.float32, seed=0):
    """Small integers: their sums are exact in any order, in bfloat16 up to 256."""
    return np.random.default_rng((seed, *shape)).integers(-2, 3, shape).astype(dtype)


def empty(*shape, dtype=np.float32):
    return cuda.to_device(np.full(shape, np.nan).astype(dtype))


@each(BY_OFFSETS)
@pytest.mark.parametrize("offsets", OFFSETS, ids=len)
@pytest.mark.parametrize(("dtype", "index"), [(np.float32, np.int64), (ml_dtypes.bfloat16, np.int32)])
def test_sums_by_offsets(launch, offsets, dtype, index, put):
    x, offsets = integers(T, D, dtype=dtype), np.array(offsets, index)
    y = empty(len(offsets) - 1, D, dtype=dtype)
    launch(put(x, "transposed"), put(offsets, "strided"), y, block=64)
    np.testing.assert_array_equal(y.copy_to_host().astype(float), segment_sum(x.astype(float), offsets))


@pytest.mark.parametrize("offsets", OFFSETS, ids=len)
def test_backward_by_offsets_reads_the_row_of_each_segment(offsets, put):
    offsets = np.array(offsets)
    dy, dx = integers(len(offsets) - 1, D), empty(T, D)
    kernels.segment_sum_backward(put(dy, "strided"), put(offsets), dx, block=64)
    np.testing.assert_array_equal(dx.copy_to_host(), segment_sum_vjp(dy, offsets, T))


@each(BY_IDS)
@pytest.mark.parametrize(("rows", "S"), [(T, 1), (T, 40), (0, 3), (3, 300)])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_ids_in_any_order_and_those_of_no_segment(launch, rows, S, index, put):
    ids = np.random.default_rng((rows, S)).integers(-3, S + 3, rows).astype(index)
    x, y = integers(rows, D), empty(S, D)
    launch(put(x, "strided"), put(ids, "strided"), y, block=64)
    np.testing.assert_array_equal(y.copy_to_host(), segment_sum_by_ids(x.astype(float), ids, S))
    dy, dx = integers(S, D, seed=1), empty(rows, D)
    kernels.segment_sum_by_ids_backward(put(dy), put(ids), dx, block=64)
    np.testing.assert_array_equal(dx.copy_to_host(), segment_sum_by_ids_vjp(dy, ids))


def test_sorted_form_adds_rows_in_their_order(put):
    # In float32, 1 + 2^-24 is 1: only the order of the rows gives 2^-24 + 2^-24 + 1 > 1.
    tiny = np.float32(2.0**-24)
    x = np.array([[tiny, 1], [tiny, tiny], [1, tiny]], np.float32)
    y = empty(2, 2)
    kernels.segment_sum_by_ids_sorted(put(x), put(np.array([1, 1, 1])), y)
    np.testing.assert_array_equal(y.copy_to_host(), np.array([[0, 0], [1 + 2 * tiny, 1]], np.float32))


@each(BY_OFFSETS)
def test_more_segments_than_a_grid_has_blocks_along_y(launch, put):
    offsets = np.arange(66_001)
    x, y = integers(66_000, 1), empty(66_000, 1)
    launch(put(x), put(offsets), y, block=32)
    np.testing.assert_array_equal(y.copy_to_host(), x)


def test_forward_and_backward_are_adjoint(put):
    rng = np.random.default_rng(3)
    x, dy, offsets = (
        rng.standard_normal((T, D)).astype(np.float32),
        rng.standard_normal((4, D)).astype(np.float32),
        np.array(OFFSETS[0]),
    )
    dx = empty(T, D)
    kernels.segment_sum_backward(put(dy), put(offsets), dx)
    assert_adjoint(
        lambda x: segment_sum(x, offsets),
        lambda x, dy0: (segment_sum_vjp(dy0, offsets, T),),
        {"x": x},
        dy,
        {"x": dx.copy_to_host()},
    )


def test_wrong_arguments_are_named(put):
    x, offsets = put(integers(4, 3)), put(np.array([0, 2, 4]))
    with pytest.raises(ValueError, match=r"segment_sum_block: offsets has shape \(3,\), expected \(4,\)"):
        kernels.segment_sum_block(x, offsets, empty(3, 3))
    with pytest.raises(TypeError, match="y has dtype bfloat16, expected float32"):
        kernels.segment_sum_by_ids_atomic(x, put(np.zeros(4, np.int64)), empty(2, 3, dtype=ml_dtypes.bfloat16))
    with pytest.raises(ValueError, match=r"ids has shape \(3,\), expected \(4,\)"):
        kernels.segment_sum_by_ids_sorted(x, offsets, empty(2, 3))
