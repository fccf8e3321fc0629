"""128-bit loads and stores: four neighbouring 32-bit elements at once (PTX ISA 9.1, "Data Movement: ld, st").

`array[index]` must lie at an address that is a multiple of 16, and the three elements behind it follow in memory.
Each thread acts for itself.

The forms with a cache operator differ in where the data are kept, never in their values ("Cache Operators"): loads
`ca` (at all levels), `cg` (level 2 only), `cs` (likely used once), `lu` (last use), `cv` (fetched anew each time),
`nc` (through the read-only path: nothing may write there while the kernel runs), `no_allocate` (as `ca`, without
taking a line of level 1 for it; compute capability 7.0); stores `wb` (at all levels), `cg`, `cs`, and `wt` (through
level 2 to system memory). Numba has the scalar forms of all but the last two loads: `cuda.ldcg`, `cuda.stcs`, ...
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


def _opcode(operation: str, space: str, kind: ir.Type, cache: str) -> tuple[str, str]:
    """The intrinsic's name and the opcode."""
    suffix = "f32" if kind == F32 else "u32"
    name = "_".join(filter(None, (operation, space, cache, "v4", suffix)))
    operator = {"no_allocate": "L1::no_allocate"}.get(cache, cache)
    return name, ".".join(filter(None, (operation, space, operator, "v4", suffix)))


def _load(space: str, kind: ir.Type, cache: str = "") -> Any:
    name, opcode = _opcode("ld", space, kind, cache)
    results = [kind] * _COUNT
    text = f"{opcode} {braces(0, _COUNT)}, [${_COUNT}];"
    capability = (7, 0) if cache == "no_allocate" else (0, 0)

    def instruction(typingctx: Any, array: Any, index: Any) -> Any:
        typing, address = element_address(space)
        arguments = typing(array, index).args
        _checked(array, name, kind)

        def generate(context: Any, builder: ir.IRBuilder, signature: Any, values: Any) -> ir.Value:
            where = address(context, builder, signature, values)
            return assembly(text, results, capability=capability, memory=True)(context, builder, signature, [where])

        return result_type(results)(*arguments), generate

    instruction.__name__ = instruction.__qualname__ = name
    instruction.__doc__ = f"The four elements from `array[index]` on, in {space} memory, as a tuple (`{opcode}`)."
    return intrinsic(instruction)


def _store(space: str, kind: ir.Type, cache: str = "") -> Any:
    name, opcode = _opcode("st", space, kind, cache)
    text = f"{opcode} [$0], {braces(1, _COUNT)};"

    def instruction(typingctx: Any, array: Any, index: Any, values: Any) -> Any:
        typing, address = element_address(space)
        arguments = typing(array, index).args
        _checked(array, name, kind)

        def generate(context: Any, builder: ir.IRBuilder, signature: Any, operands: Any) -> ir.Value:
            where = address(context, builder, signature, operands)
            return assembly(text, [], memory=True)(context, builder, signature, [where, operands[2]])

        return types.void(*arguments, registers(values, name, _COUNT, kind)), generate

    instruction.__name__ = instruction.__qualname__ = name
    instruction.__doc__ = f"Stores a tuple of four into `array[index]` and on, in {space} memory (`{opcode}`)."
    return intrinsic(instruction)


ld_global_v4_f32, ld_global_v4_u32 = (_load("global", kind) for kind in (F32, I32))
ld_shared_v4_f32, ld_shared_v4_u32 = (_load("shared", kind) for kind in (F32, I32))
st_global_v4_f32, st_global_v4_u32 = (_store("global", kind) for kind in (F32, I32))
st_shared_v4_f32, st_shared_v4_u32 = (_store("shared", kind) for kind in (F32, I32))
ld_global_ca_v4_f32, ld_global_ca_v4_u32 = (_load("global", kind, "ca") for kind in (F32, I32))
ld_global_cg_v4_f32, ld_global_cg_v4_u32 = (_load("global", kind, "cg") for kind in (F32, I32))
ld_global_cs_v4_f32, ld_global_cs_v4_u32 = (_load("global", kind, "cs") for kind in (F32, I32))
ld_global_lu_v4_f32, ld_global_lu_v4_u32 = (_load("global", kind, "lu") for kind in (F32, I32))
ld_global_cv_v4_f32, ld_global_cv_v4_u32 = (_load("global", kind, "cv") for kind in (F32, I32))
ld_global_nc_v4_f32, ld_global_nc_v4_u32 = (_load("global", kind, "nc") for kind in (F32, I32))
ld_global_no_allocate_v4_f32, ld_global_no_allocate_v4_u32 = (
    _load("global", kind, "no_allocate") for kind in (F32, I32)
)
st_global_wb_v4_f32, st_global_wb_v4_u32 = (_store("global", kind, "wb") for kind in (F32, I32))
st_global_cg_v4_f32, st_global_cg_v4_u32 = (_store("global", kind, "cg") for kind in (F32, I32))
st_global_cs_v4_f32, st_global_cs_v4_u32 = (_store("global", kind, "cs") for kind in (F32, I32))
st_global_wt_v4_f32, st_global_wt_v4_u32 = (_store("global", kind, "wt") for kind in (F32, I32))
