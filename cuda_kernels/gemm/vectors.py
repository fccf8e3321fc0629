"""16 bytes of an array at once: one 128-bit instruction instead of four or eight.

`array[index]` must lie at an address that is a multiple of 16, and what follows it in memory must be the elements that
are meant; each thread acts for itself, and no index is checked or counted from the end.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import cuda, float32
from numba.cuda import cgutils, types
from numba.cuda.extending import intrinsic

from ..ptx import generic_address

BYTES = 16


def _pointer(context: Any, builder: ir.IRBuilder, array_type: Any, array: Any, index: Any, count: int) -> ir.Value:
    """The address of array[index] as a pointer to a vector of `count` elements."""
    struct = context.make_array(array_type)(context, builder, array)
    indices = cgutils.unpack_tuple(builder, index)
    pointer = cgutils.get_item_pointer(context, builder, array_type, struct, indices, wraparound=False)
    vector = ir.VectorType(context.get_data_type(array_type.dtype), count)
    return builder.bitcast(pointer, vector.as_pointer())


def _index_type(array: Any) -> Any:
    return types.UniTuple(types.int64, array.ndim)


@intrinsic
def load_16_bytes(typingctx: Any, array: Any, index: Any) -> Any:
    """The elements from array[index] on as a tuple: 4 of 4 bytes or 8 of 2."""
    count = BYTES * 8 // array.dtype.bitwidth

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        pointer = _pointer(context, builder, array, arguments[0], arguments[1], count)
        vector = builder.load(pointer, align=BYTES)
        elements = [builder.extract_element(vector, ir.Constant(ir.IntType(32), i)) for i in range(count)]
        return context.make_tuple(builder, signature.return_type, elements)

    return types.UniTuple(array.dtype, count)(array, _index_type(array)), generate


@intrinsic
def store_16_bytes(typingctx: Any, array: Any, index: Any, values: Any) -> Any:
    """Stores a tuple of 4 float32 into the elements of a float32 array from array[index] on."""
    count = BYTES // 4

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        pointer = _pointer(context, builder, array, arguments[0], arguments[1], count)
        vector = ir.Constant(ir.VectorType(ir.FloatType(), count), ir.Undefined)
        for i, element in enumerate(cgutils.unpack_tuple(builder, arguments[2])):
            vector = builder.insert_element(vector, element, ir.Constant(ir.IntType(32), i))
        builder.store(vector, pointer, align=BYTES)
        return context.get_dummy_value()

    return types.void(array, _index_type(array), types.UniTuple(types.float32, count)), generate


@cuda.jit(device=True)
def is_aligned(operand, along_k):
    """Whether rows (along_k) or columns of a (X, K) operand can be read 16 bytes at a time, from multiples of 16 on."""
    if operand.size == 0:
        return False  # it has no first element whose address could be taken
    near, far = (operand.strides[1], operand.strides[0]) if along_k else (operand.strides[0], operand.strides[1])
    address = generic_address(operand, (0, 0))
    return near == operand.itemsize and far % BYTES == 0 and address % BYTES == 0


@cuda.jit(device=True)
def spread_4(values, held, first):
    """held[first : first + 4] = a tuple of four, as float32."""
    held[first] = float32(values[0])
    held[first + 1] = float32(values[1])
    held[first + 2] = float32(values[2])
    held[first + 3] = float32(values[3])


@cuda.jit(device=True)
def spread_8(values, held, first):
    """held[first : first + 8] = a tuple of eight, as float32."""
    spread_4(values[:4], held, first)
    spread_4(values[4:], held, first + 4)


@cuda.jit(device=True)
def spread_1(values, held, first):
    """held[first] = the first of a tuple, as float32."""
    held[first] = float32(values[0])
