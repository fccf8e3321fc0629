"""`cp.async`: copies from global to shared memory that a thread starts and waits for later.

PTX ISA 9.1, "Data Movement: cp.async, cp.async.commit_group, cp.async.wait_group". Each thread acts for itself: it
starts copies, closes the open ones into a group, and waits until at most n of its newest groups are pending. What has
arrived is visible to that thread alone; a barrier after the wait makes it visible to the block.
Addresses come from `shared_address` and `global_address`, aligned to the size. Needs compute capability 8.0.

Hints change no value: `_prefetch` forms have level 2 fetch a piece of 64, 128 or 256 bytes round the source; `_hint`
forms take a policy that says what level 2 should keep ("Data Movement: createpolicy"), made once by a
`createpolicy_*` and kept in a register.
"""

from typing import Any

from numba.cuda import types
from numba.cuda.extending import intrinsic

from .assembly import I64, assembly, literal

_NEEDS = (8, 0)


def _copy(text: str, arguments: int) -> Any:
    kinds = (types.uint64, types.uint64, types.uint32)[:arguments]
    return kinds, assembly(text, [], capability=_NEEDS, memory=True)


@intrinsic
def cp_async_ca(typingctx: Any, destination: Any, source: Any, size: Any) -> Any:
    """Starts a copy of `size` bytes (4, 8 or 16; a constant), cached at all levels. Takes part: the calling thread."""
    size_bytes = literal(size, "cp_async_ca: size", (4, 8, 16))
    kinds, generate = _copy(f"cp.async.ca.shared.global [$0], [$1], {size_bytes};", 2)
    return types.void(*kinds, size), lambda c, b, s, a: generate(c, b, s, a[:2])


@intrinsic
def cp_async_ca_zfill(typingctx: Any, destination: Any, source: Any, size: Any, source_bytes: Any) -> Any:
    """As `cp_async_ca`, but only the first `source_bytes` (0 to `size`) bytes are read; the rest becomes zeros."""
    size_bytes = literal(size, "cp_async_ca_zfill: size", (4, 8, 16))
    kinds, generate = _copy(f"cp.async.ca.shared.global [$0], [$1], {size_bytes}, $2;", 3)
    signature = types.void(kinds[0], kinds[1], size, kinds[2])
    return signature, lambda c, b, s, a: generate(c, b, s, [a[0], a[1], a[3]])


@intrinsic
def cp_async_cg(typingctx: Any, destination: Any, source: Any) -> Any:
    """Starts a copy of 16 bytes, cached at level 2 only. Takes part: the calling thread."""
    kinds, generate = _copy("cp.async.cg.shared.global [$0], [$1], 16;", 2)
    return types.void(*kinds), generate


@intrinsic
def cp_async_cg_zfill(typingctx: Any, destination: Any, source: Any, source_bytes: Any) -> Any:
    """As `cp_async_cg`, but only the first `source_bytes` (0 to 16) bytes are read; the rest is filled with zeros."""
    kinds, generate = _copy("cp.async.cg.shared.global [$0], [$1], 16, $2;", 3)
    return types.void(*kinds), generate


@intrinsic
def cp_async_ca_prefetch(typingctx: Any, destination: Any, source: Any, size: Any, prefetch: Any) -> Any:
    """As `cp_async_ca`; level 2 fetches `prefetch` bytes round the source (64, 128 or 256; a constant)."""
    size_bytes = literal(size, "cp_async_ca_prefetch: size", (4, 8, 16))
    fetched = literal(prefetch, "cp_async_ca_prefetch: prefetch", (64, 128, 256))
    kinds, generate = _copy(f"cp.async.ca.shared.global.L2::{fetched}B [$0], [$1], {size_bytes};", 2)
    return types.void(*kinds, size, prefetch), lambda c, b, s, a: generate(c, b, s, a[:2])


@intrinsic
def cp_async_cg_prefetch(typingctx: Any, destination: Any, source: Any, prefetch: Any) -> Any:
    """As `cp_async_cg`; level 2 fetches `prefetch` bytes round the source (64, 128 or 256; a constant)."""
    fetched = literal(prefetch, "cp_async_cg_prefetch: prefetch", (64, 128, 256))
    kinds, generate = _copy(f"cp.async.cg.shared.global.L2::{fetched}B [$0], [$1], 16;", 2)
    return types.void(*kinds, prefetch), lambda c, b, s, a: generate(c, b, s, a[:2])


@intrinsic
def cp_async_ca_hint(typingctx: Any, destination: Any, source: Any, size: Any, policy: Any) -> Any:
    """As `cp_async_ca`, with a cache policy (uint64, of a `createpolicy_*`) for level 2."""
    size_bytes = literal(size, "cp_async_ca_hint: size", (4, 8, 16))
    _, generate = _copy(f"cp.async.ca.shared.global.L2::cache_hint [$0], [$1], {size_bytes}, $2;", 2)
    signature = types.void(types.uint64, types.uint64, size, types.uint64)
    return signature, lambda c, b, s, a: generate(c, b, s, [a[0], a[1], a[3]])


@intrinsic
def cp_async_cg_hint(typingctx: Any, destination: Any, source: Any, policy: Any) -> Any:
    """As `cp_async_cg`, with a cache policy (uint64, of a `createpolicy_*`) for level 2."""
    _, generate = _copy("cp.async.cg.shared.global.L2::cache_hint [$0], [$1], 16, $2;", 2)
    return types.void(types.uint64, types.uint64, types.uint64), generate


def _policy(priority: str, doc: str) -> Any:
    name = f"createpolicy_{priority}"
    text = f"createpolicy.fractional.L2::{priority}.b64 $0, 1.0;"

    def instruction(typingctx: Any) -> Any:
        return types.uint64(), assembly(text, [I64], capability=_NEEDS)

    instruction.__name__ = instruction.__qualname__ = name
    instruction.__doc__ = f"A cache policy (uint64) under which level 2 {doc}. Its bits mean nothing to a program."
    return intrinsic(instruction)


createpolicy_evict_first = _policy("evict_first", "gives up what it fetched first of all")
createpolicy_evict_last = _policy("evict_last", "keeps what it fetched longest")
createpolicy_evict_normal = _policy("evict_normal", "treats what it fetched as without a policy")


@intrinsic
def cp_async_commit_group(typingctx: Any) -> Any:
    """Closes the calling thread's open copies into a group; an empty group counts, too."""
    return types.void(), assembly("cp.async.commit_group;", [], capability=_NEEDS, memory=True)


@intrinsic
def cp_async_wait_group(typingctx: Any, pending: Any) -> Any:
    """Waits until at most `pending` (a constant, 0 to 64) of the calling thread's newest groups are still under way."""
    count = literal(pending, "cp_async_wait_group: pending", range(65))
    generate = assembly(f"cp.async.wait_group {count};", [], capability=_NEEDS, memory=True)
    return types.void(pending), lambda c, b, s, a: generate(c, b, s, [])


@intrinsic
def cp_async_wait_all(typingctx: Any) -> Any:
    """Waits for all copies that the calling thread has started, in a group or not."""
    return types.void(), assembly("cp.async.wait_all;", [], capability=_NEEDS, memory=True)
