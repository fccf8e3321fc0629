"""The SwiGLU MLP with saved de and out, and its backward pass with and without dout in memory."""

from refkit.cuda_kernels import swiglu_mlp as kernels
from refkit.cuda_kernels import swiglu_mlp_backward as backward_kernels
from refkit.numerics import stored
from refkit.reference.swiglu import swiglu, swiglu_vjp
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


def forward(dtype="float32"):
    return {
        "x": In(M, K, dtype=dtype),
        "w": In(K, 2 * I, dtype=dtype),
        "w_down": In(I, K, dtype=dtype),
        "de": Out(M, 2 * I, dtype=dtype),
        "out": Out(M, I, dtype=dtype),
        "y": Out(M, K, dtype=dtype),
    }


def backward(dtype="float32"):
    return {
        "dy": In(M, K, dtype=dtype),
        "x": In(M, K, dtype=dtype),
        "w": In(K, 2 * I, dtype=dtype),
        "w_down": In(I, K, dtype=dtype),
        "de": In(M, 2 * I, dtype=dtype),
        "out": In(M, I, dtype=dtype),
        "grad_de": Out(M, 2 * I, dtype=dtype),
        "dx": Out(M, K, dtype=dtype),
        "dw": InOut(K, 2 * I),
        "dw_down": InOut(I, K),
    }


def backward_accumulated(dy, x, w, w_down, de, out, dw, dw_down):
    grad_de = swiglu_mlp_grad_de(dy, w_down, de)
    return products(dy, x, w, out, grad_de, grad_de, dw, dw_down)


def products(dy, x, w, out, grad_de, grad_de_read, dw, dw_down):
    """The outputs of the backward pass, of which the products read `grad_de_read`."""
    return (
        grad_de,
        swiglu_mlp_dx(grad_de_read, w),
        dw + swiglu_mlp_dw(x, grad_de_read),
        dw_down + swiglu_mlp_dw_down(out, dy),
    )


def forward_bf16(x, w, w_down):
    """The forward pass whose steps read de and out as bfloat16 keeps them."""
    de = x @ w
    out = swiglu(stored(de, "bfloat16"))
    return de, out, stored(out, "bfloat16") @ w_down


def backward_unfused_bf16(dy, x, w, w_down, de, out, dw, dw_down):
    """The backward pass with dout and grad_de in bfloat16 between its kernels."""
    grad_de = swiglu_vjp(stored(dy @ w_down.T, "bfloat16"), de)
    return products(dy, x, w, out, grad_de, stored(grad_de, "bfloat16"), dw, dw_down)


swiglu_mlp_spec = KernelSpec(
    launch=kernels.swiglu_mlp,
    reference=swiglu_mlp,
    args=forward(),
    configs=TILES,
)
swiglu_mlp_bf16_spec = KernelSpec(
    launch=kernels.swiglu_mlp,
    reference=forward_bf16,
    args=forward("bfloat16"),
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
swiglu_mlp_backward_unfused_bf16_spec = KernelSpec(
    operator=OPERATOR,
    launch=backward_kernels.swiglu_mlp_backward_unfused,
    reference=backward_unfused_bf16,
    args=backward("bfloat16"),
    configs=TILES,
    derivative_of=swiglu_mlp,
)
