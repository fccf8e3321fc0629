"""One-hot experiments on `wgmma`: which element of A meets which of B, and where in D, by places alone.

A place of a matrix in shared memory is its byte over the bytes of an element, from the start of the memory; a place of
registers is numbered as in `one_hot`. What meets is found as for `mma`: one element of one operand is 1, and all of the
other operand's memory carries numbers, shown digit by digit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from refkit.cuda_kernels.layouts import Fragment, SharedMatrix, WgmmaLayout
from refkit.verify.backends import Backend
from refkit.verify.probes import warpgroup_kernels
from refkit.verify.probes.encoding import gathered, pack, spread
from refkit.verify.probes.execution import execute_blocks
from refkit.verify.probes.one_hot import UNKNOWN, Meetings, MmaFacts, numbered, read_numbers
from refkit.verify.probes.warpgroup_kernels import THREADS, memory_bytes, words_of

MOST_HOT = 512
"""Where an operand has more places, one is hot for each row and for each column, not every one."""


@dataclass(frozen=True)
class Held:
    """What each place of an operand holds, claimed or found: row and column; UNUSED or UNKNOWN where there is none."""

    rows: int
    columns: int
    row_of: np.ndarray
    column_of: np.ndarray

    @property
    def places(self) -> int:
        """How many places there are."""
        return self.row_of.size

    def place_of(self) -> np.ndarray:
        """The place of each element, (rows, columns); UNKNOWN for one that no place holds."""
        found = np.full((self.rows, self.columns), UNKNOWN)
        row, column = self.row_of.ravel(), self.column_of.ravel()
        used = np.flatnonzero((row >= 0) & (column >= 0))
        found[row[used], column[used]] = used
        return found


Claims = Mapping[str, Held]


def claims_of(layout: WgmmaLayout) -> dict[str, Held]:
    """What the layout data says of A, B and D, over all of the memory that experiments fill."""
    a_bytes, b_bytes = memory_bytes(layout.shape[1])
    return {"A": _claim(layout.a, a_bytes), "B": _claim(layout.b, b_bytes), "D": _claim(layout.c, 0)}


def _claim(operand: Fragment | SharedMatrix, size_bytes: int) -> Held:
    if isinstance(operand, Fragment):
        return Held(operand.rows, operand.columns, operand.row_of, operand.column_of)
    return Held(operand.rows, operand.columns, *operand.held(size_bytes))


@dataclass(frozen=True)
class WarpgroupProducts:
    """Runs one `wgmma` on a backend, an experiment for each block of 128 threads."""

    backend: Backend
    wgmma: Any
    layout: WgmmaLayout

    def multiply(self, a: np.ndarray, b: np.ndarray, c: np.ndarray, picks: np.ndarray) -> np.ndarray:
        """D, (experiments, 128, n / 2) float32, of images a and b (images, places) and c (images, 128, n / 2).

        picks (experiments, 5): image of A and its hot place or -1, the same of B, and image of C.
        """
        layout = self.layout
        n = layout.shape[1]
        if isinstance(layout.a, Fragment):
            kernel = warpgroup_kernels.register_a_kernel(self.wgmma, n, layout.kind)
            held_a = pack(a.reshape(-1, *layout.a.row_of.shape), layout.kind)
        else:
            kernel = warpgroup_kernels.shared_operands_kernel(self.wgmma, n, layout.kind)
            held_a = words_of(a, layout.kind)
        descriptors = np.array([max(0, layout.a_descriptor), layout.b_descriptor], np.uint64)
        inputs = held_a, words_of(b, layout.kind), c.astype(np.float32), picks.astype(np.int64), descriptors
        output = np.zeros((len(picks), THREADS, n // 2), np.float32)
        return execute_blocks(self.backend, kernel, inputs, output, (len(picks),), (THREADS,))


def wgmma_facts(products: WarpgroupProducts, claims: Claims) -> MmaFacts:
    """All one-hot experiments, in three launches. The claims only choose which places are hot, where not all are."""
    a, b, d = claims["A"], claims["B"], claims["D"]
    by_a = Meetings(*_crossed(products, claims, _hot_places(a), True))
    y, x, z = _crossed(products, claims, _hot_places(b), False)
    no_a, no_b = np.zeros((1, a.places)), np.zeros((1, b.places))
    number = 1.0 + np.arange(d.places)  # at most 16,384: exact
    picks = np.array([[0, UNKNOWN, 0, UNKNOWN, 0]])
    shown = products.multiply(no_a, no_b, number.reshape(1, *d.row_of.shape[:2]), picks).reshape(-1)
    (z_of_c,) = np.nonzero(np.isin(shown, number))
    return MmaFacts(by_a, Meetings(x, y, z), shown[z_of_c].astype(np.int64) - 1, z_of_c)


def _hot_places(held: Held) -> np.ndarray:
    """Places that are 1 in turn: all up to the last that holds an element, or, of many, enough to meet every place."""
    place_of = held.place_of()
    extent = int(place_of.max()) + 1
    if extent <= MOST_HOT:
        return np.arange(extent)
    i = np.arange(max(held.rows, held.columns))
    hot = np.unique(place_of[i % held.rows, i % held.columns])
    return hot[hot >= 0]


def _crossed(
    products: WarpgroupProducts, claims: Claims, hot: np.ndarray, hot_is_a: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Hot place, place of the other operand, and place of D, of each product that shows."""
    one, other = (claims[letter] for letter in ("AB" if hot_is_a else "BA"))
    numbers = numbered(other.places)
    passes = len(numbers)
    picks = np.zeros((passes * len(hot), 5), np.int64)
    mine, theirs = (slice(0, 2), slice(2, 4)) if hot_is_a else (slice(2, 4), slice(0, 2))
    picks[:, mine] = np.stack([np.zeros(len(picks)), np.tile(hot, passes)], axis=1)
    picks[:, theirs] = np.stack([np.repeat(np.arange(passes), len(hot)), np.full(len(picks), UNKNOWN)], axis=1)
    zeros = np.zeros((1, one.places))
    of_a, of_b = (zeros, numbers) if hot_is_a else (numbers, zeros)
    d = products.multiply(of_a, of_b, np.zeros((1, *claims["D"].row_of.shape[:2])), picks)
    d = d.reshape(passes, len(hot), -1)
    x, z = np.nonzero(np.any(d != 0, axis=0))
    return hot[x], read_numbers(d[:, x, z], other.places), z


