"""Rounding error of sums: along axes, and inside matrix products.

A sum of n terms commits one rounding per partial sum s_2 ... s_n, so its variance is U**2 * sum(s_i**2): the *energy*
of the partial sums. Over random orders, with S the sum and Q the sum of squares of the terms,
E[s_i**2] = i/n (1 - i/n) (n Q - S**2)/(n - 1) + (i/n)**2 S**2, which over i = 2 ... n adds up to
((n+1)/6 - 1/n) (Q - S**2/n) + ((n+1)(2n+1)/6n - 1/n**2) S**2, about n/6 (Q - S**2/n) + n/3 S**2.
Data that are ordered on purpose have larger partial sums: the energies of the natural order and of its reverse are
computed as well, and the largest counts. Roundings are not independent where terms are equal or vanish against the
partial sum (each is then rounded the same way); the systematic part is measured by summing once in float32, in
sequence, and is returned as *drift*, an error that adds up linearly later on.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from refkit.numerics.rounding import LAMBDA, RoundingModel

_BLOCKS = 8
_LANES = 32
_SAMPLED_PAIRS = 64
_SAMPLED_TERMS = 1 << 16


def random_order_energy(n: int | np.ndarray, total: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """Return the expected energy of the partial sums of `n` terms in random order (module docstring)."""
    total_squared = total * total
    spread = np.maximum(squares - total_squared / n, 0.0)
    of_spread = np.maximum((n + 1) / 6 - 1 / n, 0.0)
    return spread * of_spread + total_squared * ((n + 1) * (2 * n + 1) / (6 * n) - 1 / n**2)


def sum_error(x: np.ndarray, total: np.ndarray, model: RoundingModel) -> tuple[np.ndarray, np.ndarray | None]:
    """Return variance and drift of the rounding errors of summing `x` along its last axis; `total` is the sum.

    Shapes: x (..., n), total (...), results (...). Empty sums and sums of one term are exact.
    """
    n = x.shape[-1]
    if n <= 1:
        return np.zeros_like(total), None
    squares = np.einsum("...i,...i->...", x, x)
    energy = np.maximum(random_order_energy(n, total, squares), _ordered_energy(x, total, squares))
    for lane_energy in _lane_energies(x, squares):
        energy = np.maximum(energy, lane_energy)
    variance = energy * model.unit_variance + n * model.flush
    drift = _sequential_drift(x, variance, model)
    return variance, _with_repeated(drift, variance, _equal_terms(x, -1) * (n - 1))


def _ordered_energy(x: np.ndarray, total: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """Return the larger of the energies of the natural order and its reverse, interpolated between blocks."""
    n = x.shape[-1]
    if n <= 2 * _BLOCKS:
        partial = np.cumsum(x, axis=-1)
        forward, first_moment = np.einsum("...i,...i->...", partial, partial), partial.sum(axis=-1)
    else:
        edges = np.arange(_BLOCKS) * n // _BLOCKS
        step = np.add.reduceat(x, edges, axis=-1)
        length = np.diff(edges, append=n)
        before = np.cumsum(step, axis=-1) - step
        # The integrals of (P + t step)**2 and of P + t step over t in [0, 1], times the length of each block.
        forward = (before * (before + step) + step * step / 3) @ length + squares * (n / (6 * _BLOCKS))
        forward += total * total / 2
        first_moment = (before + step / 2) @ length + total / 2
    # The partial sums of the reverse order are S - s_i, and S itself.
    return np.maximum(forward, (n + 1) * total * total - 2 * total * first_moment + forward)


def _lane_energies(x: np.ndarray, squares: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the energies of sums over 32, 4 and 2 interleaved accumulators, random in order within each.

    They exceed that of the random order where the data have a period, such as alternating signs.
    """
    n = x.shape[-1]
    whole = n - n % _LANES
    if not whole:
        return
    totals = x[..., :whole].reshape(*x.shape[:-1], -1, _LANES).sum(axis=-2)
    for lanes in (_LANES, 4, 2):
        totals = totals.reshape(*x.shape[:-1], -1, lanes).sum(axis=-2)
        length = n / lanes
        yield np.einsum("...i,...i->...", totals, totals) * (length / 3) + squares * (length / 6)


