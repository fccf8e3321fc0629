"""Block-scaled fp8 products of experts: the tokens of an expert are contiguous, and each expert has its own weight.

offsets (E,), ascending, says where each expert's tokens end: expert e has the rows offsets[e - 1] (0 for the first) to
offsets[e]; rows past the last offset belong to nobody. For the rows of expert e, with operands dequantised as in
`fp8_gemm`:

    y = x w[e],    dx = dy w[e]^T,    dw[e] = x^T dy
"""

from __future__ import annotations

import numpy as np

from refkit.reference.fp8_gemm import fp8_gemm, fp8_gemm_dx
from refkit.reference.fp8_quantize import fp8_dequantize


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
