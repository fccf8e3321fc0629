"""What the sanitizers cost: every shipped kernel with all of them and without, on one core, and the GEMM."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from refkit.verify.benchmarks import Row

if TYPE_CHECKING:
    from refkit.verify.spec import KernelSpec

TITLE = "kernels under all sanitizers against the same kernels without"
GEMM_SIZE = 512
REPEATS = 5


def missing() -> str | None:
    """The executor runs wherever refkit does."""
    return None


def rows(progress: Callable[[str], None]) -> Iterator[Row]:
    """The GEMM, the kernels of the library, and their median; ratios are speeds, so that 0.04 is 25 times slower."""
    progress(f"GEMM {GEMM_SIZE}x{GEMM_SIZE}x{GEMM_SIZE} on one core")
    yield _gemm()
    from refkit.verify.discovery import shipped

    ratios = []
    for name, spec in shipped().items():
        progress(name)
        row = _kernel(name, spec)
        ratios.append(row.ratio)
        yield row
    median = statistics.median(ratios)
    yield Row("median of the library", f"{len(ratios)} kernels", "the speed without", 0.0, median, median, "", "", 1.0)


def _launches(call: Callable[..., Any], watched: bool, prepare: Callable[[], Any] | None = None) -> float:
    """Median CPU seconds of a launch after the first, which compiles."""
    from refkit.cpu import SANITIZERS, emulate

    times = []
    with emulate(sanitize=SANITIZERS if watched else (), workers=1):
        arguments = prepare() if prepare else None
        for _ in range(REPEATS + 1):
            begin = time.process_time()
            call(*arguments) if arguments is not None else call()
            times.append(time.process_time() - begin)
    return statistics.median(times[1:])


def _gemm() -> Row:
    import numpy as np
    from numba import cuda

    from refkit.verify.benchmarks import gemm_shape

    a, b = gemm_shape.operands(GEMM_SIZE, GEMM_SIZE, GEMM_SIZE)

    def prepare() -> tuple[Any, ...]:
        return cuda.to_device(a), cuda.to_device(b), cuda.to_device(np.full((GEMM_SIZE, GEMM_SIZE), np.nan, np.float32))

    plain, watched = (_launches(gemm_shape.launch, flag, prepare) for flag in (False, True))
    shape = f"{GEMM_SIZE}x{GEMM_SIZE}x{GEMM_SIZE}"
    work = GEMM_SIZE**3 / 1e6
    name = "register_tiled_gemm"
    return Row(
        name, shape, "the speed without", watched * 1e6, plain / watched, work / watched, "MFMA/s", shape, work / plain
    )


def _kernel(name: str, spec: KernelSpec) -> Row:
    from refkit.verify.analysis.representative import representative_case
    from refkit.verify.backends.cpu import CpuBackend
    from refkit.verify.case_run import CaseRun

    case = representative_case(spec)
    seconds = []
    for sanitize in (False, True):
        backend = _Timed(CpuBackend(timeout=120.0, sanitize=sanitize))
        run = CaseRun(spec, case, backend)
        with backend.active():
            for _ in range(REPEATS + 1):
                run.trial()
        seconds.append(statistics.median(backend.seconds[1:]))
    shape = " ".join(f"{dim}={size}" for dim, size in case.dims.items())
    plain, watched = seconds
    return Row(
        name, shape, "the speed without", watched * 1e6, plain / watched, 1 / watched, "launches/s", shape, 1 / plain
    )


class _Timed:
    """A backend that notes the CPU seconds of each launch."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend
        self.seconds: list[float] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def launch(self, call: Callable[[], Any], *, schedule: int | None = None) -> None:
        begin = time.process_time()
        self._backend.launch(call, schedule=schedule)
        self.seconds.append(time.process_time() - begin)
