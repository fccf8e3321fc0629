"""One launch: arguments packed, control blocks filled, workers run, faults turned into exceptions."""

import contextlib
import dataclasses
import inspect
import os
import re
import time
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any

import numpy as np

from . import packing, printing, stops
from .device import ATTRIBUTES, resident_blocks
from .faults import (
    Deadlock,
    KernelFault,
    LaunchConfigurationError,
    NoProgress,
    Position,
    kernel_exception_class,
)
from .frontend import exception_of
from .kernel import CompiledKernel, KernelCache
from .limits import check_shared_memory
from .runtime import layout
from .sampling import sampled_blocks
from .settings import Settings
from .watching import Watch
from .workers import Worker, worker_pool

DEFAULT_TIMEOUT = 120.0  # seconds
_SMALL_LAUNCH = 1 << 14  # CUDA threads; below it one core is faster than two
_RESIDENT_THREADS = 1 << 14
_GRACE = 0.2  # seconds from the request to stop to the signal
_LOOK = 0.5  # seconds between looks at a running launch
_AFTER_FAULT = 1.0  # seconds that other threads have to end once one is at fault
_kernels = KernelCache()


def launch(
    dispatcher: Any,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    dynamic_shared_bytes: int,
    arguments: tuple[Any, ...],
    settings: Settings,
    *,
    cooperative: bool = False,
) -> None:
    """Runs a kernel on the CPU; returns when it has ended.

    Raises `KernelFault` subclasses: `Deadlock`, `NoProgress`, `KernelException`, `Unsupported`; and what Numba raises
    where the kernel does not compile for these arguments.
    """
    types = packing.argument_types(dispatcher, arguments)
    debug = bool(dispatcher.targetoptions.get("debug"))
    settings = dataclasses.replace(settings, always_raise=settings.always_raise or debug)
    kernel = _kernels.get(
        dispatcher.py_func,
        types,
        fastmath=bool(dispatcher.targetoptions.get("fastmath")),
        debug=debug,
        scheduled=settings.schedule is not None,
        watched=settings.watches,
        traced=settings.tracer is not None,
        optimise=settings.optimise,
    )
    where = {"file": kernel.file, "line": kernel.line}
    check_shared_memory(kernel.name, kernel.shared_bytes, dynamic_shared_bytes, where)
    packed = packing.pack(kernel.argument_types, arguments)
    run = _Run(kernel, grid, block, dynamic_shared_bytes, packed.words, settings)
    if settings.watches:
        names = tuple(inspect.signature(dispatcher.py_func).parameters)
        run.watch = Watch(kernel, settings, packing.named_arrays(names, arguments), grid, block)
    with settings.tracer.launch(run, dispatcher) if settings.tracer is not None else contextlib.nullcontext():
        run.execute()


