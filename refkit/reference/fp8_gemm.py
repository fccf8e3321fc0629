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


def group_bounds(offsets: np.ndarray, tokens: int) -> list[tuple[int, int]]:
    """First and end of each expert's tokens, from the ends `offsets` (E,); an end before its predecessor's is an empty
    group."""
    ends = np.minimum(np.maximum.accumulate(offsets), tokens)
    return [(int(first), int(end)) for first, end in zip([0, *ends[:-1]], ends)]


def fp8_grouped_gemm(
    xq: np.ndarray, x_scales: np.ndarray, wq: np.ndarray, w_scales: np.ndarray, offsets: np.ndarray, group: int
) -> np.ndarray:
    """y (T, N): the tokens offsets[e - 1] to offsets[e] meet the weight of expert e; rows past the last end are 0.

    wq (E, K, N), w_scales (E, K / group, N / group), offsets (E,), ascending: where each expert's tokens end.
    """
    y = np.zeros_like(xq, shape=(xq.shape[0], wq.shape[2]))
    for expert, (first, end) in enumerate(group_bounds(offsets, xq.shape[0])):
        y[first:end] = fp8_gemm(xq[first:end], x_scales[first:end], wq[expert], w_scales[expert], group)
    return y


def fp8_grouped_gemm_dx(
    dyq: np.ndarray, dy_scales: np.ndarray, wq: np.ndarray, w_scales: np.ndarray, offsets: np.ndarray, group: int
) -> np.ndarray:
    """dx (T, K) of `fp8_grouped_gemm` from dyq (T, N) and dy_scales (T, N / group)."""
    dx = np.zeros_like(dyq, shape=(dyq.shape[0], wq.shape[1]))
    for expert, (first, end) in enumerate(group_bounds(offsets, dyq.shape[0])):
        dx[first:end] = fp8_gemm_dx(dyq[first:end], dy_scales[first:end], wq[expert], w_scales[expert], group)
    return dx


def fp8_grouped_gemm_dw(
    xq_t: np.ndarray,
    x_scales_t: np.ndarray,
    dyq_t: np.ndarray,
    dy_scales_t: np.ndarray,
    offsets: np.ndarray,
    group: int,
) -> np.ndarray:
    """dw (E, K, N) of `fp8_grouped_gemm`; a group of tokens may straddle two experts, each takes its own of them."""
    x_t, dy_t = fp8_dequantize(xq_t, x_scales_t, (1, group)), fp8_dequantize(dyq_t, dy_scales_t, (1, group))
    bounds = group_bounds(offsets, xq_t.shape[1])
    return np.stack([x_t[:, first:end] @ dy_t[:, first:end].T for first, end in bounds])


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
