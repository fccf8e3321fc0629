"""What all `mma.sync` intrinsics share: one warp multiplies two fragments and adds a third, D = A B + C.

PTX ISA 9.1, "Warp Level Matrix Instructions: mma" and its sections "Matrix Fragments for mma.<shape>". All 32 lanes of
a warp execute the same call together (`.sync.aligned`); each holds a few registers of A (row-major), B (column-major)
and C. Whoever holds what is said where each family is defined; g = lane / 4 and t = lane % 4 throughout.
"""

from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba.cuda.extending import intrinsic

from .assembly import assembly, braces, registers, result_type


@dataclass(frozen=True)
class Operand:
    """A fragment as one lane holds it: the PTX type of its elements, and how many registers of which LLVM type."""

    ptx_type: str
    count: int
    register: ir.Type


def mma_instruction(
    name: str,
    shape: str,
    d: Operand,
    a: Operand,
    b: Operand,
    *,
    capability: tuple[int, int],
    doc: str,
    modifier: str = "",
) -> Any:
    """The intrinsic `name(a, b, c) -> d` of one `mma.sync` instruction; c has the registers of d.

    shape: as PTX writes it, for example "m16n8k8". capability: the least that has the instruction.
    Tuples of registers go in, and a tuple of registers comes out.
    """
    opcode = f"mma.sync.aligned.{shape}.row.col{modifier}.{d.ptx_type}.{a.ptx_type}.{b.ptx_type}.{d.ptx_type}"
    results = [d.register] * d.count
    groups, first = [], 0
    for count in (d.count, a.count, b.count, d.count):
        groups.append(braces(first, count))
        first += count
    text = f"{opcode} {', '.join(groups)};"

    def instruction(typingctx: Any, a_fragment: Any, b_fragment: Any, c_fragment: Any) -> Any:
        signature = result_type(results)(
            registers(a_fragment, f"{name}: A", a.count, a.register),
            registers(b_fragment, f"{name}: B", b.count, b.register),
            registers(c_fragment, f"{name}: C", d.count, d.register),
        )
        return signature, assembly(text, results, capability=capability, effects=True)

    instruction.__name__ = instruction.__qualname__ = name
    instruction.__doc__ = f"`{opcode}`.\n\n{doc}\nNeeds compute capability {capability[0]}.{capability[1]}."
    return intrinsic(instruction)
