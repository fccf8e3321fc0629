"""Softmax of the rows of x (T, C), NaN and infinities as in the reference, and its dx from y."""

from refkit.cuda_kernels import softmax as kernels
from refkit.cuda_kernels import softmax_backward as backward_kernels
from refkit.reference.softmax import softmax, softmax_dx
from refkit.verify import Dim, In, KernelSpec, Out
from refkit.verify.ledger import Ledger

T, C = Dim("T", min=0), Dim("C", min=0)
MANY_T = Dim("T", min=0, max=70_000)  # more rows than a grid has blocks along y
WIDE_C = Dim("C", min=0, max=5000)

OPERATOR = "softmax"
BLOCK = {"block": [32, 96]}

LEDGER = {"forward": Ledger(saved="y", flops="5 T C"), "backward": Ledger(saved="", flops="4 T C")}


def forward(T=T, C=C, dtype="float32"):
    return {"x": In(T, C, dtype=dtype), "y": Out(T, C, dtype=dtype)}


def backward(T=T, C=C, dtype="float32"):
    return {
        "dy": In(T, C, dtype=dtype),
        "y": In(T, C, dtype=dtype, values="uniform"),
        "dx": Out(T, C, dtype=dtype),
    }


softmax_naive_spec = KernelSpec(
    launch=kernels.softmax_naive, reference=softmax, args=forward(), configs={"block": [32]}, nonfinite=True
)
softmax_warp_spec = KernelSpec(
    launch=kernels.softmax_warp, reference=softmax, args=forward(MANY_T), configs=BLOCK, nonfinite=True
)
softmax_block_spec = KernelSpec(
    launch=kernels.softmax_block, reference=softmax, args=forward(), configs=BLOCK, nonfinite=True
)
softmax_online_spec = KernelSpec(
    launch=kernels.softmax_online, reference=softmax, args=forward(C=WIDE_C), configs=BLOCK, nonfinite=True
)
softmax_online_bf16_spec = KernelSpec(
    launch=kernels.softmax_online,
    reference=softmax,
    args=forward(dtype="bfloat16"),
    configs={"block": [96]},
    nonfinite=True,
)

softmax_dx_warp_spec = KernelSpec(
    operator=OPERATOR,
    launch=backward_kernels.softmax_dx_warp,
    reference=softmax_dx,
    args=backward(MANY_T),
    configs=BLOCK,
    nonfinite=True,
    direction="backward",
)
softmax_dx_block_spec = KernelSpec(
    operator=OPERATOR,
    launch=backward_kernels.softmax_dx_block,
    reference=softmax_dx,
    args=backward(C=WIDE_C),
    configs=BLOCK,
    nonfinite=True,
    direction="backward",
)
softmax_dx_block_bf16_spec = KernelSpec(
    operator=OPERATOR,
    launch=backward_kernels.softmax_dx_block,
    reference=softmax_dx,
    args=backward(dtype="bfloat16"),
    configs={"block": [96]},
    direction="backward",
)
