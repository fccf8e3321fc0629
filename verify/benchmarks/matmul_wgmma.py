"""Hopper's `wgmma` GEMMs against cuBLAS (through torch) in the same process, checked before they are timed.

The time of a tf32 product contains the copies of its operands that round them, into scratch allocated before. cuBLAS
promotes its fp8 sums too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from refkit.verify.benchmarks import Row
from refkit.verify.benchmarks.gemm_on_gpu import against_cublas
from refkit.verify.benchmarks.on_gpu import obstacle

TITLE = "wgmma GEMMs against cuBLAS"
SIZES = (4096, 8192)
REPEATS = 7
TILES = {
    "bf16": {"block_m": 128, "block_n": 256, "stages": 4},
    "tf32": {"block_m": 128, "block_n": 256, "stages": 4},
    "e4m3": {"block_m": 128, "block_n": 128, "stages": 6},
}
TRANSPOSES = {"bf16": ("NN", "NT", "TN", "TT"), "tf32": ("NN", "NT", "TN", "TT"), "e4m3": ("NT",)}


def missing() -> str | None:
    """A GPU of compute capability 9.0 and torch are needed."""
    reason = obstacle()
    if reason is not None:
        return reason
    from numba import cuda

    capability = tuple(cuda.get_current_device().compute_capability)
    return None if capability == (9, 0) else f"wgmma needs compute capability 9.0, this GPU has {capability}"


def rows(progress: Callable[[str], None]) -> Iterator[Row]:
    """One row per format, transposes and size."""
    from refkit.cuda_kernels.ptx import target_sm_90a

    target_sm_90a()
    for precision, tiles in TILES.items():
        for transposes in TRANSPOSES[precision]:
            for size in SIZES:
                progress(f"{precision} {transposes} {size}x{size}x{size}")
                yield against_cublas(
                    "matmul_wgmma",
                    multiplier(precision, tiles),
                    precision,
                    transposes,
                    size,
                    repeats=REPEATS,
                    notes={"tiles": dict(tiles)},
                )


def multiplier(precision: str, tiles: dict[str, Any]) -> Callable[..., None]:
    """The launcher with its tiles; for tf32 with scratch for the rounded copies, allocated at the first launch."""
    from refkit.cuda_kernels.matmul_wgmma import matmul_wgmma, room_for_copies

    if precision != "tf32":
        return functools.partial(matmul_wgmma, **tiles)
    room: list[Any] = []

    def multiply(a: Any, b: Any, c: Any, **options: Any) -> None:
        if not room:
            from numba import cuda

            room.extend(room_for_copies(cuda.as_cuda_array(a), cuda.as_cuda_array(b)))
        matmul_wgmma(a, b, c, **tiles, copies=tuple(room), **options)

    return multiply
