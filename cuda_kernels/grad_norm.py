"""Gradient norm and clipping: norm = sqrt(sum g^2), and g *= min(1, max_norm / (norm + 1e-6)), all on the device.

g (M, N) or (N,), float32, bfloat16 or float16; norm (1,) float32. The host never waits: the factor is worked out by
every thread from the norm in device memory. Sums are float32 in two stages, in a fixed order: bit for bit repeatable.
A gradient of zeros has norm 0 and stays as it is. A norm that is NaN makes every element NaN; one that is infinite
makes every finite element 0.

grad_norm:              the norm of one tensor (`sum_of_squares.py` adds up parts).
root:                   the norm of several tensors, from the total that `sum_of_squares_*` added up.
clip_by_norm:           scales one tensor, by a norm that may be that of all tensors.
clip_grad_norm:         the norm of one tensor, and the tensor scaled by it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import cuda, float32

from .launch import FLOAT32, ceil_div, launcher, read, update, write
from .pointwise import as_rows, pointwise_launcher
from .sum_of_squares import launch_parts, sum_of_parts

EPSILON = float32(1e-6)


@cuda.jit(device=True)
def clip_factor(norm, max_norm):
    """min(1, max_norm / (norm + 1e-6)) for float32; NaN where the norm is NaN."""
    factor = max_norm / (norm + EPSILON)
    return float32(1) if factor > float32(1) else factor


@cuda.jit
def norm_of_parts_kernel(parts, norm):
    total = sum_of_parts(parts)
    if cuda.threadIdx.x == 0:
        norm[0] = math.sqrt(total)


@cuda.jit
def root_kernel(total, norm):
    norm[0] = math.sqrt(total[0])


@cuda.jit
def clip_kernel(gradient, norm, max_norm):
    element = cuda.grid(1)
    if element < gradient.shape[0] * gradient.shape[1]:
        row, column = element // gradient.shape[1], element % gradient.shape[1]
        gradient[row, column] = float32(gradient[row, column]) * clip_factor(norm[0], max_norm)


def _norm(gradient: Any, norm: Any, block: int, stream: Any) -> None:
    parts = launch_parts(gradient, block, stream, vectorised=True)
    norm_of_parts_kernel[1, block, stream](parts, norm)


def _clip(gradient: Any, norm: Any, max_norm: float, block: int, stream: Any) -> None:
    if gradient.size:
        blocks = ceil_div(gradient.size, block)
        clip_kernel[blocks, block, stream](as_rows(gradient), norm, np.float32(max_norm))


def _check_max_norm(max_norm: float) -> None:
    if not max_norm >= 0:
        raise ValueError(f"max_norm={max_norm} must be at least 0")


@pointwise_launcher(gradient=read, norm=write(1, dtypes=FLOAT32))
def grad_norm(gradient: Any, norm: Any, block: int = 256, *, stream: Any = None) -> None:
    """Writes norm (1,) = sqrt(sum gradient^2), gradient (M, N) or (N,); 0 for a gradient of no elements."""
    _norm(gradient, norm, block, stream)


@launcher(total=read(1, dtypes=FLOAT32), norm=write(1, dtypes=FLOAT32), in_place=("total", "norm"))
def root(total: Any, norm: Any, *, stream: Any = None) -> None:
    """Writes norm (1,) = sqrt(total (1,)); norm may be total."""
    root_kernel[1, 1, stream](total, norm)


@pointwise_launcher(gradient=update, norm=read(1, dtypes=FLOAT32))
def clip_by_norm(gradient: Any, norm: Any, max_norm: float, block: int = 256, *, stream: Any = None) -> None:
    """Scales gradient (M, N) or (N,) by min(1, max_norm / (norm (1,) + 1e-6)), in its own storage format."""
    _check_max_norm(max_norm)
    _clip(gradient, norm, max_norm, block, stream)


@pointwise_launcher(gradient=update, norm=write(1, dtypes=FLOAT32))
def clip_grad_norm(gradient: Any, norm: Any, max_norm: float, block: int = 256, *, stream: Any = None) -> None:
    """Writes norm (1,) of gradient (M, N) or (N,), and scales the gradient to a norm of at most max_norm."""
    _check_max_norm(max_norm)
    _norm(gradient, norm, block, stream)
    _clip(gradient, norm, max_norm, block, stream)
