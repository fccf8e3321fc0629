"""`mbarrier`: barriers in shared memory that count arrivals and bytes of bulk copies (PTX ISA 9.1, "mbarrier").

An mbarrier is 8 bytes of shared memory, aligned to 8. A phase ends when as many arrivals as it was made for have come
and all expected bytes have landed; the next begins at once. A waiter names the parity of the phase that it waits for:
0 for the first. Addresses come from `shared_address`. Needs compute capability 9.0 (plain arrivals: 8.0).
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.cuda import types
from numba.cuda.extending import intrinsic

from .assembly import I32, assembly

_NEEDS = (9, 0)
_TRY_WAIT = "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [$1], $2; selp.u32 $0, 1, 0, p; }"


@intrinsic
def mbarrier_init(typingctx: Any, barrier: Any, arrivals: Any) -> Any:
    """Makes the 8 bytes at `barrier` an mbarrier whose phases need `arrivals` arrivals; one thread.

    Others see it after a barrier; bulk copies after `fence_mbarrier_init` as well.
    """
    generate = assembly("mbarrier.init.shared::cta.b64 [$0], $1;", [], capability=_NEEDS, memory=True)
    return types.void(types.uint64, types.uint32), generate


@intrinsic
def mbarrier_inval(typingctx: Any, barrier: Any) -> Any:
    """Ends the life of an mbarrier, so that its memory can serve for something else; one thread."""
    generate = assembly("mbarrier.inval.shared::cta.b64 [$0];", [], capability=_NEEDS, memory=True)
    return types.void(types.uint64), generate


@intrinsic
def fence_mbarrier_init(typingctx: Any) -> Any:
    """Lets the async proxy see mbarriers that this thread initialised."""
    generate = assembly("fence.mbarrier_init.release.cluster;", [], capability=_NEEDS, memory=True)
    return types.void(), generate


@intrinsic
def mbarrier_arrive(typingctx: Any, barrier: Any) -> Any:
    """Arrives: what this thread did before is seen by those that wait for the phase."""
    generate = assembly("mbarrier.arrive.shared::cta.b64 _, [$0];", [], capability=_NEEDS, memory=True)
    return types.void(types.uint64), generate


@intrinsic
def mbarrier_arrive_expect_tx(typingctx: Any, barrier: Any, size: Any) -> Any:
    """Arrives, and the phase lasts until `size` more bytes of bulk copies have landed."""
    text = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;"
    generate = assembly(text, [], capability=_NEEDS, memory=True)
    return types.void(types.uint64, types.uint32), generate


@intrinsic
def mbarrier_try_wait_parity(typingctx: Any, barrier: Any, parity: Any) -> Any:
    """1 if the phase of this parity has ended, waiting for it for a time that the hardware chooses; else 0."""
    generate = assembly(_TRY_WAIT, [I32], capability=_NEEDS, memory=True)
    return types.uint32(types.uint64, types.uint32), generate


@intrinsic
def mbarrier_wait_parity(typingctx: Any, barrier: Any, parity: Any) -> Any:
    """Returns once the phase of this parity has ended: what was done before its arrivals, and its copies, are seen."""
    try_wait = assembly(_TRY_WAIT, [I32], capability=_NEEDS, memory=True)
    signature = types.void(types.uint64, types.uint32)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        # a loop here, and not in a device function, so that tools that report lines name the caller's
        again, ended = (builder.append_basic_block(f"mbarrier.{name}") for name in ("again", "ended"))
        builder.branch(again)
        builder.position_at_end(again)
        success = try_wait(context, builder, signature, arguments)
        builder.cbranch(builder.icmp_unsigned("!=", success, ir.Constant(I32, 0)), ended, again)
        builder.position_at_end(ended)
        return context.get_dummy_value()

    return signature, generate
