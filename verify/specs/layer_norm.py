"""Layer normalisation of the rows of x (T, C) with saved mean and rstd, its dx, dgamma and dbeta."""

from typing import NamedTuple

import numpy as np

from refkit.cuda_kernels import layer_norm as kernels
from refkit.cuda_kernels import layer_norm_backward as backward_kernels
from refkit.cuda_kernels import layer_norm_residual as residual_kernels
from refkit.reference.layer_norm import (
    layer_norm,
    layer_norm_dgamma_dbeta,
    layer_norm_dx,
    layer_norm_residual,
)
from refkit.verify import Dim, In, InOut, KernelSpec, Out, Scalar
from refkit.verify.ledger import Ledger

T, C = Dim("T", min=0), Dim("C")
WIDE_C = Dim("C", max=65_536)
MANY_T = Dim("T", min=0, max=70_000)  # more rows than a grid has blocks along y

OPERATOR = "layer_norm"
BLOCK = {"block": [32, 96]}
LEDGER = {
    "forward": Ledger(saved="x (or h), mean, rstd", flops="8 T C"),
    "backward": Ledger(saved="x (or h), mean, rstd, gamma", flops="16 T C"),
}

PARTS = {"rows_per_block": [1, 5], "block": [64]}


def forward(T=T, C=C, dtype="float32"):
    return {
        "x": In(T, C, dtype=dtype),
        "gamma": In(C, dtype=dtype, optional=True),
        "beta": In(C, dtype=dtype, optional=True),
        "eps": Scalar([1e-5, 1e-3, 0.25]),
        "y": Out(T, C, dtype=dtype),
        "mean": Out(T),
        "rstd": Out(T),
    }


def forward_residual(dtype="float32"):
    return {
        "x": In(T, C, dtype=dtype),
        "r": In(T, C, dtype=dtype),
        "gamma": In(C, dtype=dtype, optional=True),
        "beta": In(C, dtype=dtype, optional=True),
        "eps": Scalar([1e-5, 1e-3, 0.25]),
        "h": Out(T, C, dtype=dtype),
        "y": Out(T, C, dtype=dtype),
        "mean": Out(T),
        "rstd": Out(T),
    }


def backward_x(T=T, C=C, dtype="float32"):
    return {
        "dy": In(T, C, dtype=dtype),
        "x": In(T, C, dtype=dtype),
        "gamma": In(C, dtype=dtype, optional=True),
        "mean": In(T, values="normal"),
        "rstd": In(T, values="positive"),
        "dh": In(T, C, dtype=dtype, optional=True),
        "dx": Out(T, C, dtype=dtype),
    }


def backward_parameters(T=T, dtype="float32"):
    return {
        "dy": In(T, C, dtype=dtype),
        "x": In(T, C, dtype=dtype),
        "mean": In(T, values="normal"),
        "rstd": In(T, values="positive"),
        "dgamma": InOut(C),
        "dbeta": InOut(C),
    }


class NormBesideItsInput(NamedTuple):
    h: np.ndarray
    y: np.ndarray
    mean: np.ndarray
    rstd: np.ndarray


def norm_beside_its_input(x, gamma=None, beta=None, eps=1e-5):
    """x goes on as h past the norm, so that dh and dy both come back to it."""
    return NormBesideItsInput(x, *layer_norm(x, gamma, beta, eps))


def layer_norm_pivoted(x, gamma, beta, eps):
    """`layer_norm` of x less each row's first element, which the one-pass kernel takes off: rounded at that size."""
    pivot = x[:, :1]
    y, mean, rstd = layer_norm(x - pivot, gamma, beta, eps)
    return y, pivot[:, 0] + mean, rstd


def parameters_accumulated(dy, x, mean, rstd, dgamma, dbeta):
    g, b = layer_norm_dgamma_dbeta(dy, x, mean, rstd)
    return dgamma + g, dbeta + b


def parameters_accumulated_by_atomics(dy, x, mean, rstd, dgamma, dbeta, rows_per_block):
    """The old value is one of the terms of the sum: every addition of a part is rounded at the size of the buffer."""
    g, b = [dgamma], [dbeta]
    for first in range(0, x.shape[0], rows_per_block):
        rows = slice(first, first + rows_per_block)
        part = layer_norm_dgamma_dbeta(dy[rows], x[rows], mean[rows], rstd[rows])
        g.append(part[0])
        b.append(part[1])
    return np.stack(g).sum(axis=0), np.stack(b).sum(axis=0)


