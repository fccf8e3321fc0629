import ml_dtypes
import numpy as np
import pytest
from numba import cuda

from refkit.cuda_kernels import scatter_add as kernels
from refkit.reference.scatter_add import embedding_backward, gather

pytestmark = pytest.mark.cpu

SCATTER_ADD = [kernels.scatter_add_naive, kernels.scatter_add_atomic, kernels.scatter_add_sorted]
EMBEDDING = [
    kernels.embedding_backward_naive,
    kernels.embedding_backward_atomic,
    kernels.embedding_backward_sorted,
]
SHAPES = [(1, 1, 50), (7, 5, 1), (300, 3, 40), (4, 70, 200)]  # (V, D, I)
DTYPES = [np.float32, ml_dtypes.bfloat16, np.float16]


def each(launchers):
    return pytest.mark.parametrize("launch", launchers, ids=lambda launch: launch.__name__)


def integers(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng((seed, *shape)).integers(-3, 4, shape).astype(dtype)


def indices(V, count, dtype=np.int64, seed=0):
    return np.random.default_rng((seed, V, count)).integers(0, V, count).astype(dtype)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["contiguous", "strided", "transposed"])
def test_gather_copies_the_rows_bit_for_bit(shape, dtype, layout, put):
    V, D, count = shape
    x = np.random.default_rng(0).standard_normal((V, D)).astype(dtype)
    index = indices(V, count)
    y = cuda.to_device(np.full((count, D), np.nan).astype(dtype))
    kernels.gather(put(x, layout), put(index, "strided"), y)
    np.testing.assert_array_equal(y.copy_to_host(), gather(x, index))


@each(SCATTER_ADD)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("index_dtype", [np.int64, np.int32])
def test_scatter_add_is_exact_on_small_integers(launch, shape, dtype, index_dtype, put):
    V, D, count = shape
    index, dy, held = indices(V, count, index_dtype), integers(count, D, dtype=dtype), integers(V, D, seed=1)
    dx = put(held)
    launch(dx, put(index, "strided"), put(dy, "transposed"), block=32)
    expected = held.astype(float)
    np.add.at(expected, index, dy.astype(float))
    np.testing.assert_array_equal(dx.copy_to_host(), expected)


@each(SCATTER_ADD)
def test_all_indices_equal(launch, put):
    dy, dx = integers(333, 2), put(np.zeros((9, 2), np.float32))
    launch(dx, put(np.full(333, 4)), put(dy))
    expected = np.zeros((9, 2))
    expected[4] = dy.sum(axis=0)
    np.testing.assert_array_equal(dx.copy_to_host(), expected)


@each(EMBEDDING)
@pytest.mark.parametrize("padding_idx", [0, 3, -1, 99])
@pytest.mark.parametrize("count", [1, 31, 1000])
def test_the_padding_row_gets_no_gradient(launch, padding_idx, count, put):
    index, dy, held = indices(6, count), integers(count, 4), integers(6, 4, seed=1)
    dx = put(held)
    launch(dx, put(index), put(dy), padding_idx)
    expected = embedding_backward(held.astype(float), index, dy.astype(float), padding_idx)
    np.testing.assert_array_equal(dx.copy_to_host(), expected)


def test_sorted_form_adds_duplicates_in_their_order(put):
    # In float32, 1 + 2^-24 is 1: only the order of the index gives 2^-24 + 2^-24 + 1 > 1.
    tiny = np.float32(2.0**-24)
    dy = np.array([[tiny, 1], [tiny, tiny], [1, tiny]], np.float32)
    dx = put(np.zeros((3, 2), np.float32))
    kernels.scatter_add_sorted(dx, put(np.array([1, 1, 1])), put(dy))
    np.testing.assert_array_equal(dx.copy_to_host()[1], np.array([1 + 2 * tiny, 1], np.float32))


@each(SCATTER_ADD)
@pytest.mark.parametrize("sizes", [(3, 0, 5), (3, 4, 0)])
def test_nothing_to_add_leaves_the_buffer_as_it_was(launch, sizes, put):
    V, D, count = sizes
    held = integers(V, D)
    dx = put(held)
    launch(dx, put(np.zeros(count, np.int64)), put(integers(count, D)))
    np.testing.assert_array_equal(dx.copy_to_host(), held)


def test_more_rows_than_a_grid_has_blocks_along_y(put):
    index, dy = indices(66_000, 500), integers(500, 1)
    for launch in (kernels.scatter_add_atomic, kernels.scatter_add_sorted):
        dx = put(np.zeros((66_000, 1), np.float32))
        launch(dx, put(index), put(dy), block=32)
        expected = np.zeros((66_000, 1))
        np.add.at(expected, index, dy)
        np.testing.assert_array_equal(dx.copy_to_host(), expected)


@pytest.mark.parametrize("wrong", [4, -1, 1000])
def test_an_index_out_of_range_is_refused_on_request_before_anything_is_written(wrong, put):
    index, held = put(np.array([0, 3, wrong, 1, wrong])), integers(4, 3)
    expected = rf"index\[2\] is {wrong}, expected an index from 0 to 3"
    y = put(integers(5, 3, seed=1))
    with pytest.raises(IndexError, match=f"gather: {expected}"):
        kernels.gather(put(held), index, y, check=True)
    np.testing.assert_array_equal(y.copy_to_host(), integers(5, 3, seed=1))
    for launch in (*SCATTER_ADD, *EMBEDDING):
        dx = put(held)
        with pytest.raises(IndexError, match=f"{launch.__name__}: {expected}"):
            launch(dx, index, put(integers(5, 3)), check=True)
        np.testing.assert_array_equal(dx.copy_to_host(), held)


def test_the_range_check_reads_strided_indices_and_passes_good_ones(put):
    index, y = put(np.array([0, 3, 1]), "strided"), put(integers(3, 3))
    kernels.gather(put(integers(4, 3)), index, y, check=True)
    np.testing.assert_array_equal(y.copy_to_host(), integers(4, 3)[[0, 3, 1]])


def test_wrong_arguments_are_named(put):
    dx, index = put(integers(4, 3)), put(indices(4, 2))
    with pytest.raises(ValueError, match=r"scatter_add_atomic: dy has shape \(2, 5\), expected \(2, 3\)"):
        kernels.scatter_add_atomic(dx, index, put(integers(2, 5)))
    with pytest.raises(TypeError, match="dx has dtype bfloat16, expected float32"):
        kernels.scatter_add_sorted(put(integers(4, 3, dtype=ml_dtypes.bfloat16)), index, put(integers(2, 3)))
