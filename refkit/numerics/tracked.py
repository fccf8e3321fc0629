"""`Tracked`: a NumPy-like array that carries, beside each float64 value, the rounding error a kernel may have made.

`value` is the exact result. The error has three parts. `independent` is the variance of errors that are independent
from element to element, and add in quadrature. `shared` holds errors that elements have in common since an operand was
broadcast (see `sharing`); `variance` is that of both together. `drift` is the size of errors that may all point one
way (second-order terms, systematic rounding), which add linearly. None means zero everywhere, so that exact inputs cost
nothing. `deviation`, sqrt(variance) + drift, is the absolute standard deviation from which the bound is made.

The rules are in `ufuncs` (elementwise functions and their methods) and `functions` (everything else in NumPy's
interface). What cannot be followed raises `CannotTrack`, never a silent conversion.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from refkit.numerics import sharing
from refkit.numerics.rounding import LAMBDA, RoundingModel


class CannotTrack(TypeError):
    """The reference does something whose rounding error the model cannot follow."""


class Tracked(np.lib.mixins.NDArrayOperatorsMixin):
    """A float64 array with the rounding error made so far (module docstring)."""

    __array_priority__ = 1000
    __slots__ = ("_is_view", "_token", "_variance", "drift", "independent", "model", "shared", "value")
    dtype = np.dtype(np.float64)

    def __init__(
        self,
        value: Any,
        model: RoundingModel,
        variance: np.ndarray | None = None,
        drift: np.ndarray | None = None,
        is_view: bool = False,
        shared: dict[sharing.Key, sharing.Shared] | None = None,
    ) -> None:
        self.value = np.asarray(value, np.float64)
        self.model = model
        self.independent = None if variance is None else np.asarray(variance)
        self.shared = shared or {}
        self.drift = None if drift is None else np.asarray(drift)
        self._is_view = is_view
        self._token: object = None
        self._variance: np.ndarray | None = None

    # What it is

    @property
    def token(self) -> object:
        """What names the error of this array where others share it."""
        if self._token is None:
            self._token = object()
        return self._token

    @property
    def variance(self) -> np.ndarray | None:
        """Variance of the error of each element, shared errors included; None where there is none."""
        if not self.shared:
            return self.independent
        if self._variance is None:
            total = np.zeros(self.shape) if self.independent is None else self.independent.copy()
            for part in self.shared.values():
                total += part.deviation**2
            self._variance = total
        return self._variance

    @property
    def deviation(self) -> np.ndarray:
        """Absolute standard deviation of the rounding error, the shape of `value`."""
        total = np.zeros(self.shape) if self.variance is None else np.sqrt(self.variance)
        return total if self.drift is None else total + self.drift

    @property
    def exact(self) -> bool:
        """Whether no rounding error has been made."""
        return self.independent is None and self.drift is None and not self.shared

    shape = property(lambda self: self.value.shape)
    ndim = property(lambda self: self.value.ndim)
    size = property(lambda self: self.value.size)
    nbytes = property(lambda self: self.value.nbytes)
    itemsize = property(lambda self: 8)

    def __len__(self) -> int:
        return len(self.value)

    def __repr__(self) -> str:
        return f"Tracked({self.value!r}, deviation={self.deviation!r})"

    def __bool__(self) -> bool:
        return bool(self.value)

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
        raise CannotTrack("a tracked array cannot be converted to a plain one: its rounding error would be lost")

    def _scalar(self) -> Any:
        raise CannotTrack("a tracked array cannot become a Python number: its rounding error would be lost")

    __float__ = __int__ = __index__ = __complex__ = item = tolist = tobytes = _scalar

    # Moving elements

    def rearranged(self, move: sharing.Move, repeats: bool = False) -> Tracked:
        """Return the array with `move`, a function that only moves or copies elements, applied to every part.

        repeats: whether `move` may put one element in several places, where its error is then shared.
        """
        value = move(self.value)
        variance = None if self.independent is None else move(self.independent)
        drift = None if self.drift is None else move(self.drift)
        shared = dict(sharing.moved(part, key, self.shape, move) for key, part in self.shared.items())
        if (
            repeats
            and self.independent is not None
            and (copies := sharing.repeated(self.token, self.independent, move))
        ):
            variance, shared = None, {**shared, copies[0]: copies[1]}
        return Tracked(value, self.model, variance, drift, np.may_share_memory(value, self.value), shared)

    def __getitem__(self, index: Any) -> Tracked:
        index = plain_index(index)
        return self.rearranged(lambda part: np.asarray(part[index]), repeats=not _is_basic(index))

    def __setitem__(self, index: Any, item: Any) -> None:
        index = plain_index(index)
        source = item if isinstance(item, Tracked) else as_tracked(item, self.model)
        self.independent, self.shared, self._variance = self.variance, {}, None
        for name, incoming in (("independent", source.variance), ("drift", source.drift)):
            part = getattr(self, name)
            if part is None and incoming is not None:
                if self._is_view:
                    raise CannotTrack("assignment through a view of an array that had no error so far")
                part = np.zeros(self.shape)
                setattr(self, name, part)
            if part is not None:
                part[index] = 0.0 if incoming is None else incoming
        self.value[index] = source.value

    def __iter__(self) -> Iterator[Tracked]:
        if self.ndim == 0:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(len(self)))

    T = property(lambda self: self.transpose())
    mT = property(lambda self: self.swapaxes(-1, -2))
    real = property(lambda self: self)

    def reshape(self, *shape: Any, order: Any = "C") -> Tracked:
        target = shape[0] if len(shape) == 1 else shape
        return self.rearranged(lambda part: np.reshape(part, target, order=order))

    def transpose(self, *axes: Any) -> Tracked:
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], (int, np.integer)) else (axes or None)
        return self.rearranged(lambda part: np.transpose(part, order))

    def swapaxes(self, axis1: int, axis2: int) -> Tracked:
        order = list(range(self.ndim))
        order[axis1], order[axis2] = order[axis2], order[axis1]
        return self.transpose(order)

    def squeeze(self, axis: Any = None) -> Tracked:
        return self.rearranged(lambda part: np.squeeze(part, axis))

    def ravel(self, order: Any = "C") -> Tracked:
        return self.rearranged(lambda part: np.ravel(part, order))

    def flatten(self, order: Any = "C") -> Tracked:
        return self.rearranged(lambda part: part.flatten(order))

    def copy(self, order: Any = "C") -> Tracked:
        return self.rearranged(lambda part: part.copy(order))

    __copy__ = copy

    def __deepcopy__(self, memo: Any) -> Tracked:
        return self.copy()

    def fill(self, item: Any) -> None:
        self[...] = item

    def astype(self, dtype: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the array rounded to a format (with that rounding's error), or plain integers or booleans."""
        from refkit.numerics.functions import astype

        return astype(self, dtype)

    # NumPy's protocols

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        from refkit.numerics.ufuncs import apply_ufunc

        return apply_ufunc(ufunc, method, inputs, kwargs, self.model)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        from refkit.numerics.functions import FUNCTIONS

        rule = FUNCTIONS.get(function)
        if rule is None:
            raise CannotTrack(f"np.{function.__name__} has no rule in the error model")
        return rule(*args, **kwargs)


