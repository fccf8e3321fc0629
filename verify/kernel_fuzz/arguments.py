"""The arguments of every fuzzed kernel: inputs drawn from a seed, arrays that threads own, sums, and the output."""

from __future__ import annotations

import numpy as np

from .tree import FLOAT_LIMIT, Array, Kind

INPUTS = (
    Array("x64", Kind.INT64, (32,), "input"),
    Array("x32", Kind.INT32, (8, 5), "input"),
    Array("xu32", Kind.UINT32, (16,), "input"),
    Array("xf32", Kind.FLOAT32, (16,), "input"),
)

ROW = 4
"""Elements of a thread's row."""
ROWS = (Array("rows64", Kind.INT64, (ROW,), "rows"), Array("rowsu32", Kind.UINT32, (ROW,), "rows"))
OWN = (
    Array("own32", Kind.INT32, (1,), "own"),
    Array("own64", Kind.INT64, (1,), "own"),
    Array("ownu32", Kind.UINT32, (1,), "own"),
)
SUMS = (
    Array("sums32", Kind.INT32, (4,), "sums"),
    Array("sums64", Kind.INT64, (4,), "sums"),
    Array("sumsu32", Kind.UINT32, (4,), "sums"),
)
TICKETS = Array("tickets", Kind.INT32, (4,), "sums")
TICKET_TOTALS = Array("ticket_totals", Kind.INT64, (4,), "sums")

PARAMETERS = (*INPUTS, *ROWS, *OWN, *SUMS, TICKETS, TICKET_TOTALS)
"""All but the output, in the order of the kernel's parameters."""

OUTPUT = "out"
UNTOUCHED = -7_777_777_777
"""What the output holds before the launch."""


def draw_arguments(seed: int, threads: int, outputs: int) -> dict[str, np.ndarray]:
    """The arrays that a launch receives, by parameter, `out` last; a pure function of its arguments.

    threads: threads of the whole grid; outputs: values that each of them writes.
    """
    rng = np.random.default_rng(seed)
    arrays = {array.name: _initial(array, threads, rng) for array in PARAMETERS}
    arrays[OUTPUT] = np.full((threads, outputs), UNTOUCHED, np.int64)
    return arrays


def gather(arrays: dict[str, np.ndarray]) -> np.ndarray:
    """All that a launch has written, as one vector of int64: the output, what the threads own, and the sums."""
    written = [arrays[OUTPUT], *(arrays[array.name] for array in PARAMETERS if array.space != "input")]
    return np.concatenate([array.astype(np.int64).ravel() for array in written])


def locate(position: int, threads: int, outputs: int) -> str:
    """What stands at a position of `gather`: array and index, and the thread where there is one."""
    sizes: list[tuple[str, tuple[int, ...]]] = [(OUTPUT, (threads, outputs))]
    sizes += [(array.name, _shape(array, threads)) for array in PARAMETERS if array.space != "input"]
    for name, shape in sizes:
        size = int(np.prod(shape))
        if position < size:
            index = tuple(int(i) for i in np.unravel_index(position, shape))
            owner = "" if name.startswith(("sums", "ticket")) else f" (thread {index[0]} of the grid)"
            return f"{name}[{', '.join(map(str, index))}]{owner}"
        position -= size
    raise IndexError(f"position {position} lies beyond what a launch writes")


def _shape(array: Array, threads: int) -> tuple[int, ...]:
    if array.space == "rows":
        return (threads, *array.shape)
    return (threads,) if array.space == "own" else array.shape


def _initial(array: Array, threads: int, rng: np.random.Generator) -> np.ndarray:
    shape = _shape(array, threads)
    if array.space != "input":
        return np.zeros(shape, array.kind.dtype)
    if array.kind is Kind.FLOAT32:
        return rng.integers(-FLOAT_LIMIT // 8, FLOAT_LIMIT // 8, shape).astype(np.float32)
    limits = np.iinfo(array.kind.dtype)
    small = rng.integers(max(-9, limits.min), 10, shape, dtype=array.kind.dtype)
    wide = rng.integers(limits.min, limits.max, shape, dtype=array.kind.dtype, endpoint=True)
    extreme = rng.choice(np.array([limits.min, limits.max, 0, 1], array.kind.dtype), shape)
    return np.choose(rng.integers(0, 5, shape), [small, small, wide, wide, extreme]).astype(array.kind.dtype)
