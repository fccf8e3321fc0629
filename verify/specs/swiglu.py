"""out = left silu(gate) of the merged projection de (M, 2I) = [left | gate], and its gradient grad_de (M, 2I)."""

from refkit.cuda_kernels import swiglu as kernels
from refkit.reference.swiglu import swiglu, swiglu_vjp
from refkit.verify import Dim, In, KernelSpec, Out
from refkit.verify.ledger import Ledger

M, I = Dim("M", min=0), Dim("I", min=0)  # noqa: E741 (the formula's name)
MANY_M = Dim("M", min=0, max=70_000)  # more rows than a grid has blocks along y

LEDGER = {
    "forward": Ledger(saved="de", flops="5 M I"),
    "backward": Ledger(saved="", flops="14 M I"),
}


def forward(M=M, dtype="float32"):
    return {"de": In(M, 2 * I, dtype=dtype), "out": Out(M, I, dtype=dtype)}


def backward(M=M, dtype="float32"):
    return {"dout": In(M, I, dtype=dtype), "de": In(M, 2 * I, dtype=dtype), "grad_de": Out(M, 2 * I, dtype=dtype)}


swiglu_naive_spec = KernelSpec(
    launch=kernels.swiglu_naive, reference=swiglu, args=forward(), configs={"block": [32]}, nonfinite=True
)
swiglu_rows_spec = KernelSpec(
    launch=kernels.swiglu_rows, reference=swiglu, args=forward(MANY_M), configs={"block": [32, 96]}, nonfinite=True
)
swiglu_rows_bf16_spec = KernelSpec(
    launch=kernels.swiglu_rows, reference=swiglu, args=forward(dtype="bfloat16"), configs={"block": [96]}
)

swiglu_backward_naive_spec = KernelSpec(
    launch=kernels.swiglu_backward_naive,
    reference=swiglu_vjp,
    args=backward(),
    configs={"block": [32]},
    derivative_of=swiglu,
)
swiglu_backward_rows_spec = KernelSpec(
    launch=kernels.swiglu_backward_rows,
    reference=swiglu_vjp,
    args=backward(MANY_M),
    configs={"block": [32, 96]},
    derivative_of=swiglu,
)