def _method(name: str) -> Any:
    def call(self: Tracked, *args: Any, **kwargs: Any) -> Any:
        return getattr(np, name)(self, *args, **kwargs)

    call.__name__ = name
    call.__doc__ = f"As numpy.{name}."
    return call


_METHODS = (
    "all", "any", "argmax", "argmin", "argsort", "clip", "cumprod", "cumsum", "diagonal", "dot", "max", "mean", "min",
    "nonzero", "prod", "repeat", "round", "std", "sum", "take", "trace", "var",
)  # fmt: skip
for _name in _METHODS:
    setattr(Tracked, _name, _method(_name))


def plain_index(index: Any) -> Any:
    """Return `index` if it holds no tracked array (indices are integers or booleans); raise CannotTrack otherwise."""
    parts = index if isinstance(index, tuple) else (index,)
    if any(isinstance(part, Tracked) for part in parts):
        raise CannotTrack("a tracked array was used as an index")
    return index


def _is_basic(index: Any) -> bool:
    """Whether an index takes each element at most once: integers, slices, new axes."""
    parts = index if isinstance(index, tuple) else (index,)
    return all(part is None or part is Ellipsis or isinstance(part, (slice, int, np.integer)) for part in parts)


def as_tracked(x: Any, model: RoundingModel) -> Tracked:
    """Return `x` as a tracked array; constants that the accumulation format cannot hold have one rounding's error."""
    if isinstance(x, Tracked):
        return x
    doubt = getattr(x, "doubt", None)
    plain = np.asarray(x)
    if doubt is not None:
        # LAMBDA deviations of an undecided mask are the whole step from 0 to 1.
        return Tracked(plain, model, doubt / LAMBDA**2)
    if plain.dtype.kind in "cOUSMm":
        raise CannotTrack(f"an operand of dtype {plain.dtype} cannot be followed")
    value = plain.astype(np.float64)
    if plain.dtype.kind in "biu" or model.representable(value):
        return Tracked(value, model)
    return Tracked(value, model, np.where(np.isfinite(value), model.rounding(value), 0.0))
