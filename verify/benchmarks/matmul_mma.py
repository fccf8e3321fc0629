"""Tensor-core GEMMs by `mma.sync` against cuBLAS (through torch) in the same process, checked before they are timed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

from refkit.verify.benchmarks import Row
from refkit.verify.benchmarks.gemm_on_gpu import against_cublas
from refkit.verify.benchmarks.on_gpu import obstacle

TITLE = "mma.sync GEMMs against cuBLAS"
SIZE = 4096
TILES = {
    "bf16": {"block_m": 128, "block_n": 128, "block_k": 64, "warp_m": 64, "warp_n": 64, "stages": 3},
    "tf32": {"block_m": 128, "block_n": 256, "block_k": 32, "warp_m": 64, "warp_n": 64, "stages": 4},
}


def missing() -> str | None:
    """A GPU and torch are needed."""
    return obstacle()


def rows(progress: Callable[[str], None]) -> Iterator[Row]:
    """One row per format and transposes."""
    from refkit.cuda_kernels.matmul_mma import matmul_mma_ldmatrix

    for precision, tiles in TILES.items():
        for transposes in ("NN", "NT", "TN", "TT"):
            progress(f"{precision} {transposes} {SIZE}x{SIZE}x{SIZE}")
            multiply = functools.partial(matmul_mma_ldmatrix, **tiles)
            yield against_cublas(
                "matmul_mma_ldmatrix", multiply, precision, transposes, SIZE, notes={"tiles": dict(tiles)}
            )
