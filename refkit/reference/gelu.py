"""GELU in its two usual forms, and their vector-Jacobian products (Hendrycks and Gimpel, arXiv 1606.08415).

erf form:   y = x P(x),       P the normal distribution function, P(x) = erfc(-x / sqrt 2) / 2
tanh form:  y = x s(2 u(x)),  u(x) = sqrt(2 / pi) (x + 0.044715 x^3),  s the sigmoid;  the same as x (1 + tanh u) / 2

    dx = dy (P + x exp(-x^2 / 2) / sqrt(2 pi))                                          erf form
    dx = dy (s(2u) + x s(2u) s(-2u) 2 u'),  u' = sqrt(2 / pi) (1 + 3 0.044715 x^2)      tanh form
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import erfc, expit

TWICE_ROOT_2_OVER_PI = 2 * math.sqrt(2 / math.pi)
CUBIC = 0.044715


def gelu_erf(x: np.ndarray) -> np.ndarray:
    """x P(x), element by element."""
    return 0.5 * x * erfc(-x * math.sqrt(0.5))


def gelu_erf_vjp(dy: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The gradient of sum(dy * gelu_erf(x)) with respect to x."""
    density = np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    return dy * (0.5 * erfc(-x * math.sqrt(0.5)) + x * density)


def gelu_tanh(x: np.ndarray) -> np.ndarray:
    """x s(2 u(x)), element by element."""
    return x * expit(TWICE_ROOT_2_OVER_PI * (x + CUBIC * x * x * x))


def gelu_tanh_vjp(dy: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The gradient of sum(dy * gelu_tanh(x)) with respect to x."""
    twice_u = TWICE_ROOT_2_OVER_PI * (x + CUBIC * x * x * x)
    s = expit(twice_u)
    slope = TWICE_ROOT_2_OVER_PI * (1.0 + 3 * CUBIC * x * x)
    return dy * (s + x * s * expit(-twice_u) * slope)
