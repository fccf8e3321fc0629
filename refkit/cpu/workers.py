"""Workers: operating-system threads that run blocks, each with its control blocks, stacks and shared memory."""

import ctypes
import functools
import mmap
import os
import threading
import weakref
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from .faults import Position
from .kernel import CompiledKernel
from .mbarriers import missing
from .packing import unlinear
from .runtime import build, layout
from .runtime.shadow_layout import CLOCK_WORDS

_PAGE = mmap.PAGESIZE
_MAP_NORESERVE = 0x4000  # Linux; the mmap module names it from Python 3.13 on
_STACK_TOP_MARGIN = 64
_STACK_RESERVE = 64 * 1024
# stacks that begin at equal offsets would share few cache sets, and every context switch would miss the cache
_COLOURS = 31
# each guard page splits the mapping in two, and Linux allows a process 65,530 mappings
_MOST_GUARDED = 2048
_COLOUR_BYTES = 17 * 64
_SHARED_ALIGNMENT = 1024  # of the swizzled atoms of wgmma and of tensor copies
_SHARED_RANGE = 1 << 18
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_libc.free.argtypes = (ctypes.c_void_p,)
_libc.free.restype = None


@functools.cache
def _pool_of(process: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=max(8, 2 * (os.cpu_count() or 1)), thread_name_prefix="refkit-cpu")


def worker_pool() -> ThreadPoolExecutor:
    """The process's worker threads; a forked child gets its own."""
    return _pool_of(os.getpid())


class Stacks:
    """Fiber stacks, one behind the other, each with an inaccessible page at its low end unless there are too many."""

    def __init__(self, count: int, size: int) -> None:
        self.count, self.size = count, size
        self._memory = mmap.mmap(-1, count * size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE)
        self.base = np.frombuffer(self._memory, np.uint8).ctypes.data
        for index in range(min(count, _MOST_GUARDED)):
            if _libc.mprotect(self.base + index * size, _PAGE, 0) != 0:
                raise OSError(ctypes.get_errno(), "mprotect of a stack's guard page failed")

    @property
    def tops(self) -> np.ndarray:
        """The address at which each stack begins (it grows downwards)."""
        index = np.arange(self.count, dtype=np.int64)
        return self.base + (index + 1) * self.size - _STACK_TOP_MARGIN - index % _COLOURS * _COLOUR_BYTES

    @property
    def limits(self) -> np.ndarray:
        """The address below which each stack counts as used up: calls of functions that do not check need the rest."""
        return self.base + np.arange(self.count, dtype=np.int64) * self.size + _STACK_RESERVE


@dataclass(frozen=True)
class _Shape:
    """What decides the form of a worker's memory."""

    block: tuple[int, int, int]
    resident: int
    stack_bytes: int
    shared_bytes: int
    fibers: bool


def _free_queues(threads: np.ndarray, blocks: np.ndarray) -> None:
    """Frees what the threads and blocks of a worker allocated for their asynchronous copies."""
    copies, bulk_copies = threads[:, layout.THREAD_COPIES], threads[:, layout.THREAD_BULK_COPIES]
    for queue in (*copies, *bulk_copies, *blocks[:, layout.BLOCK_BULK_COPIES]):
        _libc.free(int(queue) or None)


