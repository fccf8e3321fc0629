"""c = a b with a (M, K) and b (K, N), rung by rung; with an epilogue; in batches; its gradients da and db."""

from refkit.cuda_kernels import matmul as kernels
from refkit.reference.matmul import matmul, matmul_da, matmul_db, matmul_fused
from refkit.verify import Dim, In, InOut, KernelSpec, Out
from refkit.verify.ledger import Ledger

B = Dim("B", min=0, max=20)
M, K, N = Dim("M", min=0), Dim("K", min=0), Dim("N", min=0)

# Sizes all different, so that a mix-up shows; the register tiles are no multiples of 4, the vector tiles are. There are
# two warps along either axis, with two passes of 16 rows and of 8 columns each.
TILES = {"block_m": [24], "block_n": [16], "block_k": [8], "thread_m": [3], "thread_n": [2]}
VECTOR_TILES = {"block_m": [32], "block_n": [16], "block_k": [8], "thread_m": [4], "thread_n": [8]}
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
    "forward": Ledger(saved="a, b", flops="2 M N K"),
    "backward": Ledger(saved="", flops="4 M N K"),
}


def product(dtype="float32"):
    return {"a": In(M, K, dtype=dtype), "b": In(K, N, dtype=dtype), "c": Out(M, N, dtype=dtype)}


def product_added(a, b, c):
    return c + matmul(a, b)


matmul_naive_spec = KernelSpec(launch=kernels.matmul_naive, reference=matmul, args=product(), nonfinite=True)
matmul_coalesced_spec = KernelSpec(launch=kernels.matmul_coalesced, reference=matmul, args=product(), nonfinite=True)
matmul_tiled_spec = KernelSpec(
    launch=kernels.matmul_tiled, reference=matmul, args=product(), configs={"tile": [8]}, nonfinite=True
)
matmul_register_tiled_1d_spec = KernelSpec(
    launch=kernels.matmul_register_tiled_1d,
    reference=matmul,
    args=product(),
    configs={"block_m": [24], "block_n": [16], "block_k": [8], "thread_m": [6]},
    nonfinite=True,
)
matmul_register_tiled_spec = KernelSpec(
    launch=kernels.matmul_register_tiled, reference=matmul, args=product(), configs=TILES, nonfinite=True
)
matmul_vectorized_spec = KernelSpec(
    launch=kernels.matmul_vectorized, reference=matmul, args=product(), configs=VECTOR_TILES, nonfinite=True
)
matmul_vectorized_bf16_spec = KernelSpec(
    launch=kernels.matmul_vectorized, reference=matmul, args=product("bfloat16"), configs=VECTOR_TILES
)
matmul_warp_tiled_spec = KernelSpec(
    launch=kernels.matmul_warp_tiled, reference=matmul, args=product(), configs=WARP_TILES, nonfinite=True
)
matmul_double_buffered_spec = KernelSpec(
    launch=kernels.matmul_double_buffered, reference=matmul, args=product(), configs=WARP_TILES, nonfinite=True
)
matmul_accumulate_spec = KernelSpec(
    launch=kernels.matmul_accumulate,
    reference=product_added,
    args={"a": In(M, K), "b": In(K, N), "c": InOut(M, N)},
    configs=WARP_TILES,
)
matmul_fused_spec = KernelSpec(
    launch=kernels.matmul_fused,
    reference=matmul_fused,
    args={
        "a": In(M, K),
        "b": In(K, N),
        "bias": In(N, optional=True),
        "residual": In(M, N, optional=True),
        "c": Out(M, N),
    },
    configs={"activation": ["gelu_tanh"], **WARP_TILES},
)
matmul_batched_fp16_spec = KernelSpec(
    launch=kernels.matmul_batched,
    reference=matmul,
    args={
        "a": In(B, M, K, dtype="float16"),
        "b": In(B, K, N, dtype="float16"),
        "c": Out(B, M, N, dtype="float16"),
    },
    configs=TILES,
)
matmul_da_spec = KernelSpec(
    launch=kernels.matmul_da,
    reference=matmul_da,
    args={"dc": In(M, N), "b": In(K, N), "da": Out(M, K)},
    configs=WARP_TILES,
    direction="backward",
)
matmul_db_spec = KernelSpec(
    launch=kernels.matmul_db,
    reference=matmul_db,
    args={"a": In(M, K), "dc": In(M, N), "db": Out(K, N)},
    configs=WARP_TILES,
    direction="backward",
)
