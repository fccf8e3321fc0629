"""What the analysis says of a rung of the ladder, with the tiles that are measured: traffic, registers, occupancy.

Traffic is what a longer K adds: two lengths are traced, so that prologue and epilogue cancel out. It counts requests of
warps; what a bulk copy or the tensor core itself reads from shared memory is none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from refkit.cpu import LineTraffic
from refkit.cpu.memory_model.recording import MOST_BLOCKS
from refkit.verify.analysis import toolchain
from refkit.verify.analysis.representative import representative_case
from refkit.verify.analysis.resources import Resources, resources
from refkit.verify.analysis.traffic import trace_case
from refkit.verify.benchmarks.ladder import Rung
from refkit.verify.benchmarks.ladder_specs import spec_of

SECTOR_BYTES = 32
DEPTHS = (128, 256)
ARCHITECTURE = (9, 0)
SHARED_RATE = 132 * 1.98e9 * 64 / 1e12
"""TFLOP/s of an H200 with one pass per 32 multiplications: 132 SMs of 1,980 MHz make one pass a cycle each."""


@dataclass(frozen=True)
class Analysis:
    """global_bytes: read from global memory per multiplication, in whole sectors, caches left out of account.
    shared_passes: over the banks of shared memory, per 32 multiplications, reads and writes. resources: None where
    NVIDIA's compilers are not installed."""

    global_bytes: float
    shared_passes: float
    worst: LineTraffic | None
    resources: Resources | None

    @property
    def shared_limit(self) -> float | None:
        """TFLOP/s that the passes alone would allow; None where no warp uses shared memory."""
        return SHARED_RATE / self.shared_passes if self.shared_passes else None

    @property
    def conflicts(self) -> float:
        """The most passes, over the fewest possible, of a line of the main loop; 1 where nothing conflicts."""
        return max(1.0, self.worst.excess) if self.worst is not None else 1.0


def analyze_rung(rung: Rung) -> Analysis:
    """Traces two products on the CPU, and compiles the kernel where the compilers are installed."""
    spec = spec_of(rung)
    case = representative_case(spec)
    short, long = (trace_case(spec, replace(case, dims={**case.dims, "K": depth})) for depth in DEPTHS)
    launch = next(launch for launch in long.launches if launch.kernel.endswith("gemm_kernel"))
    blocks = math.prod(launch.grid)
    looked_at = -(-blocks // -(-blocks // MOST_BLOCKS)) / blocks  # all blocks do the same work, some are sampled
    multiplications = case.dims["M"] * case.dims["N"] * (DEPTHS[1] - DEPTHS[0]) * looked_at
    added = _added(short.report.lines, long.report.lines)
    reads = sum(count * (line.sectors or 0) for line, count in added if line.space == "global")
    passes = sum(count * (line.passes or 0) for line, count in added if line.space == "shared")
    shared = [line for line, _ in added if line.space == "shared"]
    return Analysis(
        global_bytes=reads * SECTOR_BYTES / multiplications,
        shared_passes=passes * 32 / multiplications,
        worst=max(shared, key=lambda line: line.excess, default=None),
        resources=None if toolchain.missing() else resources(launch, ARCHITECTURE),
    )


def _added(short: tuple[LineTraffic, ...], long: tuple[LineTraffic, ...]) -> list[tuple[LineTraffic, int]]:
    """The lines of the product's kernel that a longer K executes more often, each with how many times more."""
    before = {_key(line): line.executions for line in short}
    lines = [line for line in long if line.kernel.endswith("gemm_kernel")]
    counted = [(line, line.executions - before.get(_key(line), 0)) for line in lines]
    return [(line, count) for line, count in counted if count > 0]


def _key(line: LineTraffic) -> tuple[Any, ...]:
    return line.kernel, line.file, line.line, line.space, line.access, line.bytes_per_lane
