"""Max pooling of x (N, C, H, W) with saved argmax, and its backward, windows overlapping and padded."""

import numpy as np

from refkit.cuda_kernels import max_pool as kernels
from refkit.reference.max_pool import max_pool, max_pool_vjp
from refkit.verify import Dim, In, KernelSpec, Out
from refkit.verify.ledger import Ledger

N, C = Dim("N", min=0, max=6), Dim("C", max=6)
MANY_N = Dim("N", min=0, max=70_000)  # more planes than a grid has blocks along y
H, W = Dim("H", min=2, max=40), Dim("W", max=40)
ROWS, COLUMNS = Dim("ROWS", max=14), Dim("COLUMNS", max=14)  # of y

LEDGER = {
    "forward": Ledger(saved="argmax", flops="0"),
    "backward": Ledger(saved="argmax", flops="N C Ho Wo"),
}

OVERLAPPING = {"window": [(3, 2)], "stride": [(2, 1)], "padding": [(1, 0)]}
TILING = {"window": [(2, 3)], "stride": [(2, 3)], "padding": [(0, 2)]}


def forward(windows, N=N, dtype="float32", index="int64"):
    ((kh, kw),), ((sh, sw),), ((ph, pw),) = windows["window"], windows["stride"], windows["padding"]
    pooled = (N, C, (H + 2 * ph - kh) // sh + 1, (W + 2 * pw - kw) // sw + 1)
    return {"x": In(N, C, H, W, dtype=dtype), "y": Out(*pooled, dtype=dtype), "argmax": Out(*pooled, dtype=index)}


def window_fits(H, W, window, padding):
    return H + 2 * padding[0] >= window[0] and W + 2 * padding[1] >= window[1]


def places_in_overlapping_windows(rng, shape):
    """An argmax (N, C, Ho, Wo) in each window of `OVERLAPPING`, on planes as `backward` has them."""
    rows, columns = shape[2:]
    height, width = 2 * rows, columns + 1
    h = np.arange(rows)[:, None] * 2 - 1 + rng.integers(0, 3, shape)
    w = np.arange(columns) + rng.integers(0, 2, shape)
    return np.clip(h, 0, height - 1) * width + w


def backward(dtype="float32", index="int64", N=N):
    """On planes of 2 ROWS x (COLUMNS + 1), which `OVERLAPPING` pools to ROWS x COLUMNS."""
    return {
        "dy": In(N, C, ROWS, COLUMNS, dtype=dtype),
        "argmax": In(N, C, ROWS, COLUMNS, dtype=index, values=places_in_overlapping_windows, layouts=("contiguous",)),
        "dx": Out(N, C, 2 * ROWS, COLUMNS + 1, dtype=dtype),
    }


def planes_of_y(dy, argmax):
    return max_pool_vjp(dy, argmax, 2 * dy.shape[2], dy.shape[3] + 1)


max_pool_overlapping_spec = KernelSpec(
    launch=kernels.max_pool,
    reference=max_pool,
    args=forward(OVERLAPPING, MANY_N),
    configs={**OVERLAPPING, "block": [32]},
    requires=window_fits,
    nonfinite=True,
)
max_pool_tiling_bf16_spec = KernelSpec(
    launch=kernels.max_pool,
    reference=max_pool,
    args=forward(TILING, dtype="bfloat16", index="int32"),
    configs={**TILING, "block": [96]},
    requires=window_fits,
    nonfinite=True,
)
max_pool_backward_gather_spec = KernelSpec(
    launch=kernels.max_pool_backward_gather,
    reference=planes_of_y,
    args=backward(N=MANY_N),
    configs={**OVERLAPPING, "block": [32]},
    direction="backward",
)
max_pool_backward_gather_bf16_spec = KernelSpec(
    launch=kernels.max_pool_backward_gather,
    reference=planes_of_y,
    args=backward("bfloat16", "int32"),
    configs={**OVERLAPPING, "block": [96]},
    direction="backward",
)
max_pool_backward_atomic_spec = KernelSpec(
    launch=kernels.max_pool_backward_atomic,
    reference=planes_of_y,
    args=backward(),
    configs={**OVERLAPPING, "block": [64]},
    deterministic=False,
    direction="backward",
)
