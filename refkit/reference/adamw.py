"""AdamW (Loshchilov and Hutter, arXiv 1711.05101): one step t = 1, 2, ... with weight decay apart from the gradient.

    m <- beta1 m + (1 - beta1) g,    v <- beta2 v + (1 - beta2) g^2
    w <- (1 - lr weight_decay) w - lr mhat / (sqrt(vhat) + eps),    mhat = m / (1 - beta1^t),  vhat = v / (1 - beta2^t)

A step of the optimiser, not part of what is differentiated: there is no vector-Jacobian product.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class AdamWState(NamedTuple):
    """The master weights and the two moments, all of one shape."""

    master: np.ndarray
    m: np.ndarray
    v: np.ndarray


def adamw(
    master: np.ndarray,
    m: np.ndarray,
    v: np.ndarray,
    gradient: np.ndarray,
    lr: float,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
    step: int,
) -> AdamWState:
    """Master weights and moments after step `step`; the first step is 1."""
    m = beta1 * m + (1 - beta1) * gradient
    v = beta2 * v + (1 - beta2) * gradient * gradient
    mhat = m * (1 / (1 - beta1**step))
    vhat = v * (1 / (1 - beta2**step))
    return AdamWState(master * (1 - lr * weight_decay) - lr * mhat / (np.sqrt(vhat) + eps), m, v)
