"""Addresses of array elements, for the instructions that take one (PTX ISA, "Data Movement: cvta").

A shared or global address is the element's address within that state space, as uint64. An index that is out of bounds
is not checked on the GPU.
"""

from typing import Any

from llvmlite import ir
from numba.cuda import cgutils, types
from numba.cuda.core.errors import TypingError
from numba.cuda.extending import intrinsic

from .assembly import I64, assembly


def element_address(space: str) -> Any:
    """The typing and the generator of `address(array, index)` in a state space ("" for generic)."""

    def typing(array: Any, index: Any) -> Any:
        if not isinstance(array, types.Array):
            raise TypingError(f"an address is taken of an array, got {array}")
        count = len(index) if isinstance(index, types.BaseTuple) else 1
        if count != array.ndim:
            raise TypingError(f"an array of {array.ndim} dimensions takes {array.ndim} indices, got {count}")
        index_type = types.UniTuple(types.int64, count) if isinstance(index, types.BaseTuple) else types.int64
        return types.uint64(array, index_type)

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        array_type, index_type = signature.args[:2]
        array = context.make_array(array_type)(context, builder, arguments[0])
        indices = (
            cgutils.unpack_tuple(builder, arguments[1]) if isinstance(index_type, types.UniTuple) else [arguments[1]]
        )
        pointer = cgutils.get_item_pointer(context, builder, array_type, array, indices, wraparound=False)
        generic = builder.ptrtoint(pointer, I64)
        if not space:
            return generic
        return assembly(f"cvta.to.{space}.u64 $0, $1;", [I64])(context, builder, signature, [generic])

    return typing, generate


_generic, _shared, _global = (element_address(space) for space in ("", "shared", "global"))


@intrinsic
def shared_address(typingctx: Any, array: Any, index: Any) -> Any:
    """The address of `array[index]` within shared memory, as uint64.

    index: an integer, or a tuple for an array of several dimensions. `array` must lie in shared memory.
    """
    typing, generate = _shared
    return typing(array, index), generate


@intrinsic
def global_address(typingctx: Any, array: Any, index: Any) -> Any:
    """The address of `array[index]` within global memory, as uint64; `array` must lie in global memory."""
    typing, generate = _global
    return typing(array, index), generate


@intrinsic
def generic_address(typingctx: Any, array: Any, index: Any) -> Any:
    """The generic address of `array[index]`, as uint64, whatever memory it lies in."""
    typing, generate = _generic
    return typing(array, index), generate
