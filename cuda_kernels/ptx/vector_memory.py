"""128-bit loads and stores: four neighbouring 32-bit elements at once (PTX ISA 9.1, "Data Movement: ld, st").

`array[index]` must lie at an address that is a multiple of 16, and the three elements behind it follow in memory.
Each thread acts for itself.
"""

from typing import Any

from llvmlite import ir
from numba.cuda import types
from numba.cuda.core.errors import TypingError
from numba.cuda.extending import intrinsic

from .addresses import element_address
from .assembly import F32, I32, assembly, braces, registers, result_type

_COUNT = 4


def _checked(array: Any, name: str, kind: ir.Type) -> None:
    if getattr(array.dtype, "bitwidth", 0) != 32 or isinstance(array.dtype, types.Float) != (kind == F32):
        wanted = "float32" if kind == F32 else "32-bit integers"
        raise TypingError(f"{name} takes an array of {wanted}, got {array}")


def _load(space: str, kind: ir.Type) -> Any:
    suffix = "f32" if kind == F32 else "u32"
    name = f"ld_{space}_v4_{suffix}"
    results = [kind] * _COUNT
    text = f"ld.{space}.v4.{suffix} {braces(0, _COUNT)}, [${_COUNT}];"

    def instruction(typingctx: Any, array: Any, index: Any) -> Any:
        typing, address = element_address(space)
        arguments = typing(array, index).args
        _checked(array, name, kind)

        def generate(context: Any, builder: ir.IRBuilder, signature: Any, values: Any) -> ir.Value:
            where = address(context, builder, signature, values)
            return assembly(text, results, memory=True)(context, builder, signature, [where])

        return result_type(results)(*arguments), generate

    instruction.__name__ = instruction.__qualname__ = name
    instruction.__doc__ = f"The four elements from `array[index]` on, in {space} memory, as a tuple (`ld.{space}.v4`)."
    return intrinsic(instruction)


def _store(space: str, kind: ir.Type) -> Any:
    suffix = "f32" if kind == F32 else "u32"
    name = f"st_{space}_v4_{suffix}"
    text = f"st.{space}.v4.{suffix} [$0], {braces(1, _COUNT)};"

    def instruction(typingctx: Any, array: Any, index: Any, values: Any) -> Any:
        typing, address = element_address(space)
        arguments = typing(array, index).args
        _checked(array, name, kind)

        def generate(context: Any, builder: ir.IRBuilder, signature: Any, operands: Any) -> ir.Value:
            where = address(context, builder, signature, operands)
            return assembly(text, [], memory=True)(context, builder, signature, [where, operands[2]])

        return types.void(*arguments, registers(values, name, _COUNT, kind)), generate

    instruction.__name__ = instruction.__qualname__ = name
    instruction.__doc__ = f"Stores a tuple of four into `array[index]` and on, in {space} memory (`st.{space}.v4`)."
    return intrinsic(instruction)


ld_global_v4_f32, ld_global_v4_u32 = (_load("global", kind) for kind in (F32, I32))
ld_shared_v4_f32, ld_shared_v4_u32 = (_load("shared", kind) for kind in (F32, I32))
st_global_v4_f32, st_global_v4_u32 = (_store("global", kind) for kind in (F32, I32))
st_shared_v4_f32, st_shared_v4_u32 = (_store("shared", kind) for kind in (F32, I32))
