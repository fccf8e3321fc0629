"""Bias y = x + b, and its gradient, a sum over rows, in a fixed order and by atomics."""

import numpy as np

from refkit.cuda_kernels import bias as kernels
from refkit.reference.bias import bias, bias_vjp
from refkit.verify import Dim, In, InOut, KernelSpec, Out
from refkit.verify.ledger import Ledger

T, N = Dim("T", min=0), Dim("N", min=0)
MANY_T = Dim("T", min=0, max=70_000)  # more rows than a grid has blocks along y
FOURS, EIGHTS = Dim("N", multiple_of=4), Dim("N", multiple_of=8)

BLOCK = {"block": [64]}
PARTS = {"rows_per_part": [1, 5], "block": [32]}
LEDGER = {"forward": Ledger(saved="", flops="T N"), "backward": Ledger(saved="", flops="T N")}


def forward(N=N, dtype="float32"):
    return {"x": In(T, N, dtype=dtype), "b": In(N, dtype=dtype), "y": Out(T, N, dtype=dtype)}


def backward(T=T, dtype="float32"):
    return {"dy": In(T, N, dtype=dtype), "db": InOut(N)}


def accumulated(dy, db):
    return db + bias_vjp(dy)[1]


def accumulated_by_atomics(dy, db, rows_per_part):
    """The old value is one of the terms of the sum: every addition of a part is rounded at the size of the buffer."""
    parts = [bias_vjp(dy[first : first + rows_per_part])[1] for first in range(0, dy.shape[0], rows_per_part)]
    return np.stack([db, *parts]).sum(axis=0)


bias_forward_spec = KernelSpec(
    launch=kernels.bias_forward, reference=bias, args=forward(), configs=BLOCK, nonfinite=True
)
bias_forward_vectorised_spec = KernelSpec(
    launch=kernels.bias_forward_vectorised, reference=bias, args=forward(FOURS), configs=BLOCK, nonfinite=True
)
bias_forward_vectorised_bf16_spec = KernelSpec(
    launch=kernels.bias_forward_vectorised, reference=bias, args=forward(EIGHTS, "bfloat16"), configs=BLOCK
)
bias_backward_atomic_spec = KernelSpec(
    launch=kernels.bias_backward_atomic,
    reference=accumulated_by_atomics,
    args=backward(),
    configs=PARTS,
    deterministic=False,
    direction="backward",
)
bias_backward_two_stage_spec = KernelSpec(
    launch=kernels.bias_backward_two_stage,
    reference=accumulated,
    args=backward(MANY_T, "float16"),
    configs=PARTS,
    direction="backward",
)
