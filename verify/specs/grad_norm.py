"""The norm of a gradient in two stages, and clipping by it without the host."""

import numpy as np

from refkit.cuda_kernels import grad_norm as kernels
from refkit.reference.grad_norm import clip_by_norm, clip_grad_norm, grad_norm
from refkit.verify import Dim, In, InOut, KernelSpec, Out, Scalar
from refkit.verify.ledger import Ledger

M, N = Dim("M", min=0), Dim("N", min=0, max=5_000)
BLOCK = {"block": [32]}
MAX_NORM = Scalar([1.0, 1e-6, 100.0, 0.0])
LEDGER = {"forward": Ledger(saved="", flops="3 M N")}


def norms(rng, shape):
    """From the size of the 1e-6 that is added to a norm up to 8, one in eight of them 0."""
    return np.where(rng.random(shape) < 0.125, 0.0, np.exp2(rng.uniform(-21, 3, shape)))


grad_norm_spec = KernelSpec(
    launch=kernels.grad_norm, reference=grad_norm, args={"gradient": In(M, N), "norm": Out(1)}, configs=BLOCK
)
clip_by_norm_spec = KernelSpec(
    launch=kernels.clip_by_norm,
    reference=clip_by_norm,
    args={
        "gradient": InOut(M, N, dtype="bfloat16", layouts=("contiguous", "strided")),
        "norm": In(1, values=norms),
        "max_norm": MAX_NORM,
    },
    configs=BLOCK,
)
clip_grad_norm_spec = KernelSpec(
    launch=kernels.clip_grad_norm,
    reference=clip_grad_norm,
    args={"gradient": InOut(M, N, layouts=("contiguous", "transposed")), "norm": Out(1), "max_norm": MAX_NORM},
    configs=BLOCK,
)
