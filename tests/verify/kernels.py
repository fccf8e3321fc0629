"""`scale_rows` (y = x * s by rows) and what can be wrong with it, as NumPy launchers and their specs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from refkit.verify import Dim, In, InOut, KernelSpec, Out, Precision
from tests.verify.numpy_backend import NumpyBackend, beyond

R, C = Dim("R", max=40), Dim("C", max=40)


def reference(x, s):
    return x * s[:, None]


def spec_of(launch: Callable[..., Any], **more: Any) -> KernelSpec:
    """A spec of `scale_rows` with this launcher."""
    return KernelSpec(
        **{
            "launch": launch,
            "reference": reference,
            "args": {"x": In(R, C), "s": In(R), "y": Out(R, C)},
            "name": launch.__name__,
            **more,
        }
    )


def right(x, s, y):
    y[...] = x * s[:, None]


def stops_one_column_early(x, s, y):
    y[:, :-1] = (x * s[:, None])[:, :-1]


def writes_past_the_end(x, s, y):
    y[...] = x * s[:, None]
    beyond(y)[-1] = 7


def adds_past_the_end(x, s, y):
    y[...] = x * s[:, None]
    beyond(y)[-1] += 7


def reads_the_next_row(x, s, y):
    y[...] = x * np.append(s, np.float32(np.nan))[1:, None]


def ignores_the_last_row(x, s, y):
    y[:-1] = (x * s[:, None])[:-1]


def writes_into_x(x, s, y):
    y[...] = x * s[:, None]
    x[0, 0] = 5


def adds_instead_of_assigns(x, s, y):
    y += x * s[:, None]


def depends_on_the_order(x, s, y):
    y[...] = x * s[:, None]
    if NumpyBackend.order % 2:
        y[-1, -1] = x[0, 0]


def ignores_strides(x, s, y):
    y[...] = np.lib.stride_tricks.as_strided(x, x.shape, (x.shape[1] * 4, 4)) * s[:, None]


def loses_a_little(x, s, y):
    y[...] = x * s[:, None] * np.float32(1 + 2e-6)


def computes_in_half(x, s, y):
    y[...] = (x * s[:, None]).astype(np.float16)


def fails_from_seven_columns(x, s, y):
    if x.shape[1] >= 7:
        raise ValueError("seven")
    right(x, s, y)


class KeepsState:
    """A launcher whose second call differs."""

    __name__ = "keeps_state"

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, x, s, y):
        y[...] = x * s[:, None] * np.float32(1 + 1e-7 * (self.calls % 2))
        self.calls += 1


def column_sums(x, total):
    total += x.sum(axis=0, dtype=np.float64).astype(np.float32)


def column_sums_overwriting(x, total):
    total[...] = x.sum(axis=0, dtype=np.float64).astype(np.float32)


def sums_of(launch: Callable[..., Any], **more: Any) -> KernelSpec:
    """A spec of `total += x.sum(axis=0)` with this launcher."""
    return KernelSpec(
        launch=launch,
        reference=lambda x, total: total + x.sum(axis=0),
        args={"x": In(R, C), "total": InOut(C)},
        name=launch.__name__,
        precision=Precision(),
        **more,
    )
