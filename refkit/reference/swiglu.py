"""SwiGLU, the gated activation, and its vector-Jacobian product (Shazeer 2020, arXiv 2002.05202).

de (M, 2I) = [left | gate] is the merged projection, each half (M, I):

    out (M, I) = left silu(gate),    silu(g) = g sigma(g),    sigma(g) = 1 / (1 + exp(-g))

With dout = dL/dout, and silu'(g) = sigma(g) (1 + g sigma(-g)), where sigma(-g) = 1 - sigma(g) without cancellation:

    grad_de (M, 2I) = [dout silu(gate) | dout left silu'(gate)]
"""

from __future__ import annotations

import numpy as np


def sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x)), element by element; 0 where exp(-x) overflows."""
    with np.errstate(over="ignore"):
        return 1.0 / (1.0 + np.exp(-x))


def halves(de: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """left and gate, (M, I) each, of the merged projection de (M, 2I)."""
    middle = de.shape[-1] // 2
    return de[:, :middle], de[:, middle:]


def swiglu(de: np.ndarray) -> np.ndarray:
    """out (M, I) from de (M, 2I) = [left | gate]."""
    left, gate = halves(de)
    return left * (gate * sigmoid(gate))


def swiglu_vjp(dout: np.ndarray, de: np.ndarray) -> np.ndarray:
    """grad_de (M, 2I), the gradient of sum(dout * swiglu(de)), from dout (M, I) and de (M, 2I)."""
    left, gate = halves(de)
    sigma = sigmoid(gate)
    silu_slope = sigma * (1.0 + gate * sigmoid(-gate))
    return np.concatenate([dout * (gate * sigma), dout * left * silu_slope], axis=-1)
