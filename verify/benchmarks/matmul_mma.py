"""Tensor-core GEMMs by `mma.sync` against cuBLAS (through torch) in the same process.

Correctness is asserted before timing: rows of the product, from poisoned output, against float64, by the relative norm
of the error. Inputs are normal random numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from refkit.verify.benchmarks import Row
from refkit.verify.benchmarks.on_gpu import obstacle, time_launches

TITLE = "mma.sync GEMMs against cuBLAS"
SIZE = 4096
TILES = {
    "bf16": {"block_m": 128, "block_n": 128, "block_k": 64, "warp_m": 64, "warp_n": 64, "stages": 3},
    "tf32": {"block_m": 128, "block_n": 256, "block_k": 32, "warp_m": 64, "warp_n": 64, "stages": 4},
}
ALLOWED = {"bf16": 4e-3, "tf32": 6e-4}
"""Relative error, by norm, of a product rounded to the format: 1.7e-3 and 2.9e-4 where only rounding is at work."""


def missing() -> str | None:
    """A GPU and torch are needed."""
    return obstacle()


def rows(progress: Callable[[str], None]) -> Iterator[Row]:
    """One row per format and transposes."""
    for kind in TILES:
        for transposes in ("NN", "NT", "TN", "TT"):
            progress(f"{kind} {transposes} {SIZE}x{SIZE}x{SIZE}")
            yield measured(kind, transposes, SIZE)


def measured(kind: str, transposes: str, size: int) -> Row:
    """One product of size x size matrices beside cuBLAS's; AssertionError where either is wrong."""
    import torch

    from refkit.cuda_kernels.matmul_mma import matmul_mma_ldmatrix

    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = True
    dtype = torch.bfloat16 if kind == "bf16" else torch.float32
    a, b = (torch.randn(size, size, device="cuda").to(dtype) for _ in range(2))
    a, b = (x.t() if case == "T" else x for x, case in zip((a, b), transposes))
    c = torch.empty(size, size, device="cuda", dtype=dtype)
    stream = torch.cuda.current_stream()

    def ours() -> None:
        matmul_mma_ldmatrix(a, b, c, **TILES[kind], stream=stream)

    def peer() -> None:
        torch.matmul(a, b, out=c)

    errors = [relative_error(launch, a, b, c) for launch in (ours, peer)]
    assert all(error <= ALLOWED[kind] for error in errors), (
        f"{kind} {transposes}: relative errors {errors}, allowed {ALLOWED[kind]}"
    )
    peer_time, our_time = time_launches(peer), time_launches(ours)
    flops = 2 * size**3
    return Row(
        name=f"matmul_mma_ldmatrix {kind} {transposes}",
        shape=f"{size}x{size}x{size}",
        peer="cuBLAS",
        median_us=our_time.median_us,
        ratio=peer_time.median_us / our_time.median_us,
        rate=flops / our_time.median_us / 1e6,
        unit="TFLOP/s",
        peer_shape=f"{size}x{size}x{size}",
        peer_rate=flops / peer_time.median_us / 1e6,
        clock_before=our_time.clock_before,
        clock_after=our_time.clock_after,
        notes={"tiles": TILES[kind], "error": errors[0], "peer_error": errors[1], "inputs": "normal"},
    )


def relative_error(launch: Callable[[], None], a: Any, b: Any, c: Any) -> float:
    """|c - a b| / |a b| over every 61st row, c poisoned with NaN before the launch; NaN where one was left."""
    import torch

    c.fill_(float("nan"))
    launch()
    torch.cuda.synchronize()
    if bool(torch.isnan(c).any()):
        return float("nan")
    chosen = torch.arange(0, c.shape[0], 61, device="cuda")
    expected = a[chosen].double() @ b.double()
    return float((c[chosen].double() - expected).norm() / expected.norm())
