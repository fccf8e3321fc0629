"""GELU in the tanh form and the erf form, and their gradients: element by element, and 128 bits at a time."""

from refkit.cuda_kernels import gelu as kernels
from refkit.reference.gelu import gelu_erf, gelu_erf_vjp, gelu_tanh, gelu_tanh_vjp
from refkit.verify import Dim, In, KernelSpec, Out
from refkit.verify.ledger import Ledger

M, N = Dim("M", min=0), Dim("N", min=0, max=2_000)
BLOCK = {"block": [64]}
LEDGER = {"forward": Ledger(saved="x", flops="8 M N"), "backward": Ledger(saved="", flops="16 M N")}


def forward(dtype="float32"):
    return {"x": In(M, N, dtype=dtype), "y": Out(M, N, dtype=dtype)}


def backward(dtype="float32"):
    return {"dy": In(M, N, dtype=dtype), "x": In(M, N, dtype=dtype), "dx": Out(M, N, dtype=dtype)}


gelu_tanh_forward_spec = KernelSpec(
    launch=kernels.gelu_tanh_forward, reference=gelu_tanh, args=forward(), configs=BLOCK, nonfinite=True
)
gelu_tanh_forward_vectorised_spec = KernelSpec(
    launch=kernels.gelu_tanh_forward_vectorised, reference=gelu_tanh, args=forward("bfloat16"), configs=BLOCK
)
gelu_tanh_backward_spec = KernelSpec(
    launch=kernels.gelu_tanh_backward,
    reference=gelu_tanh_vjp,
    args=backward("float16"),
    configs=BLOCK,
    derivative_of=gelu_tanh,
)
gelu_tanh_backward_vectorised_spec = KernelSpec(
    launch=kernels.gelu_tanh_backward_vectorised,
    reference=gelu_tanh_vjp,
    args=backward(),
    configs=BLOCK,
    derivative_of=gelu_tanh,
)
gelu_erf_forward_spec = KernelSpec(
    launch=kernels.gelu_erf_forward, reference=gelu_erf, args=forward(), configs=BLOCK, nonfinite=True
)
gelu_erf_forward_vectorised_spec = KernelSpec(
    launch=kernels.gelu_erf_forward_vectorised, reference=gelu_erf, args=forward("float16"), configs=BLOCK
)
gelu_erf_backward_spec = KernelSpec(
    launch=kernels.gelu_erf_backward,
    reference=gelu_erf_vjp,
    args=backward("bfloat16"),
    configs=BLOCK,
    derivative_of=gelu_erf,
)
gelu_erf_backward_vectorised_spec = KernelSpec(
    launch=kernels.gelu_erf_backward_vectorised,
    reference=gelu_erf_vjp,
    args=backward(),
    configs=BLOCK,
    derivative_of=gelu_erf,
)
