"""SiLU, also called swish: y = x sigmoid(x), dx = dy (sigmoid(x) + x sigmoid'(x)); any strides in one or two axes."""

from __future__ import annotations

import math

from numba import cuda, float32


@cuda.jit(device=True)
def sigmoid_and_slope(x):
    """sigmoid(x) and its derivative for a float32: one exponential and one division, no cancellation, no overflow."""
    e = math.exp(-abs(x))
    q = float32(1) / (float32(1) + e)
    return (q if x >= float32(0) else e * q), e * q * q


@cuda.jit(device=True)
def sigmoid(x):
    """1 / (1 + exp(-x)) for a float32; small to the last digit for very negative x."""
    e = math.exp(-abs(x))
    q = float32(1) / (float32(1) + e)
    return q if x >= float32(0) else e * q


@cuda.jit(device=True)
def silu(x):
    """x sigmoid(x) for a float32."""
    return x * sigmoid(x)


@cuda.jit(device=True)
def silu_derivative(x):
    """The derivative of `silu` at a float32: sigmoid(x) + x sigmoid'(x)."""
    s, slope = sigmoid_and_slope(x)
    return s + x * slope
