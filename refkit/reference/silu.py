"""SiLU, also called swish, and its vector-Jacobian product (Elfwing, Uchibe and Doya, arXiv 1702.03118).

y = x s(x),    dx = dy (s(x) + x s(x) s(-x)),    s(x) = 1 / (1 + exp(-x)),    s(-x) = 1 - s(x)
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit


def silu(x: np.ndarray) -> np.ndarray:
    """x sigmoid(x), element by element."""
    return x * expit(x)


def silu_vjp(dy: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The gradient of sum(dy * silu(x)) with respect to x."""
    s = expit(x)
    return dy * (s + x * s * expit(-x))
