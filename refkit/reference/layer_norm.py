"""Layer normalisation over the last axis, and its vector-Jacobian product (Ba, Kiros and Hinton, arXiv 1607.06450).

    xhat = (x - mean) rstd,    rstd = 1 / sqrt(var + eps),    y = xhat gamma + beta

with the mean and the variance (divided by C, not C - 1) of each row of x (T, C); gamma and beta (C,) may be None,
which means 1 and 0. With dxhat = dy gamma, and means taken over the row:

    dx = rstd (dxhat - mean(dxhat) - xhat mean(dxhat xhat)),    dgamma = sum_t dy xhat,    dbeta = sum_t dy

In a residual stream the norm reads h = x + r, which is kept; the gradient dh that reaches h past the norm is added to
dx, and the sum is the gradient of x and of r alike. The mean over no columns is undefined: C = 0 gives NaN for mean and
rstd, as `np.mean` does.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class LayerNormOutputs(NamedTuple):
    """What `layer_norm` returns: the result and the statistics that the backward pass reads."""

    y: np.ndarray  # (T, C)
    mean: np.ndarray  # (T,)
    rstd: np.ndarray  # (T,)


class LayerNormResidualOutputs(NamedTuple):
    """What `layer_norm_residual` returns: the residual stream, its norm, and the saved statistics."""

    h: np.ndarray  # (T, C)
    y: np.ndarray  # (T, C)
    mean: np.ndarray  # (T,)
    rstd: np.ndarray  # (T,)


class LayerNormGradients(NamedTuple):
    """What `layer_norm_vjp` returns."""

    dx: np.ndarray  # (T, C)
    dgamma: np.ndarray  # (C,)
    dbeta: np.ndarray  # (C,)


def layer_norm(
    x: np.ndarray, gamma: np.ndarray | None = None, beta: np.ndarray | None = None, eps: float = 1e-5
) -> LayerNormOutputs:
    """y (T, C), mean (T,) and rstd (T,) of x (T, C)."""
    mean = x.mean(axis=-1, keepdims=True)
    centred = x - mean
    rstd = 1.0 / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + eps)
    y = centred * rstd
    if gamma is not None:
        y = y * gamma
    if beta is not None:
        y = y + beta
    return LayerNormOutputs(y, mean[:, 0], rstd[:, 0])


def layer_norm_residual(
    x: np.ndarray, r: np.ndarray, gamma: np.ndarray | None = None, beta: np.ndarray | None = None, eps: float = 1e-5
) -> LayerNormResidualOutputs:
    """h = x + r (T, C), and y (T, C), mean and rstd (T,) of h."""
    h = x + r
    return LayerNormResidualOutputs(h, *layer_norm(h, gamma, beta, eps))


def layer_norm_dx(
    dy: np.ndarray,
    x: np.ndarray,
    gamma: np.ndarray | None,
    mean: np.ndarray,
    rstd: np.ndarray,
    dh: np.ndarray | None = None,
) -> np.ndarray:
    """dx (T, C) from dy and x (T, C), gamma (C,), the saved mean and rstd (T,); dh (T, C), where given, is added."""
    xhat = (x - mean[:, None]) * rstd[:, None]
    dxhat = dy if gamma is None else dy * gamma
    mean_dxhat = dxhat.mean(axis=-1, keepdims=True)
    mean_dxhat_xhat = (dxhat * xhat).mean(axis=-1, keepdims=True)
    dx = rstd[:, None] * (dxhat - mean_dxhat - xhat * mean_dxhat_xhat)
    return dx if dh is None else dx + dh


def layer_norm_dgamma_dbeta(
    dy: np.ndarray, x: np.ndarray, mean: np.ndarray, rstd: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """dgamma and dbeta (C,) from dy and x (T, C) and the saved mean and rstd (T,)."""
    xhat = (x - mean[:, None]) * rstd[:, None]
    return (dy * xhat).sum(axis=0), dy.sum(axis=0)


def layer_norm_vjp(
    dy: np.ndarray, x: np.ndarray, gamma: np.ndarray | None = None, eps: float = 1e-5, dh: np.ndarray | None = None
) -> LayerNormGradients:
    """The gradients of sum(dy * layer_norm(x, gamma, beta, eps).y) + sum(dh * x) with respect to x, gamma and beta."""
    _, mean, rstd = layer_norm(x, gamma, None, eps)
    dgamma, dbeta = layer_norm_dgamma_dbeta(dy, x, mean, rstd)
    return LayerNormGradients(layer_norm_dx(dy, x, gamma, mean, rstd, dh), dgamma, dbeta)
