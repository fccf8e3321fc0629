"""The logarithm of softmax of the rows of x (T, C), NaN and infinities as in the reference, and its dx from y."""

import numpy as np

from refkit.cuda_kernels import log_softmax as kernels
from refkit.cuda_kernels import log_softmax_backward as backward_kernels
from refkit.reference.log_softmax import log_softmax, log_softmax_dx
from refkit.verify import Dim, In, KernelSpec, Out
from refkit.verify.ledger import Ledger

T, C = Dim("T", min=0), Dim("C", min=0)
MANY_T = Dim("T", min=0, max=70_000)  # more rows than a grid has blocks along y
WIDE_C = Dim("C", min=0, max=5000)

OPERATOR = "log_softmax"
BLOCK = {"block": [32, 96]}

LEDGER = {"forward": Ledger(saved="y", flops="5 T C"), "backward": Ledger(saved="", flops="4 T C")}


def log_probabilities(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Logarithms of probabilities: from 0 down to where exp gives 0."""
    return -(10.0 ** rng.uniform(-3, 2.5, shape))


def forward(T=T, C=C, dtype="float32"):
    return {"x": In(T, C, dtype=dtype), "y": Out(T, C, dtype=dtype)}


def backward(T=T, C=C, dtype="float32"):
    return {
        "dy": In(T, C, dtype=dtype),
        "y": In(T, C, dtype=dtype, values=log_probabilities),
        "dx": Out(T, C, dtype=dtype),
    }


log_softmax_warp_spec = KernelSpec(
    launch=kernels.log_softmax_warp, reference=log_softmax, args=forward(MANY_T), configs=BLOCK, nonfinite=True
)
log_softmax_online_spec = KernelSpec(
    launch=kernels.log_softmax_online, reference=log_softmax, args=forward(C=WIDE_C), configs=BLOCK, nonfinite=True
)
log_softmax_online_bf16_spec = KernelSpec(
    launch=kernels.log_softmax_online, reference=log_softmax, args=forward(dtype="bfloat16"), configs={"block": [96]}
)

log_softmax_dx_warp_spec = KernelSpec(
    operator=OPERATOR,
    launch=backward_kernels.log_softmax_dx_warp,
    reference=log_softmax_dx,
    args=backward(MANY_T),
    configs={"block": [96]},
    direction="backward",
)
log_softmax_dx_block_spec = KernelSpec(
    operator=OPERATOR,
    launch=backward_kernels.log_softmax_dx_block,
    reference=log_softmax_dx,
    args=backward(C=WIDE_C),
    configs=BLOCK,
    nonfinite=True,
    direction="backward",
)
