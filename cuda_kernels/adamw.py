"""AdamW (Loshchilov and Hutter, arXiv 1711.05101), one step t = 1, 2, ... with weight decay apart from the gradient:

    m <- beta1 m + (1 - beta1) g,    v <- beta2 v + (1 - beta2) g^2
    w <- (1 - lr weight_decay) w - lr mhat / (sqrt(vhat) + eps),    mhat = m / (1 - beta1^t),  vhat = v / (1 - beta2^t)

w (the master weights), m and v are float32, replaced in place; g is float32, bfloat16 or float16; parameters, where
given, get the new w in their own format (what the next forward pass reads). All (M, N) or (N,). What depends on the
step alone is worked out once on the host in float64 and rounded to float32.

adamw:             one thread per element, any strides.
adamw_vectorised:  128 bits per thread for each array (gradient and parameters in 16-bit formats: 8 elements per thread)
                   where all are contiguous, begin at multiples of 16 bytes, and parameters have the gradient's dtype;
                   other arrays go to `adamw`.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from numba import cuda, float32

from .launch import FLOAT32, ceil_div, read, update, write
from .pointwise import VECTOR_BYTES, as_flat, as_rows, in_vectors, pointwise_launcher
from .primitives.vector import load4, load8, store4, store8

STATE = partial(update, dtypes=FLOAT32)
PARAMETERS = partial(write, optional=True)


@cuda.jit(device=True)
def adamw_step(w, m, v, g, rule):
    """The new (w, m, v) of one element, float32; `rule` is the tuple of `_rule`."""
    beta1, rest1, beta2, rest2, correction1, correction2, decay, lr, eps = rule
    m = beta1 * m + rest1 * g
    v = beta2 * v + rest2 * g * g
    return w * decay - lr * (m * correction1) / (math.sqrt(v * correction2) + eps), m, v


@cuda.jit
def adamw_kernel(master, m, v, gradient, parameters, rule):
    element = cuda.grid(1)
    if element >= master.shape[0] * master.shape[1]:
        return
    row, column = element // master.shape[1], element % master.shape[1]
    w, new_m, new_v = adamw_step(
        master[row, column], m[row, column], v[row, column], float32(gradient[row, column]), rule
    )
    master[row, column], m[row, column], v[row, column] = w, new_m, new_v
    if parameters.size > 0:
        parameters[row, column] = w


@cuda.jit(device=True)
def adamw_four(master, m, v, first, g, rule):
    """Four elements from `first` on, with gradients g; gives the new master weights."""
    a, b, c = load4(master, first), load4(m, first), load4(v, first)
    w0, m0, v0 = adamw_step(a[0], b[0], c[0], g[0], rule)
    w1, m1, v1 = adamw_step(a[1], b[1], c[1], g[1], rule)
    w2, m2, v2 = adamw_step(a[2], b[2], c[2], g[2], rule)
    w3, m3, v3 = adamw_step(a[3], b[3], c[3], g[3], rule)
    store4(master, first, (w0, w1, w2, w3))
    store4(m, first, (m0, m1, m2, m3))
    store4(v, first, (v0, v1, v2, v3))
    return w0, w1, w2, w3


@cuda.jit(device=True)
def adamw_rest(master, m, v, gradient, parameters, first, rule):
    """The elements from `first` on, one by one."""
    for i in range(first, master.shape[0]):
        master[i], m[i], v[i] = adamw_step(master[i], m[i], v[i], float32(gradient[i]), rule)
        if parameters.size > 0:
            parameters[i] = master[i]


@cuda.jit
def adamw_four_kernel(master, m, v, gradient, parameters, rule):
    first = 4 * cuda.grid(1)
    if first + 4 <= master.shape[0]:
        w = adamw_four(master, m, v, first, load4(gradient, first), rule)
        if parameters.size > 0:
            store4(parameters, first, w)
    else:
        adamw_rest(master, m, v, gradient, parameters, first, rule)


@cuda.jit
def adamw_eight_kernel(master, m, v, gradient, parameters, rule):
    first = 8 * cuda.grid(1)
    if first + 8 <= master.shape[0]:
        a, b, c, d, e, f, g, h = load8(gradient, first)
        low = adamw_four(master, m, v, first, (a, b, c, d), rule)
        high = adamw_four(master, m, v, first + 4, (e, f, g, h), rule)
        if parameters.size > 0:
            store8(parameters, first, low + high)
    else:
        adamw_rest(master, m, v, gradient, parameters, first, rule)


def _rule(lr: float, beta1: float, beta2: float, eps: float, weight_decay: float, step: int) -> tuple[np.float32, ...]:
    """What a step does, the same for all elements, as float32; ValueError where a value makes no step."""
    if step < 1:
        raise ValueError(f"step={step} must be at least 1: the first step is 1")
    for name, beta in (("beta1", beta1), ("beta2", beta2)):
        if not 0 <= beta < 1:
            raise ValueError(f"{name}={beta} must lie between 0 and 1, 1 not included")
    beta1, beta2 = float(beta1), float(beta2)
    corrections = 1 / (1 - beta1 ** int(step)), 1 / (1 - beta2 ** int(step))
    values = (beta1, 1 - beta1, beta2, 1 - beta2, *corrections, 1 - float(lr) * float(weight_decay), lr, eps)
    return tuple(np.float32(value) for value in values)


def _launch_elementwise(arrays: tuple[Any, ...], rule: Any, block: int, stream: Any) -> None:
    size = arrays[0].size
    adamw_kernel[ceil_div(size, block), block, stream](*map(as_rows, arrays), rule)


@pointwise_launcher(master=STATE, m=STATE, v=STATE, gradient=read, parameters=PARAMETERS)
def adamw(
    master: Any,
    m: Any,
    v: Any,
    gradient: Any,
    parameters: Any,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    step: int,
    block: int = 256,
    *,
    stream: Any = None,
) -> None:
    """Replaces master, m and v by their values after step `step` (the first is 1), and writes parameters, if given."""
    rule = _rule(lr, beta1, beta2, eps, weight_decay, step)
    if master.size:
        _launch_elementwise((master, m, v, gradient, parameters), rule, block, stream)


@pointwise_launcher(master=STATE, m=STATE, v=STATE, gradient=read, parameters=PARAMETERS)
def adamw_vectorised(
    master: Any,
    m: Any,
    v: Any,
    gradient: Any,
    parameters: Any,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    step: int,
    block: int = 256,
    *,
    stream: Any = None,
) -> None:
    """As `adamw`, 128 bits at a time where the arrays are laid out for it."""
    rule = _rule(lr, beta1, beta2, eps, weight_decay, step)
    if not master.size:
        return
    arrays = (master, m, v, gradient, parameters)
    given = arrays if parameters.size else arrays[:-1]
    if gradient.dtype != parameters.dtype or not in_vectors(*given):
        _launch_elementwise(arrays, rule, block, stream)
        return
    width = VECTOR_BYTES // gradient.dtype.itemsize
    kernel = adamw_four_kernel if width == 4 else adamw_eight_kernel
    kernel[ceil_div(ceil_div(master.size, width), block), block, stream](*map(as_flat, arrays), rule)
