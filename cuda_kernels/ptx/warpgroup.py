"""What specialised warps need: registers moved between warpgroups, and one lane elected (PTX ISA 9.1)."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.cuda import types
from numba.cuda.extending import intrinsic

from .assembly import I32, assembly, literal, require_sm_90a

_COUNTS = range(24, 257, 8)


def _setmaxnreg(direction: str, doc: str) -> Any:
    name = f"setmaxnreg_{direction}"

    def instruction(typingctx: Any, count: Any) -> Any:
        registers = literal(count, f"{name}: count", _COUNTS)
        generate = assembly(f"setmaxnreg.{direction}.sync.aligned.u32 {registers};", [], effects=True)

        def checked(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
            require_sm_90a("setmaxnreg")
            return generate(context, builder, signature, [])

        return types.void(count), checked

    instruction.__name__, instruction.__doc__ = name, doc
    return intrinsic(instruction)


setmaxnreg_inc = _setmaxnreg(
    "inc", "Asks for `count` registers per thread (a constant, 24 to 256 by 8) and waits for them; a whole warpgroup."
)
setmaxnreg_dec = _setmaxnreg("dec", "Gives registers back, down to `count` per thread; a whole warpgroup.")


@intrinsic
def elect_sync(typingctx: Any, mask: Any) -> Any:
    """1 in one lane of `mask` (which one is the hardware's choice), 0 in the others; all lanes of `mask` call."""
    text = "{ .reg .pred p; elect.sync _|p, $1; selp.u32 $0, 1, 0, p; }"
    return types.uint32(types.uint32), assembly(text, [I32], capability=(9, 0), effects=True)
