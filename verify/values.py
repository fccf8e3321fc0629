"""Named distributions of values, `(rng, shape) -> float64 array`, from plain to adversarial.

A distribution knows nothing of the storage format: `fit` scales (by a power of two) and rounds what it gives.
`integers` is the integer-exact lane: its bound follows from how many terms a sum may have, see `integer_bound`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from refkit.numerics.formats import FORMATS, round_to

Distribution = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Mean 0, standard deviation 1."""
    return rng.standard_normal(shape)


def uniform(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """From 0 to 1, 1 not included, nor reached by rounding to a 16-bit format."""
    return rng.random(shape) * (1 - 2.0**-8)


def positive(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Log-uniform from 1/8 to 8."""
    return np.exp2(rng.uniform(-3, 3, shape))


def large_mean(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """A mean of ±30 to ±10,000 with standard deviation 1: what E[x²] - E[x]² loses its digits on."""
    return rng.choice((-1.0, 1.0)) * rng.choice((30.0, 1000.0, 10_000.0)) + rng.standard_normal(shape)


def wide(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Magnitudes spread evenly over 2^-20 to 2^10."""
    return rng.standard_normal(shape) * np.exp2(rng.uniform(-20, 10, shape))


def ties(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Few distinct values, so that the largest occurs many times."""
    return rng.choice(rng.standard_normal(3), shape)


def cancellation(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Neighbours along the last axis cancel but for one part in a thousand: rows that sum to nearly nothing."""
    x = rng.standard_normal(shape) * 100.0
    if x.ndim and x.shape[-1] > 1:
        pairs = x.shape[-1] // 2
        x[..., 1 : 2 * pairs : 2] = -x[..., 0 : 2 * pairs : 2] * (
            1 + 1e-3 * rng.standard_normal((*x.shape[:-1], pairs))
        )
    return x


def peaked(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """One element of each row stands 20 to 60 above the rest."""
    x = rng.standard_normal(shape)
    if x.ndim and x.size:
        where = rng.integers(x.shape[-1], size=(*x.shape[:-1], 1))
        np.put_along_axis(x, where, rng.uniform(20, 60, where.shape), axis=-1)
    return x


def constant_rows(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Every row holds one value: a variance of exactly 0."""
    if not shape:
        return np.asarray(rng.standard_normal())
    return np.broadcast_to(4 * rng.standard_normal((*shape[:-1], 1)), shape).copy()


def signed_zeros(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """+0 and -0, with a few ordinary values among them."""
    return np.where(rng.random(shape) < 0.8, rng.choice((0.0, -0.0), shape), rng.standard_normal(shape))


def subnormals(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Ordinary values among magnitudes that are subnormal in float32 and bfloat16, or in float16."""
    tiny = rng.standard_normal(shape) * np.exp2(rng.choice((-148.0, -135.0, -127.0, -22.0, -15.0), shape))
    return np.where(rng.random(shape) < 0.5, tiny, rng.standard_normal(shape))


def very_negative(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """A tail of -50 to -10,000 among ordinary values: what padding and masks look like."""
    return np.where(rng.random(shape) < 0.5, -np.exp2(rng.uniform(5.6, 13.3, shape)), rng.standard_normal(shape))


def integers(rng: np.random.Generator, shape: tuple[int, ...], bound: int = 8) -> np.ndarray:
    """Integers of magnitude up to `bound`, 0 among them."""
    return rng.integers(-bound, bound, shape, endpoint=True).astype(np.float64)


_COMPONENTS = (
    large_mean,
    wide,
    ties,
    cancellation,
    peaked,
    constant_rows,
    signed_zeros,
    subnormals,
    very_negative,
)


def mixture(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """One of the distributions above, `normal` in one of four draws; the seed decides which."""
    if rng.random() < 0.25:
        return normal(rng, shape)
    return _COMPONENTS[int(rng.integers(len(_COMPONENTS)))](rng, shape)


def nonfinite(rng: np.random.Generator, shape: tuple[int, ...], base: Distribution = normal) -> np.ndarray:
    """Values of `base` with one to three NaN or infinities, or (one draw in four) with none."""
    x = np.array(base(rng, shape))
    if x.size and rng.random() < 0.75:
        where = rng.integers(x.size, size=int(rng.integers(1, 4)))
        x.reshape(-1)[where] = rng.choice((np.nan, np.inf, -np.inf), where.shape)
    return x


DISTRIBUTIONS: Mapping[str, Distribution] = {
    "normal": normal,
    "mixture": mixture,
    "uniform": uniform,
    "positive": positive,
    "integers": integers,
    **{component.__name__: component for component in _COMPONENTS},
    "nonfinite": nonfinite,
    # Float arrays are ordinary where the indices are what is wrong.
    "out_of_range": normal,
}
"""Every name that `Case.values` may hold."""

SPEC_VALUES = tuple(name for name in DISTRIBUTIONS if name not in ("nonfinite", "out_of_range"))
"""The names that an argument of a spec may ask for."""

SCALARS: Mapping[str, tuple[float, ...]] = {
    "normal": (1.0, 0.0, -1.0, 0.5, -0.75, 2.0, 0.1, -3.3),
    "uniform": (0.5, 0.0, 0.1, 0.9, 0.25),
    "positive": (1.0, 2.0, 0.5, 0.1, 1e-3, 7.7),
    "integers": (1, 0, 2, -1, 3),
}
"""The numbers that a named `Scalar` is drawn from, the plainest first."""


def integer_bound(terms: int, *, significand: int = 24, storage_significand: int = 24, factor: float = 1.0) -> int:
    """The largest magnitude of the integer-exact lane: `factor` * `terms` * bound² is at most 2^`significand`.

    A sum of that many products of two such integers, whatever its order, is then exact in an accumulator of
    `significand` bits, and each integer in a storage format of `storage_significand` bits. From 1 to 8: larger
    integers find nothing more. An output stored in a narrower format than the accumulator is not exact; the exact sum
    is rounded once, to nearest even, and that is what the kernel must give as well.
    """
    exact = math.isqrt(max(1, int(2**significand / (max(1, terms) * factor))))
    return max(1, min(8, exact, 2**storage_significand))


def fit(x: np.ndarray, dtype: np.dtype, largest: float) -> np.ndarray:
    """`x` (float64) rounded to nearest in `dtype`, after a power of two has brought every finite |x| to `largest`."""
    finite = np.abs(x[np.isfinite(x)])
    peak = float(finite.max()) if finite.size else 0.0
    if peak > largest:
        x = x * 2.0 ** math.floor(math.log2(largest / peak))
    if dtype.itemsize < 4 and dtype.name in FORMATS:
        x = round_to(x, dtype.name)  # a cast by way of float32 would round twice
    with np.errstate(under="ignore"):
        return np.asarray(x).astype(dtype)
