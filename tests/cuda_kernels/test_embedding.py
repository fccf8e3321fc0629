import ml_dtypes
import numpy as np
import pytest
from numba import cuda

from refkit.cuda_kernels import embedding as kernels
from refkit.cuda_kernels import scatter_add as table_kernels
from refkit.reference.embedding import embedding, embedding_vjp

from .adjoint import assert_adjoint

pytestmark = pytest.mark.cpu

FORWARD = [kernels.embedding_naive, kernels.embedding_block]
SIZES = [(1, 1, 1, 1), (3, 5, 7, 33), (2, 40, 4, 70), (0, 3, 4, 5), (3, 0, 4, 5)]  # (B, L, V, D)


def each(launchers):
    return pytest.mark.parametrize("launch", launchers, ids=lambda launch: launch.__name__)


def integers(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng((seed, *shape)).integers(-3, 4, shape).astype(dtype)


def tokens_of(B, L, V, dtype=np.int64):
    return np.random.default_rng((B, L, V)).integers(0, V, (B, L)).astype(dtype)


def empty(*shape, dtype=np.float32):
    return cuda.to_device(np.full(shape, np.nan).astype(dtype))


@each(FORWARD)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("dtype", "index"), [(np.float32, np.int64), (ml_dtypes.bfloat16, np.int32)])
@pytest.mark.parametrize("with_positions", [True, False])
def test_rows_of_tokens_and_positions(launch, size, dtype, index, with_positions, put):
    B, L, V, D = size
    table, positions = integers(V, D, dtype=dtype), integers(L, D, dtype=dtype, seed=1) if with_positions else None
    tokens, y = tokens_of(B, L, V, index), empty(B, L, D, dtype=dtype)
    launch(put(tokens, "strided"), put(table, "transposed"), put(positions), y, block=64)
    expected = embedding(tokens, table.astype(float), None if positions is None else positions.astype(float))
    np.testing.assert_array_equal(y.copy_to_host().astype(float), expected)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_positions_add_the_batch_to_what_the_buffer_held(size, dtype, put):
    B, L, _, D = size
    dy, held = integers(B, L, D, dtype=dtype), integers(L, D, seed=1)
    dpositions = put(held)
    kernels.embedding_dpositions(put(dy, "strided"), dpositions, block=64)
    np.testing.assert_array_equal(dpositions.copy_to_host(), held + dy.astype(float).sum(axis=0))


@pytest.mark.parametrize("form", ["naive", "atomic", "sorted"])
def test_forward_and_backward_are_adjoint(form, put):
    B, L, V, D = 3, 5, 7, 33
    rng = np.random.default_rng(0)
    tokens = tokens_of(B, L, V)
    table, positions, dy = (rng.standard_normal(s).astype(np.float32) for s in ((V, D), (L, D), (B, L, D)))
    dtable, dpositions = put(np.zeros((V, D), np.float32)), put(np.zeros((L, D), np.float32))
    backward = getattr(table_kernels, f"embedding_backward_{form}")
    backward(dtable, put(tokens).reshape(B * L), put(dy).reshape(B * L, D))
    kernels.embedding_dpositions(put(dy), dpositions)
    assert_adjoint(
        lambda table, positions: embedding(tokens, table, positions),
        lambda table, positions, dy0: tuple(embedding_vjp(dy0, tokens, V)),
        {"table": table, "positions": positions},
        dy,
        {"table": dtable.copy_to_host(), "positions": dpositions.copy_to_host()},
    )


@each(FORWARD)
@pytest.mark.parametrize("wrong", [4, -1, 2**40])
def test_a_token_outside_the_table_is_refused_on_request(launch, wrong, put):
    tokens = tokens_of(3, 5, 4)
    tokens[2, 1] = wrong
    y = put(integers(3, 5, 2))
    with pytest.raises(IndexError, match=rf"tokens\[2, 1\] is {wrong}, expected an index from 0 to 3"):
        launch(put(tokens), put(integers(4, 2)), None, y, check=True)
    np.testing.assert_array_equal(y.copy_to_host(), integers(3, 5, 2))


def test_wrong_arguments_are_named(put):
    tokens, table = put(tokens_of(2, 3, 4)), put(integers(4, 5))
    with pytest.raises(ValueError, match=r"positions has shape \(2, 5\), expected \(3, 5\)"):
        kernels.embedding_naive(tokens, table, put(integers(2, 5)), empty(2, 3, 5))
    with pytest.raises(TypeError, match="dpositions has dtype bfloat16, expected float32"):
        kernels.embedding_dpositions(put(integers(2, 3, 5)), put(integers(3, 5, dtype=ml_dtypes.bfloat16)))
