import itertools

import ml_dtypes
import numpy as np
import pytest
from numba import cuda

from refkit.cuda_kernels import layouts
from refkit.cuda_kernels import matmul_mma as kernels
from refkit.cuda_kernels.launch import transposed
from refkit.cuda_kernels.mma_gemm import FORMATS, MmaTiles, launch_multistage_gemm
from refkit.cuda_kernels.mma_gemm.lane_major import slot_factory
from refkit.cuda_kernels.mma_gemm.mainloop import Operands, shared_tiles
from refkit.numerics import Precision, error_ratio, evaluate
from refkit.reference.matmul import matmul, matmul_fused

pytestmark = pytest.mark.cpu

DTYPES = {
    "tf32": np.dtype(np.float32),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f16": np.dtype(np.float16),
    "e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
}
MULTIPLY = {"tf32": "tf32", "bf16": "bfloat16", "f16": "float16", "e4m3": "float8_e4m3fn"}
BLOCK_K = {"tf32": 16, "bf16": 32, "f16": 32, "e4m3": 64}
CASES = list(itertools.product("NT", "NT"))


def tiles(kind, **more):
    return {"block_m": 32, "block_n": 32, "block_k": BLOCK_K[kind], "warp_m": 32, "warp_n": 16, **more}


def normal(*shape, kind, seed=0):
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(DTYPES[kind])


def operand(array, transpose):
    """The array on the device, stored transposed where asked; fp8 as its bits."""
    array = array.view(np.uint8) if array.dtype.itemsize == 1 else array
    if not transpose:
        return cuda.to_device(np.ascontiguousarray(array))
    return transposed(cuda.to_device(np.ascontiguousarray(array.T)))


def product_ratio(launch, kind, sizes, cases="NN", dtype=np.float32, **config):
    """The worst |error| / allowed error of a product."""
    M, N, K = sizes
    a, b = normal(M, K, kind=kind), normal(K, N, kind=kind, seed=1)
    c = cuda.to_device(np.full((M, N), np.nan, dtype))
    launch(operand(a, cases[0] == "T"), operand(b, cases[1] == "T"), c, **config)
    wide = {"a": a.astype(np.float64), "b": b.astype(np.float64)}
    (bound,) = evaluate(matmul, wide, Precision(multiply=MULTIPLY[kind]), [dtype])
    return float(np.max(error_ratio(c.copy_to_host(), bound), initial=0.0))


@pytest.mark.parametrize("cases", CASES, ids="".join)
@pytest.mark.parametrize("kind", ["tf32", "bf16"])
@pytest.mark.parametrize(
    "launch", [kernels.matmul_mma_lane_major, kernels.matmul_mma_ldmatrix], ids=lambda f: f.__name__
)
def test_all_transposes_of_shapes_that_no_tile_divides(launch, kind, cases):
    assert product_ratio(launch, kind, (40, 24, 72), cases, **tiles(kind)) <= 1


@pytest.mark.parametrize(("kind", "cases"), [("tf32", "NN"), ("bf16", "TN"), ("f16", "NT"), ("e4m3", "NT")])
def test_ordinary_shared_loads_give_the_same_fragments(kind, cases):
    sizes = (48, 32, 96)
    assert product_ratio(kernels.matmul_mma_cp_async, kind, sizes, cases, **tiles(kind)) <= 1


@pytest.mark.parametrize("cases", CASES, ids="".join)
def test_fp8_of_any_transposes(cases):
    # Elements of one byte that lie across K are gathered one by one, whatever loads the others.
    assert product_ratio(kernels.matmul_mma_ldmatrix, "e4m3", (48, 32, 80), cases, **tiles("e4m3")) <= 1


@pytest.mark.parametrize("batch", [1, 7])
@pytest.mark.parametrize(
    "launch", [kernels.matmul_mma_lane_major, kernels.matmul_mma_ldmatrix], ids=lambda f: f.__name__
)
def test_batches_of_1_and_7_rows(launch, batch):
    assert product_ratio(launch, "bf16", (batch, 16, 40), **tiles("bf16")) <= 1


def test_tiles_that_divide_exactly_copy_without_looking_at_edges():
    assert product_ratio(kernels.matmul_mma_ldmatrix, "bf16", (64, 64, 128), **tiles("bf16", stages=3)) <= 1


@pytest.mark.parametrize("stages", [2, 3, 5])
def test_fewer_slices_of_k_than_stages(stages):
    assert product_ratio(kernels.matmul_mma_ldmatrix, "bf16", (8, 8, 8), **tiles("bf16", stages=stages)) <= 1


def test_nothing_to_contract_gives_zeros():
    c = cuda.to_device(np.full((5, 8), np.nan, np.float32))
    empty = [cuda.device_array(shape, np.float16) for shape in ((5, 0), (0, 8))]
    kernels.matmul_mma_ldmatrix(*empty, c, **tiles("f16"))
    assert (c.copy_to_host() == 0).all()


def test_nan_reaches_its_row_and_column_only():
    a, b = normal(8, 32, kind="bf16"), normal(32, 8, kind="bf16", seed=1)
    a[3, 5] = np.nan
    c = cuda.to_device(np.zeros((8, 8), np.float32))
    kernels.matmul_mma_ldmatrix(operand(a, False), operand(b, False), c, **tiles("bf16"))
    assert (np.isnan(c.copy_to_host()).any(axis=1) == (np.arange(8) == 3)).all()