def random_product(products: WarpgroupProducts, claims: Claims, seed: int = 0) -> tuple[np.ndarray, ...]:
    """A and B full of numbers 1 to 8, (places,), and D by place: what an explanation has to explain.

    Sums stay below 2,049, exact in whatever a tensor core keeps of them.
    """
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(1, 9, claims[letter].places).astype(np.float64) for letter in "AB")
    zeros = np.zeros((1, *claims["D"].row_of.shape[:2]))
    picks = np.array([[0, UNKNOWN, 0, UNKNOWN, 0]])
    return a, b, products.multiply(a[None], b[None], zeros, picks).reshape(-1)


def wgmma_products(products: WarpgroupProducts, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """A B + C of matrices (experiments, 64, k), (experiments, k, n) and (experiments, 64, n), as encodings of D."""
    claims = claims_of(products.layout)

    def filled(letter: str, matrices: np.ndarray) -> np.ndarray:
        image = np.zeros((len(matrices), claims[letter].places))
        image[:, claims[letter].place_of().ravel()] = matrices.reshape(len(matrices), -1)
        return image

    fragment = products.layout.c
    own = np.arange(len(a))
    none = np.full(len(a), UNKNOWN)
    picks = np.stack([own, none, own, none, own], axis=1)
    d = products.multiply(filled("A", a), filled("B", b), spread(c, fragment)[..., 0], picks)
    return gathered(d.view(np.uint32)[..., None], fragment)
