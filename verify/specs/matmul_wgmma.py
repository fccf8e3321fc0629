"""c = a b on Hopper's tensor cores by `wgmma`: bf16, f16, tf32 and e4m3; with an epilogue; split along K into c."""

from refkit.cuda_kernels import matmul_wgmma as kernels
from refkit.reference.matmul import matmul, matmul_fused
from refkit.verify import Dim, In, InOut, KernelSpec, Out, Precision

OPERATOR = "matmul"
M, K, N = Dim("M", min=0), Dim("K", min=0), Dim("N", min=0)
# Tensor maps want lines that begin at multiples of 16 bytes; other operands are copied first.
M8, K8, N8 = (Dim(name, min=0, multiple_of=8) for name in "MKN")

TILES = {"block_m": [64], "block_n": [64], "stages": [2]}
TWO_WARPGROUPS = {"block_m": [128], "block_n": [64], "stages": [3]}
ROWS, COLUMNS, BOTH = ("contiguous",), ("transposed",), ("contiguous", "transposed")


def product(dtype, dims=(M, K, N), a=ROWS, b=ROWS, out="float32"):
    m, k, n = dims
    return {"a": In(m, k, dtype=dtype, layouts=a), "b": In(k, n, dtype=dtype, layouts=b), "c": Out(m, n, dtype=out)}


def product_added(a, b, c):
    return c + matmul(a, b)


matmul_wgmma_bf16_spec = KernelSpec(
    operator=OPERATOR,
    launch=kernels.matmul_wgmma,
    reference=matmul,
    args=product("bfloat16", (M8, K8, N8), a=BOTH, b=BOTH, out="bfloat16"),
    configs=TWO_WARPGROUPS,
    precision=Precision(multiply="bfloat16"),
    needs="sm_90a",
)
matmul_wgmma_f16_spec = KernelSpec(
    operator=OPERATOR,
    launch=kernels.matmul_wgmma,
    reference=matmul,
    args=product("float16", a=("contiguous", "strided", "offset"), b=ROWS),
    configs=TILES,
    precision=Precision(multiply="float16"),
    needs="sm_90a",
)
matmul_wgmma_tf32_spec = KernelSpec(
    operator=OPERATOR,
    launch=kernels.matmul_wgmma,
    reference=matmul,
    args=product("float32", a=BOTH, b=BOTH),
    configs=TILES,
    precision=Precision(multiply="tf32"),
    needs="sm_90a",
)
matmul_wgmma_e4m3_spec = KernelSpec(
    operator=OPERATOR,
    launch=kernels.matmul_wgmma,
    reference=matmul,
    args=product("float8_e4m3fn", a=ROWS, b=BOTH),
    configs=TILES,
    precision=Precision(multiply="float8_e4m3fn"),
    needs="sm_90a",
)
matmul_wgmma_fused_bf16_spec = KernelSpec(
    operator=OPERATOR,
    launch=kernels.matmul_wgmma_fused,
    reference=matmul_fused,
    args={
        "a": In(M, K8, dtype="bfloat16", layouts=ROWS),
        "b": In(K8, N8, dtype="bfloat16", layouts=ROWS),
        "bias": In(N8, dtype="bfloat16", layouts=ROWS),
        "residual": In(M, N8, dtype="bfloat16", layouts=ROWS),
        "c": Out(M, N8, dtype="bfloat16"),
    },
    configs={"activation": ["gelu_tanh"], **TILES},
    precision=Precision(multiply="bfloat16"),
    needs="sm_90a",
)
matmul_wgmma_split_k_bf16_spec = KernelSpec(
    operator=OPERATOR,
    launch=kernels.matmul_wgmma_split_k,
    reference=product_added,
    args={
        "a": In(M8, K, dtype="bfloat16", layouts=COLUMNS),
        "b": In(K, N8, dtype="bfloat16", layouts=ROWS),
        "c": InOut(M8, N8),
    },
    configs={"split_k": [3], **TILES},
    precision=Precision(multiply="bfloat16"),
    needs="sm_90a",
)
