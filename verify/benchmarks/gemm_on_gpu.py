"""One matrix product beside cuBLAS (through torch) in the same process: checked first, then timed.

Inputs are normal random numbers from a fixed seed. Both results are held against float64 before anything is timed, by
the relative norm of the error over every 61st row, from output that was poisoned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from refkit.verify.benchmarks import Row
from refkit.verify.benchmarks.on_gpu import LAUNCHES, REPEATS, relative_error, time_launches


@dataclass(frozen=True)
class Precision:
    """torch's dtypes of operands and product, and the relative error, by norm, that a product may have."""

    operands: str
    product: str
    allowed: float
    tf32: bool = False


PRECISIONS = {
    "fp32": Precision("float32", "float32", 4e-6),
    "tf32": Precision("float32", "float32", 6e-4, tf32=True),
    "bf16": Precision("bfloat16", "bfloat16", 4e-3),
    "e4m3": Precision("float8_e4m3fn", "bfloat16", 4e-3),
}
"""Allowed: twice to four times what rounding makes: 1e-6 by 4,096 sequential float32 sums, 2.9e-4 and 1.7e-3 by the
formats of operands and product. One term left out of 8,192 makes 1.1e-2, tf32 in place of float32 2.9e-4."""


def operands(precision: str, transposes: str, size: int) -> tuple[Any, Any, Any]:
    """a, b and c of size x size on the GPU; transposes: "NT" means that b is a view of a transposed matrix."""
    import torch

    torch.manual_seed(0)
    kind = PRECISIONS[precision]
    dtype, product = getattr(torch, kind.operands), getattr(torch, kind.product)
    a, b = (torch.randn(size, size, device="cuda").to(dtype) for _ in range(2))
    a, b = (x.t() if case == "T" else x for x, case in zip((a, b), transposes))
    return a, b, torch.empty(size, size, device="cuda", dtype=product)


def cublas(precision: str, a: Any, b: Any, c: Any) -> Callable[[], Any]:
    """The launch of c = a b by cuBLAS in that precision; fp8 with its sums promoted, and scales of 1."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = PRECISIONS[precision].tf32
    if precision == "e4m3":
        one = torch.ones((), device="cuda")
        return lambda: torch._scaled_mm(a, b, one, one, out_dtype=c.dtype, out=c)
    return lambda: torch.matmul(a, b, out=c)


def against_cublas(
    name: str,
    multiply: Callable[..., None],
    precision: str,
    transposes: str,
    size: int,
    *,
    launches: int = LAUNCHES,
    repeats: int = REPEATS,
    notes: dict[str, Any] | None = None,
) -> Row:
    """The row of `multiply(a, b, c, stream=)` for one product; AssertionError where it, or cuBLAS, is wrong."""
    import torch

    a, b, c = operands(precision, transposes, size)
    bits = [x.view(torch.uint8) for x in (a, b)] if precision == "e4m3" else [a, b]
    stream = torch.cuda.current_stream()

    def ours() -> None:
        multiply(*bits, c, stream=stream)

    peer, allowed = cublas(precision, a, b, c), PRECISIONS[precision].allowed
    errors = [relative_error(launch, a, b, c) for launch in (ours, peer)]
    assert all(error <= allowed for error in errors), (
        f"{name} {precision} {transposes}: relative errors {errors} (ours, cuBLAS), allowed {allowed}"
    )
    peer_time = time_launches(peer, repeats=repeats)
    our_time = time_launches(ours, launches=launches, repeats=repeats)
    flops = 2 * size**3
    return Row(
        name=f"{name} {precision} {transposes}",
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
        notes={
            **(notes or {}),
            "precision": precision,
            "device": torch.cuda.get_device_name(),
            "error": errors[0],
            "peer_error": errors[1],
            "inputs": "normal",
            "launches": launches,
            "repeats": repeats,
        },
    )
