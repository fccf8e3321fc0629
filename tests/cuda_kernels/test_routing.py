import ml_dtypes
import numpy as np
import pytest
from numba import cuda

from refkit.cuda_kernels import routing as gate_kernels
from refkit.cuda_kernels import routing_order as order_kernels
from refkit.cuda_kernels import routing_rows as row_kernels
from refkit.reference.routing import (
    expert_order,
    gate,
    gate_vjp,
    permute,
    permute_vjp,
    unpermute,
    unpermute_vjp,
)

from .adjoint import assert_adjoint

pytestmark = pytest.mark.cpu

GATE = [gate_kernels.gate_naive, gate_kernels.gate_warp]
GATE_BACKWARD = [gate_kernels.gate_backward_naive, gate_kernels.gate_backward_warp]
ORDER = [order_kernels.expert_order_naive, order_kernels.expert_order_counted]
PERMUTE = [row_kernels.permute_naive, row_kernels.permute_token]
UNPERMUTE_BACKWARD = [row_kernels.unpermute_backward_naive, row_kernels.unpermute_backward_block]
SIZES = [(1, 1, 1, 1), (9, 8, 2, 5), (40, 70, 33, 3), (7, 3, 3, 70), (0, 4, 2, 3)]  # (T, E, K, D)
DTYPES = [np.float32, ml_dtypes.bfloat16]


def each(launchers):
    return pytest.mark.parametrize("launch", launchers, ids=lambda launch: launch.__name__)


def normal(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(dtype)


def wide(array):
    return np.asarray(array, np.float64)


def empty(*shape, dtype=np.float32):
    return cuda.to_device(np.full(shape, 99).astype(dtype))


def positions(T, E, K, seed=0):
    experts = np.random.default_rng((seed, T, E, K)).integers(0, E, (T, K))
    return expert_order(experts, E).position


def run_order(launch, experts, E, put, layout="contiguous", **config):
    T, K = experts.shape
    outputs = [empty(*shape, dtype=np.int64) for shape in ((T, K), (T * K,), (E + 1,))]
    launch(put(experts, layout), *outputs, **config)
    return [output.copy_to_host() for output in outputs]


@each(GATE)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("dtype", "layout"), [(np.float32, "contiguous"), (ml_dtypes.bfloat16, "strided")])
def test_gate_chooses_and_weighs(launch, size, dtype, layout, put):
    T, E, K, _ = size
    logits = (4 * normal(T, E)).round().astype(dtype)  # with ties
    experts, gates = empty(T, K, dtype=np.int32), empty(T, K)
    launch(put(logits, layout), experts, gates, block=64)
    expected = gate(wide(logits), K)
    np.testing.assert_array_equal(experts.copy_to_host(), expected.experts)
    np.testing.assert_allclose(gates.copy_to_host(), expected.gates, rtol=2e-6, atol=1e-30)


@each(GATE)
def test_gate_of_large_logits_does_not_overflow(launch, put):
    logits = np.array([[1e30, -1e30, 1e30, 0], [-500, -501, -502, -503]], np.float32)
    experts, gates = empty(2, 3, dtype=np.int64), empty(2, 3)
    launch(put(logits), experts, gates)
    assert experts.copy_to_host().tolist() == [[0, 2, 3], [0, 1, 2]]
    np.testing.assert_allclose(gates.copy_to_host(), [[0.5, 0.5, 0], [0.66524096, 0.24472848, 0.09003057]], rtol=1e-6)


@each(GATE_BACKWARD)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_gate_backward_reaches_the_chosen_logits_alone(launch, size, dtype, put):
    T, E, K, _ = size
    experts, gates = gate(wide(normal(T, E)), K)
    dgates, gates, dlogits = normal(T, K, seed=1), gates.astype(np.float32), empty(T, E, dtype=dtype)
    launch(put(dgates, "strided"), put(gates), put(experts, "transposed"), dlogits, block=32)
    expected = gate_vjp(wide(dgates), wide(gates), experts, E)
    got = dlogits.copy_to_host().astype(float)
    np.testing.assert_allclose(got, expected, rtol=2**-8 if dtype != np.float32 else 1e-5, atol=1e-6)
    chosen = np.zeros((T, E), bool)
    np.put_along_axis(chosen, experts, True, axis=1)
    assert (got[~chosen] == 0).all()


@each(ORDER)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("pattern", "layout"), [("any", "contiguous"), ("one expert", "strided")])
def test_order_is_stable_and_has_room_for_experts_without_tokens(launch, size, layout, pattern, put):
    T, E, K, _ = size
    experts = np.random.default_rng(size).integers(0, E, (T, K)) if pattern == "any" else np.full((T, K), E - 1)
    got = run_order(launch, experts, E, put, layout, block=32)
    for array, expected in zip(got, expert_order(experts, E)):
        np.testing.assert_array_equal(array, expected)


def test_a_counting_sort_over_more_counts_than_one_round_of_the_scan_takes(put):
    experts = np.random.default_rng(0).integers(0, 200, (900, 2))  # 57 blocks of 32 by 200 experts
    for array, expected in zip(run_order(ORDER[1], experts, 200, put, block=32), expert_order(experts, 200)):
        np.testing.assert_array_equal(array, expected)


