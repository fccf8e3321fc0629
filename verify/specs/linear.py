"""y = x w + b with x (T, K) and w (K, N), its dx, and dw and db accumulated in float32."""

import numpy as np

from refkit.cuda_kernels import linear as kernels
from refkit.reference.linear import linear, linear_db, linear_dw, linear_dx, linear_gelu
from refkit.verify import Dim, In, InOut, KernelSpec, Out
from refkit.verify.ledger import Ledger

T, K, N = Dim("T", min=0), Dim("K", min=0), Dim("N", min=0)
MANY_T = Dim("T", min=0, max=70_000)  # more rows than a grid has blocks along y

TILE = {"tile": [8, 16]}
TILES = {"block_m": [16, 48], "block_n": [32], "block_k": [8], "thread_m": [4], "thread_n": [4]}
ONE_TILE = {name: sizes[-1:] for name, sizes in TILES.items()}
WARP_TILES = {
    "block_m": [64],
    "block_n": [32],
    "block_k": [8],
    "warp_m": [32],
    "warp_n": [16],
    "thread_m": [4],
    "thread_n": [1],
}
LEDGER = {
    "forward": Ledger(saved="x, w", flops="2 T K N"),
    "backward": Ledger(saved="", flops="4 T K N + T N"),
}
SPLITS = {"split_k": [1, 3], **ONE_TILE}


def forward(dtype="float32"):
    return {
        "x": In(T, K, dtype=dtype),
        "w": In(K, N, dtype=dtype),
        "b": In(N, dtype=dtype, optional=True),
        "y": Out(T, N, dtype=dtype),
    }


def backward_x(dtype="float32"):
    return {"dy": In(T, N, dtype=dtype), "w": In(K, N, dtype=dtype), "dx": Out(T, K, dtype=dtype)}


def backward_w(dtype="float32"):
    return {"x": In(T, K, dtype=dtype), "dy": In(T, N, dtype=dtype), "dw": InOut(K, N)}


def dw_accumulated(x, dy, dw):
    return dw + linear_dw(x, dy)


def dw_accumulated_by_atomics(x, dy, dw, split_k, block_k):
    """The old value is one of the terms of the sum: every addition of a part is rounded at the size of the buffer."""
    slices = -(-x.shape[0] // block_k)
    rows = max(1, -(-slices // split_k)) * block_k
    parts = [linear_dw(x[first : first + rows], dy[first : first + rows]) for first in range(0, x.shape[0], rows)]
    return np.stack([dw, *parts]).sum(axis=0)


def db_accumulated(dy, db):
    return db + linear_db(dy)


linear_naive_spec = KernelSpec(launch=kernels.linear_naive, reference=linear, args=forward(), nonfinite=True)
linear_tiled_spec = KernelSpec(
    launch=kernels.linear_tiled, reference=linear, args=forward(), configs=TILE, nonfinite=True
)
linear_register_tiled_spec = KernelSpec(
    launch=kernels.linear_register_tiled, reference=linear, args=forward(), configs=TILES, nonfinite=True
)
linear_register_tiled_bf16_spec = KernelSpec(
    launch=kernels.linear_register_tiled, reference=linear, args=forward("bfloat16"), configs=ONE_TILE
)

linear_register_tiled_fp16_spec = KernelSpec(
    launch=kernels.linear_register_tiled, reference=linear, args=forward("float16"), configs=ONE_TILE
)
linear_gelu_spec = KernelSpec(
    launch=kernels.linear_gelu,
    reference=linear_gelu,
    args={"x": In(T, K), "w": In(K, N), "b": In(N, optional=True), "h": Out(T, N), "y": Out(T, N)},
    configs=WARP_TILES,
)

linear_dx_naive_spec = KernelSpec(
    launch=kernels.linear_dx_naive, reference=linear_dx, args=backward_x(), direction="backward"
)
linear_dx_tiled_spec = KernelSpec(
    launch=kernels.linear_dx_tiled, reference=linear_dx, args=backward_x(), configs=TILE, direction="backward"
)
linear_dx_register_tiled_spec = KernelSpec(
    launch=kernels.linear_dx_register_tiled,
    reference=linear_dx,
    args=backward_x(),
    configs=TILES,
    direction="backward",
)
linear_dx_register_tiled_bf16_spec = KernelSpec(
    launch=kernels.linear_dx_register_tiled,
    reference=linear_dx,
    args=backward_x("bfloat16"),
    configs=ONE_TILE,
    direction="backward",
)

linear_dw_naive_spec = KernelSpec(
    launch=kernels.linear_dw_naive, reference=dw_accumulated, args=backward_w(), direction="backward"
)
linear_dw_tiled_spec = KernelSpec(
    launch=kernels.linear_dw_tiled, reference=dw_accumulated, args=backward_w(), configs=TILE, direction="backward"
)
linear_dw_register_tiled_spec = KernelSpec(
    launch=kernels.linear_dw_register_tiled,
    reference=dw_accumulated,
    args=backward_w(),
    configs=TILES,
    direction="backward",
)
linear_dw_split_k_atomic_spec = KernelSpec(
    launch=kernels.linear_dw_split_k_atomic,
    reference=dw_accumulated_by_atomics,
    args=backward_w(),
    configs=SPLITS,
    deterministic=False,
    direction="backward",
)
linear_dw_split_k_workspace_spec = KernelSpec(
    launch=kernels.linear_dw_split_k_workspace,
    reference=dw_accumulated,
    args=backward_w(),
    configs=SPLITS,
    direction="backward",
)
linear_dw_split_k_workspace_bf16_spec = KernelSpec(
    launch=kernels.linear_dw_split_k_workspace,
    reference=dw_accumulated,
    args=backward_w("bfloat16"),
    configs=SPLITS,
    direction="backward",
)

linear_dw_split_k_workspace_fp16_spec = KernelSpec(
    launch=kernels.linear_dw_split_k_workspace,
    reference=dw_accumulated,
    args=backward_w("float16"),
    configs={"split_k": [3], **ONE_TILE},
    direction="backward",
)

linear_db_naive_spec = KernelSpec(
    launch=kernels.linear_db_naive,
    reference=db_accumulated,
    args={"dy": In(T, N), "db": InOut(N)},
    direction="backward",
)
linear_db_spec = KernelSpec(
    launch=kernels.linear_db,
    reference=db_accumulated,
    args={"dy": In(MANY_T, N), "db": InOut(N)},
    configs={"block_rows": [3, 8]},
    direction="backward",
)
linear_db_bf16_spec = KernelSpec(
    launch=kernels.linear_db,
    reference=db_accumulated,
    args={"dy": In(T, N, dtype="bfloat16"), "db": InOut(N)},
    configs={"block_rows": [8]},
    direction="backward",
)
