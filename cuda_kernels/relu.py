"""ReLU: y = max(x, 0), NaN where x is NaN; backward dx = dy where x > 0, else 0 (the derivative at 0 is 0).

x, y, dy and dx (M, N) or (N,), float32, bfloat16 or float16. y may be x, and dx may be dy or x. The backward pass may
be given y for x: they are positive in the same places.

forward, backward:                        one thread per element, any strides.
forward_vectorised, backward_vectorised:  128 bits per thread (`pointwise.py`).
"""

from __future__ import annotations

from typing import Any

from numba import cuda, float32

from .launch import read, write
from .pointwise import launch_elementwise, launch_vectorised, pointwise_launcher


@cuda.jit(device=True)
def relu(x):
    """max(x, 0) of a float32; NaN stays NaN."""
    return float32(0) if x <= float32(0) else x


@cuda.jit(device=True)
def relu_gradient(dy, x):
    """dy where x > 0, else 0; float32."""
    return dy if x > float32(0) else float32(0)


@pointwise_launcher(x=read, y=write, in_place=("x", "y"))
def relu_forward(x: Any, y: Any, block: int = 256, *, stream: Any = None) -> None:
    """Writes y = max(x, 0); x and y (M, N) or (N,), one thread per element."""
    launch_elementwise(relu, (x,), y, block, stream)


@pointwise_launcher(x=read, y=write, in_place=("x", "y"))
def relu_forward_vectorised(x: Any, y: Any, block: int = 256, *, stream: Any = None) -> None:
    """As `relu_forward`, 128 bits per thread where both are contiguous and of one dtype."""
    launch_vectorised(relu, (x,), y, block, stream)


@pointwise_launcher(dy=read, x=read, dx=write, in_place=[("dy", "dx"), ("x", "dx")])
def relu_backward(dy: Any, x: Any, dx: Any, block: int = 256, *, stream: Any = None) -> None:
    """Writes dx = dy where x > 0, else 0; all (M, N) or (N,), one thread per element."""
    launch_elementwise(relu_gradient, (dy, x), dx, block, stream)


@pointwise_launcher(dy=read, x=read, dx=write, in_place=[("dy", "dx"), ("x", "dx")])
def relu_backward_vectorised(dy: Any, x: Any, dx: Any, block: int = 256, *, stream: Any = None) -> None:
    """As `relu_backward`, 128 bits per thread where all are contiguous and of one dtype."""
    launch_vectorised(relu_gradient, (dy, x), dx, block, stream)