def _sequential_drift(x: np.ndarray, variance: np.ndarray, model: RoundingModel) -> np.ndarray | None:
    """Return the drift that covers sequential sums whose error is above 3 deviations, three times over.

    The sum is done in float32 whatever the accumulation format, and its error scaled by the ratio of the roundoffs.
    """
    if model.precision.accumulate == "float64":
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        terms = x.astype(np.float32)
        exact = terms.sum(axis=-1, dtype=np.float64)
        forward, backward = _sequential_sums(terms)
        observed = np.maximum(np.abs(forward - exact), np.abs(backward - exact))
        return _excess(_scaled_to(model, observed), variance)


def _sequential_sums(terms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the float32 sums of `terms` (..., n) from first to last and from last to first, one after the other."""
    n = terms.shape[-1]
    if terms.size < 128 * n:
        forward = np.cumsum(terms, axis=-1, dtype=np.float32)[..., -1]
        return forward, np.cumsum(terms[..., ::-1], axis=-1, dtype=np.float32)[..., -1]
    columns = np.ascontiguousarray(np.moveaxis(terms, -1, 0))
    forward, backward = columns[0].copy(), columns[-1].copy()
    for i in range(1, n):
        forward += columns[i]
        backward += columns[n - 1 - i]
    return forward, backward


def _excess(observed: np.ndarray, variance: np.ndarray) -> np.ndarray | None:
    excess = np.abs(observed) - 3 * np.sqrt(variance)
    excess = np.where(np.isfinite(excess), np.maximum(excess, 0.0), 0.0)
    return excess * (3 / LAMBDA) if excess.any() else None


def prefix_error(x: np.ndarray, prefix: np.ndarray, model: RoundingModel) -> tuple[np.ndarray, np.ndarray | None]:
    """Return variance and drift of the rounding errors of each prefix sum of `x` (..., n) along its last axis."""
    count = np.arange(1, x.shape[-1] + 1)
    energy = random_order_energy(count, prefix, np.cumsum(x * x, axis=-1))
    energy = np.maximum(energy, np.cumsum(prefix * prefix, axis=-1))
    variance = energy * model.unit_variance
    variance[..., :1] = 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        terms = x.astype(np.float32)
        observed = np.cumsum(terms, axis=-1, dtype=np.float32) - np.cumsum(terms, axis=-1, dtype=np.float64)
    drift = _excess(_scaled_to(model, observed), variance)
    return variance, _with_repeated(drift, variance, _equal_terms(x, -1)[..., None] * (count - 1))


def _scaled_to(model: RoundingModel, observed: np.ndarray) -> np.ndarray:
    """Return an error observed in float32 scaled to the accumulation format."""
    return observed * (model.precision.unit_roundoff * 2.0**24)


def _with_repeated(drift: np.ndarray | None, variance: np.ndarray, repeated: np.ndarray) -> np.ndarray | None:
    """Return `drift`, at least that of terms of which each is equal to `repeated` others and is rounded as they are."""
    if not repeated.any():
        return drift
    of_equal = np.sqrt(variance * repeated)
    return of_equal if drift is None else np.maximum(drift, of_equal)


def scatter_error(
    cell: np.ndarray, x: np.ndarray, before: np.ndarray, model: RoundingModel
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return variance and drift (cells,) of the rounding errors of adding each x[i] to cell[i], in any order.

    Shapes: cell and x (n,), before (cells,): what the cells hold at first.
    """
    cells = before.size
    count = np.bincount(cell, minlength=cells) + 1.0
    total = np.bincount(cell, weights=x, minlength=cells) + before
    squares = np.bincount(cell, weights=x * x, minlength=cells) + before * before
    energy = random_order_energy(count, total, squares)
    order = np.argsort(cell, kind="stable")
    sorted_cell, sorted_x = cell[order], x[order]
    first = np.flatnonzero(np.diff(sorted_cell, prepend=-1))
    running = np.cumsum(sorted_x)
    length = np.diff(first, append=sorted_cell.size)
    offset = np.repeat((running - sorted_x)[first], length) if first.size else running
    partial = running - offset + before[sorted_cell]
    natural = np.bincount(sorted_cell, weights=partial * partial, minlength=cells)
    variance = np.maximum(energy, natural) * model.unit_variance + count * model.flush
    alone = (count <= 1) | ((count == 2) & (before == 0))
    variance = np.where(alone, 0.0, variance)
    drift = _excess(_scaled_to(model, _observed_scatter(cell, x, before)), variance)
    return variance, _with_repeated(drift, variance, _equal_neighbours(sorted_cell, sorted_x, cells))


def _observed_scatter(cell: np.ndarray, x: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Return the error of doing the additions in float32, in sequence."""
    with np.errstate(over="ignore", invalid="ignore"):
        terms, single = x.astype(np.float32), before.astype(np.float32)
        exact = single + np.bincount(cell, weights=terms, minlength=before.size)
        np.add.at(single, cell, terms)
        return single - exact


def _equal_neighbours(cell: np.ndarray, x: np.ndarray, cells: int) -> np.ndarray:
    """Return by how many other terms of its cell a term is equalled, from the next two in each (sorted) cell."""
    most = np.zeros(cells)
    for lag in (1, 2):
        equal = (cell[lag:] == cell[:-lag]) & (x[lag:] == x[:-lag]) & (x[lag:] != 0)
        most = np.maximum(most, np.bincount(cell[lag:], weights=equal, minlength=cells))
    return most


def matmul_error(
    a: np.ndarray, b: np.ndarray, model: RoundingModel
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return a @ b, and variance and drift of its rounding errors; a (..., M, K), b (..., K, N), float64."""
    k = a.shape[-1]
    product, natural = _block_partial_sums(a, b)
    if k == 0:
        return product, np.zeros_like(product), None
    squares = np.matmul(a * a, b * b)
    natural += squares * (k / (6 * _BLOCKS)) + product * product / 2
    energy = np.maximum(random_order_energy(k, product, squares), natural)
    if k == 1:
        energy = np.zeros_like(product)
    variance = energy * model.unit_variance
    drift = _matmul_drift(a, b, product, energy, squares, variance, model)
    variance += squares * model.unit_variance + k * model.flush
    return product, variance, drift


def _block_partial_sums(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a @ b and the energy of its partial sums in natural order, interpolated between blocks of K."""
    k = a.shape[-1]
    blocks = min(_BLOCKS, k)
    if blocks <= 1:
        product = np.matmul(a, b)
        return product, product * product
    edges = [i * k // blocks for i in range(blocks + 1)]
    product = np.matmul(a[..., : edges[1]], b[..., : edges[1], :])
    energy = product * product * (edges[1] / 3)
    for start, stop in itertools.pairwise(edges[1:]):
        step = np.matmul(a[..., start:stop], b[..., start:stop, :])
        # The integral of (P + t step)**2 over t in [0, 1], times the length of the block.
        energy += (product * (product + step) + step * step / 3) * (stop - start)
        product += step
    return product, energy


def _matmul_drift(
    a: np.ndarray,
    b: np.ndarray,
    product: np.ndarray,
    energy: np.ndarray,
    squares: np.ndarray,
    variance: np.ndarray,
    model: RoundingModel,
) -> np.ndarray | None:
    k = a.shape[-1]
    equal = _equal_terms(a, -1)[..., :, None] * _equal_terms(b, -2)[..., None, :]
    drift = _with_repeated(None, variance, equal * (k - 1))
    factor = _sampled_excess(a, b, product, variance, model)
    if factor > 0:
        sampled = np.sqrt(variance) * factor
        drift = sampled if drift is None else np.maximum(drift, sampled)
    if model.precision.tensor_cores:
        truncation = _truncation_drift(k, energy, _aligned_squares(a, b, squares, model), model)
        drift = truncation if drift is None else drift + truncation
    return drift


def _equal_terms(x: np.ndarray, axis: int) -> np.ndarray:
    """Estimate the chance that two elements along `axis` are equal and not 0, from a fixed sample of pairs."""
    n = x.shape[axis]
    if n < _LANES:
        return np.zeros(np.delete(x.shape, axis))
    rng = np.random.Generator(np.random.PCG64(n))
    first = rng.integers(0, n, _SAMPLED_PAIRS)
    second = (first + rng.integers(1, n, _SAMPLED_PAIRS)) % n
    left, right = np.take(x, first, axis), np.take(x, second, axis)
    return ((np.abs(left) == np.abs(right)) & (left != 0)).mean(axis=axis)


def _sampled_excess(
    a: np.ndarray, b: np.ndarray, product: np.ndarray, variance: np.ndarray, model: RoundingModel
) -> float:
    """Return by how much sequential float32 sums of a few sampled elements exceed 4 standard deviations, over 4."""
    if product.size == 0 or model.precision.accumulate == "float64":
        return 0.0
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    side = max(1, min(4, math.isqrt(max(1, _SAMPLED_TERMS // max(k, 1)))))
    rows = np.unique(np.linspace(0, m - 1, side).astype(int))
    columns = np.unique(np.linspace(0, n - 1, side).astype(int))
    a2 = a[(0,) * (a.ndim - 2)][rows]
    b2 = b[(0,) * (b.ndim - 2)][:, columns]
    spot = (0,) * (product.ndim - 2)
    deviation = np.sqrt(variance[spot][np.ix_(rows, columns)])
    with np.errstate(all="ignore"):
        terms = (a2[:, None, :] * b2.T[None, :, :]).astype(np.float32)
        exact = terms.sum(axis=-1, dtype=np.float64)
        in_sequence = np.cumsum(terms, axis=-1, dtype=np.float32)[..., -1]
        interleaved = sum(np.cumsum(terms[..., i::4], axis=-1, dtype=np.float32)[..., -1] for i in range(min(4, k)))
        observed = np.maximum(np.abs(in_sequence - exact), np.abs(interleaved - exact))
        ratio = observed / deviation
    ratio = ratio[np.isfinite(ratio)]
    return float(max(ratio.max(initial=0.0) / 4 - 1, 0.0))


def _aligned_squares(a: np.ndarray, b: np.ndarray, squares: np.ndarray, model: RoundingModel) -> np.ndarray:
    """Return the sums of squares of the products as tensor cores align them.

    The unit does not normalise a subnormal float16: it aligns its product as if it were the smallest normal number.
    """
    fmt = model.precision.multiply_format
    if fmt.name != "float16" or not any(np.any((x != 0) & (np.abs(x) < fmt.smallest_normal)) for x in (a, b)):
        return squares
    left, right = (np.where(x != 0, np.maximum(np.abs(x), fmt.smallest_normal), 0.0) for x in (a, b))
    return np.matmul(left * left, right * right)


def _truncation_drift(k: int, energy: np.ndarray, squares: np.ndarray, model: RoundingModel) -> np.ndarray:
    """Return the drift of tensor cores, which truncate every aligned addend and round toward zero.

    A block of 8 products truncates 9 addends by up to 2**-24 of the largest and rounds by up to 2**-23 (Ampere; the
    later generations truncate less per product): on average 5.5 * 2**-24 of the partial sum, all of one sign. Over
    k / 8 blocks that is 0.7 k u rms(s_i), and LAMBDA drifts allow one and a half times it. Where large products cancel,
    the addends are aligned to these and not to the sum: the root of the sum of squares is at least the largest product.
    Products of float8 keep 13 fraction bits within a block of 128 that is then promoted. Model of arXiv 2511.10909.
    """
    root_mean_square = np.sqrt(np.maximum(energy / k, squares))
    if model.precision.multiply.startswith("float8"):
        chunks = max(k / 128, 1.0)
        return (0.13 * 2.0**-13 * min(k, 128)) * root_mean_square * (1 if chunks == 1 else 1.2)
    return (0.13 * k * 2.0**-24) * root_mean_square
