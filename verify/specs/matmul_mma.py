"""c = a b on tensor cores by `mma.sync`: tf32, bf16, f16 and e4m3; with an epilogue; split along K and added into c."""

from refkit.cuda_kernels import matmul_mma as kernels
from refkit.reference.matmul import matmul, matmul_fused
from refkit.verify import Dim, In, InOut, KernelSpec, Out, Precision

OPERATOR = "matmul"
M, K, N = Dim("M", min=0), Dim("K", min=0), Dim("N", min=0)
# Copies of 16 bytes want lines that begin at multiples of that; M is free where a lies along K.
M8, K8, N8 = (Dim(name, min=0, multiple_of=8) for name in "MKN")
K16 = Dim("K", min=0, multiple_of=16)


def tiles(block_k, **more):
    """Small tiles of two warps; block_k is two instructions' worth of K."""
    return {"block_m": [32], "block_n": [32], "block_k": [block_k], "warp_m": [32], "warp_n": [16], **more}


def product(dtype, dims=(M, K, N), a=("contiguous",), b=("contiguous",), out="float32"):
    m, k, n = dims
    return {"a": In(m, k, dtype=dtype, layouts=a), "b": In(k, n, dtype=dtype, layouts=b), "c": Out(m, n, dtype=out)}


def product_added(a, b, c):
    return c + matmul(a, b)


ANY = ("contiguous", "transposed", "strided", "offset", "broadcast")
ROWS, COLUMNS = ("contiguous",), ("transposed",)

matmul_mma_lane_major_bf16_spec = KernelSpec(
    operator=OPERATOR,
    launch=kernels.matmul_mma_lane_major,
    reference=matmul,
    args=product("bfloat16", a=ANY, b=ANY),
    configs=tiles(32),
    precision=Precision(multiply="bfloat16"),
    needs="sm_80",
)
matmul_mma_lane_major_f16_spec = KernelSpec(
    operator=OPERATOR,
    launch=kernels.matmul_mma_lane_major,
    reference=matmul,
    args=product("float16", a=COLUMNS, b=ROWS, out="float16"),
    configs=tiles(32),
    precision=Precision(multiply="float16"),
    needs="sm_80",
)
matmul_mma_lane_major_tf32_spec = KernelSpec(
    operator=OPERATOR,
    launch=kernels.matmul_mma_lane_major,
    reference=matmul,
    args=product("float32", a=ROWS, b=("contiguous", "transposed")),
    configs=tiles(16),
    precision=Precision(multiply="tf32"),
    needs="sm_80",
)
matmul_mma_lane_major_e4m3_spec = KernelSpec(
    operator=OPERATOR,
    launch=kernels.matmul_mma_lane_major,
    reference=matmul,
    args=product("float8_e4m3fn", a=ROWS, b=COLUMNS),
    configs=tiles(64),
    precision=Precision(multiply="float8_e4m3fn"),
    needs="sm_89",
)

matmul_mma_cp_async_bf16_spec = KernelSpec(
    operator=OPERATOR,
    launch=kernels.matmul_mma_cp_async,
    reference=matmul,
    args=product("bfloat16", (M, K8, N8)),
    configs=tiles(32, stages=[3]),
    precision=Precision(multiply="bfloat16"),
    needs="sm_80",
)
matmul_mma_cp_async_tf32_spec = KernelSpec(
    operator=OPERATOR,
    launch=kernels.matmul_mma_cp_async,
    reference=matmul,
    args=product("float32", (M, K8, N8), b=COLUMNS),
    configs=tiles(16, stages=[4]),
    precision=Precision(multiply="tf32"),
    needs="sm_80",
)
matmul_mma_ldmatrix_bf16_spec = KernelSpec(
    operator=OPERATOR,
    launch=kernels.matmul_mma_ldmatrix,
    reference=matmul,
    args=product("bfloat16", (M8, K8, N8), a=("contiguous", "transposed"), b=("contiguous", "transposed")),
    configs=tiles(32, stages=[3]),
    precision=Precision(multiply="bfloat16"),
    needs="sm_80",
)
matmul_mma_ldmatrix_f16_spec = KernelSpec(
    operator=OPERATOR,
    launch=kernels.matmul_mma_ldmatrix,
    reference=matmul,
    args=product("float16", (M, K8, N), b=COLUMNS, out="float16"),
    configs=tiles(32, stages=[2]),
    precision=Precision(multiply="float16"),
    needs="sm_80",
)
matmul_mma_ldmatrix_tf32_spec = KernelSpec(
    operator=OPERATOR,
    launch=kernels.matmul_mma_ldmatrix,
    reference=matmul,
    args=product("float32", (M8, K8, N8), a=COLUMNS),
    configs=tiles(16, stages=[3]),
    precision=Precision(multiply="tf32"),
    needs="sm_80",
)
matmul_mma_ldmatrix_e4m3_spec = KernelSpec(
    operator=OPERATOR,
    launch=kernels.matmul_mma_ldmatrix,
    reference=matmul,
    args=product("float8_e4m3fn", (M, K16, N), b=COLUMNS, out="bfloat16"),
    configs=tiles(64, stages=[3]),
    precision=Precision(multiply="float8_e4m3fn"),
    needs="sm_89",
)

matmul_mma_fused_bf16_spec = KernelSpec(
    operator=OPERATOR,
    launch=kernels.matmul_mma_fused,
    reference=matmul_fused,
    args={
        "a": In(M, K8, dtype="bfloat16", layouts=ROWS),
        "b": In(K8, N8, dtype="bfloat16", layouts=ROWS),
        "bias": In(N8, dtype="bfloat16", layouts=ROWS),
        "residual": In(M, N8, dtype="bfloat16", layouts=ROWS),
        "c": Out(M, N8, dtype="bfloat16"),
    },
    configs={"activation": ["gelu_tanh"], **tiles(32, stages=[3])},
    precision=Precision(multiply="bfloat16"),
    needs="sm_80",
)
matmul_mma_split_k_bf16_spec = KernelSpec(
    operator=OPERATOR,
    launch=kernels.matmul_mma_split_k,
    reference=product_added,
    args={
        "a": In(M8, K, dtype="bfloat16", layouts=COLUMNS),
        "b": In(K, N8, dtype="bfloat16", layouts=ROWS),
        "c": InOut(M8, N8),
    },
    configs={"split_k": [3], **tiles(32, stages=[3])},
    precision=Precision(multiply="bfloat16"),
    needs="sm_80",
)
