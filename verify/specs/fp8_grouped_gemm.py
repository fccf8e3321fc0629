"""Block-scaled fp8 products of experts: contiguous tokens of each expert, by offsets, and a weight of its own."""

from refkit.cuda_kernels import fp8_grouped_gemm as kernels
from refkit.reference.fp8_grouped_gemm import fp8_grouped_gemm, fp8_grouped_gemm_dw, fp8_grouped_gemm_dx
from refkit.verify import Dim, In, Index, InOut, KernelSpec, Out
from refkit.verify.ledger import Ledger

T, K, N = (Dim(name, min=0, max=70) for name in "TKN")
E = Dim("E", max=9)

E4M3, E5M2 = "float8_e4m3fn", "float8_e5m2"
GROUP = 10  # no multiple of what a thread makes
CONFIGS = {"group": [GROUP], "block_m": [16], "block_n": [32], "block_k": [3], "thread_m": [4], "thread_n": [4]}

LEDGER = {
    "forward": Ledger(saved="xq, x_scales, offsets", flops="2 T K N"),
    "backward": Ledger(saved="xq_t, x_scales_t", flops="4 T K N"),
}


def groups(dim):
    """The number of groups that cover `dim`."""
    return (dim + GROUP - 1) // GROUP


def scales(*dims):
    return In(*dims, values="positive")


def offsets():
    """Ends of experts in any order: one below its predecessor is an empty expert."""
    return Index(E, below=T + 1, dtype="int32")


def dw_accumulated(xq_t, x_scales_t, dyq_t, dy_scales_t, offsets, dw, group):
    return dw + fp8_grouped_gemm_dw(xq_t, x_scales_t, dyq_t, dy_scales_t, offsets, group)


fp8_grouped_gemm_spec = KernelSpec(
    launch=kernels.fp8_grouped_gemm,
    reference=fp8_grouped_gemm,
    args={
        "xq": In(T, K, dtype=E4M3),
        "x_scales": scales(T, groups(K)),
        "wq": In(E, K, N, dtype=E4M3),
        "w_scales": scales(E, groups(K), groups(N)),
        "offsets": offsets(),
        "y": Out(T, N),
    },
    configs=CONFIGS,
)
fp8_grouped_gemm_dx_spec = KernelSpec(
    launch=kernels.fp8_grouped_gemm_dx,
    reference=fp8_grouped_gemm_dx,
    args={
        "dyq": In(T, N, dtype=E5M2),
        "dy_scales": scales(T, groups(N)),
        "wq": In(E, K, N, dtype=E4M3),
        "w_scales": scales(E, groups(K), groups(N)),
        "offsets": offsets(),
        "dx": Out(T, K),
    },
    configs=CONFIGS,
    direction="backward",
)
fp8_grouped_gemm_dw_spec = KernelSpec(
    launch=kernels.fp8_grouped_gemm_dw,
    reference=dw_accumulated,
    args={
        "xq_t": In(K, T, dtype=E4M3),
        "x_scales_t": scales(K, groups(T)),
        "dyq_t": In(N, T, dtype=E5M2),
        "dy_scales_t": scales(N, groups(T)),
        "offsets": offsets(),
        "dw": InOut(E, K, N),
    },
    configs=CONFIGS,
    direction="backward",
)
