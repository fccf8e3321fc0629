"""Root-mean-square normalisation of the rows of x (T, C) with saved rstd, with and without a residual stream."""

from typing import NamedTuple

import numpy as np

from refkit.cuda_kernels import rms_norm as kernels
from refkit.cuda_kernels import rms_norm_backward as backward_kernels
from refkit.reference.rms_norm import rms_norm, rms_norm_dgamma, rms_norm_dx, rms_norm_residual
from refkit.verify import Dim, In, InOut, KernelSpec, Out, Scalar
from refkit.verify.ledger import Ledger

T, C = Dim("T", min=0), Dim("C")
MANY_T = Dim("T", min=0, max=70_000)  # more rows than a grid has blocks along y
WIDE_C = Dim("C", max=65_536)

OPERATOR = "rms_norm"
BLOCK = {"block": [32, 96]}
EPS = Scalar([1e-5, 1e-3, 0.25])

LEDGER = {
    "forward": Ledger(saved="x (or h), rstd", flops="4 T C"),
    "backward": Ledger(saved="x (or h), rstd, gamma", flops="11 T C"),
}


def forward(T=T, C=C, dtype="float32"):
    return {
        "x": In(T, C, dtype=dtype),
        "gamma": In(C, dtype=dtype, optional=True),
        "eps": EPS,
        "y": Out(T, C, dtype=dtype),
        "rstd": Out(T),
    }


def forward_residual(dtype="float32"):
    return {
        "x": In(T, C, dtype=dtype),
        "r": In(T, C, dtype=dtype),
        "gamma": In(C, dtype=dtype, optional=True),
        "eps": EPS,
        "h": Out(T, C, dtype=dtype),
        "y": Out(T, C, dtype=dtype),
        "rstd": Out(T),
    }


def backward_x(T=T, C=C, dtype="float32"):
    return {
        "dy": In(T, C, dtype=dtype),
        "x": In(T, C, dtype=dtype),
        "gamma": In(C, dtype=dtype, optional=True),
        "rstd": In(T, values="positive"),
        "dh": In(T, C, dtype=dtype, optional=True),
        "dx": Out(T, C, dtype=dtype),
    }


def backward_gamma(T=T):
    return {"dy": In(T, C), "x": In(T, C), "rstd": In(T, values="positive"), "dgamma": InOut(C)}


class NormBesideItsInput(NamedTuple):
    h: np.ndarray
    y: np.ndarray
    rstd: np.ndarray


def norm_beside_its_input(x, gamma=None, eps=1e-5):
    """x goes on as h past the norm, so that dh and dy both come back to it."""
    return NormBesideItsInput(x, *rms_norm(x, gamma, eps))


def dgamma_accumulated(dy, x, rstd, dgamma):
    return dgamma + rms_norm_dgamma(dy, x, rstd)


def dgamma_accumulated_by_atomics(dy, x, rstd, dgamma, rows_per_block):
    """The old value is one of the terms of the sum: every addition of a part is rounded at the size of the buffer."""
    parts = [dgamma]
    for first in range(0, x.shape[0], rows_per_block):
        rows = slice(first, first + rows_per_block)
        parts.append(rms_norm_dgamma(dy[rows], x[rows], rstd[rows]))
    return np.stack(parts).sum(axis=0)


rms_norm_naive_spec = KernelSpec(
    launch=kernels.rms_norm_naive, reference=rms_norm, args=forward(), configs={"block": [32]}, nonfinite=True
)
rms_norm_warp_spec = KernelSpec(
    launch=kernels.rms_norm_warp, reference=rms_norm, args=forward(MANY_T), configs={"block": [96]}, nonfinite=True
)
rms_norm_block_spec = KernelSpec(
    launch=kernels.rms_norm_block, reference=rms_norm, args=forward(MANY_T, WIDE_C), configs=BLOCK, nonfinite=True
)
rms_norm_block_bf16_spec = KernelSpec(
    launch=kernels.rms_norm_block, reference=rms_norm, args=forward(dtype="bfloat16"), configs={"block": [96]}
)
rms_norm_residual_warp_spec = KernelSpec(
    launch=kernels.rms_norm_residual_warp,
    reference=rms_norm_residual,
    args=forward_residual(),
    configs={"block": [96]},
)
rms_norm_residual_block_spec = KernelSpec(
    launch=kernels.rms_norm_residual_block,
    reference=rms_norm_residual,
    args=forward_residual(),
    configs={"block": [96]},
)

rms_norm_dx_warp_spec = KernelSpec(
    operator=OPERATOR,
    launch=backward_kernels.rms_norm_dx_warp,
    reference=rms_norm_dx,
    args=backward_x(MANY_T),
    configs={"block": [96]},
    derivative_of=norm_beside_its_input,
)
rms_norm_dx_block_spec = KernelSpec(
    operator=OPERATOR,
    launch=backward_kernels.rms_norm_dx_block,
    reference=rms_norm_dx,
    args=backward_x(C=WIDE_C),
    configs=BLOCK,
    derivative_of=norm_beside_its_input,
)
rms_norm_dgamma_atomic_spec = KernelSpec(
    operator=OPERATOR,
    launch=backward_kernels.rms_norm_dgamma_atomic,
    reference=dgamma_accumulated_by_atomics,
    args=backward_gamma(),
    configs={"rows_per_block": [5], "block": [64]},
    deterministic=False,
    derivative_of=rms_norm,
)
rms_norm_dgamma_two_stage_spec = KernelSpec(
    operator=OPERATOR,
    launch=backward_kernels.rms_norm_dgamma_two_stage,
    reference=dgamma_accumulated,
    args=backward_gamma(MANY_T),
    configs={"rows_per_block": [5], "block": [64]},
    derivative_of=rms_norm,
)
