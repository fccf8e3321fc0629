"""Residual addition, and its gradient added to what the branch gave: element by element, and 128 bits at a time."""

from refkit.cuda_kernels import residual as kernels
from refkit.reference.residual import residual, residual_accumulate
from refkit.verify import Dim, In, InOut, KernelSpec, Out
from refkit.verify.ledger import Ledger

M, N = Dim("M", min=0), Dim("N", min=0, max=2_000)
BLOCK = {"block": [64]}
LEDGER = {"forward": Ledger(saved="", flops="M N"), "backward": Ledger(saved="", flops="M N")}


def forward(dtype="float32"):
    return {"x": In(M, N, dtype=dtype), "r": In(M, N, dtype=dtype), "y": Out(M, N, dtype=dtype)}


def backward(dtype="float32"):
    return {"dy": In(M, N, dtype=dtype), "dx": InOut(M, N, dtype=dtype, layouts=("contiguous", "strided"))}


residual_forward_spec = KernelSpec(
    launch=kernels.residual_forward, reference=residual, args=forward(), configs=BLOCK, nonfinite=True
)
residual_forward_vectorised_spec = KernelSpec(
    launch=kernels.residual_forward_vectorised,
    reference=residual,
    args=forward("bfloat16"),
    configs=BLOCK,
    nonfinite=True,
)
residual_backward_spec = KernelSpec(
    launch=kernels.residual_backward,
    reference=residual_accumulate,
    args=backward("float16"),
    configs=BLOCK,
    direction="backward",
)
residual_backward_vectorised_spec = KernelSpec(
    launch=kernels.residual_backward_vectorised,
    reference=residual_accumulate,
    args=backward(),
    configs=BLOCK,
    direction="backward",
)
