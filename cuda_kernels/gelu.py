"""GELU (Hendrycks and Gimpel, arXiv 1606.08415), in both usual forms; any strides in one or two axes.

    erf form:   y = x P(x),             P(x) = erfc(-x / sqrt 2) / 2, the normal distribution function
    tanh form:  y = x sigmoid(2 u(x)),  u(x) = sqrt(2 / pi) (x + 0.044715 x^3);  the same as x (1 + tanh u) / 2

Both are written so that nothing cancels for negative x, where 1 + tanh and 1 + erf lose all digits.
"""

from __future__ import annotations

import math

from numba import cuda, float32

from .silu import sigmoid, sigmoid_and_slope

TWICE_ROOT_2_OVER_PI = float32(2 * math.sqrt(2 / math.pi))
CUBIC = float32(0.044715)
ROOT_HALF = float32(math.sqrt(0.5))
DENSITY_AT_0 = float32(1 / math.sqrt(2 * math.pi))


@cuda.jit(device=True)
def gelu_tanh(x):
    """The tanh form for a float32: one exponential, one division."""
    return x * sigmoid(TWICE_ROOT_2_OVER_PI * (x + CUBIC * x * x * x))


@cuda.jit(device=True)
def gelu_tanh_derivative(x):
    """The derivative of `gelu_tanh` at a float32: one exponential, one division."""
    s, slope = sigmoid_and_slope(TWICE_ROOT_2_OVER_PI * (x + CUBIC * x * x * x))
    if slope == float32(0):
        return s  # where x * x overflows it would be infinity times 0
    return s + x * slope * TWICE_ROOT_2_OVER_PI * (float32(1) + float32(3) * CUBIC * x * x)


@cuda.jit(device=True)
def gelu_erf(x):
    """The erf form for a float32: one erfc."""
    return float32(0.5) * x * math.erfc(-x * ROOT_HALF)


@cuda.jit(device=True)
def gelu_erf_derivative(x):
    """The derivative of `gelu_erf` at a float32: P(x) + x P'(x); one erfc, one exponential."""
    density = DENSITY_AT_0 * math.exp(float32(-0.5) * x * x)
    return float32(0.5) * math.erfc(-x * ROOT_HALF) + x * density
