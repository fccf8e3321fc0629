"""How launches run on the CPU executor: the settings that `emulate` makes and a launch reads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

SANITIZERS = frozenset({"race", "memory", "uninitialized", "barrier"})
MOST_OPTIMISED = 3


@dataclass(frozen=True)
class Settings:
    """One way of running launches.

    sanitize: names of the sanitizers that watch, out of `SANITIZERS`.
    schedule: None runs threads in order and blocks on all cores; an integer seeds the order of warps, lanes and blocks.
    workers: operating-system threads that run blocks; None takes one per core.
    timeout: seconds that one launch may take; None takes the executor's own limit.
    always_raise: a `raise` or a failed `assert` in a kernel ends the launch with `KernelException`, also where the
        kernel was not compiled with `debug=True` (on a GPU such a thread just returns).
    sample: the most blocks that a launch runs; of a larger grid only a sample runs: the first, the last, those around
        every power of two of the block's and of the thread's number, and some between. None runs all of them.
    preempt: with a schedule, threads also give way before memory accesses, at random, once in so many; 0 never.
    optimise: how hard LLVM works on a kernel, 1 to 3: 1 compiles in half the time, 3 runs up to a few times faster.
        Below 3 a kernel that is compiled for arrays of any strides serves contiguous ones, too.
    tracer: what `refkit.cpu.trace` collects launches in; None where nothing is traced.
    """

    sanitize: frozenset[str] = frozenset()
    schedule: int | None = None
    workers: int | None = None
    timeout: float | None = None
    always_raise: bool = True
    sample: int | None = None
    preempt: int = 0
    optimise: int = MOST_OPTIMISED
    tracer: Any = None

    @property
    def watches(self) -> bool:
        """Whether kernels run instrumented: for the sanitizers, or to give way at memory accesses."""
        return bool(self.sanitize) or self.preempt > 0

    @classmethod
    def checked(
        cls,
        sanitize: Iterable[str] = (),
        schedule: int | None = None,
        workers: int | None = None,
        timeout: float | None = None,
        always_raise: bool = True,
        sample: int | None = None,
        preempt: int = 0,
        optimise: int = MOST_OPTIMISED,
    ) -> Settings:
        """The settings, each value checked; raises TypeError or ValueError that names the value."""
        if isinstance(sanitize, str):
            raise TypeError(f"sanitize={sanitize!r}: expected a collection of names, such as ({sanitize!r},)")
        names = frozenset(sanitize)
        if unknown := sorted(map(str, names - SANITIZERS)):
            raise ValueError(f"sanitize: no sanitizer {', '.join(unknown)}; there are {', '.join(sorted(SANITIZERS))}")
        if schedule is not None and (isinstance(schedule, bool) or not isinstance(schedule, int) or schedule < 0):
            raise ValueError(f"schedule={schedule!r}: expected None or an integer from 0")
        if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
            raise ValueError(f"workers={workers!r}: expected None or an integer from 1")
        if timeout is not None and not timeout > 0:
            raise ValueError(f"timeout={timeout!r}: expected None or seconds above 0")
        if sample is not None and (isinstance(sample, bool) or not isinstance(sample, int) or sample < 1):
            raise ValueError(f"sample={sample!r}: expected None or a number of blocks from 1")
        if isinstance(preempt, bool) or not isinstance(preempt, int) or preempt < 0:
            raise ValueError(f"preempt={preempt!r}: expected a number of memory accesses, or 0 for never")
        if preempt and schedule is None:
            raise ValueError(f"preempt={preempt}: needs a schedule, whose seed decides where threads give way")
        if isinstance(optimise, bool) or optimise not in range(1, MOST_OPTIMISED + 1):
            raise ValueError(f"optimise={optimise!r}: expected 1 to {MOST_OPTIMISED}")
        return cls(names, schedule, workers, timeout, bool(always_raise), sample, preempt, optimise)
