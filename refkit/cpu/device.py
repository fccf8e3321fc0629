"""The device that the CPU executor stands for: limits and attributes of compute capability 9.0, and its context."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import weakref
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numba.cuda.cudadrv import driver as numba_driver

from . import memory
from .faults import Unsupported
from .streams import LEGACY_DEFAULT, PER_THREAD_DEFAULT, Event, Stream

NAME = "refkit CPU executor"


class ComputeCapability(NamedTuple):
    """Compute capability of a device."""

    major: int
    minor: int


# CUDA programming guide 13.1, "Technical specifications per compute capability", column 9.0; sizes of an H200.
ATTRIBUTES: dict[str, int] = {
    "MAX_THREADS_PER_BLOCK": 1024,
    "MAX_BLOCK_DIM_X": 1024,
    "MAX_BLOCK_DIM_Y": 1024,
    "MAX_BLOCK_DIM_Z": 64,
    "MAX_GRID_DIM_X": 2**31 - 1,
    "MAX_GRID_DIM_Y": 65_535,
    "MAX_GRID_DIM_Z": 65_535,
    "MAX_SHARED_MEMORY_PER_BLOCK": 48 * 1024,
    "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 227 * 1024,
    "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": 228 * 1024,
    "RESERVED_SHARED_MEMORY_PER_BLOCK": 1024,
    "TOTAL_CONSTANT_MEMORY": 64 * 1024,
    "WARP_SIZE": 32,
    "MAX_PITCH": 2**31 - 1,
    "MAX_REGISTERS_PER_BLOCK": 65_536,
    "MAX_REGISTERS_PER_MULTIPROCESSOR": 65_536,
    "MULTIPROCESSOR_COUNT": 132,
    "MAX_THREADS_PER_MULTIPROCESSOR": 2048,
    "MAX_BLOCKS_PER_MULTIPROCESSOR": 32,
    "CLOCK_RATE": 1_980_000,
    "MEMORY_CLOCK_RATE": 3_201_000,
    "GLOBAL_MEMORY_BUS_WIDTH": 6144,
    "L2_CACHE_SIZE": 50 * 1024**2,
    "COMPUTE_CAPABILITY_MAJOR": 9,
    "COMPUTE_CAPABILITY_MINOR": 0,
    "SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO": 2,
    "COOPERATIVE_LAUNCH": 1,
    "CONCURRENT_KERNELS": 1,
    "ASYNC_ENGINE_COUNT": 1,
    "UNIFIED_ADDRESSING": 1,
    "MANAGED_MEMORY": 1,
    "CONCURRENT_MANAGED_ACCESS": 1,
    "PAGEABLE_MEMORY_ACCESS": 1,
    "CAN_MAP_HOST_MEMORY": 1,
    "COMPUTE_PREEMPTION_SUPPORTED": 1,
    "STREAM_PRIORITIES_SUPPORTED": 1,
    "ECC_ENABLED": 0,
    "INTEGRATED": 1,
    "KERNEL_EXEC_TIMEOUT": 0,
    "TCC_DRIVER": 0,
    "COMPUTE_MODE": 0,
    "PCI_BUS_ID": 0,
    "PCI_DEVICE_ID": 0,
    "PCI_DOMAIN_ID": 0,
}


class Device:
    """The one device; attributes by the names of `CU_DEVICE_ATTRIBUTE_*`, as on Numba's devices."""

    id = 0
    name = NAME
    uuid = "GPU-00000000-0000-0000-0000-000000000000"
    compute_capability = ComputeCapability(9, 0)
    supports_float16 = True
    supports_bfloat16 = True
    supports_fp8 = True

    def __init__(self) -> None:
        self.primary_context = Context(self)

    def __getattr__(self, name: str) -> int:
        try:
            return ATTRIBUTES[name]
        except KeyError:
            pass
        if hasattr(numba_driver.binding.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}"):
            raise Unsupported(f"device attribute {name} has no value on the CPU executor")
        raise AttributeError(f"a device has no attribute {name}")

    def __repr__(self) -> str:
        return f"<CUDA device {self.id} '{self.name}'>"

    def get_device_identity(self) -> dict[str, int]:
        """Where the device sits on the bus: nowhere."""
        return {"pci_domain_id": 0, "pci_bus_id": 0, "pci_device_id": 0}

    def get_primary_context(self) -> Context:
        """The device's context."""
        return self.primary_context

    def release_primary_context(self) -> None:
        """Nothing to release: arrays own their memory."""

    def reset(self) -> None:
        """Wait for pending callbacks."""
        self.primary_context.reset()


