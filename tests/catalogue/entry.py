"""One entry of the catalogue, and the decorators that make it out of a kernel factory.

A factory is called with `fixed=False` for the faulty kernel and `fixed=True` for its twin, so that the two differ in
exactly what the factory's text says. The source carries the marks: `# fault` on the line that a sanitizer must name,
`# other` on the other side of a race, and where the fault has consequences that may be reported as well.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import cuda as numba_cuda

Results = tuple[np.ndarray, ...]
Factory = Callable[[bool], Any]
Extent = int | tuple[int, ...]


@dataclass(frozen=True)
class Unset:
    """An array argument that nothing has written: `cuda.device_array(shape, dtype)`."""

    shape: Extent
    dtype: Any = np.float32


@dataclass(frozen=True)
class Mark:
    """The marked lines of an entry's source file: `fault` is what is reported, `other` the other side of a race."""

    file: str
    fault: tuple[int, ...]
    other: tuple[int, ...]

    @property
    def all(self) -> frozenset[int]:
        return frozenset(self.fault + self.other)


@dataclass(frozen=True)
class Entry:
    """A fault in miniature and its correct twin, or a correct kernel alone.

    name: the kernel factory's name, unique in the catalogue.
    sanitizer, problem: what must be reported of the faulty kernel, in the words of `refkit.cpu`; empty without a fault;
        "result", "wrong" where it breaks no rule that a sanitizer knows, and computes something else.
    faulty: launches the faulty kernel on fresh arrays and returns its outputs; None without a fault.
    correct: launches the correct kernel; returns its outputs and the expected ones.
    lines: where the fault stands, from the marks in the source.
    note: one sentence that says what is wrong (or what the correct kernel does).
    cuda: safe on a GPU under NVIDIA's compute-sanitizer: the faulty kernel ends by itself there.
    """

    name: str
    sanitizer: str
    problem: str
    faulty: Callable[[], Results] | None
    correct: Callable[[], tuple[Results, Results]]
    lines: Mark
    note: str
    cuda: bool


@dataclass(frozen=True)
class _Launch:
    """Launch configuration and arguments, in the kernel's order: inputs, scratch, outputs."""

    grid: Extent
    block: Extent
    inputs: Sequence[Any]
    scratch: Sequence[Any]
    outputs: Sequence[Any]
    expected: Callable[..., Any]
    dynamic_shared_bytes: int

    def run(self, kernel: Any) -> Results:
        """Launches the kernel on fresh arrays; returns the outputs as host arrays."""
        arguments = [_device(value) for value in (*self.inputs, *self.scratch, *self.outputs)]
        kernel[self.grid, self.block, 0, self.dynamic_shared_bytes](*arguments)
        numba_cuda.synchronize()
        return tuple(array.copy_to_host() for array in arguments[len(arguments) - len(self.outputs) :])

    def wanted(self) -> Results:
        """The expected outputs, from the inputs alone."""
        result = self.expected(*self.inputs)
        return tuple(np.asarray(part) for part in (result if isinstance(result, tuple) else (result,)))


def _device(value: Any) -> Any:
    if isinstance(value, Unset):
        return numba_cuda.device_array(value.shape, value.dtype)
    return numba_cuda.to_device(value) if isinstance(value, np.ndarray) else value


def pair(
    sanitizer: str,
    problem: str,
    *,
    grid: Extent = 1,
    block: Extent,
    outputs: Sequence[Any],
    expected: Callable[..., Any],
    inputs: Sequence[Any] = (),
    scratch: Sequence[Any] = (),
    dynamic_shared_bytes: int = 0,
    cuda: bool = True,
) -> Callable[[Factory], Entry]:
    """Decorates a factory `(fixed: bool) -> kernel`; the result is the entry of its faulty and its correct kernel.

    The kernel takes inputs, scratch and outputs in this order (NumPy arrays, `Unset`, scalars); `expected(*inputs)`
    returns the outputs of a correct launch. Raises ValueError where the source carries no `# fault`.
    """
    launch = _Launch(grid, block, inputs, scratch, outputs, expected, dynamic_shared_bytes)

    def make(factory: Factory) -> Entry:
        kernel = functools.cache(factory)
        lines = _marks(factory)
        if not lines.fault:
            raise ValueError(f"{factory.__name__}: no line is marked `# fault`")
        return Entry(
            name=factory.__name__,
            sanitizer=sanitizer,
            problem=problem,
            faulty=lambda: launch.run(kernel(False)),
            correct=lambda: (launch.run(kernel(True)), launch.wanted()),
            lines=lines,
            note=_note(factory),
            cuda=cuda,
        )

    return make


def correct_kernel(
    *,
    grid: Extent = 1,
    block: Extent,
    outputs: Sequence[Any],
    expected: Callable[..., Any],
    inputs: Sequence[Any] = (),
    scratch: Sequence[Any] = (),
    dynamic_shared_bytes: int = 0,
    cuda: bool = True,
) -> Callable[[Callable[[], Any]], Entry]:
    """Decorates a factory `() -> kernel` of a correct kernel that has no faulty twin; parameters as for `pair`."""
    launch = _Launch(grid, block, inputs, scratch, outputs, expected, dynamic_shared_bytes)

    def make(factory: Callable[[], Any]) -> Entry:
        kernel = functools.cache(factory)
        return Entry(
            name=factory.__name__,
            sanitizer="",
            problem="",
            faulty=None,
            correct=lambda: (launch.run(kernel()), launch.wanted()),
            lines=_marks(factory),
            note=_note(factory),
            cuda=cuda,
        )

    return make


def _note(factory: Callable[..., Any]) -> str:
    return " ".join((inspect.getdoc(factory) or "").split())


def _marks(factory: Callable[..., Any]) -> Mark:
    """The lines of a factory's source that end in `# fault` and `# other`."""
    text, first = inspect.getsourcelines(factory)
    ends = [line.rstrip() for line in text]
    fault = tuple(first + i for i, line in enumerate(ends) if line.endswith("# fault"))
    other = tuple(first + i for i, line in enumerate(ends) if line.endswith("# other"))
    return Mark(inspect.getsourcefile(factory) or "", fault, other)
