"""128 bits of global memory in one instruction: four float32, or eight numbers of a 16-bit format.

`array` is one-dimensional and contiguous, and `array[index]` lies at an address that is a multiple of 16; the elements
behind it must exist. Numbers are float32 in registers whatever the array holds; storing rounds to nearest, ties to
even. Each thread acts for itself; when the lanes of a warp take neighbouring pieces, every byte that is moved is used.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import cuda, uint16, uint32
from numba.cuda import types
from numba.cuda.core.errors import TypingError
from numba.cuda.extending import intrinsic, overload

from ..ptx.addresses import element_address
from ..ptx.assembly import I32, assembly, braces, result_type
from ..ptx.conversion import cvt_rn_bf16x2, cvt_rn_f16x2
from ..ptx.vector_memory import ld_global_v4_f32, st_global_v4_f32
from .convert import bfloat16_bits_to_float32, bits_to_float32, float16_bits_to_float32

_WORDS = [I32] * 4


@intrinsic
def _load_words(typingctx: Any, array: Any, index: Any) -> Any:
    """The 128 bits from `array[index]` on, as four uint32, whatever the array's type."""
    typing, address = element_address("global")
    arguments = typing(array, index).args

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, values: Any) -> ir.Value:
        where = address(context, builder, signature, values)
        load = assembly(f"ld.global.v4.u32 {braces(0, 4)}, [$4];", _WORDS, memory=True)
        return load(context, builder, signature, [where])

    return result_type(_WORDS)(*arguments), generate


@intrinsic
def _store_words(typingctx: Any, array: Any, index: Any, words: Any) -> Any:
    """Stores four uint32 into the 128 bits from `array[index]` on."""
    typing, address = element_address("global")
    arguments = typing(array, index).args

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, values: Any) -> ir.Value:
        where = address(context, builder, signature, values)
        store = assembly(f"st.global.v4.u32 [$0], {braces(1, 4)};", [], memory=True)
        return store(context, builder, signature, [where, values[2]])

    return types.void(*arguments, result_type(_WORDS)), generate


@cuda.jit(device=True)
def load4(array, index):
    """Four float32 from `array[index]` on, as a tuple."""
    return ld_global_v4_f32(array, index)


@cuda.jit(device=True)
def store4(array, index, values):
    """Stores a tuple of four float32 into the float32 array from `array[index]` on."""
    st_global_v4_f32(array, index, values)


@cuda.jit(device=True)
def _low(word):
    return uint16(word & uint32(0xFFFF))


@cuda.jit(device=True)
def _high(word):
    return uint16(word >> uint32(16))


@cuda.jit(device=True)
def _float16_pair(word):
    return float16_bits_to_float32(_low(word)), float16_bits_to_float32(_high(word))


@cuda.jit(device=True)
def _bfloat16_pair(word):
    return bfloat16_bits_to_float32(_low(word)), bits_to_float32(word & uint32(0xFFFF0000))


def _chosen(array: Any, name: str, bfloat16: Any, float16: Any) -> Any:
    """The one of two functions that serves the array's format; TypingError for any other."""
    dtype = getattr(array, "dtype", None)
    if dtype == types.bfloat16:
        return bfloat16
    if dtype == types.float16:
        return float16
    raise TypingError(f"{name} takes an array of bfloat16 or float16, got {array}")


def load8(array: Any, index: Any) -> Any:
    """Eight numbers from `array[index]` on (bfloat16 or float16), as a tuple of float32; for kernels alone."""
    raise TypeError("load8 was called on the host: it is a device function")


def store8(array: Any, index: Any, values: Any) -> Any:
    """Stores a tuple of eight float32 into the bfloat16 or float16 array from `array[index]` on; for kernels alone."""
    raise TypeError("store8 was called on the host: it is a device function")


@overload(load8)
def _load8(array: Any, index: Any) -> Any:
    pair: Any = _chosen(array, "load8", _bfloat16_pair, _float16_pair)

    def load(array: Any, index: Any) -> Any:
        words = _load_words(array, index)
        return pair(words[0]) + pair(words[1]) + pair(words[2]) + pair(words[3])

    return load


@overload(store8)
def _store8(array: Any, index: Any, values: Any) -> Any:
    pack: Any = _chosen(array, "store8", cvt_rn_bf16x2, cvt_rn_f16x2)

    def store(array: Any, index: Any, values: Any) -> Any:
        a, b, c, d, e, f, g, h = values
        _store_words(array, index, (pack(a, b), pack(c, d), pack(e, f), pack(g, h)))

    return store