layer_norm_naive_spec = KernelSpec(
    launch=kernels.layer_norm_naive, reference=layer_norm, args=forward(), configs={"block": [32]}, nonfinite=True
)
layer_norm_warp_spec = KernelSpec(
    launch=kernels.layer_norm_warp, reference=layer_norm, args=forward(MANY_T), configs=BLOCK, nonfinite=True
)
layer_norm_block_spec = KernelSpec(
    launch=kernels.layer_norm_block, reference=layer_norm, args=forward(MANY_T, WIDE_C), configs=BLOCK, nonfinite=True
)
layer_norm_welford_spec = KernelSpec(
    launch=kernels.layer_norm_welford, reference=layer_norm_pivoted, args=forward(), configs=BLOCK
)
layer_norm_block_bf16_spec = KernelSpec(
    launch=kernels.layer_norm_block, reference=layer_norm, args=forward(dtype="bfloat16"), configs={"block": [96]}
)

layer_norm_residual_warp_spec = KernelSpec(
    operator=OPERATOR,
    launch=residual_kernels.layer_norm_residual_warp,
    reference=layer_norm_residual,
    args=forward_residual(),
    configs={"block": [96]},
)
layer_norm_residual_block_bf16_spec = KernelSpec(
    operator=OPERATOR,
    launch=residual_kernels.layer_norm_residual_block,
    reference=layer_norm_residual,
    args=forward_residual("bfloat16"),
    configs={"block": [96]},
)

layer_norm_dx_naive_spec = KernelSpec(
    operator=OPERATOR,
    launch=backward_kernels.layer_norm_dx_naive,
    reference=layer_norm_dx,
    args=backward_x(),
    configs={"block": [32]},
    derivative_of=norm_beside_its_input,
)
layer_norm_dx_warp_spec = KernelSpec(
    operator=OPERATOR,
    launch=backward_kernels.layer_norm_dx_warp,
    reference=layer_norm_dx,
    args=backward_x(MANY_T),
    configs=BLOCK,
    derivative_of=norm_beside_its_input,
)
layer_norm_dx_block_spec = KernelSpec(
    operator=OPERATOR,
    launch=backward_kernels.layer_norm_dx_block,
    reference=layer_norm_dx,
    args=backward_x(C=WIDE_C),
    configs=BLOCK,
    derivative_of=norm_beside_its_input,
)
layer_norm_dx_block_bf16_spec = KernelSpec(
    operator=OPERATOR,
    launch=backward_kernels.layer_norm_dx_block,
    reference=layer_norm_dx,
    args=backward_x(dtype="bfloat16"),
    configs={"block": [96]},
    derivative_of=norm_beside_its_input,
)

layer_norm_dgamma_dbeta_naive_spec = KernelSpec(
    operator=OPERATOR,
    launch=backward_kernels.layer_norm_dgamma_dbeta_naive,
    reference=parameters_accumulated,
    args=backward_parameters(),
    configs={"block": [32]},
    derivative_of=layer_norm,
)
layer_norm_dgamma_dbeta_atomic_spec = KernelSpec(
    operator=OPERATOR,
    launch=backward_kernels.layer_norm_dgamma_dbeta_atomic,
    reference=parameters_accumulated_by_atomics,
    args=backward_parameters(),
    configs=PARTS,
    deterministic=False,
    derivative_of=layer_norm,
)
layer_norm_dgamma_dbeta_two_stage_spec = KernelSpec(
    operator=OPERATOR,
    launch=backward_kernels.layer_norm_dgamma_dbeta_two_stage,
    reference=parameters_accumulated,
    args=backward_parameters(MANY_T),
    configs=PARTS,
    derivative_of=layer_norm,
)
layer_norm_dgamma_dbeta_two_stage_bf16_spec = KernelSpec(
    operator=OPERATOR,
    launch=backward_kernels.layer_norm_dgamma_dbeta_two_stage,
    reference=parameters_accumulated,
    args=backward_parameters(dtype="bfloat16"),
    configs={"rows_per_block": [5], "block": [64]},
    derivative_of=layer_norm,
)
