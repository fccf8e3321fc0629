"""Bulk copies by the async proxy: `cp.async.bulk` and, through tensor maps, `cp.async.bulk.tensor` (PTX ISA 9.1).

One thread starts a copy; the hardware carries it out. Loads end by adding their bytes to an mbarrier; stores are
closed into groups and waited for by the thread that started them. The async proxy does not see ordinary writes to
shared memory until `fence_proxy_async`, executed by the writers before the barrier after which the copy (or `wgmma`)
is started. A tensor map is encoded on the host (`tensor_maps.py`) and lies in 128 aligned bytes of global memory.
Needs compute capability 9.0. numba-cuda 0.30 hands no cluster size to a launch, so there is no multicast here.
"""

from __future__ import annotations

from typing import Any

from numba.cuda import types
from numba.cuda.extending import intrinsic

from .assembly import assembly, literal

_NEEDS = (9, 0)


@intrinsic
def fence_proxy_async(typingctx: Any) -> Any:
    """Orders this thread's earlier ordinary accesses before accesses of the async proxy, and the other way round."""
    return types.void(), assembly("fence.proxy.async;", [], capability=_NEEDS, memory=True)


@intrinsic
def fence_tensor_map(typingctx: Any, tensor_map: Any) -> Any:
    """Lets copies of this thread see a tensor map (its global address) that was written to global memory before."""
    text = "fence.proxy.tensormap::generic.acquire.gpu [$0], 128;"
    return types.void(types.uint64), assembly(text, [], capability=_NEEDS, memory=True)


@intrinsic
def cp_async_bulk_load(typingctx: Any, destination: Any, source: Any, size: Any, barrier: Any) -> Any:
    """Starts a copy of `size` bytes (a multiple of 16) from global to shared memory, counted by `barrier`.

    destination, barrier: shared addresses; source: a global address; both data addresses aligned to 16.
    """
    text = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [$0], [$1], $2, [$3];"
    signature = types.void(types.uint64, types.uint64, types.uint32, types.uint64)
    return signature, assembly(text, [], capability=_NEEDS, memory=True)


@intrinsic
def cp_async_bulk_store(typingctx: Any, destination: Any, source: Any, size: Any) -> Any:
    """Starts a copy of `size` bytes (a multiple of 16) from shared to global memory, part of the open bulk group."""
    text = "cp.async.bulk.global.shared::cta.bulk_group [$0], [$1], $2;"
    return types.void(types.uint64, types.uint64, types.uint32), assembly(text, [], capability=_NEEDS, memory=True)


@intrinsic
def cp_async_bulk_tensor_2d_load(
    typingctx: Any, destination: Any, tensor_map: Any, x: Any, y: Any, barrier: Any
) -> Any:
    """Starts the copy of a tensor map's box whose first element is (x, y), x along the contiguous axis.

    destination: a shared address aligned to 128 (1,024 with the 128-byte swizzle). Elements outside of the tensor
    arrive as zeros; `barrier` counts all bytes of the box all the same.
    """
    text = (
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [$0], [$1, {$2, $3}], [$4];"
    )
    signature = types.void(types.uint64, types.uint64, types.int32, types.int32, types.uint64)
    return signature, assembly(text, [], capability=_NEEDS, memory=True)


@intrinsic
def cp_async_bulk_tensor_2d_store(typingctx: Any, tensor_map: Any, x: Any, y: Any, source: Any) -> Any:
    """Starts the copy of a box from shared memory to the tensor; elements outside of it are not written."""
    text = "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [$0, {$1, $2}], [$3];"
    signature = types.void(types.uint64, types.int32, types.int32, types.uint64)
    return signature, assembly(text, [], capability=_NEEDS, memory=True)


@intrinsic
def cp_async_bulk_commit_group(typingctx: Any) -> Any:
    """Closes the calling thread's bulk stores into a group."""
    return types.void(), assembly("cp.async.bulk.commit_group;", [], capability=_NEEDS, memory=True)


@intrinsic
def cp_async_bulk_wait_group(typingctx: Any, pending: Any) -> Any:
    """Waits until at most `pending` (a constant) of the thread's newest bulk groups are under way."""
    count = literal(pending, "cp_async_bulk_wait_group: pending", range(65))
    generate = assembly(f"cp.async.bulk.wait_group {count};", [], capability=_NEEDS, memory=True)
    return types.void(pending), lambda c, b, s, a: generate(c, b, s, [])


@intrinsic
def cp_async_bulk_wait_group_read(typingctx: Any, pending: Any) -> Any:
    """As `cp_async_bulk_wait_group`, for the sources having been read: the shared memory may then be overwritten."""
    count = literal(pending, "cp_async_bulk_wait_group_read: pending", range(65))
    generate = assembly(f"cp.async.bulk.wait_group.read {count};", [], capability=_NEEDS, memory=True)
    return types.void(pending), lambda c, b, s, a: generate(c, b, s, [])