def test_the_epilogue_sees_every_element_once():
    a, b = normal(40, 32, kind="bf16"), normal(32, 24, kind="bf16", seed=1)
    bias, residual = (normal(*shape, kind="tf32", seed=2) for shape in ((24,), (40, 24)))
    c = cuda.to_device(np.full((40, 24), np.nan, np.float32))
    arrays = [operand(a, False), operand(b, False), cuda.to_device(bias), cuda.to_device(residual), c]
    kernels.matmul_mma_fused(*arrays, activation="gelu_tanh", **tiles("bf16"))
    wide = {name: np.asarray(x, np.float64) for name, x in zip(("a", "b", "bias", "residual"), (a, b, bias, residual))}

    def reference(a, b, bias, residual):
        return matmul_fused(a, b, bias, residual, activation="gelu_tanh")

    (bound,) = evaluate(reference, wide, Precision(multiply="bfloat16"), [np.float32])
    assert np.max(error_ratio(c.copy_to_host(), bound)) <= 1


def test_splits_of_k_are_added_to_what_is_there_in_the_same_bits_each_time():
    a, b = normal(40, 200, kind="bf16"), normal(200, 24, kind="bf16", seed=1)
    old = normal(40, 24, kind="tf32", seed=2)
    results = []
    for _ in range(2):
        c = cuda.to_device(old)
        kernels.matmul_mma_split_k(operand(a, True), operand(b, False), c, split_k=3, **tiles("bf16"))
        results.append(c.copy_to_host())
    np.testing.assert_array_equal(*results)
    np.testing.assert_allclose(results[0], old + a.astype(float) @ b.astype(float), rtol=0, atol=2e-4)


def test_strides_that_cannot_be_copied_in_pieces_take_the_lane_major_kernel():
    a, b = normal(20, 34, kind="bf16"), normal(34, 18, kind="bf16", seed=1)
    wide = cuda.to_device(np.repeat(np.repeat(a, 2, axis=0), 2, axis=1))
    c = cuda.to_device(np.full((20, 18), np.nan, np.float32))
    kernels.matmul_mma_ldmatrix(wide[::2, ::2], operand(b, False), c, **tiles("bf16"))
    np.testing.assert_allclose(c.copy_to_host(), a.astype(float) @ b.astype(float), atol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"block_m": 96}, "block_m=96 must be a power of two"),
        ({"warp_n": 8}, "warp_n=8 must be a positive multiple"),
        ({"block_k": 16}, "block_k=16 must be a positive multiple of twice the instruction's K for bf16=32"),
        ({"stages": 1}, "stages=1 must be at least 2"),
    ],
)
def test_tiles_that_do_not_fit_are_refused(change, message):
    a, b, c = (
        cuda.to_device(x) for x in (normal(8, 8, kind="bf16"), normal(8, 8, kind="bf16"), np.zeros((8, 8), "f4"))
    )
    with pytest.raises(ValueError, match=message):
        kernels.matmul_mma_ldmatrix(a, b, c, **{**tiles("bf16"), **change})


def test_operands_of_two_formats_are_refused():
    a, b = (cuda.to_device(normal(8, 8, kind=kind)) for kind in ("bf16", "f16"))
    with pytest.raises(TypeError, match="a is bfloat16, b is float16; expected the same"):
        kernels.matmul_mma_ldmatrix(a, b, cuda.device_array((8, 8), np.float32))


def test_the_shipped_tiles_need_more_shared_memory_than_every_kernel_has():
    shipped = MmaTiles(128, 128, 32, 64, 64, 4)
    assert product_ratio(kernels.matmul_mma_ldmatrix, "bf16", (130, 136, 64)) <= 1
    a, b = shared_tiles(FORMATS["bf16"], shipped, Operands(True, False, False))
    assert shipped.stages * (a.bytes + b.bytes) > 48 * 1024


@pytest.mark.parametrize("along_k", [True, False])
@pytest.mark.parametrize("name", ["mma.m16n8k8.tf32", "mma.m16n8k16.bf16", "mma.m16n8k32.e4m3"])
@pytest.mark.parametrize("which", ["A", "B"])
def test_lane_major_slots_are_those_of_the_layout_data(name, which, along_k):
    staged = layouts.staged_operand(layouts.LAYOUTS[name], which, transposed=along_k == (which == "B"), mn=64, k=64)
    size = staged.tile.element_bytes
    slot = slot_factory(64 * size // 32, along_k, which == "B").py_func
    for across, k in itertools.product(range(0, 64, 3), range(0, 64, 5)):
        place = staged.tile.offset(*((across, k) if which == "A" else (k, across)))
        # The data count fragments of B along K first; within a fragment both agree.
        assert int(slot(across, k * size)) % 512 == int(place) % 512


@pytest.mark.parametrize("lines", [32, 64, 128])
@pytest.mark.parametrize("line_bytes", [64, 128, 256])
def test_the_same_piece_of_eight_lines_meets_eight_groups_of_banks(lines, line_bytes):
    tile = shared_tiles(FORMATS["bf16"], MmaTiles(lines, 32, line_bytes // 2, 32, 16, 2), Operands(True, True, False))[
        0
    ]
    for piece in range(tile.pieces):
        offsets = [tile.offset(line, piece) for line in range(8)]
        assert layouts.access(np.repeat(offsets, 4), 16, np.arange(32) % 4 == 0).ways == 1


def test_an_epilogue_of_ones_own():
    @cuda.jit(device=True)
    def doubled(c, operands, part, row, column, value):
        c[row, column] = 2 * value

    a, b = normal(16, 32, kind="f16"), normal(32, 16, kind="f16", seed=1)
    c = cuda.to_device(np.zeros((16, 16), np.float32))
    kind = FORMATS["f16"]
    arrays = kind.bits(operand(a, False)), kind.bits(operand(b, False)), c
    launch_multistage_gemm(kind, doubled, *arrays, MmaTiles(32, 32, 32, 32, 16, 2))
    np.testing.assert_allclose(c.copy_to_host(), 2 * a.astype(float) @ b.astype(float), atol=1e-4)
