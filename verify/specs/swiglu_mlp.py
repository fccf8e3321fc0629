"""The SwiGLU MLP with saved de and out, and its backward pass with and without dout in memory."""

from refkit.cuda_kernels import swiglu_mlp as kernels
from refkit.cuda_kernels import swiglu_mlp_backward as backward_kernels
from refkit.reference.swiglu import swiglu
from refkit.reference.swiglu_mlp import (
    swiglu_mlp,
    swiglu_mlp_dw,
    swiglu_mlp_dw_down,
    swiglu_mlp_dx,
    swiglu_mlp_grad_de,
)
from refkit.verify import Dim, In, InOut, KernelSpec, Out
from refkit.verify.ledger import Ledger

M, K, I = (Dim(name, min=0, max=100) for name in "MKI")  # noqa: E741 (the formula's name)

OPERATOR = "swiglu_mlp"
TILES = {"block_m": [48], "block_n": [32], "block_k": [8], "thread_m": [4], "thread_n": [4]}

LEDGER = {
    "forward": Ledger(saved="x, de, out", flops="6 M K I + 5 M I"),
    "backward": Ledger(saved="", flops="12 M K I + 14 M I"),
}


def to_grad_de(dtype="float32"):
    return {
        "dy": In(M, K, dtype=dtype),
        "w_down": In(I, K, dtype=dtype),
        "de": In(M, 2 * I, dtype=dtype),
        "grad_de": Out(M, 2 * I, dtype=dtype),
    }


def from_de(de, w_down):
    """The part of the forward pass that grad_de is the gradient of."""
    return swiglu(de) @ w_down


def backward():
    return {
        "dy": In(M, K),
        "x": In(M, K),
        "w": In(K, 2 * I),
        "w_down": In(I, K),
        "de": In(M, 2 * I),
        "out": In(M, I),
        "grad_de": Out(M, 2 * I),
        "dx": Out(M, K),
        "dw": InOut(K, 2 * I),
        "dw_down": InOut(I, K),
    }


def backward_accumulated(dy, x, w, w_down, de, out, dw, dw_down):
    grad_de = swiglu_mlp_grad_de(dy, w_down, de)
    return (
        grad_de,
        swiglu_mlp_dx(grad_de, w),
        dw + swiglu_mlp_dw(x, grad_de),
        dw_down + swiglu_mlp_dw_down(out, dy),
    )


swiglu_mlp_spec = KernelSpec(
    launch=kernels.swiglu_mlp,
    reference=swiglu_mlp,
    args={
        "x": In(M, K),
        "w": In(K, 2 * I),
        "w_down": In(I, K),
        "de": Out(M, 2 * I),
        "out": Out(M, I),
        "y": Out(M, K),
    },
    configs=TILES,
)

swiglu_mlp_grad_de_unfused_spec = KernelSpec(
    operator=OPERATOR,
    launch=backward_kernels.swiglu_mlp_grad_de_unfused,
    reference=swiglu_mlp_grad_de,
    args=to_grad_de(),
    configs=TILES,
    derivative_of=from_de,
)
swiglu_mlp_grad_de_fused_spec = KernelSpec(
    operator=OPERATOR,
    launch=backward_kernels.swiglu_mlp_grad_de_fused,
    reference=swiglu_mlp_grad_de,
    args=to_grad_de(),
    configs=TILES,
    derivative_of=from_de,
)
swiglu_mlp_grad_de_fused_bf16_spec = KernelSpec(
    operator=OPERATOR,
    launch=backward_kernels.swiglu_mlp_grad_de_fused,
    reference=swiglu_mlp_grad_de,
    args=to_grad_de("bfloat16"),
    configs=TILES,
    derivative_of=from_de,
)

swiglu_mlp_backward_unfused_spec = KernelSpec(
    operator=OPERATOR,
    launch=backward_kernels.swiglu_mlp_backward_unfused,
    reference=backward_accumulated,
    args=backward(),
    configs=TILES,
    derivative_of=swiglu_mlp,
)
swiglu_mlp_backward_fused_spec = KernelSpec(
    operator=OPERATOR,
    launch=backward_kernels.swiglu_mlp_backward_fused,
    reference=backward_accumulated,
    args=backward(),
    configs=TILES,
    derivative_of=swiglu_mlp,
)
