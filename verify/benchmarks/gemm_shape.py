"""The GEMM that the CPU executor and its peers run: one kernel, one set of tiles, inputs from one generator."""

from __future__ import annotations

from typing import Any

import numpy as np

from refkit.cuda_kernels import gemm

TILES = gemm.Tiles(block_m=128, block_n=128, block_k=8, thread_m=8, thread_n=8)


def operands(m: int, n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Normal random a (m, k) and b (k, n), float32."""
    generator = np.random.default_rng(0)
    return generator.standard_normal((m, k), np.float32), generator.standard_normal((k, n), np.float32)


def launch(a: Any, b: Any, c: Any) -> None:
    """c = a @ b by the register-tiled kernel."""
    gemm.launch_register_tiled_gemm(gemm.store, a, b, c, TILES)


def check(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> float:
    """The largest error over the error that float32 accumulation in any order may make (8 standard deviations).

    Raises AssertionError where the product is wrong: a wrong result has no speed.
    """
    a64, b64 = a.astype(np.float64), b.astype(np.float64)
    allowed = 8 * 2.0**-24 * np.sqrt(a.shape[1] / 2 * (a64**2 @ b64**2)) + 2.0**-24 * np.abs(a64 @ b64)
    ratio = float(np.max(np.abs(c - a64 @ b64) / allowed))
    if not ratio <= 1:
        raise AssertionError(f"the product is wrong: error {ratio:.3g} times the allowed one")
    return ratio
