"""Error rules of products that sum: matmul, dot, einsum, tensordot, inner, outer.

All come down to `matmul` of batched matrices, whose operands are first rounded to the format that the kernel
multiplies in.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from refkit.numerics.accumulation import matmul_error
from refkit.numerics.binary import multiply
from refkit.numerics.formats import Format, round_to
from refkit.numerics.propagation import constant_axes, equal_as_shared, finish
from refkit.numerics.reductions import add_reduce
from refkit.numerics.rounding import LAMBDA
from refkit.numerics.tracked import CannotTrack, Tracked, as_tracked

Array = np.ndarray


def matmul(a: Tracked, b: Tracked) -> Tracked:
    """Return a @ b with NumPy's rules for vectors and batches; the sum over K in any order."""
    if a.ndim == 0 or b.ndim == 0:
        raise ValueError("matmul: neither operand may be a scalar")
    if a.ndim == 1 or b.ndim == 1:
        left = a[None, :] if a.ndim == 1 else a
        right = b[:, None] if b.ndim == 1 else b
        product = matmul(left, right)
        if b.ndim == 1:
            product = product[..., 0]
        return product[..., 0] if a.ndim == 1 and b.ndim == 1 else product[..., 0, :] if a.ndim == 1 else product
    given_a, given_b = a, b
    a, b = equal_as_shared(as_operand(a)), equal_as_shared(as_operand(b))
    x, y = a.value, b.value
    with np.errstate(all="ignore"):
        value, variance, drift = (_repeating(part, x, y) for part in matmul_error(x, y, a.model))
        variance += _inherited(a, -1, lambda error: error @ y, lambda squared: squared @ (y * y))
        variance += _inherited(b, -2, lambda error: x @ error, lambda squared: (x * x) @ squared)
        if a.drift is not None:
            inherited = a.drift @ np.abs(y)
            drift = inherited if drift is None else drift + inherited
        if b.drift is not None:
            inherited = np.abs(x) @ b.drift
            drift = inherited if drift is None else drift + inherited
        if a is not given_a or b is not given_b:
            common = _common_rounding(x, y, value, a.model.precision.multiply_format)
            drift = common if drift is None else drift + common
        return finish(value, variance, drift, a.model)


def _repeating(part: Array | None, x: Array, y: Array) -> Any:
    """Return a part of x @ y with one row where the rows of `x` are equal, and one column where those of `y` are.

    BLAS may sum the same numbers in another order in another place: the last bit would hide that they are equal.
    """
    if part is None or not part.size:
        return part
    if -2 in constant_axes(x):
        part = np.broadcast_to(part[..., :1, :], part.shape)
    if -1 in constant_axes(y):
        part = np.broadcast_to(part[..., :1], part.shape)
    return part.copy() if not part.flags.writeable else part


def _inherited(
    a: Tracked, summed_axis: int, linear: Callable[[Array], Array], quadratic: Callable[[Array], Array]
) -> Array | float:
    """Return the variance from an operand: `linear` for errors shared along the sum, `quadratic` for squares."""
    total: Array | float = 0.0
    squared = a.independent
    for part in a.shared.values():
        full = np.broadcast_to(part.deviation, a.shape)
        if summed_axis in part.axes:
            error = linear(full)
            total = total + error * error
        else:
            squared = full * full if squared is None else squared + full * full
    return total if squared is None else total + quadratic(squared)


def _common_rounding(x: Array, y: Array, value: Array, fmt: Format) -> Array:
    """Return, as drift, what rounding the operands to nearest really changes in the product.

    The rounding error of a number is always the same: over a row of equal numbers it adds up, which the variance, of
    independent errors, does not allow for. On other data this is about one standard deviation.
    """
    changed = np.abs(round_to(x, fmt) @ round_to(y, fmt) - value)
    return np.where(np.isfinite(changed), changed, 0.0) / LAMBDA


def as_operand(a: Tracked) -> Tracked:
    """Return `a` with the error of rounding it to the format the kernel multiplies in, where it is not held exactly."""
    fmt = a.model.precision.multiply_format
    if fmt.significand >= a.model.precision.accumulate_format.significand:
        return a
    if a.exact and np.array_equal(round_to(a.value, fmt), a.value, equal_nan=True):
        return a
    variance = (a.value * a.value) * (fmt.unit_roundoff**2 / 3) + fmt.smallest_subnormal**2 / 12
    variance = np.where(np.isfinite(a.value), variance, 0.0)
    independent = variance if a.independent is None else variance + a.independent
    return Tracked(a.value, a.model, independent, a.drift, shared=a.shared)


def _pair(a: Any, b: Any) -> tuple[Tracked, Tracked]:
    model = a.model if isinstance(a, Tracked) else b.model
    return as_tracked(a, model), as_tracked(b, model)


def dot(a: Any, b: Any) -> Tracked:
    """Return np.dot(a, b)."""
    a, b = _pair(a, b)
    if a.ndim == 0 or b.ndim == 0:
        return multiply(a, b)
    return matmul(a, b) if b.ndim <= 2 else tensordot(a, b, axes=((a.ndim - 1,), (b.ndim - 2,)))


def inner(a: Any, b: Any) -> Tracked:
    """Return np.inner(a, b)."""
    a, b = _pair(a, b)
    return multiply(a, b) if a.ndim == 0 or b.ndim == 0 else tensordot(a, b, axes=((a.ndim - 1,), (b.ndim - 1,)))


