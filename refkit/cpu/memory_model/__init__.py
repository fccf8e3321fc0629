"""The memory model: bank conflicts of shared accesses, and sectors of global ones, per source line.

with refkit.cpu.trace() as tracer:
    host_code()
tracer.report()
"""

from .report import LineTraffic, MemoryReport

__all__ = ["LineTraffic", "MemoryReport"]
