"""How many terms the longest sum behind each output has, found by running the reference on arrays that count.

The report draws the error against this length. A `Counting` array is a NumPy array with one number more: the terms of
the longest sum that anything in it came from. Sums, products of matrices and `np.add.at` raise it; everything else
hands on the largest of its operands.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from refkit.verify.errors import USERS_FAULTS
from refkit.verify.inputs import Inputs
from refkit.verify.spec import KernelSpec


class Counting(np.ndarray):
    """A float64 array that carries `terms`, the length of the longest sum behind it."""

    terms: int = 1

    def __array_finalize__(self, source: Any) -> None:
        self.terms = getattr(source, "terms", 1)

    def __setitem__(self, index: Any, item: Any) -> None:
        self.terms = max(self.terms, getattr(item, "terms", 1))
        super().__setitem__(index, item)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        terms = max(getattr(each, "terms", 1) for each in inputs)
        plain = [_plain(each) for each in inputs]
        out = kwargs.get("out")
        if out is not None:
            kwargs["out"] = tuple(_plain(each) for each in out)
        result = getattr(ufunc, method)(*plain, **{key: _plain(value) for key, value in kwargs.items()})
        terms = max(terms, _summed(ufunc, method, plain, kwargs, result))
        if method == "at":
            inputs[0].terms = terms
            return None
        if out is not None:
            for each in out:
                each.terms = max(each.terms, terms)
            return out[0] if len(out) == 1 else out
        return tuple(counting(each, terms) for each in result) if isinstance(result, tuple) else counting(result, terms)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function not in _CONTRACTIONS:
            return super().__array_function__(function, types, args, kwargs)
        plain = [_plain(each) for each in args]
        result = function(*plain, **kwargs)
        before = max(getattr(each, "terms", 1) for each in args)
        return counting(result, max(before, _contracted(function, plain, np.asarray(result))))


_CONTRACTIONS = (np.einsum, np.dot, np.inner, np.vdot, np.tensordot)


def counting(x: Any, terms: int = 1) -> Any:
    """`x` as a `Counting` array behind which stands a sum of `terms`; what is no floating array as it is."""
    array = np.asarray(x)
    if array.dtype.kind != "f":
        return x
    view = array.view(Counting)
    view.terms = terms
    return view


def _plain(x: Any) -> Any:
    return x.view(np.ndarray) if isinstance(x, Counting) else x


def _summed(ufunc: np.ufunc, method: str, inputs: list[Any], kwargs: dict[str, Any], result: Any) -> int:
    """The terms of the longest sum that one ufunc call adds up itself."""
    if ufunc is np.matmul and method == "__call__":
        return int(np.shape(inputs[0])[-1])
    if ufunc is not np.add:
        return 1
    size = int(np.size(inputs[0]))
    if method == "reduce":
        return size // max(1, int(np.size(result)))
    if method == "accumulate":
        return int(np.shape(inputs[0])[kwargs.get("axis", 0)])
    if method == "reduceat":
        length = np.shape(inputs[0])[kwargs.get("axis", 0)]
        return int(np.diff(np.append(inputs[1], length)).max(initial=1))
    if method == "at":
        # The elements of one cell that are added to it, and what it held before.
        cells = np.zeros(np.shape(inputs[0]), np.int64)
        np.add.at(cells, inputs[1], 1)
        return int(cells.max(initial=0)) + 1
    return 1


def _contracted(function: Any, args: Any, result: np.ndarray) -> int:
    """The terms of each sum of a contraction."""
    operands = [each for each in args if isinstance(each, np.ndarray)]
    if function is np.einsum:
        inputs, _, output = str(args[0]).replace(" ", "").partition("->")
        sizes = {
            label: size
            for labels, each in zip(inputs.split(","), operands)
            for label, size in zip(labels.replace("...", "")[::-1], each.shape[::-1])
        }
        return math.prod(size for label, size in sizes.items() if label not in output)
    if function is np.vdot:
        return operands[0].size
    if function is np.tensordot:
        return math.isqrt(operands[0].size * operands[1].size // max(1, result.size))
    return operands[0].shape[-1] if operands[0].ndim else 1


def reduction_lengths(spec: KernelSpec, inputs: Inputs) -> dict[str, int]:
    """The longest sum behind each output of the reference, by name; empty where the reference does not run on such
    arrays."""
    arguments = {
        name: counting(value.copy()) if isinstance(value, np.ndarray) else value
        for name, value in inputs.for_reference().items()
    }
    try:
        with np.errstate(all="ignore"):
            result = spec.reference(**arguments)
    except USERS_FAULTS:
        return {}
    outputs = tuple(result) if isinstance(result, (tuple, list)) else (result,)
    return {name: int(getattr(value, "terms", 1)) for name, value in zip(spec.outputs, outputs)}
