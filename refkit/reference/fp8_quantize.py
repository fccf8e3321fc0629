"""Block-scaled 8-bit quantisation: the elements of a block share one scale (Micikevicius et al., arXiv 2209.05433;
blocks as in DeepSeek-V3, arXiv 2412.19437, section 3.3).

A block of x (M, N) holds block[0] x block[1] elements, fewer at the lower and right edge. With largest = 448 for e4m3
and 57344 for e5m2:

    scale = max(amax / largest, 2^-126),    q = x / scale rounded to the format,    x is about q scale

The floor keeps a block of zeros (and one of subnormals) free of divisions by nothing: its q are 0. A power-of-two
scale is the next power of two at or above, so that only exponents move and q never exceeds the format; such scales
lie in the range of UE8M0. A block with a NaN has a NaN scale, one with an infinity an infinite scale, and neither can
be dequantised to a finite number.

Activations take blocks of 1 x 128 (row groups), weights 128 x 128, and operands that are contracted along their rows
128 x 1 (column groups).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from refkit.numerics.formats import FORMATS, Format, round_to

FP8_FORMATS: dict[str, Format] = {"e4m3": FORMATS["float8_e4m3fn"], "e5m2": FORMATS["float8_e5m2"]}
SMALLEST_SCALE = 2.0**-126

Block = tuple[int, int]


class Fp8Blocks(NamedTuple):
    """Quantised elements and their scales."""

    q: np.ndarray  # (M, N)
    scales: np.ndarray  # (ceil(M / block[0]), ceil(N / block[1]))


def block_amax(x: np.ndarray, block: Block) -> np.ndarray:
    """The largest magnitude of each block of x (M, N); NaN where a block holds one."""
    (rows, columns), (M, N) = block, x.shape
    blocks_m, blocks_n = -(-M // rows), -(-N // columns)
    padded = np.pad(np.abs(x), ((0, blocks_m * rows - M), (0, blocks_n * columns - N)))
    return padded.reshape(blocks_m, rows, blocks_n, columns).max(axis=(1, 3))


def block_scales(x: np.ndarray, block: Block, format: str = "e4m3", power_of_two: bool = False) -> np.ndarray:
    """The scale of each block of x (M, N)."""
    scales = np.maximum(block_amax(x, block) / FP8_FORMATS[format].max_finite, SMALLEST_SCALE)
    return np.exp2(np.ceil(np.log2(scales))) if power_of_two else scales


def per_element(scales: np.ndarray, block: Block, shape: tuple[int, int]) -> np.ndarray:
    """The scale of each element (M, N), from those of the blocks."""
    rows, columns = np.arange(shape[0]) // block[0], np.arange(shape[1]) // block[1]
    return scales[rows[:, None], columns[None, :]]


def fp8_scaled(x: np.ndarray, block: Block, format: str = "e4m3", power_of_two: bool = False) -> Fp8Blocks:
    """x (M, N) over the scales of its blocks, not yet rounded to the format, and the scales.

    What a kernel stores is this quotient rounded once. It is the form that verification wants, since the rounding of
    stored outputs is already part of every bound.
    """
    scales = block_scales(x, block, format, power_of_two)
    with np.errstate(invalid="ignore"):
        return Fp8Blocks(x / per_element(scales, block, x.shape), scales)


def fp8_quantize(x: np.ndarray, block: Block, format: str = "e4m3", power_of_two: bool = False) -> Fp8Blocks:
    """x (M, N) quantised: q holds numbers of the format, as float64; scales are rounded to float32 before use."""
    scales = block_scales(x, block, format, power_of_two).astype(np.float32).astype(np.float64)
    with np.errstate(invalid="ignore"):
        quotient = x / per_element(scales, block, x.shape)
    return Fp8Blocks(round_to(quotient, FP8_FORMATS[format], saturate=True), scales)


def fp8_dequantize(q: np.ndarray, scales: np.ndarray, block: Block) -> np.ndarray:
    """q (M, N) times the scale of each element's block."""
    with np.errstate(invalid="ignore"):  # 0 times an infinite scale
        return q * per_element(scales, block, q.shape)


def fp8_requantize_transposed(
    q: np.ndarray, scales: np.ndarray, group: int, format: str = "e4m3", power_of_two: bool = False
) -> Fp8Blocks:
    """q (T, K) with row groups (1 x group) dequantised, transposed to (K, T), and divided by new scales (K, T / group).

    The new groups lie along the tokens, the axis that a weight gradient contracts. As in `fp8_scaled`, the quotient is
    not rounded.
    """
    return fp8_scaled(fp8_dequantize(q, scales, (1, group)).T, (1, group), format, power_of_two)


def rounding_bound(x: np.ndarray, scales: np.ndarray, block: Block, format: str = "e4m3") -> np.ndarray:
    """The largest |x - dequantised| that rounding to nearest allows: half a unit of each quotient times its scale."""
    scale = per_element(scales, block, x.shape)
    return FP8_FORMATS[format].spacing(x / scale) / 2 * scale
