"""Block-scaled fp8 quantisation: scales, and quotients that are rounded once to the format."""

from refkit.cuda_kernels import fp8_quantize as kernels
from refkit.reference.fp8_quantize import fp8_dequantize, fp8_scaled
from refkit.verify import Dim, In, KernelSpec, Out
from refkit.verify.ledger import Ledger

M, N = Dim("M", min=0), Dim("N", min=0)
MANY_M = Dim("M", min=0, max=70_000)  # more rows than a grid has blocks along y

E4M3, E5M2 = "float8_e4m3fn", "float8_e5m2"
SCALES = {"power_of_two": [False, True]}

LEDGER = {"forward": Ledger(saved="q, scales", flops="3 M N")}


def covering(dim, size):
    """The number of blocks of `size` that cover `dim`."""
    return (dim + size - 1) // size


def quantized(rows, columns, M=M, dtype="float32", storage=E4M3):
    return {
        "x": In(M, N, dtype=dtype),
        "q": Out(M, N, dtype=storage),
        "scales": Out(covering(M, rows), covering(N, columns)),
    }


def blocks(x, block_rows, block_columns, power_of_two):
    return fp8_scaled(x, (block_rows, block_columns), "e4m3", power_of_two)


def column_groups(x, group, power_of_two):
    return fp8_scaled(x, (group, 1), "e5m2", power_of_two)


def dequantized(q, scales, block_rows, block_columns):
    return fp8_dequantize(q, scales, (block_rows, block_columns))


fp8_quantize_naive_spec = KernelSpec(
    launch=kernels.fp8_quantize_naive,
    reference=blocks,
    args=quantized(3, 8),
    configs={"block_rows": [3], "block_columns": [8], **SCALES},
    nonfinite=True,
)
fp8_quantize_tiles_spec = KernelSpec(
    launch=kernels.fp8_quantize_tiles,
    reference=blocks,
    args=quantized(1, 8, M=MANY_M),
    configs={"block_rows": [1], "block_columns": [8], **SCALES, "threads": [32]},
    nonfinite=True,
)
fp8_quantize_tiles_weights_spec = KernelSpec(
    launch=kernels.fp8_quantize_tiles,
    reference=blocks,
    args=quantized(128, 128, dtype="bfloat16"),
    configs={"block_rows": [128], "block_columns": [128], "power_of_two": [False], "threads": [96]},
)
fp8_quantize_columns_spec = KernelSpec(
    launch=kernels.fp8_quantize_columns,
    reference=column_groups,
    args=quantized(8, 1, storage=E5M2),
    configs={"group": [8], **SCALES, "threads_y": [3]},
    nonfinite=True,
)
fp8_dequantize_spec = KernelSpec(
    launch=kernels.fp8_dequantize,
    reference=dequantized,
    args={
        "q": In(M, N, dtype=E4M3),
        "scales": In(covering(M, 3), covering(N, 8), values="positive"),
        "x": Out(M, N),
    },
    configs={"block_rows": [3], "block_columns": [8]},
)
