"""SiLU, also called swish: y = x sigmoid(x), backward dx = dy (sigmoid(x) + x sigmoid'(x)).

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


@cuda.jit(device=True)
def silu_gradient(dy, x):
    """dy times the derivative of `silu` at x; float32."""
    return dy * silu_derivative(x)


@pointwise_launcher(x=read, y=write, in_place=("x", "y"))
def silu_forward(x: Any, y: Any, block: int = 256, *, stream: Any = None) -> None:
    """Writes y = x sigmoid(x); x and y (M, N) or (N,), one thread per element."""
    launch_elementwise(silu, (x,), y, block, stream)


@pointwise_launcher(x=read, y=write, in_place=("x", "y"))
def silu_forward_vectorised(x: Any, y: Any, block: int = 256, *, stream: Any = None) -> None:
    """Writes y = x sigmoid(x); x and y (M, N) or (N,), 128 bits per thread where both are contiguous."""
    launch_vectorised(silu, (x,), y, block, stream)


@pointwise_launcher(dy=read, x=read, dx=write, in_place=[("dy", "dx"), ("x", "dx")])
def silu_backward(dy: Any, x: Any, dx: Any, block: int = 256, *, stream: Any = None) -> None:
    """Writes dx = dy (sigmoid(x) + x sigmoid'(x)); all (M, N) or (N,), one thread per element."""
    launch_elementwise(silu_gradient, (dy, x), dx, block, stream)


@pointwise_launcher(dy=read, x=read, dx=write, in_place=[("dy", "dx"), ("x", "dx")])
def silu_backward_vectorised(dy: Any, x: Any, dx: Any, block: int = 256, *, stream: Any = None) -> None:
    """As `silu_backward`, 128 bits per thread where all are contiguous and of one dtype."""
    launch_vectorised(silu_gradient, (dy, x), dx, block, stream)