def outer(a: Any, b: Any) -> Tracked:
    """Return np.outer(a, b)."""
    a, b = _pair(a, b)
    return multiply(a.ravel()[:, None], b.ravel()[None, :])


def vdot(a: Any, b: Any) -> Tracked:
    """Return np.vdot(a, b)."""
    a, b = _pair(a, b)
    return matmul(a.ravel(), b.ravel())


def tensordot(a: Any, b: Any, axes: Any = 2) -> Tracked:
    """Return np.tensordot(a, b, axes)."""
    a, b = _pair(a, b)
    if np.ndim(axes) == 0:
        count = int(axes)
        first, second = list(range(a.ndim - count, a.ndim)), list(range(count))
    else:
        first, second = (list(np.atleast_1d(x)) for x in axes)
    first, second = [int(i) % a.ndim for i in first], [int(i) % b.ndim for i in second]
    kept_a = [i for i in range(a.ndim) if i not in first]
    kept_b = [i for i in range(b.ndim) if i not in second]
    k = math.prod(a.shape[i] for i in first)
    left = a.transpose(kept_a + first).reshape(math.prod(a.shape[i] for i in kept_a), k)
    right = b.transpose(second + kept_b).reshape(k, math.prod(b.shape[i] for i in kept_b))
    return matmul(left, right).reshape([a.shape[i] for i in kept_a] + [b.shape[i] for i in kept_b])


def einsum(subscripts: Any, *operands: Any, optimize: Any = False, **kwargs: Any) -> Tracked:
    """Return np.einsum(subscripts, *operands): operands are multiplied pairwise from the left."""
    if not isinstance(subscripts, str) or kwargs:
        raise CannotTrack("np.einsum is followed with a subscripts string and no other options")
    model = next(x.model for x in operands if isinstance(x, Tracked))
    arrays = [as_tracked(x, model) for x in operands]
    inputs, output = _parse(subscripts.replace(" ", ""), [x.ndim for x in arrays])
    labels, result = inputs[0], arrays[0]
    for i in range(1, len(arrays)):
        wanted = set(output).union(*inputs[i + 1 :])
        labels, result = _contract(labels, result, inputs[i], arrays[i], wanted)
    labels, result = _summed_over(labels, result, set(output))
    return result.transpose([labels.index(label) for label in output])


def _parse(subscripts: str, ndims: list[int]) -> tuple[list[str], str]:
    """Return the labels of each operand and of the output, ellipses spelt out with capital Greek letters."""
    left, arrow, output = subscripts.partition("->")
    inputs = left.split(",")
    if len(inputs) != len(ndims):
        raise ValueError(f"einsum {subscripts!r}: {len(inputs)} terms for {len(ndims)} operands")
    spare = "".join(chr(0x0391 + i) for i in range(16))
    longest = 0
    for i, (labels, ndim) in enumerate(zip(inputs, ndims)):
        if "..." in labels:
            extra = ndim - (len(labels) - 3)
            longest = max(longest, extra)
            inputs[i] = labels.replace("...", spare[16 - extra :])
        if len(inputs[i]) != ndim:
            raise ValueError(f"einsum {subscripts!r}: term {labels!r} for an operand of {ndim} dimensions")
        if len(set(inputs[i])) != ndim:
            raise CannotTrack(f"einsum {subscripts!r}: a label repeated within one operand cannot be followed")
    ellipsis = spare[16 - longest :]
    if not arrow:
        joined = "".join(inputs)
        output = ellipsis + "".join(sorted(c for c in set(joined) if joined.count(c) == 1 and c not in spare))
    return inputs, output.replace("...", ellipsis)


def _summed_over(labels: str, a: Tracked, wanted: set[str]) -> tuple[str, Tracked]:
    axes = tuple(i for i, label in enumerate(labels) if label not in wanted)
    if not axes:
        return labels, a
    return "".join(label for label in labels if label in wanted), add_reduce(a, axis=axes)


def _contract(labels_a: str, a: Tracked, labels_b: str, b: Tracked, wanted: set[str]) -> tuple[str, Tracked]:
    """Return the product of two operands, summed over the labels that neither the output nor a later one wants."""
    labels_a, a = _summed_over(labels_a, a, wanted | set(labels_b))
    labels_b, b = _summed_over(labels_b, b, wanted | set(labels_a))
    batch = [c for c in labels_a if c in labels_b and c in wanted]
    summed = [c for c in labels_a if c in labels_b and c not in wanted]
    free_a = [c for c in labels_a if c not in labels_b]
    free_b = [c for c in labels_b if c not in labels_a]
    size = {**dict(zip(labels_a, a.shape)), **{c: n for c, n in zip(labels_b, b.shape) if n != 1 or c in free_b}}
    for c, n in zip(labels_a, a.shape):
        size[c] = n if n != 1 else size.get(c, 1)
    a = _arranged(labels_a, a, batch, free_a, summed, size)
    b = _arranged(labels_b, b, batch, summed, free_b, size)
    if summed:
        product = matmul(a, b)
    else:
        product = multiply(a, b)
    order = batch + free_a + free_b
    return "".join(order), product.reshape([size[c] for c in order])


def _arranged(
    labels: str, a: Tracked, batch: list[str], rows: list[str], columns: list[str], size: dict[str, int]
) -> Tracked:
    order = batch + rows + columns
    moved = a.transpose([labels.index(c) for c in order])
    full = moved.rearranged(lambda part: np.broadcast_to(part, [size[c] for c in order]), repeats=True)
    shape = [size[c] for c in batch] + [math.prod(size[c] for c in group) for group in (rows, columns)]
    return full.reshape(shape)