class _Run:
    """The control blocks of one launch and the workers that execute it."""

    def __init__(
        self,
        kernel: CompiledKernel,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        dynamic_shared_bytes: int,
        arguments: np.ndarray,
        settings: Settings,
    ) -> None:
        self.kernel, self.grid, self.block, self.settings = kernel, grid, block, settings
        self.arguments = arguments
        self.blocks = grid[0] * grid[1] * grid[2]
        self.threads = block[0] * block[1] * block[2]
        self.dynamic_shared_bytes = dynamic_shared_bytes
        self.shared_bytes = -(-kernel.shared_bytes // 16) * 16 + dynamic_shared_bytes
        self.printer = printing.PrintBuffer()
        self.launch_block = self._launch_block()
        self.resident = self._resident()
        self.watch: Watch | None = None

    def _launch_block(self) -> np.ndarray:
        words = np.zeros(layout.LAUNCH_WORDS, np.int64)
        words[layout.LAUNCH_BLOCKS] = words[layout.LAUNCH_BLOCK_SPAN] = self.blocks
        words[layout.LAUNCH_BLOCK_FACTOR] = 1
        if self.settings.schedule is not None and self.blocks > 1:
            random = np.random.default_rng(self.settings.schedule)
            words[layout.LAUNCH_BLOCK_SPAN] = 1 << (self.blocks - 1).bit_length()
            words[layout.LAUNCH_BLOCK_FACTOR] = 2 * int(random.integers(1 << 30)) + 1
            words[layout.LAUNCH_BLOCK_OFFSET] = int(random.integers(1 << 30))
            if words[layout.LAUNCH_BLOCK_SPAN] == self.blocks:
                words[layout.LAUNCH_BLOCK_SPAN] *= 2  # equal values mean "in order"
        if self.settings.sample is not None and self.blocks > self.settings.sample and not self.kernel.grid_barrier:
            self.sample = sampled_blocks(self.blocks, self.threads, self.settings.sample)
            words[layout.LAUNCH_BLOCK_LIST] = self.sample.ctypes.data
            words[layout.LAUNCH_BLOCK_SPAN] = len(self.sample)
        words[layout.LAUNCH_ARGUMENTS] = self.arguments.ctypes.data
        words[layout.LAUNCH_ENTRY] = self.kernel.entry
        words[layout.LAUNCH_SHARED_BYTES] = self.shared_bytes
        words[layout.LAUNCH_THREADS_PER_BLOCK] = self.threads
        words[layout.LAUNCH_PRINT_BUFFER] = self.printer.address
        words[layout.LAUNCH_PRINT_CAPACITY] = self.printer.capacity
        return words

    def _resident(self) -> int:
        """How many blocks one worker holds at once."""
        if self.kernel.grid_barrier:
            most = resident_blocks(self.threads, self.shared_bytes) * ATTRIBUTES["MULTIPROCESSOR_COUNT"]
            if self.blocks > most:
                what = f"{self.blocks} blocks of {self.threads} threads with a grid barrier"
                raise LaunchConfigurationError(f"{what}; a device holds at most {most} at once", **self._place(None))
            return self.blocks
        if self.kernel.spins:
            return max(1, min(self.blocks, _RESIDENT_THREADS // self.threads))
        return 1

    def _worker_count(self) -> int:
        if self.settings.schedule is not None or self.kernel.grid_barrier or self.watch is not None:
            return 1
        if self.blocks * self.threads < _SMALL_LAUNCH and self.settings.workers is None:
            return 1
        if self.kernel.spins and self.blocks <= self.resident:
            return 1
        return max(1, min(self.settings.workers or os.cpu_count() or 1, self.blocks))

    def execute(self) -> None:
        """Runs the launch to its end and raises what went wrong."""
        if self.blocks == 0 or self.threads == 0:
            return
        count = self._worker_count()
        workers = [
            Worker.prepare(
                self.kernel,
                self.launch_block,
                grid=self.grid,
                block=self.block,
                resident=self.resident,
                shared_bytes=self.shared_bytes,
                dynamic_shared_bytes=self.dynamic_shared_bytes,
                schedule=self.settings.schedule,
                index=index,
            )
            for index in range(count)
        ]
        if self.watch is not None:
            self.watch.attach(workers[0].memory, self.shared_bytes)
        try:
            timed_out = self._run(workers)
            self.printer.flush(int(self.launch_block[layout.LAUNCH_PRINT_USED]))
            if self.watch is not None:
                self.watch.finish(workers[0], self.launch_block)
            self._raise_fault(workers, timed_out)
        finally:
            for worker in workers:
                worker.release()

    def _run(self, workers: list[Worker]) -> bool:
        """Runs the workers; returns whether the time limit stopped them. An interrupt stops them and is raised."""
        futures = [worker_pool().submit(worker.run) for worker in workers]
        deadline = time.monotonic() + (self.settings.timeout or DEFAULT_TIMEOUT)
        stopped = False
        try:
            while pending := [future for future in futures if not future.done()]:
                left = deadline - time.monotonic()
                if left <= 0:
                    self._stop(workers, futures)
                    stopped = True
                    continue
                wait(pending, timeout=min(left, _LOOK), return_when=FIRST_COMPLETED)
                if self._at_fault(workers):
                    deadline = min(deadline, time.monotonic() + _AFTER_FAULT)
        except BaseException:
            self._stop(workers, futures)
            raise
        for future in futures:
            future.result()
        return stopped

    def _at_fault(self, workers: list[Worker]) -> bool:
        """Whether the launch will raise in any case, so that threads which wait for ever are not waited for."""
        raised = self.settings.always_raise and self.launch_block[layout.LAUNCH_EXCEPTION] != 0
        return bool(raised) or any(worker.status == layout.DEADLOCKED for worker in workers)

    def _stop(self, workers: list[Worker], futures: list["Future[None]"]) -> None:
        """Ends the workers: at their next poll, or by a signal where none comes soon. Interrupts do not end it."""
        self.launch_block[layout.LAUNCH_STOP] = 1
        while not all(future.done() for future in futures):
            with contextlib.suppress(KeyboardInterrupt):
                wait(futures, timeout=_GRACE)
                stops.leave_kernels(worker for worker, future in zip(workers, futures) if not future.done())

    def _place(self, site: int | None) -> dict[str, Any]:
        file, line = self.kernel.file, self.kernel.line
        if site is not None and 0 <= site < len(self.kernel.sites):
            file, line = self.kernel.sites[site]
        return {"kernel": self.kernel.name, "file": file, "line": line or self.kernel.line}

    def _raise_fault(self, workers: list[Worker], timed_out: bool) -> None:
        if code := int(self.launch_block[layout.LAUNCH_EXCEPTION]):
            self._raise_exception(code)
        for worker in workers:
            if worker.status == layout.DEADLOCKED:
                raise self._fault(Deadlock, worker, "no thread can go on")
        if timed_out:
            limit = self.settings.timeout or DEFAULT_TIMEOUT
            for worker in workers:
                if worker.status == layout.STOPPED:
                    raise self._fault(NoProgress, worker, f"the kernel did not end within {limit:g} s")

    def _fault(self, kind: type[KernelFault], worker: Worker, what: str) -> KernelFault:
        positions, site = worker.positions()
        return kind(f"{what}: {summary(positions)}", threads=positions, **self._place(site))

    def _raise_exception(self, code: int) -> None:
        kind, arguments, location = exception_of(code)
        if not self.settings.always_raise and kind is not RecursionError:
            return
        thread = packing.unlinear(int(self.launch_block[layout.LAUNCH_EXCEPTION_THREAD]), self.block)
        block = packing.unlinear(int(self.launch_block[layout.LAUNCH_EXCEPTION_BLOCK]), self.grid)
        exception = kind(*(arguments or ()))
        text = f"{kind.__name__}: {exception}" if str(exception) else kind.__name__
        file, line = (location[1], location[2]) if location else (self.kernel.file, self.kernel.line)
        raise kernel_exception_class(kind)(
            f"{text} (block {block}, thread {thread})",
            exception=exception,
            thread=(block, thread),
            kernel=self.kernel.name,
            file=file,
            line=line,
        ) from exception


def summary(positions: tuple[Position, ...]) -> str:
    """The waiting threads in one line, those that wait at the same place counted together."""
    groups: dict[str, list[Position]] = {}
    for position in positions:
        groups.setdefault(position[2], []).append(position)
    parts = []
    for where, members in groups.items():
        block, thread, _ = members[0]
        count = f"{len(members)} threads" if len(members) > 1 else "1 thread"
        where = re.sub(r"^(wait|loop|run)s", r"\1", where) if len(members) > 1 else where
        parts.append(f"{count} (first: block {block}, thread {thread}) {where}")
    return "; ".join(parts) if parts else "no thread has reached a place where it can be stopped"
