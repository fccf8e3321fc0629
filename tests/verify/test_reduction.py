"""The longest sum behind each output of a reference."""

from __future__ import annotations

import numpy as np
import pytest

from refkit.verify import Dim, In, Index, InOut, KernelSpec, Out
from refkit.verify.case import Case
from refkit.verify.inputs import draw_inputs
from refkit.verify.reduction import counting, reduction_lengths

X = np.ones((4, 6))
W = np.ones((6, 5))


def _terms(result):
    return getattr(result, "terms", 1)


@pytest.mark.parametrize(
    ("formula", "terms"),
    [
        (lambda x, w: x + 1, 1),
        (lambda x, w: x.sum(axis=1), 6),
        (lambda x, w: x.sum(), 24),
        (lambda x, w: x.mean(axis=0, keepdims=True), 4),
        (lambda x, w: x @ w, 6),
        (lambda x, w: np.matmul(x.T, x), 4),
        (lambda x, w: np.einsum("ij,jk->ik", x, w), 6),
        (lambda x, w: np.einsum("ij,jk->", x, w), 120),
        (lambda x, w: np.dot(x, w), 6),
        (lambda x, w: np.vdot(x, x), 24),
        (lambda x, w: np.tensordot(x, w, 1), 6),
        (lambda x, w: np.cumsum(x, axis=1), 6),
        (lambda x, w: np.add.reduceat(x, [0, 1], axis=1), 5),
        (lambda x, w: x / np.exp(x - x.max(axis=1, keepdims=True)).sum(axis=1, keepdims=True), 6),
        (lambda x, w: (x @ w).sum(axis=0), 6),
        (lambda x, w: x.max(axis=1), 1),
        (lambda x, w: np.where(x > 0, x, 0), 1),
        (lambda x, w: (x @ w).T[1:].reshape(-1), 6),
    ],
)
def test_terms_of_the_longest_sum(formula, terms):
    assert _terms(formula(counting(X.copy()), counting(W.copy()))) == terms


def test_what_is_written_into_an_array_counts():
    x, out = counting(X.copy()), np.zeros_like(counting(X.copy()))
    out[1] = x.sum(axis=0)
    assert out.terms == 4


def test_scattered_sums_count_the_fullest_cell():
    x = counting(np.ones(7))
    out = np.zeros_like(x, shape=3)
    np.add.at(out, np.array([0, 2, 2, 2, 2, 1, 0]), x)
    assert out.terms == 5


def test_values_stay_what_they_are():
    x, w = counting(X * 3), counting(W)
    np.testing.assert_array_equal(np.asarray(x @ w), X * 3 @ W)
    x += 1
    np.testing.assert_array_equal(np.asarray(x), X * 3 + 1)


R, C = Dim("R"), Dim("C")


def test_each_output_has_its_own_length():
    def both(x):
        return x.sum(axis=0), x.sum(axis=1)

    args = {"x": In(R, C), "a": Out(C), "b": Out(R)}

    def launch(x, a, b): ...

    spec = KernelSpec(launch=launch, reference=both, args=args, name="k")
    case = Case(dims={"R": 7, "C": 30}, config={}, values="normal", scalars={}, seed=0)
    assert reduction_lengths(spec, draw_inputs(spec, case)) == {"a": 7, "b": 30}


def test_a_reference_that_raises_gives_no_lengths_and_inputs_are_not_changed():
    def launch(x, i, y): ...

    def reference(x, i, y):
        x[...] = 0
        raise RuntimeError("no")

    args = {"x": In(R, C), "i": Index(R, below=C), "y": InOut(R)}
    spec = KernelSpec(launch=launch, reference=reference, args=args, name="k")
    inputs = draw_inputs(spec, Case(dims={"R": 4, "C": 3}, config={}, values="normal", scalars={}, seed=0))
    before = inputs.for_reference()["x"].copy()
    assert reduction_lengths(spec, inputs) == {}
    np.testing.assert_array_equal(inputs.for_reference()["x"], before)
