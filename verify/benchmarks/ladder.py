"""Every rung of the matrix product's ladder against cuBLAS of the same precision, checked before it is timed.

The rungs without tensor cores are measured in float32, the last of them in bfloat16 storage as well, the rungs with
tensor cores in tf32 and bfloat16. All make the same product of row-major matrices. A launch of the first rungs takes
so long that three measurements of one launch serve; the others have seven of five.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from refkit.verify.benchmarks import Row, matmul_mma, matmul_wgmma
from refkit.verify.benchmarks.gemm_on_gpu import against_cublas
from refkit.verify.benchmarks.on_gpu import obstacle

TITLE = "the ladder of matrix products, from the naive kernel to wgmma, against cuBLAS"
SIZE = 4096


@dataclass(frozen=True)
class Rung:
    """A launcher in one precision. tiles: its keywords, where they are not the launcher's own defaults."""

    launcher: str  # matmul_tiled
    module: str  # of refkit.cuda_kernels
    precision: str = "fp32"
    tiles: dict[str, int] = field(default_factory=dict)
    launches: int = 5
    repeats: int = 7

    @property
    def name(self) -> str:
        """What the tutorial calls it: `tiled`, `mma ldmatrix`, `wgmma`."""
        return self.launcher.removeprefix("matmul_").replace("mma_", "mma ")

    def multiply(self) -> Callable[..., None]:
        """The launcher with its tiles."""
        if self.module == "matmul_wgmma":
            return matmul_wgmma.multiplier(self.precision, self.tiles)
        module = importlib.import_module(f"refkit.cuda_kernels.{self.module}")
        return functools.partial(getattr(module, self.launcher), **self.tiles)


def _slow(launcher: str) -> Rung:
    return Rung(launcher, "matmul", launches=1, repeats=3)


RUNGS = (
    _slow("matmul_naive"),
    _slow("matmul_coalesced"),
    _slow("matmul_tiled"),
    _slow("matmul_register_tiled_1d"),
    Rung("matmul_register_tiled", "matmul"),
    Rung("matmul_vectorized", "matmul"),
    Rung("matmul_warp_tiled", "matmul"),
    Rung("matmul_double_buffered", "matmul"),
    Rung("matmul_double_buffered", "matmul", "bf16"),
    *(Rung(f"matmul_mma_{way}", "matmul_mma", each) for each in ("tf32", "bf16") for way in ("lane_major", "cp_async")),
    *(Rung("matmul_mma_ldmatrix", "matmul_mma", each, matmul_mma.TILES[each]) for each in ("tf32", "bf16")),
    *(Rung("matmul_wgmma", "matmul_wgmma", each, matmul_wgmma.TILES[each]) for each in ("bf16", "tf32")),
)


def missing() -> str | None:
    """A GPU and torch are needed; where it is not of compute capability 9.0 the rungs by `wgmma` are left out."""
    return obstacle()


def rows(progress: Callable[[str], None]) -> Iterator[Row]:
    """One row per rung."""
    from refkit.cuda_kernels.ptx import target_sm_90a

    reason = matmul_wgmma.missing()
    for rung in RUNGS:
        if rung.module == "matmul_wgmma":
            if reason is not None:
                progress(f"nothing: {rung.name} {rung.precision} is left out, {reason}")
                continue
            target_sm_90a()
        progress(f"{rung.name} {rung.precision} {SIZE}x{SIZE}x{SIZE}")
        yield measured(rung, SIZE)


def measured(rung: Rung, size: int) -> Row:
    """The rung's row for a product of size x size matrices; AssertionError where the product is wrong."""
    notes: dict[str, Any] = {"rung": rung.name, "tiles": dict(rung.tiles)}
    options = {"launches": rung.launches, "repeats": rung.repeats}
    return against_cublas(rung.launcher, rung.multiply(), rung.precision, "NN", size, notes=notes, **options)
