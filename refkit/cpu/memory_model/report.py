"""What the memory model found: per kernel and source line, as frozen records."""

from dataclasses import asdict, dataclass
from typing import Any

MOST_PASSES = 2.0
"""Passes per phase up to which a shared access counts as free of conflicts worth naming."""
MOST_SECTORS = 2.0
"""Sectors moved per sector needed from which a global access counts as uncoalesced."""


@dataclass(frozen=True)
class LineTraffic:
    """The requests of one kind at one source line of one kernel.

    space: "global" or "shared". access: "read", "write" or "atomic". bytes_per_lane: what each lane moves at a time.
    requests: warp requests that were looked at; executions: warp requests of the sampled blocks in all, estimated from
    the threads' counts where not all were recorded. lanes: mean of active lanes per request.
    sectors, ideal_sectors: mean per request; None for shared memory. passes, worst_passes, ideal_passes: mean, largest
    and fewest possible bank passes per request; None for global memory.
    """

    kernel: str
    file: str
    line: int
    space: str
    access: str
    bytes_per_lane: int
    requests: int
    executions: int
    lanes: float
    sectors: float | None = None
    ideal_sectors: float | None = None
    passes: float | None = None
    worst_passes: int | None = None
    ideal_passes: float | None = None

    @property
    def excess(self) -> float:
        """How many times more sectors, or passes, each request takes than it needs: 1 is perfect."""
        if self.sectors is not None and self.ideal_sectors:
            return self.sectors / self.ideal_sectors
        if self.passes is not None and self.ideal_passes:
            return self.passes / self.ideal_passes
        return 1.0

    @property
    def waste(self) -> float:
        """Sectors or passes of all executions that a perfect pattern would not need; what lines are sorted by."""
        mine = self.sectors if self.sectors is not None else self.passes
        ideal = self.ideal_sectors if self.ideal_sectors is not None else self.ideal_passes
        return ((mine or 0.0) - (ideal or 0.0)) * self.executions

    @property
    def problem(self) -> str:
        """What is poor here: "uncoalesced", "bank conflicts", or empty."""
        if self.sectors is not None and self.ideal_sectors is not None:
            # two sectors where one would do is what any row boundary costs
            poor = self.excess >= MOST_SECTORS and self.sectors - self.ideal_sectors >= 2
            return "uncoalesced" if poor else ""
        return "bank conflicts" if self.excess > MOST_PASSES else ""

    def to_json(self) -> dict[str, Any]:
        """The record as a JSON object, its excess and problem beside the fields."""
        return {**asdict(self), "excess": round(self.excess, 3), "problem": self.problem}


@dataclass(frozen=True)
class MemoryReport:
    """The lines of every kernel that was traced, worst first."""

    lines: tuple[LineTraffic, ...]

    @property
    def flagged(self) -> tuple[LineTraffic, ...]:
        """The lines with a problem."""
        return tuple(line for line in self.lines if line.problem)

    def of(self, kernel: str) -> "MemoryReport":
        """The lines of one kernel, by its function's name."""
        return MemoryReport(tuple(line for line in self.lines if line.kernel == kernel))


def sorted_report(lines: list[LineTraffic]) -> MemoryReport:
    """Lines with a problem first, then those that waste most."""
    return MemoryReport(tuple(sorted(lines, key=lambda line: (not line.problem, -line.waste, line.file, line.line))))
