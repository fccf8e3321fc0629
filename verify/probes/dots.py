"""Many small dot products by one `mma` or `wgmma`: each takes a row of A, a column of B and an element of C."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from refkit.cuda_kernels.layouts import LANES, MmaLayout, WgmmaLayout
from refkit.verify.backends import Backend
from refkit.verify.probes import kernels
from refkit.verify.probes.encoding import NUMPY_TYPES, gathered, pack, register_dtype, spread
from refkit.verify.probes.execution import execute
from refkit.verify.probes.numbers import ACCUMULATOR_MOST, DEEPEST, RANGES, Range, Term, split
from refkit.verify.probes.warpgroup import WarpgroupProducts, wgmma_products


@dataclass(frozen=True)
class Dot:
    """One experiment: the sum of products by their place along k, plus C. Products are Terms, or pairs of factors."""

    products: Mapping[int, Term | tuple[float, float]]
    c: float = 0.0


@dataclass(frozen=True)
class DotProducts:
    """Computes dot products on a backend, with one `mma` (floating-point or integer) or `wgmma` of known layout."""

    backend: Backend
    intrinsic: Any
    layout: MmaLayout | WgmmaLayout

    @property
    def ranges(self) -> tuple[Range, Range]:
        """The ranges of A's and B's elements."""
        return RANGES[self.layout.a_type], RANGES[self.layout.b_type]

    @property
    def largest(self) -> int:
        """The exponent of the largest term used."""
        a, b = self.ranges
        return min(a.most + b.most, ACCUMULATOR_MOST[self.layout.c_type])

    @property
    def smallest(self) -> int:
        """The exponent of the smallest term that products can be and D can show."""
        a, b = self.ranges
        return max(a.least + b.least, DEEPEST[self.layout.c_type])

    def bits(self, dots: Sequence[Dot]) -> np.ndarray:
        """D as encodings, one for each experiment."""
        m, n, depth = self.layout.shape
        side = min(m, n)
        warps = -(-len(dots) // side)
        a, b, c = np.zeros((warps, m, depth)), np.zeros((warps, depth, n)), np.zeros((warps, m, n))
        for number, dot in enumerate(dots):
            warp, i = divmod(number, side)
            c[warp, i, i] = dot.c
            for k, product in dot.products.items():
                a[warp, i, k], b[warp, k, i] = self._factors(product)
        return np.diagonal(self._products(a, b, c), axis1=1, axis2=2).reshape(-1)[: len(dots)]

    def _products(self, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
        """A B + C of matrices (experiments, rows, columns), as encodings."""
        layout = self.layout
        if isinstance(layout, WgmmaLayout):
            return wgmma_products(WarpgroupProducts(self.backend, self.intrinsic, layout), a, b, c)
        held = [
            pack(spread(matrix, fragment), kind)
            for matrix, fragment, kind in (
                (a, layout.a, layout.a_type),
                (b, layout.b, layout.b_type),
                (c, layout.c, layout.c_type),
            )
        ]
        kernel = kernels.multiply_kernel(self.intrinsic, (layout.a.registers, layout.b.registers, layout.c.registers))
        output = np.zeros((len(a), LANES, layout.c.registers), register_dtype(layout.c_type))
        d = execute(self.backend, kernel, tuple(held), output, kernels.WARPS)
        parts = np.ascontiguousarray(d)[..., None].view(f"u{layout.c.element_bits // 8}")
        return gathered(parts, layout.c)

    def values(self, dots: Sequence[Dot]) -> np.ndarray:
        """D as float64, one for each experiment."""
        encoded: np.ndarray = np.ascontiguousarray(self.bits(dots))
        return encoded.view(NUMPY_TYPES[self.layout.c_type]).astype(np.float64)

    def _factors(self, product: Term | tuple[float, float]) -> tuple[float, float]:
        if not isinstance(product, Term):
            return product
        of_a, of_b = split(product.exponent, *self.ranges)
        return float(np.ldexp(product.significand, of_a)), float(np.ldexp(1.0, of_b))
