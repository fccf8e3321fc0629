"""Matrix products of block-scaled fp8 operands, forward, dgrad and wgrad (DeepSeek-V3, arXiv 2412.19437, section 3.3).

Activations carry one scale per 1 x group elements, weights one per group x group; dequantised, an operand is q times
the scale of its block, and the products are those of the linear layer y = x w:

    y (T, N)  = x w        x (T, K) in row groups, w (K, N) in square blocks
    dx (T, K) = dy w^T     dy (T, N) in row groups, the same w
    dw (K, N) = x^T dy     contracts over tokens: x^T (K, T) and dy^T (N, T), quantised anew in groups along T

A gradient is that of the product at the dequantised operands; rounding is passed by as if it were not there.

Two errors add up in a result. Quantisation error is what the operands lost: the exact product of the dequantised
operands less that of the original ones. Kernel error is what arithmetic lost: the result less the exact product of the
dequantised operands. Only the second is the kernel's to answer for.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from refkit.reference.fp8_quantize import fp8_dequantize


class Fp8ProductError(NamedTuple):
    """What `split_error` returns, each of the shape of the product."""

    quantisation: np.ndarray  # product of the dequantised operands less that of the original ones
    quantisation_bound: np.ndarray  # the most that rounding each operand to nearest can make of it
    kernel: np.ndarray  # the kernel's result less the product of the dequantised operands


def fp8_gemm(xq: np.ndarray, x_scales: np.ndarray, wq: np.ndarray, w_scales: np.ndarray, group: int) -> np.ndarray:
    """y (T, N) from xq (T, K), x_scales (T, K / group), wq (K, N), w_scales (K / group, N / group), rounded up."""
    return fp8_dequantize(xq, x_scales, (1, group)) @ fp8_dequantize(wq, w_scales, (group, group))


def fp8_gemm_dx(dyq: np.ndarray, dy_scales: np.ndarray, wq: np.ndarray, w_scales: np.ndarray, group: int) -> np.ndarray:
    """dx (T, K) from dyq (T, N), dy_scales (T, N / group) and the weights of the forward pass."""
    return fp8_dequantize(dyq, dy_scales, (1, group)) @ fp8_dequantize(wq, w_scales, (group, group)).T


def fp8_gemm_dw(
    xq_t: np.ndarray, x_scales_t: np.ndarray, dyq_t: np.ndarray, dy_scales_t: np.ndarray, group: int
) -> np.ndarray:
    """dw (K, N) from xq_t (K, T), x_scales_t (K, T / group), dyq_t (N, T) and dy_scales_t (N, T / group)."""
    return fp8_dequantize(xq_t, x_scales_t, (1, group)) @ fp8_dequantize(dyq_t, dy_scales_t, (1, group)).T


def split_error(
    a: np.ndarray,
    b: np.ndarray,
    a_dequantised: np.ndarray,
    b_dequantised: np.ndarray,
    a_bound: np.ndarray,
    b_bound: np.ndarray,
    got: np.ndarray,
) -> Fp8ProductError:
    """The error of `got`, computed for a (M, K) b (K, N), split into its two causes.

    `a_bound` and `b_bound` are the largest |operand - dequantised| per element (`fp8_quantize.rounding_bound`): with
    da and db within them, |(a + da)(b + db) - a b| <= a_bound |b| + |a + da| b_bound.
    """
    exact, dequantised = a @ b, a_dequantised @ b_dequantised
    bound = a_bound @ np.abs(b) + np.abs(a_dequantised) @ b_bound
    return Fp8ProductError(dequantised - exact, bound, got - dequantised)
