"""The SwiGLU MLP, three steps forward, four matrix products and one elementwise group backward.

x (M, K), w (K, 2I), w_down (I, K); forward:

    de (M, 2I) = x w = [left | gate],    out (M, I) = left silu(gate),    y (M, K) = out w_down

Backward from dy (M, K) and what was saved, x, de and out:

    dout = dy w_down^T,         dw_down = out^T dy
    grad_de = the vector-Jacobian product of swiglu, sigma and silu computed anew from de
    dx = grad_de w^T,           dw = x^T grad_de      one product over the merged layout, not two of half the width
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from refkit.reference.swiglu import swiglu, swiglu_vjp


class SwigluMlpOutputs(NamedTuple):
    """What `swiglu_mlp` returns: what the backward pass reads, and the result."""

    de: np.ndarray  # (M, 2I)
    out: np.ndarray  # (M, I)
    y: np.ndarray  # (M, K)


class SwigluMlpGradients(NamedTuple):
    """What `swiglu_mlp_vjp` returns."""

    dx: np.ndarray  # (M, K)
    dw: np.ndarray  # (K, 2I)
    dw_down: np.ndarray  # (I, K)


def swiglu_mlp(x: np.ndarray, w: np.ndarray, w_down: np.ndarray) -> SwigluMlpOutputs:
    """de (M, 2I), out (M, I) and y (M, K) from x (M, K), w (K, 2I) and w_down (I, K)."""
    de = x @ w
    out = swiglu(de)
    return SwigluMlpOutputs(de, out, out @ w_down)


def swiglu_mlp_grad_de(dy: np.ndarray, w_down: np.ndarray, de: np.ndarray) -> np.ndarray:
    """grad_de (M, 2I) from dy (M, K), w_down (I, K) and the saved de (M, 2I)."""
    return swiglu_vjp(dy @ w_down.T, de)


def swiglu_mlp_dx(grad_de: np.ndarray, w: np.ndarray) -> np.ndarray:
    """dx (M, K) from grad_de (M, 2I) and w (K, 2I)."""
    return grad_de @ w.T


def swiglu_mlp_dw(x: np.ndarray, grad_de: np.ndarray) -> np.ndarray:
    """dw (K, 2I) from x (M, K) and grad_de (M, 2I)."""
    return x.T @ grad_de


def swiglu_mlp_dw_down(out: np.ndarray, dy: np.ndarray) -> np.ndarray:
    """dw_down (I, K) from the saved out (M, I) and dy (M, K)."""
    return out.T @ dy


def swiglu_mlp_vjp(dy: np.ndarray, x: np.ndarray, w: np.ndarray, w_down: np.ndarray) -> SwigluMlpGradients:
    """The gradients of sum(dy * swiglu_mlp(x, w, w_down).y) with respect to x, w and w_down."""
    de, out, _ = swiglu_mlp(x, w, w_down)
    grad_de = swiglu_mlp_grad_de(dy, w_down, de)
    return SwigluMlpGradients(swiglu_mlp_dx(grad_de, w), swiglu_mlp_dw(x, grad_de), swiglu_mlp_dw_down(out, dy))
