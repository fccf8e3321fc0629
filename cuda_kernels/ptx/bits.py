"""Bit operations of one instruction: `prmt` and `lop3` (PTX ISA 9.1, "Data Movement: prmt", "Logic: lop3")."""

from typing import Any

from numba.cuda import types
from numba.cuda.extending import intrinsic

from .assembly import I32, assembly, literal

_WORDS = (types.uint32, types.uint32, types.uint32)


@intrinsic
def prmt(typingctx: Any, a: Any, b: Any, selector: Any) -> Any:
    """`prmt.b32`: four bytes chosen from the eight of (b, a); nibble i of `selector` names byte i's source, a's first.

    The highest bit of a nibble copies the source byte's sign into all its bits.
    """
    return types.uint32(*_WORDS), assembly("prmt.b32 $0, $1, $2, $3;", [I32])


@intrinsic
def lop3(typingctx: Any, a: Any, b: Any, c: Any, table: Any) -> Any:
    """`lop3.b32`: any function of three words bit by bit; `table` (a constant) is f(0xF0, 0xCC, 0xAA)."""
    value = literal(table, "lop3: table", range(256))
    generate = assembly(f"lop3.b32 $0, $1, $2, $3, {value};", [I32])
    return types.uint32(*_WORDS, table), lambda c, b, s, a: generate(c, b, s, a[:3])
