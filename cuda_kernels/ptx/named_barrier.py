"""Named barriers: some of a block's threads wait for each other (PTX ISA 9.1, "Parallel Synchronization: bar").

A block has 16, numbered 0 to 15; 0 is the one of `cuda.syncthreads`. `count` threads take part, a multiple of 32, and
all lanes of a warp come together. The barrier completes with the arrival of `count` threads and can then be used anew.
"""

from typing import Any

from numba.cuda import types
from numba.cuda.extending import intrinsic

from .assembly import assembly


@intrinsic
def bar_sync(typingctx: Any, barrier: Any, count: Any) -> Any:
    """`bar.sync`: arrives at `barrier` and waits until `count` threads have; orders what they did before it."""
    return types.void(types.uint32, types.uint32), assembly("bar.sync $0, $1;", [], memory=True)


@intrinsic
def bar_arrive(typingctx: Any, barrier: Any, count: Any) -> Any:
    """`bar.arrive`: arrives at `barrier` without waiting; what came before is seen by those that `bar_sync` there."""
    return types.void(types.uint32, types.uint32), assembly("bar.arrive $0, $1;", [], memory=True)
