"""The host's side of the sanitizers: shadows for the arrays of a launch, and findings in words."""

import linecache
import re
from typing import Any

import numpy as np

from . import memory
from .faults import Finding, SanitizerFault, Side
from .kernel import CompiledKernel
from .mbarriers import missing
from .packing import unlinear
from .runtime import layout
from .runtime import shadow_layout as shadow
from .settings import Settings
from .translate import SharedArray

_FLAGS = {
    "race": shadow.WATCH_RACE,
    "memory": shadow.WATCH_MEMORY,
    "uninitialized": shadow.WATCH_UNINITIALIZED,
    "barrier": shadow.WATCH_BARRIER,
}
_PROBLEMS = {
    shadow.RACE_WRITE_WRITE: ("race", "write-write"),
    shadow.RACE_READ_WRITE: ("race", "read-write"),
    shadow.RACE_ATOMIC_PLAIN: ("race", "atomic-plain"),
    shadow.OUT_OF_BOUNDS: ("memory", "out-of-bounds"),
    shadow.NEGATIVE_INDEX: ("memory", "negative-index"),
    shadow.MISALIGNED: ("memory", "misaligned"),
    shadow.PAST_END: ("memory", "out-of-bounds"),
    shadow.MISALIGNED_ATOM: ("memory", "misaligned"),
    shadow.ASYNC_PROXY: ("race", "async-proxy"),
    shadow.ACCUMULATOR_IN_USE: ("race", "accumulator-in-use"),
    shadow.REGISTERS_UNFENCED: ("race", "registers-unfenced"),
    shadow.NO_MBARRIER: ("barrier", "no-mbarrier"),
    shadow.TOO_MANY_ARRIVALS: ("barrier", "too-many-arrivals"),
    shadow.UNINITIALIZED_GLOBAL: ("uninitialized", "global"),
    shadow.UNINITIALIZED_SHARED: ("uninitialized", "shared"),
    shadow.UNINITIALIZED_LOCAL: ("uninitialized", "local"),
    shadow.DIVERGENT_BARRIER: ("barrier", "divergent-barrier"),
    shadow.EXITED_THREADS: ("barrier", "exited-threads"),
    shadow.READS_ABSENT_LANE: ("barrier", "reads-absent-lane"),
}
_OF_AN_INDEX = (shadow.OUT_OF_BOUNDS, shadow.NEGATIVE_INDEX)
_ACCESSES = {
    shadow.READ: "read",
    shadow.WRITE: "write",
    shadow.ATOMIC: "atomic",
    shadow.OPERATION: "operation",
    shadow.ASYNC_READ: "asynchronous read",
    shadow.ASYNC_WRITE: "asynchronous write",
}
_BLAMED_STATES = (
    layout.AT_WARP_OPERATION,
    layout.AT_BARRIER,
    layout.AT_MBARRIER,
    layout.AT_WARPGROUP_OPERATION,
)
_ASYNC_LEVELS = (shadow.ASYNC_OPERATION, shadow.ASYNC_SEVERAL)
_PROXY = re.compile(r"wgmma|cp\.async\.bulk|mbarrier|bar(?:rier)?\.")
_MADE = re.compile(r"(\w+)\s*=\s*(?:\w+\.)*(?:shared|local)\.array")


