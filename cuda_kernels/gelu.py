"""GELU (Hendrycks and Gimpel, arXiv 1606.08415), in both usual forms; dx = dy times the derivative.

    erf form:   y = x P(x),             P(x) = erfc(-x / sqrt 2) / 2, the normal distribution function
    tanh form:  y = x sigmoid(2 u(x)),  u(x) = sqrt(2 / pi) (x + 0.044715 x^3);  the same as x (1 + tanh u) / 2

Both are written so that nothing cancels for negative x, where 1 + tanh and 1 + erf lose all digits.
x, y, dy and dx (M, N) or (N,), float32, bfloat16 or float16; arithmetic is float32. y may be x, and dx may be dy or x.

forward, backward:                        one thread per element, any strides.
forward_vectorised, backward_vectorised:  128 bits per thread (`pointwise.py`).
"""

from __future__ import annotations

import math
from typing import Any

from numba import cuda, float32

from .launch import read, write
from .pointwise import launch_elementwise, launch_vectorised, pointwise_launcher
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


@cuda.jit(device=True)
def gelu_tanh_gradient(dy, x):
    """dy times the derivative of `gelu_tanh` at x; float32."""
    return dy * gelu_tanh_derivative(x)


@cuda.jit(device=True)
def gelu_erf_gradient(dy, x):
    """dy times the derivative of `gelu_erf` at x; float32."""
    return dy * gelu_erf_derivative(x)


@pointwise_launcher(x=read, y=write, in_place=("x", "y"))
def gelu_tanh_forward(x: Any, y: Any, block: int = 256, *, stream: Any = None) -> None:
    """Writes y = x sigmoid(2 u(x)), the tanh form; x and y (M, N) or (N,), one thread per element."""
    launch_elementwise(gelu_tanh, (x,), y, block, stream)


@pointwise_launcher(x=read, y=write, in_place=("x", "y"))
def gelu_tanh_forward_vectorised(x: Any, y: Any, block: int = 256, *, stream: Any = None) -> None:
    """As `gelu_tanh_forward`, 128 bits per thread where both are contiguous and of one dtype."""
    launch_vectorised(gelu_tanh, (x,), y, block, stream)


@pointwise_launcher(dy=read, x=read, dx=write, in_place=[("dy", "dx"), ("x", "dx")])
def gelu_tanh_backward(dy: Any, x: Any, dx: Any, block: int = 256, *, stream: Any = None) -> None:
    """Writes dx = dy times the derivative of the tanh form at x; all (M, N) or (N,), one thread per element."""
    launch_elementwise(gelu_tanh_gradient, (dy, x), dx, block, stream)


@pointwise_launcher(dy=read, x=read, dx=write, in_place=[("dy", "dx"), ("x", "dx")])
def gelu_tanh_backward_vectorised(dy: Any, x: Any, dx: Any, block: int = 256, *, stream: Any = None) -> None:
    """As `gelu_tanh_backward`, 128 bits per thread where all are contiguous and of one dtype."""
    launch_vectorised(gelu_tanh_gradient, (dy, x), dx, block, stream)


@pointwise_launcher(x=read, y=write, in_place=("x", "y"))
def gelu_erf_forward(x: Any, y: Any, block: int = 256, *, stream: Any = None) -> None:
    """Writes y = x P(x), the erf form; x and y (M, N) or (N,), one thread per element."""
    launch_elementwise(gelu_erf, (x,), y, block, stream)


@pointwise_launcher(x=read, y=write, in_place=("x", "y"))
def gelu_erf_forward_vectorised(x: Any, y: Any, block: int = 256, *, stream: Any = None) -> None:
    """As `gelu_erf_forward`, 128 bits per thread where both are contiguous and of one dtype."""
    launch_vectorised(gelu_erf, (x,), y, block, stream)


@pointwise_launcher(dy=read, x=read, dx=write, in_place=[("dy", "dx"), ("x", "dx")])
def gelu_erf_backward(dy: Any, x: Any, dx: Any, block: int = 256, *, stream: Any = None) -> None:
    """Writes dx = dy times the derivative of the erf form at x; all (M, N) or (N,), one thread per element."""
    launch_elementwise(gelu_erf_gradient, (dy, x), dx, block, stream)


@pointwise_launcher(dy=read, x=read, dx=write, in_place=[("dy", "dx"), ("x", "dx")])
def gelu_erf_backward_vectorised(dy: Any, x: Any, dx: Any, block: int = 256, *, stream: Any = None) -> None:
    """As `gelu_erf_backward`, 128 bits per thread where all are contiguous and of one dtype."""
    launch_vectorised(gelu_erf_gradient, (dy, x), dx, block, stream)
