"""One rendered program run on a backend: `cpu`, the executor, or `cuda`, the GPU."""

from __future__ import annotations

import contextlib
import hashlib
import linecache
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arguments import draw_arguments, gather
from .render import render
from .tree import Program

BACKENDS = ("cpu", "cuda")


@dataclass(frozen=True)
class Rendered:
    """What it takes to run a program without its tree: source, launch configuration and the seed of its inputs."""

    source: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared_bytes: int
    outputs: int
    seed: int

    @classmethod
    def of(cls, program: Program) -> Rendered:
        """The program as source."""
        dynamic = sum(
            int(np.prod(array.shape)) * array.kind.dtype.itemsize
            for array in program.arrays
            if array.space == "dynamic"
        )
        return cls(render(program), program.grid, program.block, dynamic, len(program.outputs), program.seed)

    @property
    def threads(self) -> int:
        """Threads of the whole grid."""
        return int(np.prod(self.grid)) * int(np.prod(self.block))


def build(source: str) -> Any:
    """The `kernel` that `source` defines; its lines are found by tracebacks and by the executor's reports."""
    filename = f"<fuzzed kernel {hashlib.sha256(source.encode()).hexdigest()[:12]}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    namespace: dict[str, Any] = {"__name__": "fuzzed_kernel"}
    exec(compile(source, filename, "exec"), namespace)
    return namespace["kernel"]


def run(
    program: Rendered,
    backend: str = "cpu",
    *,
    schedule: int | None = None,
    sanitize: Iterable[str] = (),
    kernel: Any = None,
) -> np.ndarray:
    """Everything that the program writes, as a vector of int64; see `arguments.gather`.

    schedule, sanitize: as in `refkit.cpu.emulate`, on the `cpu` backend only. kernel: what `build` returned earlier, so
    that a second run compiles nothing. Raises what the launch raises.
    """
    if backend not in BACKENDS:
        raise ValueError(f"backend {backend!r}: expected one of {', '.join(BACKENDS)}")
    with _where(backend, schedule, tuple(sanitize)):
        from numba import cuda

        kernel = build(program.source) if kernel is None else kernel
        arrays = draw_arguments(program.seed, program.threads, program.outputs)
        device = {name: cuda.to_device(array) for name, array in arrays.items()}
        kernel[program.grid, program.block, 0, program.shared_bytes](*device.values())
        cuda.synchronize()
        return gather({name: array.copy_to_host() for name, array in device.items()})


def _where(backend: str, schedule: int | None, sanitize: tuple[str, ...]) -> contextlib.AbstractContextManager[Any]:
    if backend == "cuda":
        return contextlib.nullcontext()
    import refkit.cpu

    return refkit.cpu.emulate(sanitize=sanitize, schedule=schedule)
