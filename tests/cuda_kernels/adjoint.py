"""The adjoint test: forward and backward kernels together against a directional derivative of the forward reference."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from refkit.numerics import Precision, evaluate

STEP = 2.0**-12  # central differences at two steps, extrapolated: near 1e-10 for smooth functions of size one


def assert_adjoint(
    forward: Callable[..., Any],
    vjp: Callable[..., Any],
    inputs: Mapping[str, np.ndarray],
    upstream: np.ndarray | Sequence[np.ndarray],
    gradients: Mapping[str, np.ndarray],
    *,
    precision: Precision | None = None,
    output_dtypes: Sequence[Any] | None = None,
    seed: int = 0,
) -> None:
    """sum(gradient * v) = d/dt sum(upstream * forward(input + t v)) for a random v, input by input.

    `gradients` came from the backward kernels, fed with what the forward kernels saved. `forward(**inputs)` gives the
    outputs in the order of `upstream`; `vjp(**inputs, **{"dy0": ..., "dy1": ...})` gives the gradients in the order of
    `gradients`, from the inputs alone (it calls the forward reference for what is saved): from it follows how far
    float32 kernels may be off, element by element, and the errors of the elements of a sum add in quadrature.
    """
    upstream = [upstream] if isinstance(upstream, np.ndarray) else list(upstream)
    wide = {name: np.asarray(x, np.float64) if np.issubdtype(x.dtype, np.floating) else x for name, x in inputs.items()}

    def loss(**arguments: Any) -> float:
        outputs = forward(**arguments)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        return sum(float(np.sum(np.asarray(dy, np.float64) * y)) for dy, y in zip(upstream, outputs))

    bounds = evaluate(vjp, {**inputs, **{f"dy{i}": dy for i, dy in enumerate(upstream)}}, precision, output_dtypes)
    rng = np.random.default_rng(seed)
    for (name, gradient), bound in zip(gradients.items(), bounds, strict=True):
        v = rng.standard_normal(wide[name].shape)

        def slope(step: float, name: str = name, v: np.ndarray = v) -> float:
            ahead, behind = (loss(**{**wide, name: wide[name] + sign * step * v}) for sign in (1, -1))
            return (ahead - behind) / (2 * step)

        directional = (4 * slope(STEP / 2) - slope(STEP)) / 3
        predicted = float(np.sum(np.asarray(gradient, np.float64) * v))
        terms = np.asarray(bound.value, np.float64) * v
        allowed = float(np.sqrt(np.sum((v * bound.allowed) ** 2))) + 1e-7 * float(np.sqrt(np.sum(terms**2)))
        assert abs(predicted - directional) <= allowed, (
            f"d{name}: the kernels give {predicted!r} along a direction, the forward reference {directional!r}; "
            f"allowed {allowed:.3g}"
        )
