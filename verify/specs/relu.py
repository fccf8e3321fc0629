"""ReLU and its gradient: element by element, and 128 bits at a time."""

from refkit.cuda_kernels import relu as kernels
from refkit.reference.relu import relu, relu_vjp
from refkit.verify import Dim, In, KernelSpec, Out
from refkit.verify.ledger import Ledger

M, N = Dim("M", min=0), Dim("N", min=0, max=2_000)
BLOCK = {"block": [64]}
LEDGER = {"forward": Ledger(saved="y", flops="M N"), "backward": Ledger(saved="", flops="M N")}


def forward(dtype="float32"):
    return {"x": In(M, N, dtype=dtype), "y": Out(M, N, dtype=dtype)}


def backward(dtype="float32"):
    return {"dy": In(M, N, dtype=dtype), "x": In(M, N, dtype=dtype), "dx": Out(M, N, dtype=dtype)}


relu_forward_spec = KernelSpec(
    launch=kernels.relu_forward, reference=relu, args=forward(), configs=BLOCK, nonfinite=True
)
relu_forward_vectorised_spec = KernelSpec(
    launch=kernels.relu_forward_vectorised, reference=relu, args=forward("float16"), configs=BLOCK, nonfinite=True
)
relu_backward_spec = KernelSpec(
    launch=kernels.relu_backward, reference=relu_vjp, args=backward(), configs=BLOCK, derivative_of=relu
)
relu_backward_vectorised_spec = KernelSpec(
    launch=kernels.relu_backward_vectorised,
    reference=relu_vjp,
    args=backward("bfloat16"),
    configs=BLOCK,
    derivative_of=relu,
)
