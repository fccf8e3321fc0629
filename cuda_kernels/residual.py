"""Residual addition: y = x + r. Backward, the gradient of y goes to both, and meets there what the branch gives.

    forward     y = x + r
    backward    dx += dy      in dx's storage format: dx holds the gradient that came through the branch

All arrays (M, N) or (N,), float32, bfloat16 or float16; sums are float32, rounded once to the storage format.

forward, backward:                        one thread per element, any strides.
forward_vectorised, backward_vectorised:  128 bits per thread (`pointwise.py`).
"""

from __future__ import annotations

from typing import Any

from numba import cuda

from .launch import read, update, write
from .pointwise import launch_elementwise, launch_vectorised, pointwise_launcher


@cuda.jit(device=True)
def add(a, b):
    """a + b; float32."""
    return a + b


@pointwise_launcher(x=read, r=read, y=write, in_place=[("x", "y"), ("r", "y")])
def residual_forward(x: Any, r: Any, y: Any, block: int = 256, *, stream: Any = None) -> None:
    """Writes y = x + r; all (M, N) or (N,), one thread per element; y may be x or r."""
    launch_elementwise(add, (x, r), y, block, stream)


@pointwise_launcher(x=read, r=read, y=write, in_place=[("x", "y"), ("r", "y")])
def residual_forward_vectorised(x: Any, r: Any, y: Any, block: int = 256, *, stream: Any = None) -> None:
    """As `residual_forward`, 128 bits per thread where all are contiguous and of one dtype."""
    launch_vectorised(add, (x, r), y, block, stream)


@pointwise_launcher(dy=read, dx=update)
def residual_backward(dy: Any, dx: Any, block: int = 256, *, stream: Any = None) -> None:
    """Adds dy to dx in dx's own storage format; both (M, N) or (N,), one thread per element."""
    launch_elementwise(add, (dx, dy), dx, block, stream)


@pointwise_launcher(dy=read, dx=update)
def residual_backward_vectorised(dy: Any, dx: Any, block: int = 256, *, stream: Any = None) -> None:
    """As `residual_backward`, 128 bits per thread where both are contiguous and of one dtype."""
    launch_vectorised(add, (dx, dy), dx, block, stream)