def _shared_places(first: int, count: int, size: int) -> np.ndarray:
    """Where the shared memory of each block begins, from `first` on: at multiples of 1,024.

    None of it crosses a multiple of 2^18, the range of the addresses in the descriptors of `wgmma`.
    """
    stride = -(-size // _SHARED_ALIGNMENT) * _SHARED_ALIGNMENT + _SHARED_ALIGNMENT
    places, place = [], -(-first // _SHARED_ALIGNMENT) * _SHARED_ALIGNMENT
    for _ in range(count):
        if place // _SHARED_RANGE != (place + stride - 1) // _SHARED_RANGE:
            place = -(-place // _SHARED_RANGE) * _SHARED_RANGE
        places.append(place)
        place += stride
    return np.array(places, np.int64)


class Memory:
    """Control blocks, stacks and shared memory of one worker, reused by later launches of the same shape."""

    def __init__(self, shape: _Shape) -> None:
        threads = shape.block[0] * shape.block[1] * shape.block[2]
        fibers = threads * shape.resident if shape.fibers else 0
        self.shape = shape
        self.clocks: np.ndarray | None = None
        self.stacks = Stacks(fibers + 1, shape.stack_bytes)
        self.worker = np.zeros(layout.WORKER_WORDS, np.int64)
        self.blocks = np.zeros((shape.resident, layout.BLOCK_WORDS), np.int64)
        self.threads = np.zeros((fibers, layout.THREAD_WORDS), np.int64)
        end = int(_shared_places(_SHARED_RANGE - _SHARED_ALIGNMENT, shape.resident + 1, shape.shared_bytes)[-1])
        self._shared = np.empty(end, np.uint8)
        self.blocks[:, layout.BLOCK_SHARED] = _shared_places(
            self._shared.ctypes.data, shape.resident, shape.shared_bytes
        )
        if fibers:
            self._fill_threads(threads)
        weakref.finalize(self, _free_queues, self.threads, self.blocks)

    def _fill_threads(self, threads: int) -> None:
        """Writes what stays the same for every block of this shape."""
        table = self.threads
        rank = np.tile(np.arange(threads), self.shape.resident)
        nx, ny, _ = self.shape.block
        table[:, layout.THREAD_LINEAR] = rank
        table[:, layout.THREAD_TID_X] = rank % nx
        table[:, layout.THREAD_TID_Y] = rank // nx % ny
        table[:, layout.THREAD_TID_Z] = rank // (nx * ny)
        table[:, layout.THREAD_LANE] = rank % layout.WARP_SIZE
        table[:, layout.THREAD_WARP] = rank // layout.WARP_SIZE
        table[:, layout.THREAD_IS_FIBER] = 1
        table[:, layout.THREAD_WORKER] = self.worker.ctypes.data
        table[:, layout.THREAD_STACK_TOP] = self.stacks.tops[:-1]
        table[:, layout.THREAD_STACK_LIMIT] = self.stacks.limits[:-1]
        block_bytes = 8 * layout.BLOCK_WORDS
        owner = np.repeat(np.arange(self.shape.resident), threads)
        table[:, layout.THREAD_BLOCK] = self.blocks.ctypes.data + owner * block_bytes
        self.blocks[:, layout.BLOCK_THREADS] = (
            table.ctypes.data + np.arange(self.shape.resident) * threads * 8 * layout.THREAD_WORDS
        )

    def watch_threads(self) -> np.ndarray:
        """What the sanitizers keep per thread; made on first use."""
        if self.clocks is None:
            self.clocks = np.zeros((len(self.threads), CLOCK_WORDS), np.int64)
            rank = np.arange(len(self.threads))
            self.threads[:, layout.THREAD_CLOCKS] = self.clocks.ctypes.data + rank * 8 * CLOCK_WORDS
        return self.clocks

    def thread_order(self, *, in_order: bool) -> None:
        """Lets each thread of a block pass on to the next, or leaves every choice to the scheduler."""
        table = self.threads
        threads = len(table) // self.shape.resident
        table[:, layout.THREAD_NEXT] = 0
        if in_order:
            following = table.ctypes.data + (np.arange(len(table)) + 1) * 8 * layout.THREAD_WORDS
            has_next = table[:, layout.THREAD_LINEAR] < threads - 1
            table[has_next, layout.THREAD_NEXT] = following[has_next]


class _FreeMemory:
    """Worker memory that no launch uses, by shape; the least recently released is dropped."""

    LIMIT = 64  # a verification launches blocks of many shapes in turn
    MOST_STACKS = 1 << 15

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free: list[Memory] = []

    def take(self, shape: _Shape) -> Memory:
        with self._lock:
            for index, memory in enumerate(self._free):
                if memory.shape == shape:
                    return self._free.pop(index)
        return Memory(shape)

    def give(self, memory: Memory) -> None:
        with self._lock:
            self._free.append(memory)
            del self._free[: -self.LIMIT]
            while sum(held.stacks.count for held in self._free) > self.MOST_STACKS:
                del self._free[0]


_free_memory = _FreeMemory()


class Worker:
    """One worker of one launch."""

    def __init__(self, kernel: CompiledKernel, memory: Memory, grid: tuple[int, int, int]) -> None:
        self.kernel, self.memory, self.grid = kernel, memory, grid
        self.thread: int | None = None  # the operating-system thread that runs it

    @classmethod
    def prepare(
        cls,
        kernel: CompiledKernel,
        launch_block: np.ndarray,
        *,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        resident: int,
        shared_bytes: int,
        dynamic_shared_bytes: int,
        schedule: int | None,
        index: int,
    ) -> "Worker":
        """A worker with its control blocks filled for a launch."""
        memory = _free_memory.take(_Shape(block, resident, kernel.stack_bytes, shared_bytes, kernel.fibers))
        blocks, worker = memory.blocks, memory.worker
        blocks[:, layout.BLOCK_NTID_X : layout.BLOCK_NTID_Z + 1] = block
        blocks[:, layout.BLOCK_NCTAID_X : layout.BLOCK_NCTAID_Z + 1] = grid
        blocks[:, layout.BLOCK_DYNAMIC_SHARED_BYTES] = dynamic_shared_bytes
        blocks[:, layout.BLOCK_SHARED_BYTES] = shared_bytes
        blocks[:, layout.BLOCK_SHADOW] = blocks[:, layout.BLOCK_BESIDE] = 0
        worker[:] = 0
        worker[layout.WORKER_LAUNCH] = launch_block.ctypes.data
        worker[layout.WORKER_BLOCKS] = blocks.ctypes.data
        # a permuted order has positions without a block; a group that is to hold the whole grid takes all of them
        whole = resident >= launch_block[layout.LAUNCH_BLOCKS]
        worker[layout.WORKER_RESIDENT] = launch_block[layout.LAUNCH_BLOCK_SPAN] if whole else resident
        worker[layout.WORKER_STACK_TOP] = memory.stacks.tops[-1]
        worker[layout.WORKER_STACK_LIMIT] = memory.stacks.limits[-1]
        worker[layout.WORKER_STOPPED_SITE] = -1
        if kernel.fibers:
            memory.thread_order(in_order=schedule is None)
        if schedule is not None:
            worker[layout.WORKER_RANDOM] = np.random.default_rng([schedule, index]).integers(1, 2**62)
        return cls(kernel, memory, grid)

    def run(self) -> None:
        """Runs blocks until none is left or the launch is stopped; the interpreter lock is free meanwhile."""
        name = "rk_run_fibers" if self.kernel.fibers else "rk_run_plain"
        self.thread = threading.get_ident()
        _entry(name)(self.memory.worker.ctypes.data)
        self.thread = None

    def release(self) -> None:
        """Gives the worker's memory back for later launches."""
        _free_memory.give(self.memory)

    @property
    def status(self) -> int:
        """How the run ended: `layout.DONE`, `STOPPED` or `DEADLOCKED`."""
        return int(self.memory.worker[layout.WORKER_STATUS])

    def positions(self) -> tuple[tuple[Position, ...], int | None]:
        """Where each thread that has not exited stands, and the site that is the likeliest at fault."""
        if not self.kernel.fibers:
            return self._plain_position()
        memory, worker = self.memory, self.memory.worker
        threads = memory.shape.block[0] * memory.shape.block[1] * memory.shape.block[2]
        live = int(worker[layout.WORKER_GROUP_BLOCKS]) * threads
        result: list[Position] = []
        running, waiting = [], []
        for rank, row in enumerate(memory.threads[:live]):
            state, site = int(row[layout.THREAD_STATE]), int(row[layout.THREAD_SITE])
            if state == layout.EXITED:
                continue
            linear = int(memory.blocks[rank // threads, layout.BLOCK_LINEAR])
            line = self._line(site)
            where = f"{layout.STATE_NAMES[state]}{line}"
            if state == layout.RUNNABLE:
                running.append(site)
                where = f"runs, last seen{line}" if line else "runs"
            else:
                waiting.append(site)
            if state == layout.AT_NAMED_BARRIER:
                where += f" (number {int(row[layout.THREAD_MASK])}, for {int(row[layout.THREAD_VALUE])} threads)"
            elif state == layout.AT_MBARRIER:
                where += f" ({missing(int(row[layout.THREAD_MASK]), int(row[layout.THREAD_VALUE]))})"
            elif state == layout.AT_WARPGROUP_OPERATION:
                where = (
                    f"waits for all 128 threads of the warpgroup at {self.kernel.instructions[site]}{self._line(site)}"
                )
            elif state == layout.AT_WARP_OPERATION and row[layout.THREAD_OPERATION] >= layout.COLLECTIVE:
                where = f"waits for all 32 lanes of the warp at {self.kernel.instructions[site]}{self._line(site)}"
            elif state == layout.AT_WARP_OPERATION:
                where += f" with mask {int(row[layout.THREAD_MASK]):#010x}"
            result.append((unlinear(linear, self.grid), unlinear(rank % threads, memory.shape.block), where))
        # what runs holds the others up; and the place where the fewest threads wait is the likelier fault
        counts = Counter([site for site in running if site >= 0] or waiting)
        return tuple(result), min(counts, key=lambda site: counts[site]) if counts else None

    def _plain_position(self) -> tuple[tuple[Position, ...], int | None]:
        worker = self.memory.worker
        site = int(worker[layout.WORKER_STOPPED_SITE])
        if site < 0:
            return (), None
        block = unlinear(int(self.memory.blocks[0, layout.BLOCK_LINEAR]), self.grid)
        thread = unlinear(int(worker[layout.WORKER_STOPPED_THREAD]), self.memory.shape.block)
        return ((block, thread, f"loops{self._line(site)}"),), site

    def _line(self, site: int) -> str:
        if 0 <= site < len(self.kernel.sites) and self.kernel.sites[site][1]:
            file, line = self.kernel.sites[site]
            return f" at {os.path.basename(file)}:{line}"
        return ""


@functools.cache
def _entry(name: str) -> "ctypes._CFunctionType":
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p)(build.scheduler_address(name))
