"""How much kernels allocated and freed, counted on the host as numba-cuda's memory system counts it on a device."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from llvmlite import binding as llvm
from numba.cuda.memory_management import nrt

from . import engine
from .device_library.reference_counts import ALLOC, BLOCK_ALLOC, BLOCK_FREE, COUNTER, FREE
from .faults import Unsupported

_ENABLED = 4
_STATISTICS = {"alloc": ALLOC, "free": FREE, "mi_alloc": BLOCK_ALLOC, "mi_free": BLOCK_FREE}
_counts = np.zeros(_ENABLED + 1, np.int64)  # the emulated device's memory: each event, and whether it is counted

_COUNTING = """
define void @{name}(i64 %event) {{
entry:
  %flag = load atomic i64, ptr inttoptr (i64 {enabled} to ptr) monotonic, align 8
  %counts = icmp ne i64 %flag, 0
  br i1 %counts, label %count, label %end
count:
  %place = getelementptr i64, ptr inttoptr (i64 {base} to ptr), i64 %event
  %old = atomicrmw add ptr %place, i64 1 monotonic
  br label %end
end:
  ret void
}}
"""


@functools.cache
def link_counter() -> engine.LoadedModule:
    """Provides the function that allocating kernels link against; its address is that of this process's counts."""
    base = _counts.ctypes.data
    text = _COUNTING.format(name=COUNTER, base=base, enabled=base + 8 * _ENABLED)
    loaded = engine.load(engine.machine_code(llvm.parse_assembly(engine.retarget(text))))
    llvm.add_symbol(COUNTER, loaded.address(COUNTER))
    return loaded


# --- what takes the place of Numba's methods while emulation is on; `self` is the runtime `rtsys` ---


def _nothing(self: Any, stream: Any = None) -> None:
    """Neither memory nor a start is needed."""


def _enable(self: Any, stream: Any = None) -> None:
    _counts[_ENABLED] = 1


def _disable(self: Any, stream: Any = None) -> None:
    _counts[_ENABLED] = 0


def _is_enabled(self: Any, stream: Any = None) -> bool:
    return bool(_counts[_ENABLED])


def _all(self: Any, stream: Any = None) -> dict[str, int]:
    return {name: int(_counts[index]) for name, index in _STATISTICS.items()}


def _one(self: Any, stat: str, stream: Any = None) -> int:
    return int(_counts[_STATISTICS[stat]])


def _launch(self: Any, module: Any, stream: Any, name: str, params: Any = ()) -> None:
    raise Unsupported(f"{name} is a kernel of numba-cuda's memory system, in CUDA C++")


def patches() -> list[tuple[Any, str, Any]]:
    """`(object, attribute, value)` for each attribute of Numba's that emulation replaces here."""
    methods = {
        "ensure_allocated": _nothing,
        "ensure_initialized": _nothing,
        "memsys_enable_stats": _enable,
        "memsys_disable_stats": _disable,
        "memsys_stats_enabled": _is_enabled,
        "_copy_memsys_to_host": _all,
        "_get_single_stat": _one,
        "_single_thread_launch": _launch,
    }
    return [(nrt._Runtime, name, method) for name, method in methods.items()]
