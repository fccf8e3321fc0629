"""How a tensor core adds up, measured: what is summed at once and in which order, what is cut off, how D is rounded.

All experiments are dot products of a few terms: X and -X cancel exactly, and what is left shows what happened to a
small third term s. If s was aligned to X, only its bits within F fraction bits of X's exponent are left; if it came
later, all are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from refkit.verify.probes.dots import Dot, DotProducts
from refkit.verify.probes.numbers import Term

Blocks = tuple[tuple[int, ...], ...]


def blocks(dots: DotProducts) -> Blocks:
    """The places along k that are summed at once, in the order in which the sums are made.

    A small term survives the cancelling of X and -X only if it is added after both. Once -X is C, and X each product in
    turn; once they are neighbouring products, which serves where C is added last.
    """
    k = dots.layout.shape[2]
    x, s = Term(dots.largest), Term(dots.smallest)
    minus = Term(x.exponent, -1.0)
    through_c = [(i, at) for i in range(k) for at in range(k) if i != at]
    pairs = [(i, at) for i in range(0, k - 1, 2) for at in range(k) if at not in (i, i + 1)]
    experiments = [Dot({i: x, at: s}, -x.value) for i, at in through_c]
    experiments += [Dot({i: x, i + 1: minus, at: s}) for i, at in pairs]
    survived = dots.values(experiments) == s.value
    rank = np.zeros((k, 2), np.int64)
    for kind, listed in enumerate((through_c, pairs)):
        start = kind * len(through_c)
        for (_, at), kept in zip(listed, survived[start : start + len(listed)]):
            rank[at, kind] += kept
    keys = sorted({tuple(row) for row in rank.tolist()})
    return tuple(tuple(at for at in range(k) if tuple(rank[at].tolist()) == key) for key in keys)


def addend_joins(dots: DotProducts, first: Sequence[int]) -> bool:
    """Whether C is aligned with the first block's products; otherwise it is added to their sum."""
    x = Term(dots.largest)
    if len(first) < 2:
        return True
    (shown,) = dots.values([Dot({first[0]: x, first[1]: Term(x.exponent, -1.0)}, Term(dots.smallest).value)])
    return bool(shown == 0)


def fraction_bits(dots: DotProducts, block: Sequence[int]) -> int | None:
    """F: how far below the largest term's exponent a term still counts within a block; None where all of it counts.

    None, too, where a block has fewer than three terms, so that there is nothing to see.
    """
    if len(block) < 3:
        return None
    x = dots.largest
    depths = range(1, x - dots.smallest + 1)
    shown = dots.values([_cancelled(block, x, Term(x - depth)) for depth in depths])
    kept = [depth for depth, value in zip(depths, shown) if value != 0]
    return None if len(kept) == len(depths) else max(kept, default=0)


def _cancelled(block: Sequence[int], x: int, s: Term) -> Dot:
    return Dot({block[0]: Term(x), block[1]: Term(x, -1.0), block[2]: s})


def cutting(dots: DotProducts, block: Sequence[int], bits: int) -> str:
    """How an aligned term is cut to F fraction bits, seen on 1.5 and -1.5 times the last of them."""
    x = dots.largest
    unit = np.ldexp(1.0, x - bits)
    above, below = dots.values([_cancelled(block, x, Term(x - bits, sign * 1.5)) for sign in (1.0, -1.0)]) / unit
    names = {(1, -1): "towards zero", (1, -2): "down", (2, -1): "up", (2, -2): "to nearest"}
    return names.get((above, below), f"irregular ({above:g}, {below:g})")


def result_bits(dots: DotProducts, block: Sequence[int]) -> int:
    """Fraction bits of the sum of a block: the furthest that a second term may lie below the first and still show."""
    x = dots.largest
    depths = range(1, x - dots.smallest + 1)
    shown = dots.values([_sum(block, Term(x), Term(x - depth)) for depth in depths])
    return max((depth for depth, value in zip(depths, shown) if value != Term(x).value), default=0)


def _sum(block: Sequence[int], first: Term, second: Term, *, of_addend: bool = False) -> Dot:
    """first + second: two products of a block, or C and a product where the block has but one."""
    if of_addend or len(block) < 2:
        return Dot({block[0]: second}, first.value)
    return Dot({block[0]: first, block[1]: second})


_QUARTERS = (Term(-2), Term(-1), Term(-1, 1.5))  # a quarter, a half and three quarters of the last place


def rounding(dots: DotProducts, block: Sequence[int], bits: int, *, of_addend: bool = False) -> str:
    """How the sum of a block is rounded to `bits` fraction bits; with `of_addend`, the sum of C and one product.

    Seen on a quarter, a half and three quarters of the last place above a power of two, on a half above its successor,
    and on the negatives of all four.
    """
    x = dots.largest
    last = x - bits
    experiments, bases = [], []
    for sign in (1.0, -1.0):
        for part in _QUARTERS:
            term = Term(last + part.exponent, sign * part.significand)
            experiments.append(_sum(block, Term(x, sign), term, of_addend=of_addend))
        experiments.append(_half_above_successor(block, x, last, sign, of_addend))
        bases += [sign] * 4
    steps = (dots.values(experiments) - np.ldexp(np.array(bases), x)) / np.ldexp(1.0, last)
    return _ROUNDINGS.get(tuple(steps.tolist()), f"irregular ({', '.join(f'{step:g}' for step in steps)})")


def _half_above_successor(block: Sequence[int], x: int, last: int, sign: float, of_addend: bool) -> Dot:
    half = Term(last - 1, sign)
    if of_addend or len(block) < 3:
        return Dot({block[0]: half}, Term(x, sign).value + Term(last, sign).value)
    return Dot({block[0]: Term(x, sign), block[1]: half, block[2]: Term(last, sign)})


_ROUNDINGS = {
    (0, 0, 0, 1, 0, 0, 0, -1): "towards zero",
    (0, 0, 1, 2, 0, 0, -1, -2): "to nearest, ties to even",
    (0, 1, 1, 2, 0, -1, -1, -2): "to nearest, ties away from zero",
    (0, 0, 0, 1, -1, -1, -1, -2): "down",
    (1, 1, 1, 2, 0, 0, 0, -1): "up",
}
