"""Speed of the CPU executor: the register-tiled GEMM against Numba's simulator and, where installed, PoCL."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

from refkit.verify.benchmarks import Row

TITLE = "the CPU executor against Numba's simulator and PoCL"
SIZE = 1024
SIMULATOR_SHAPE = (128, 128, 32)  # what the simulator does in seconds
REPEATS = 7


def missing() -> str | None:
    """The executor runs wherever refkit does."""
    return None


def rows(progress: Callable[[str], None]) -> Iterator[Row]:
    """One row per peer, each beside the executor's own time of this call."""
    progress(f"executor: GEMM {SIZE}x{SIZE}x{SIZE} on {os.cpu_count()} cores")
    median, notes = executor_seconds(SIZE)
    rate = SIZE**3 / median / 1e6
    progress("Numba's simulator: GEMM {}x{}x{}".format(*SIMULATOR_SHAPE))
    yield _row(median, rate, "Numba's simulator", _simulator_rate(), "x".join(map(str, SIMULATOR_SHAPE)), notes)
    from refkit.verify.benchmarks import pocl

    if pocl.missing() is None:
        progress(f"PoCL: GEMM {SIZE}x{SIZE}x{SIZE}")
        yield _row(median, rate, "PoCL", SIZE**3 / pocl.seconds(SIZE, REPEATS) / 1e6, f"{SIZE}x{SIZE}x{SIZE}", notes)


def executor_seconds(size: int) -> tuple[float, dict[str, float]]:
    """Median seconds of a launch after the first, which compiles; and the result's error over the allowed error."""
    import numpy as np
    from numba import cuda

    from refkit.cpu import emulate
    from refkit.verify.benchmarks import gemm_shape

    a, b = gemm_shape.operands(size, size, size)
    with emulate():
        device_a, device_b = cuda.to_device(a), cuda.to_device(b)
        c = cuda.to_device(np.full((size, size), np.nan, np.float32))
        begin = time.perf_counter()
        gemm_shape.launch(device_a, device_b, c)
        first = time.perf_counter() - begin
        error = gemm_shape.check(a, b, c.copy_to_host())
        times = []
        for _ in range(REPEATS):
            begin = time.perf_counter()
            gemm_shape.launch(device_a, device_b, c)
            times.append(time.perf_counter() - begin)
    return statistics.median(times), {"first_launch_s": first, "best_s": min(times), "error_ratio": error}


def _simulator_rate() -> float:
    m, n, k = SIMULATOR_SHAPE
    command = [sys.executable, "-m", "refkit.verify.benchmarks.simulator", *map(str, SIMULATOR_SHAPE)]
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        last = (result.stderr.strip().splitlines() or ["no output"])[-1]
        raise RuntimeError(f"Numba's simulator did not run the kernel: {last}")
    return m * n * k / json.loads(result.stdout.strip().splitlines()[-1])["seconds"] / 1e6


def _row(median: float, rate: float, peer: str, peer_rate: float, peer_shape: str, notes: dict[str, float]) -> Row:
    return Row(
        name="register_tiled_gemm",
        shape=f"{SIZE}x{SIZE}x{SIZE}",
        peer=peer,
        median_us=median * 1e6,
        ratio=rate / peer_rate,
        rate=rate,
        unit="MFMA/s",
        peer_shape=peer_shape,
        peer_rate=peer_rate,
        notes=notes,
    )
