"""SiLU, x sigmoid(x), and its gradient: element by element, and 128 bits at a time."""

from refkit.cuda_kernels import silu as kernels
from refkit.reference.silu import silu, silu_vjp
from refkit.verify import Dim, In, KernelSpec, Out
from refkit.verify.ledger import Ledger

M, N = Dim("M", min=0), Dim("N", min=0, max=2_000)
BLOCK = {"block": [64]}
LEDGER = {"forward": Ledger(saved="x", flops="4 M N"), "backward": Ledger(saved="", flops="8 M N")}


def forward(dtype="float32"):
    return {"x": In(M, N, dtype=dtype), "y": Out(M, N, dtype=dtype)}


def backward(dtype="float32"):
    return {"dy": In(M, N, dtype=dtype), "x": In(M, N, dtype=dtype), "dx": Out(M, N, dtype=dtype)}


silu_forward_spec = KernelSpec(
    launch=kernels.silu_forward, reference=silu, args=forward(), configs=BLOCK, nonfinite=True
)
silu_forward_vectorised_spec = KernelSpec(
    launch=kernels.silu_forward_vectorised, reference=silu, args=forward("bfloat16"), configs=BLOCK, nonfinite=True
)
silu_backward_spec = KernelSpec(
    launch=kernels.silu_backward, reference=silu_vjp, args=backward("float16"), configs=BLOCK, derivative_of=silu
)
silu_backward_vectorised_spec = KernelSpec(
    launch=kernels.silu_backward_vectorised, reference=silu_vjp, args=backward(), configs=BLOCK, derivative_of=silu
)
