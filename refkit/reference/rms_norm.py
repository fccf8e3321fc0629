"""Root-mean-square normalisation over the last axis, and its VJP (Zhang and Sennrich, arXiv 1910.07467).

    rstd = 1 / sqrt(mean(x^2) + eps),    xhat = x rstd,    y = xhat gamma

with the mean over each row of x (T, C); gamma (C,) may be None, which means 1. With dxhat = dy gamma:

    dx = rstd (dxhat - xhat mean(dxhat xhat)),    dgamma = sum_t dy xhat

In a residual stream the norm reads h = x + r, which is kept; the gradient dh that reaches h past the norm is added to
dx, and the sum is the gradient of x and of r alike. The mean over no columns is undefined: C = 0 gives NaN for rstd.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class RmsNormOutputs(NamedTuple):
    """What `rms_norm` returns: the result and the statistic that the backward pass reads."""

    y: np.ndarray  # (T, C)
    rstd: np.ndarray  # (T,)


class RmsNormResidualOutputs(NamedTuple):
    """What `rms_norm_residual` returns: the residual stream, its norm, and the saved statistic."""

    h: np.ndarray  # (T, C)
    y: np.ndarray  # (T, C)
    rstd: np.ndarray  # (T,)


class RmsNormGradients(NamedTuple):
    """What `rms_norm_vjp` returns."""

    dx: np.ndarray  # (T, C)
    dgamma: np.ndarray  # (C,)


def rms_norm(x: np.ndarray, gamma: np.ndarray | None = None, eps: float = 1e-5) -> RmsNormOutputs:
    """y (T, C) and rstd (T,) of x (T, C)."""
    rstd = 1.0 / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps)
    y = x * rstd
    if gamma is not None:
        y = y * gamma
    return RmsNormOutputs(y, rstd[:, 0])


def rms_norm_residual(
    x: np.ndarray, r: np.ndarray, gamma: np.ndarray | None = None, eps: float = 1e-5
) -> RmsNormResidualOutputs:
    """h = x + r (T, C), and y (T, C) and rstd (T,) of h."""
    h = x + r
    return RmsNormResidualOutputs(h, *rms_norm(h, gamma, eps))


def rms_norm_dx(
    dy: np.ndarray, x: np.ndarray, gamma: np.ndarray | None, rstd: np.ndarray, dh: np.ndarray | None = None
) -> np.ndarray:
    """dx (T, C) from dy and x (T, C), gamma (C,) and the saved rstd (T,); dh (T, C) is added where there is one."""
    xhat = x * rstd[:, None]
    dxhat = dy if gamma is None else dy * gamma
    dx = rstd[:, None] * (dxhat - xhat * (dxhat * xhat).mean(axis=-1, keepdims=True))
    return dx if dh is None else dx + dh


def rms_norm_dgamma(dy: np.ndarray, x: np.ndarray, rstd: np.ndarray) -> np.ndarray:
    """dgamma (C,) from dy and x (T, C) and the saved rstd (T,)."""
    return (dy * (x * rstd[:, None])).sum(axis=0)


def rms_norm_vjp(
    dy: np.ndarray, x: np.ndarray, gamma: np.ndarray | None = None, eps: float = 1e-5, dh: np.ndarray | None = None
) -> RmsNormGradients:
    """The gradients of sum(dy * rms_norm(x, gamma, eps).y) + sum(dh * x) with respect to x and gamma."""
    rstd = rms_norm(x, gamma, eps).rstd
    return RmsNormGradients(rms_norm_dx(dy, x, gamma, rstd, dh), rms_norm_dgamma(dy, x, rstd))