@each(PERMUTE)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_permute_copies_each_row_to_its_places(launch, size, dtype, put):
    T, E, K, D = size
    x, position = normal(T, D, dtype=dtype), positions(T, E, K)
    rows = empty(T * K, D, dtype=dtype)
    launch(put(x, "strided"), put(position, "transposed"), rows, block=64)
    np.testing.assert_array_equal(rows.copy_to_host(), permute(x, position))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_permute_backward_adds_the_rows_of_a_token(size, dtype, put):
    T, E, K, D = size
    drows, position = normal(T * K, D, dtype=dtype), positions(T, E, K)
    dx = empty(T, D, dtype=dtype)
    row_kernels.permute_backward(put(drows, "strided"), put(position.astype(np.int32)), dx, block=64)
    expected = permute_vjp(wide(drows), position)
    np.testing.assert_allclose(wide(dx.copy_to_host()), expected, rtol=2**-8 if dtype != np.float32 else 0, atol=5e-6)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_unpermute_weighs_the_rows_of_a_token(size, dtype, put):
    T, E, K, D = size
    rows, gates, position = normal(T * K, D, dtype=dtype), normal(T, K), positions(T, E, K)
    y = empty(T, D, dtype=dtype)
    row_kernels.unpermute(put(rows, "transposed"), put(gates, "strided"), put(position), y, block=64)
    expected = unpermute(wide(rows), wide(gates), position)
    np.testing.assert_allclose(wide(y.copy_to_host()), expected, rtol=2**-8 if dtype != np.float32 else 0, atol=1e-5)


@each(UNPERMUTE_BACKWARD)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_unpermute_backward(launch, size, dtype, put):
    T, E, K, D = size
    dy, rows, gates = normal(T, D, dtype=dtype, seed=1), normal(T * K, D, dtype=dtype), normal(T, K, seed=2)
    position = positions(T, E, K)
    drows, dgates = empty(T * K, D, dtype=dtype), empty(T, K)
    launch(put(dy, "strided"), put(rows), put(gates, "transposed"), put(position), drows, dgates, block=32)
    expected = unpermute_vjp(wide(dy), wide(rows), wide(gates), position)
    np.testing.assert_allclose(
        wide(drows.copy_to_host()), expected.drows, rtol=2**-8 if dtype != np.float32 else 1e-6, atol=1e-7
    )
    np.testing.assert_allclose(dgates.copy_to_host(), expected.dgates, atol=1e-5)


@pytest.mark.parametrize("kernel", [0, 1])
def test_a_layer_of_experts_is_adjoint(kernel, put):
    """Logits to gates to rows and back, with experts that do nothing: every kernel but the experts' own."""
    T, E, K, D = 11, 6, 3, 40
    rng = np.random.default_rng(0)
    logits = rng.permuted(np.tile(np.arange(E, dtype=np.float32), (T, 1)), axis=1)  # far from ties
    x, dy = normal(T, D), normal(T, D, seed=1)
    experts, gates = empty(T, K, dtype=np.int64), empty(T, K)
    position, token, offsets = (empty(*shape, dtype=np.int64) for shape in ((T, K), (T * K,), (E + 1,)))
    rows, drows, dgates = empty(T * K, D), empty(T * K, D), empty(T, K)
    dx, dlogits = empty(T, D), empty(T, E)
    GATE[kernel](put(logits), experts, gates)
    ORDER[kernel](experts, position, token, offsets)
    PERMUTE[kernel](put(x), position, rows)
    UNPERMUTE_BACKWARD[kernel](put(dy), rows, gates, position, drows, dgates)
    row_kernels.permute_backward(drows, position, dx)
    GATE_BACKWARD[kernel](dgates, gates, experts, dlogits)

    def forward(x, logits):
        experts, gates = gate(logits, K)
        position = expert_order(experts, E).position
        return unpermute(permute(x, position), gates, position)

    def vjp(x, logits, dy0):
        experts, gates = gate(logits, K)
        position = expert_order(experts, E).position
        drows, dgates = unpermute_vjp(dy0, permute(x, position), gates, position)
        return permute_vjp(drows, position), gate_vjp(dgates, gates, experts, E)

    gradients = {"x": dx.copy_to_host(), "logits": dlogits.copy_to_host()}
    assert_adjoint(forward, vjp, {"x": x, "logits": logits}, dy, gradients)


def test_wrong_arguments_are_named(put):
    logits, position = put(normal(4, 3)), put(positions(4, 3, 2))
    with pytest.raises(ValueError, match="K=5 experts of each token were asked for, there are E=3"):
        gate_kernels.gate_warp(logits, empty(4, 5, dtype=np.int64), empty(4, 5))
    with pytest.raises(ValueError, match=r"permute_naive: rows has shape \(7, 3\), expected \(8, 3\)"):
        row_kernels.permute_naive(logits, position, empty(7, 3))
    with pytest.raises(TypeError, match="gates has dtype bfloat16, expected float32"):
        row_kernels.unpermute(put(normal(8, 3)), empty(4, 2, dtype=ml_dtypes.bfloat16), position, empty(4, 3))
