"""Block-scaled fp8 products, judged against the float64 product of the dequantised operands, and re-quantisation."""

from refkit.cuda_kernels import fp8_gemm as kernels
from refkit.cuda_kernels import fp8_gemm_backward as backward_kernels
from refkit.reference.fp8_gemm import fp8_gemm, fp8_gemm_dw, fp8_gemm_dx
from refkit.reference.fp8_quantize import fp8_requantize_transposed
from refkit.verify import Dim, In, InOut, KernelSpec, Out
from refkit.verify.ledger import Ledger

T, K, N = (Dim(name, min=0, max=100) for name in "TKN")
# Long enough for three groups of 128 in every direction.
LONG_T, LONG_K, LONG_N = (Dim(name, min=0, max=300) for name in "TKN")

OPERATOR = "fp8_gemm"
E4M3, E5M2 = "float8_e4m3fn", "float8_e5m2"
GROUP = 10  # no multiple of what a thread makes; the shipped size is 128: `fp8_gemm_register_tiled_128_spec`
SMALL = {"group": [GROUP]}
TILES = {"block_m": [48], "block_n": [32], "block_k": [3], "thread_m": [4], "thread_n": [4]}

LEDGER = {
    "forward": Ledger(saved="xq, x_scales", flops="2 T K N"),
    "backward": Ledger(saved="xq_t, x_scales_t", flops="4 T K N + 3 T K + 3 T N"),
}


def covering(dim, size=GROUP):
    """The number of groups of `size` that cover `dim`."""
    return (dim + size - 1) // size


def scales(*dims):
    return In(*dims, values="positive")


def forward(T=T, K=K, N=N, group=GROUP, dtype="float32"):
    return {
        "xq": In(T, K, dtype=E4M3),
        "x_scales": scales(T, covering(K, group)),
        "wq": In(K, N, dtype=E4M3),
        "w_scales": scales(covering(K, group), covering(N, group)),
        "y": Out(T, N, dtype=dtype),
    }


def backward_x():
    return {
        "dyq": In(T, N, dtype=E5M2),
        "dy_scales": scales(T, covering(N)),
        "wq": In(K, N, dtype=E4M3),
        "w_scales": scales(covering(K), covering(N)),
        "dx": Out(T, K),
    }


def backward_w():
    return {
        "xq_t": In(K, T, dtype=E4M3),
        "x_scales_t": scales(K, covering(T)),
        "dyq_t": In(N, T, dtype=E5M2),
        "dy_scales_t": scales(N, covering(T)),
        "dw": InOut(K, N),
    }


def requantized():
    return {
        "q": In(T, K, dtype=E5M2),
        "scales": scales(T, covering(K)),
        "q_t": Out(K, T, dtype=E4M3),
        "scales_t": Out(K, covering(T)),
    }


def dw_accumulated(xq_t, x_scales_t, dyq_t, dy_scales_t, dw, group):
    return dw + fp8_gemm_dw(xq_t, x_scales_t, dyq_t, dy_scales_t, group)


def requantized_to_e4m3(q, scales, group, power_of_two):
    return fp8_requantize_transposed(q, scales, group, "e4m3", power_of_two)


fp8_gemm_naive_spec = KernelSpec(launch=kernels.fp8_gemm_naive, reference=fp8_gemm, args=forward(), configs=SMALL)
fp8_gemm_register_tiled_spec = KernelSpec(
    launch=kernels.fp8_gemm_register_tiled, reference=fp8_gemm, args=forward(), configs={**SMALL, **TILES}
)
fp8_gemm_register_tiled_128_spec = KernelSpec(
    launch=kernels.fp8_gemm_register_tiled,
    reference=fp8_gemm,
    args=forward(LONG_T, LONG_K, LONG_N, 128, "bfloat16"),
    configs={"group": [128], **TILES, "block_k": [16]},
)

fp8_gemm_dx_naive_spec = KernelSpec(
    operator=OPERATOR,
    launch=backward_kernels.fp8_gemm_dx_naive,
    reference=fp8_gemm_dx,
    args=backward_x(),
    configs=SMALL,
    direction="backward",
)
fp8_gemm_dx_register_tiled_spec = KernelSpec(
    operator=OPERATOR,
    launch=backward_kernels.fp8_gemm_dx_register_tiled,
    reference=fp8_gemm_dx,
    args=backward_x(),
    configs={**SMALL, **TILES},
    direction="backward",
)

fp8_gemm_dw_naive_spec = KernelSpec(
    operator=OPERATOR,
    launch=backward_kernels.fp8_gemm_dw_naive,
    reference=dw_accumulated,
    args=backward_w(),
    configs=SMALL,
    direction="backward",
)
fp8_gemm_dw_register_tiled_spec = KernelSpec(
    operator=OPERATOR,
    launch=backward_kernels.fp8_gemm_dw_register_tiled,
    reference=dw_accumulated,
    args=backward_w(),
    configs={**SMALL, **TILES},
    direction="backward",
)

fp8_requantize_transposed_unfused_spec = KernelSpec(
    operator=OPERATOR,
    launch=backward_kernels.fp8_requantize_transposed_unfused,
    reference=requantized_to_e4m3,
    args=requantized(),
    configs={**SMALL, "power_of_two": [False]},
    direction="backward",
)
fp8_requantize_transposed_fused_spec = KernelSpec(
    operator=OPERATOR,
    launch=backward_kernels.fp8_requantize_transposed_fused,
    reference=requantized_to_e4m3,
    args=requantized(),
    configs={**SMALL, "power_of_two": [False, True], "threads_y": [3]},
    direction="backward",
)
