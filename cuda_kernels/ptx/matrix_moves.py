"""`ldmatrix` and `stmatrix`: 8 x 8 matrices of 16-bit elements between shared memory and a warp's registers.

PTX ISA 9.1, "Warp Level Matrix Load/Store Instructions: ldmatrix, stmatrix". All 32 lanes execute the same call. Lane
8 j + r gives the shared address (16-byte aligned, `shared_address`) of row r of matrix j; the addresses of lanes 8 and
up (x1), or 16 and up (x2), are ignored. Register j of lane l then holds elements (l / 4, 2 (l % 4)) and
(l / 4, 2 (l % 4) + 1) of matrix j, the first in the lower half; with `.trans`, elements (2 (l % 4), l / 4) and
(2 (l % 4) + 1, l / 4), that is, of the transposed matrix.
"""

from typing import Any

from numba.cuda import types
from numba.cuda.extending import intrinsic

from .assembly import I32, assembly, braces, registers, result_type


def _ldmatrix(count: int, trans: bool) -> Any:
    name = f"ldmatrix_x{count}" + ("_trans" if trans else "")
    opcode = f"ldmatrix.sync.aligned.m8n8.x{count}{'.trans' if trans else ''}.shared.b16"
    results = [I32] * count
    text = f"{opcode} {braces(0, count)}, [${count}];"

    def instruction(typingctx: Any, address: Any) -> Any:
        return result_type(results)(types.uint64), assembly(text, results, capability=(7, 5), memory=True)

    instruction.__name__ = instruction.__qualname__ = name
    shape = "one uint32" if count == 1 else f"a tuple of {count} x uint32"
    instruction.__doc__ = f"`{opcode}`: {shape}; who gives and who gets what: see this module.\n\nNeeds 7.5."
    return intrinsic(instruction)


def _stmatrix(count: int, trans: bool) -> Any:
    name = f"stmatrix_x{count}" + ("_trans" if trans else "")
    opcode = f"stmatrix.sync.aligned.m8n8.x{count}{'.trans' if trans else ''}.shared.b16"
    text = f"{opcode} [$0], {braces(1, count)};"

    def instruction(typingctx: Any, address: Any, values: Any) -> Any:
        return types.void(types.uint64, registers(values, name, count, I32)), assembly(
            text, [], capability=(9, 0), memory=True
        )

    instruction.__name__ = instruction.__qualname__ = name
    shape = "one uint32" if count == 1 else f"a tuple of {count} x uint32"
    instruction.__doc__ = f"`{opcode}` of {shape}; who gives what: see this module.\n\nNeeds 9.0."
    return intrinsic(instruction)


ldmatrix_x1, ldmatrix_x2, ldmatrix_x4 = (_ldmatrix(count, False) for count in (1, 2, 4))
ldmatrix_x1_trans, ldmatrix_x2_trans, ldmatrix_x4_trans = (_ldmatrix(count, True) for count in (1, 2, 4))
stmatrix_x1, stmatrix_x2, stmatrix_x4 = (_stmatrix(count, False) for count in (1, 2, 4))
stmatrix_x1_trans, stmatrix_x2_trans, stmatrix_x4_trans = (_stmatrix(count, True) for count in (1, 2, 4))