class Watch:
    """The sanitizers' tables for one launch, and what they found."""

    def __init__(
        self,
        kernel: CompiledKernel,
        settings: Settings,
        arrays: list[tuple[str, Any]],
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
    ) -> None:
        self.kernel, self.arrays, self.grid, self.block = kernel, arrays, grid, block
        self.sanitize = settings.sanitize
        self.preempt = settings.preempt
        self.findings: tuple[Finding, ...] = ()
        self._table = np.zeros((shadow.FINDING_CAPACITY, shadow.FINDING_WORDS), np.int64)
        self._releases = np.zeros(shadow.RELEASE_CAPACITY * shadow.RELEASE_WORDS, np.int64)
        self._sync = np.zeros(shadow.SYNC_CAPACITY * 2, np.int64)
        self._stack = np.zeros(shadow.STACK_CAPACITY, np.int64)
        self._answers = np.zeros(shadow.JOIN_CAPACITY * shadow.JOIN_WORDS, np.int64)
        self._joins = np.zeros(shadow.JOIN_CAPACITY * shadow.JOIN_WORDS, np.int64)
        self._beside: np.ndarray | None = None
        self._regions, self._shadows = self._make_regions()
        self._extents = self._argument_extents()
        self._shared_extents = np.zeros((0, shadow.EXTENT_WORDS), np.int64)
        self._block = np.zeros(shadow.SANITIZER_WORDS, np.int64)
        self._shared_shadow: np.ndarray | None = None

    def _make_regions(self) -> tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray, int]]]:
        """A region and a shadow for each block of memory that holds an argument."""
        blocks: dict[int, tuple[np.ndarray, int]] = {}
        for _, array in self.arrays if self.sanitize & {"race", "uninitialized"} else ():
            if array.host.size == 0:
                continue
            owner = memory.find(array.host.ctypes.data)
            if owner is None:
                continue
            start = owner.ctypes.data
            item = min(array.host.itemsize, blocks[start][1] if start in blocks else 4)
            blocks[start] = owner, item
        regions = np.zeros((max(1, len(blocks)), shadow.REGION_WORDS), np.int64)
        shadows = []
        for row, (start, (owner, item)) in zip(regions, blocks.items()):
            shift = max(0, item.bit_length() - 1)
            count = -(-owner.nbytes // (1 << shift))
            cells = memory.zeros(count + 1, shadow.CELL_WORDS)
            written = memory.written(owner)
            if written is not None:
                cells[:count, shadow.CELL_SITES] = written[:: 1 << shift].astype(np.int64) * shadow.INITIALIZED
            row[:] = start, start + owner.nbytes, shift, cells.ctypes.data, written is None
            shadows.append((owner, cells, shift))
        return regions, shadows

    def _argument_extents(self) -> np.ndarray:
        """From where to where each argument that has elements lies in memory, int64."""
        found = []
        for _, array in self.arrays:
            base = array.host.ctypes.data
            before, after = memory.extent(array.host.shape, array.host.strides, array.host.itemsize)
            found.append((base - before, base + after))
        return np.array(found, np.int64).reshape(-1, shadow.EXTENT_WORDS)

    def attach(self, worker_memory: Any, shared_bytes: int) -> None:
        """Puts the tables into a worker's control blocks."""
        block = self._block
        block[shadow.SANITIZER_FLAGS] = sum(_FLAGS[name] for name in self.sanitize)
        block[shadow.SANITIZER_PREEMPT] = self.preempt
        block[shadow.SANITIZER_FINDINGS] = self._table.ctypes.data
        block[shadow.SANITIZER_REGIONS] = block[shadow.SANITIZER_LAST_REGION] = self._regions.ctypes.data
        block[shadow.SANITIZER_REGION_COUNT] = len(self._shadows)
        block[shadow.SANITIZER_RELEASES] = self._releases.ctypes.data
        block[shadow.SANITIZER_SYNC] = self._sync.ctypes.data
        block[shadow.SANITIZER_STACK] = self._stack.ctypes.data
        block[shadow.SANITIZER_ANSWERS] = self._answers.ctypes.data
        block[shadow.SANITIZER_JOINS] = self._joins.ctypes.data
        self._shared_bytes = shared_bytes
        spans = [self._shared_span(array) for array in self.kernel.shared_arrays]
        self._shared_extents = np.array(spans, np.int64).reshape(-1, shadow.EXTENT_WORDS)
        block[shadow.SANITIZER_EXTENTS] = self._extents.ctypes.data
        block[shadow.SANITIZER_EXTENT_COUNT] = len(self._extents)
        block[shadow.SANITIZER_SHARED_EXTENTS] = self._shared_extents.ctypes.data
        block[shadow.SANITIZER_SHARED_EXTENT_COUNT] = len(self._shared_extents)
        shift = self.kernel.shared_cell.bit_length() - 1
        cells = -(-shared_bytes >> shift) + 2
        block[shadow.SANITIZER_SHARED_SHIFT] = shift
        block[shadow.SANITIZER_SHARED_CELL_BYTES] = cells * shadow.CELL_BYTES
        resident = len(worker_memory.blocks)
        self._shared_shadow = np.zeros((resident, cells, shadow.CELL_WORDS), np.int64)
        worker_memory.blocks[:, layout.BLOCK_SHADOW] = (
            self._shared_shadow.ctypes.data + np.arange(resident) * cells * shadow.CELL_BYTES
        )
        worker_memory.blocks[:, layout.BLOCK_BESIDE] = 0
        if any(_PROXY.match(opcode) for opcode in self.kernel.instructions.values()):
            self._beside = np.zeros((resident, cells, shadow.BESIDE_WORDS), np.int64)
            block[shadow.SANITIZER_BESIDE_BYTES] = cells * shadow.BESIDE_BYTES
            worker_memory.blocks[:, layout.BLOCK_BESIDE] = (
                self._beside.ctypes.data + np.arange(resident) * cells * shadow.BESIDE_BYTES
            )
        worker_memory.watch_threads()
        worker_memory.worker[layout.WORKER_SANITIZER] = block.ctypes.data
        self._shared_base = worker_memory.blocks[:, layout.BLOCK_SHARED].copy()

    def _shared_span(self, array: SharedArray) -> tuple[int, int]:
        """First and end byte of a shared array within a block's shared memory."""
        if array.offset >= 0:
            return array.offset, array.offset + array.size
        return -(-self.kernel.shared_bytes // 16) * 16, self._shared_bytes

    def finish(self, worker: Any, launch_block: np.ndarray) -> None:
        """Notes what the launch has written, and raises `SanitizerFault` where something was found."""
        for owner, cells, shift in self._shadows:
            if memory.written(owner) is None:
                continue
            flags = (cells[:, shadow.CELL_SITES] & shadow.INITIALIZED) != 0
            memory.mark_written(owner, np.repeat(flags, 1 << shift)[: owner.nbytes])
        count = int(self._block[shadow.SANITIZER_FINDING_COUNT])
        found = [self._finding(row) for row in self._table[:count]]
        if worker.status == layout.DEADLOCKED and "barrier" in self.sanitize:
            found += self._deadlock(worker)
        if not found:
            return
        first = found[0]
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise SanitizerFault(
            f"{first.message}{more}",
            findings=tuple(found),
            kernel=first.kernel,
            file=first.file,
            line=first.line,
            threads=((first.block, first.thread, first.message),),
        )

    def _who(self, who: int) -> tuple[Any, Any]:
        """(block, thread) of a cell's owner; None for what several share."""
        level = who & 7
        block = unlinear(who >> 13, self.grid) if level != shadow.WHOLE_GRID else None
        single = (shadow.ONE_THREAD, shadow.ASYNC_OPERATION)
        thread = unlinear(who >> 3 & 1023, self.block) if level in single else None
        return block, thread

    def _place(self, site: int) -> tuple[str, int]:
        sites = self.kernel.sites
        return sites[site] if 0 <= site < len(sites) else (self.kernel.file, self.kernel.line)

    def _finding(self, row: np.ndarray) -> Finding:
        sanitizer, problem = _PROBLEMS[int(row[shadow.FINDING_PROBLEM])]
        file, line = self._place(int(row[shadow.FINDING_SITE]))
        block, thread = self._who(int(row[shadow.FINDING_WHO]))
        access = _ACCESSES.get(int(row[shadow.FINDING_ACCESS]), "access")
        address = self._address(int(row[shadow.FINDING_ADDRESS]), problem, row, file, line)
        other = None
        if int(row[shadow.FINDING_OTHER_WHO]):
            other_file, other_line = self._place(int(row[shadow.FINDING_OTHER_SITE]))
            other_block, other_thread = self._who(int(row[shadow.FINDING_OTHER_WHO]))
            other_access = _ACCESSES[int(row[shadow.FINDING_OTHER_ACCESS])]
            if int(row[shadow.FINDING_OTHER_WHO]) & 7 in _ASYNC_LEVELS:
                other_access = f"asynchronous {other_access}"
            other = Side(other_access, other_file, other_line, other_block, other_thread)
        if int(row[shadow.FINDING_PROBLEM]) in _OF_AN_INDEX:
            access = "index"
        message = self._message(sanitizer, problem, access, address, row, block, thread, other)
        return Finding(sanitizer, problem, message, self.kernel.name, file, line, block, thread, access, address, other)

    def _message(
        self,
        sanitizer: str,
        problem: str,
        access: str,
        address: str | None,
        row: np.ndarray,
        block: Any,
        thread: Any,
        other: Any,
    ) -> str:
        who = f"thread {thread} of block {block}"
        detail, limit = int(row[shadow.FINDING_DETAIL]), int(row[shadow.FINDING_LIMIT])
        if problem == "async-proxy":
            what = f"{access} of {address} by the async proxy ({who})".replace("asynchronous ", "")
            return f"{what}, which cannot see the {other.access} by {_side(other)} at line {other.line}: no proxy fence"
        if problem == "accumulator-in-use":
            return f"{access} of {address}, an accumulator of products that have not been waited for ({who})"
        if problem == "registers-unfenced":
            return f"a product takes {address}, written since the last wgmma.fence ({who})"
        if problem == "no-mbarrier":
            return f"{address} is used as an mbarrier and is none ({who})"
        if problem == "too-many-arrivals":
            return f"{detail} arrivals at {address}, whose phase of {limit} wants no more ({who})"
        if int(row[shadow.FINDING_PROBLEM]) == shadow.MISALIGNED_ATOM:
            return f"swizzled matrix at {address}: its atoms must begin at multiples of {detail} bytes ({who})"
        if sanitizer == "race":
            return f"race on {address}: {access} by {who} and {other.access} by {_side(other)} at line {other.line}"
        if int(row[shadow.FINDING_PROBLEM]) == shadow.PAST_END:
            access = f"{access} of {detail} bytes at {address}"
            if limit == 0:
                return f"{access} lies in no shared array ({who})"
            return f"{access} begins in the array and ends {detail - limit} bytes past it ({who})"
        if problem == "out-of-bounds":
            axis = int(row[shadow.FINDING_ACCESS])
            return f"index {detail} is outside axis {axis} of {address}, which has {limit} elements ({who})"
        if problem == "negative-index":
            axis = int(row[shadow.FINDING_ACCESS])
            return f"index {detail} of axis {axis} of {address} is negative and wraps to {detail + limit} ({who})"
        if problem == "misaligned":
            return f"{access} of {detail} bytes at {address} is not aligned to its size ({who})"
        if sanitizer == "uninitialized":
            return f"{access} of {address}, which nothing has written ({who})"
        if problem == "divergent-barrier":
            return f"{who} waits at this barrier while {_side(other)} waits at another, line {other.line}"
        if problem == "exited-threads":
            return f"{detail} of {limit} threads never reach this barrier: they have returned (block {block})"
        return f"shuffle reads lane {limit}, which takes no part (mask {detail & 0xFFFFFFFF:#010x}; {who})"

    def _address(self, address: int, problem: str, row: np.ndarray, file: str, line: int) -> str | None:
        """`array[index]` of an address, or of the array alone where only an index is at fault."""
        whole = int(row[shadow.FINDING_PROBLEM]) in _OF_AN_INDEX
        if problem in ("divergent-barrier", "exited-threads", "reads-absent-lane"):
            return None
        empty = [name for name, array in self.arrays if array.host.size == 0]
        if whole and address == 0 and empty and int(row[shadow.FINDING_LIMIT]) == 0:
            return " or ".join(empty)
        if problem in ("local", "accumulator-in-use", "registers-unfenced") or (whole and address == 0):
            return f"a local array ({linecache.getline(file, line).strip()})"
        for name, array in self.arrays:
            host = array.host
            base = host.ctypes.data
            before, after = memory.extent(host.shape, host.strides, host.itemsize)
            if base - before <= address < base + after or (whole and address == base):
                return name if whole else f"{name}{_index(host, address - base)}"
        for base in self._shared_base:
            offset = address - int(base)
            if 0 <= offset < max(1, self._shared_bytes):
                return self._shared_name(offset, whole)
        return f"address {address:#x}"

    def _shared_name(self, offset: int, whole: bool) -> str:
        for array in self.kernel.shared_arrays:
            start, end = self._shared_span(array)
            if start <= offset < max(end, start + 1):
                made = _MADE.search(linecache.getline(array.file, array.line))
                name = f"shared {made.group(1) if made else 'array'}"
                return name if whole else f"{name}[{(offset - start) // array.element}]"
        return f"shared memory at byte {offset}"

    def _deadlock(self, worker: Any) -> list[Finding]:
        """What a deadlock says: a lane missing from its own mask, lanes that disagree, threads that never come."""
        rows = worker.memory.threads
        live = int(worker.memory.worker[layout.WORKER_GROUP_BLOCKS]) * self.block[0] * self.block[1] * self.block[2]
        found: list[Finding] = []
        seen: set[tuple[str, int]] = set()
        for rank, row in enumerate(rows[:live]):
            if row[layout.THREAD_STATE] not in _BLAMED_STATES:
                continue
            problem, text = self._why_waiting(rows, rank, row)
            site = int(row[layout.THREAD_SITE])
            if (problem, site) in seen:
                continue
            seen.add((problem, site))
            file, line = self._place(site)
            block = unlinear(int(worker.memory.blocks[rank // self._threads, layout.BLOCK_LINEAR]), self.grid)
            thread = unlinear(int(row[layout.THREAD_LINEAR]), self.block)
            message = f"{text} (thread {thread} of block {block})"
            found.append(Finding("barrier", problem, message, self.kernel.name, file, line, block, thread, "operation"))
        order = ("not-in-own-mask", "mask-disagrees", "divergent-barrier", "deadlock")
        return sorted(found, key=lambda finding: order.index(finding.problem))

    @property
    def _threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    def _why_waiting(self, rows: np.ndarray, rank: int, row: np.ndarray) -> tuple[str, str]:
        if row[layout.THREAD_STATE] == layout.AT_BARRIER:
            return "deadlock", "waits at a barrier that some threads never reach"
        if row[layout.THREAD_STATE] == layout.AT_MBARRIER:
            address, parity = int(row[layout.THREAD_MASK]), int(row[layout.THREAD_VALUE])
            return "deadlock", f"waits at an mbarrier for a phase that never ends ({missing(address, parity)})"
        if row[layout.THREAD_STATE] == layout.AT_WARPGROUP_OPERATION:
            opcode = self.kernel.instructions[int(row[layout.THREAD_SITE])]
            return "deadlock", f"waits at {opcode} for threads of its warpgroup that never come"
        mask, lane = int(row[layout.THREAD_MASK]), int(row[layout.THREAD_LANE])
        if not mask >> lane & 1:
            return "not-in-own-mask", f"lane {lane} calls with mask {mask:#010x}, which does not name it"
        first = rank - lane
        last = min(first + layout.WARP_SIZE, rank - int(row[layout.THREAD_LINEAR]) + self._threads)
        for other in rows[first:last]:
            named = mask >> int(other[layout.THREAD_LANE]) & 1
            theirs = int(other[layout.THREAD_MASK])
            if named and other[layout.THREAD_STATE] == layout.AT_WARP_OPERATION and theirs != mask:
                who = f"lane {int(other[layout.THREAD_LANE])}"
                return "mask-disagrees", f"lane {lane} waits with mask {mask:#010x}, {who} with {theirs:#010x}"
        return "deadlock", f"lane {lane} waits for lanes of mask {mask:#010x} that never come"


def _side(side: Side) -> str:
    if side.thread is not None:
        return f"thread {side.thread} of block {side.block}"
    return f"several threads of block {side.block}" if side.block is not None else "several blocks"


def _index(host: np.ndarray, offset: int) -> str:
    """The index of the element at a byte offset from element 0, by the array's strides."""
    index: dict[int, int] = {}
    for axis in sorted(range(host.ndim), key=lambda axis: -abs(host.strides[axis])):
        stride = host.strides[axis]
        step = offset // stride if stride else 0
        step = min(max(step, 0), host.shape[axis] - 1)
        index[axis] = step
        offset -= step * stride
    return f"[{', '.join(str(index[axis]) for axis in range(host.ndim))}]" if host.ndim else ""