class _Mapped(np.ndarray):
    """Bytes of host memory that carry their own device address, as Numba's mapped and managed memory does."""

    device_pointer = property(lambda self: numba_driver.binding.CUdeviceptr(self.ctypes.data))
    device_pointer_value = property(lambda self: self.ctypes.data)
    __cuda_memory__ = True

    @property
    def device_ctypes_pointer(self) -> Any:
        return numba_driver.c_size_t(self.ctypes.data)


class Context:
    """What `numba.cuda.current_context()` gives: allocation, streams, events, memory information."""

    def __init__(self, device: Device) -> None:
        self.device = weakref.proxy(device)
        self.handle = 1
        self.modules: dict[Any, Any] = {}
        self._handles = itertools.count(1000)
        self._streams: weakref.WeakValueDictionary[int, Stream] = weakref.WeakValueDictionary()
        self._events: weakref.WeakValueDictionary[int, Event] = weakref.WeakValueDictionary()
        self._defaults = {handle: Stream(handle) for handle in (0, LEGACY_DEFAULT, PER_THREAD_DEFAULT)}
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<CUDA context of device {self.device.id}>"

    def push(self) -> None:
        """Nothing to do: there is one context."""

    def pop(self) -> None:
        """Nothing to do: there is one context."""

    def prepare_for_use(self) -> None:
        """Nothing to do."""

    def reset(self) -> None:
        """Wait for pending callbacks; memory belongs to the arrays and stays."""
        self.synchronize()

    def synchronize(self) -> None:
        """Wait for the callbacks of every stream."""
        with self._lock:
            streams = [*self._defaults.values(), *self._streams.values()]
        for stream in streams:
            stream.drain()

    @contextlib.contextmanager
    def defer_cleanup(self) -> Iterator[None]:
        """Memory is freed by its last reference; there is nothing to defer."""
        yield

    def get_memory_info(self) -> Any:
        """`(free, total)` bytes of this machine's memory."""
        page = os.sysconf("SC_PAGE_SIZE")
        return numba_driver.MemoryInfo(os.sysconf("SC_AVPHYS_PAGES") * page, os.sysconf("SC_PHYS_PAGES") * page)

    def memalloc(self, bytesize: int) -> Any:
        """New device memory, as Numba's `MemoryPointer`."""
        block = memory.allocate(bytesize)
        pointer = numba_driver.binding.CUdeviceptr(block.ctypes.data)
        return numba_driver.MemoryPointer(self, pointer, bytesize, owner=block)

    def memhostalloc(self, bytesize: int, mapped: bool = False, portable: bool = False, wc: bool = False) -> np.ndarray:
        """New pinned host memory, a buffer of bytes; device memory too, so that `mapped` changes nothing."""
        return memory.allocate(bytesize).view(_Mapped) if mapped else memory.allocate(bytesize)

    def memallocmanaged(self, bytesize: int, attach_global: bool = True) -> np.ndarray:
        """New memory for host and device, a buffer of bytes."""
        return memory.allocate(bytesize).view(_Mapped)

    def mempin(self, owner: Any, pointer: int, size: int, mapped: bool = False) -> Any:
        """Host memory of `owner` as device memory, as Numba's `MemoryPointer`."""
        block = memory.adopt(np.asarray(owner))
        return numba_driver.MemoryPointer(
            self, numba_driver.binding.CUdeviceptr(pointer), size, owner=block, finalizer=lambda: None
        )

    def get_default_stream(self) -> Stream:
        """The default stream."""
        return self._defaults[0]

    def get_legacy_default_stream(self) -> Stream:
        """The legacy default stream."""
        return self._defaults[LEGACY_DEFAULT]

    def get_per_thread_default_stream(self) -> Stream:
        """The per-thread default stream."""
        return self._defaults[PER_THREAD_DEFAULT]

    def create_stream(self) -> Stream:
        """A new stream."""
        return self._kept(Stream(next(self._handles)))

    def create_external_stream(self, ptr: int) -> Stream:
        """A stream for the handle `ptr` that another library made."""
        if not isinstance(ptr, int):
            raise TypeError(f"ptr for external stream must be an int, got {ptr!r}")
        return self.stream(ptr) or self._kept(Stream(ptr, external=True))

    def _kept(self, stream: Stream) -> Stream:
        with self._lock:
            self._streams[stream.handle] = stream
        return stream

    def stream(self, handle: int) -> Stream | None:
        """The live stream with this handle."""
        return self._defaults.get(handle) or self._streams.get(handle)

    def create_event(self, timing: bool = True) -> Event:
        """A new event."""
        event = Event(next(self._handles), timing)
        with self._lock:
            self._events[event.handle] = event
        return event

    def event(self, handle: int) -> Event:
        """The live event with this handle."""
        return self._events[handle]

    def get_max_potential_block_size(
        self, func: Any, b2d_func: Any, memsize: int, blocksizelimit: int, flags: Any = None
    ) -> Any:
        """`(blocks that fill the device, threads per block)` for a kernel of unknown register use."""
        threads = min(256, blocksizelimit or 256)
        return ATTRIBUTES["MULTIPROCESSOR_COUNT"] * resident_blocks(threads), threads

    def get_active_blocks_per_multiprocessor(self, func: Any, blocksize: int, memsize: int, flags: Any = None) -> int:
        """Blocks that fit on one multiprocessor by their threads and dynamic shared memory."""
        return resident_blocks(blocksize, memsize)

    def get_ipc_handle(self, memory: Any) -> Any:
        """Not emulated."""
        raise Unsupported("inter-process handles are not emulated on the CPU executor")

    def open_ipc_handle(self, handle: Any, size: int) -> Any:
        """Not emulated."""
        raise Unsupported("inter-process handles are not emulated on the CPU executor")

    def can_access_peer(self, peer_device: int) -> bool:
        """False: there is one device."""
        return False

    def enable_peer_access(self, peer_context: Any, flags: int = 0) -> None:
        """Not emulated."""
        raise Unsupported("there is no peer device on the CPU executor")

    def create_module_ptx(self, ptx: Any) -> Any:
        """Not emulated."""
        raise Unsupported("PTX modules cannot be loaded on the CPU executor")

    def create_module_image(self, image: Any, *args: Any, **kwargs: Any) -> Any:
        """Not emulated."""
        raise Unsupported("device binaries cannot be loaded on the CPU executor")


def resident_blocks(threads: int, shared_bytes: int = 0) -> int:
    """Blocks resident on one multiprocessor, limited by warps, blocks and shared memory (registers are not known)."""
    warps = -(-threads // ATTRIBUTES["WARP_SIZE"]) * ATTRIBUTES["WARP_SIZE"]
    blocks = min(ATTRIBUTES["MAX_BLOCKS_PER_MULTIPROCESSOR"], ATTRIBUTES["MAX_THREADS_PER_MULTIPROCESSOR"] // warps)
    room = -(-shared_bytes // 128) * 128 + ATTRIBUTES["RESERVED_SHARED_MEMORY_PER_BLOCK"]
    return min(blocks, ATTRIBUTES["MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"] // room)


DEVICE = Device()
