"""The fragments of every `mma.sync` intrinsic of `cuda_kernels.ptx`, as data (PTX ISA 9.1, "Matrix Fragments for mma").

All shapes follow one pattern, which the bits show. Of A (m x k) and of C and D (m x n), lane bits 2 to 4 are the row
within a group of eight; of B (k x n) they are the column. Lane bits 0 and 1, together with the part within a register,
walk along k (A, B) or along the columns (C, D), and the register bits are what is left over.
"""

from __future__ import annotations

from dataclasses import dataclass

from .fragment import Fragment, LayoutError, from_bits

TYPE_BITS = {"tf32": 32, "f16": 16, "bf16": 16, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "f64": 64, "f32": 32, "s32": 32}
"""Bits that an element of a PTX type takes in a register (tf32: those of a float32)."""


@dataclass(frozen=True)
class MmaLayout:
    """Who holds what in D = A B + C. `c` is the fragment of C and of D alike; types are named as in PTX.

    name: as probes and reports show it, such as "mma.m16n8k8.tf32".
    Raises LayoutError where the fragments do not fit together, or their elements are not of their types' sizes.
    """

    name: str
    a: Fragment
    b: Fragment
    c: Fragment
    a_type: str
    b_type: str
    c_type: str

    def __post_init__(self) -> None:
        shapes = [(each.rows, each.columns) for each in (self.a, self.b, self.c)]
        (m, k), (k_of_b, n), of_c = shapes
        if k != k_of_b or of_c != (m, n):
            raise LayoutError(f"{self.name}: A, B and C are {shapes}; expected (m, k), (k, n) and (m, n)")
        for letter, fragment, kind in zip("ABC", (self.a, self.b, self.c), (self.a_type, self.b_type, self.c_type)):
            if kind not in TYPE_BITS:
                raise LayoutError(f"{self.name}: type of {letter} is {kind!r}; expected one of {', '.join(TYPE_BITS)}")
            if fragment.element_bits != TYPE_BITS[kind]:
                raise LayoutError(f"{self.name}: {letter} has elements of {fragment.element_bits} bits; {kind} has not")

    @property
    def shape(self) -> tuple[int, int, int]:
        """m, n and k."""
        return self.a.rows, self.b.columns, self.a.columns

    @property
    def intrinsic(self) -> str:
        """The intrinsic's name in `cuda_kernels.ptx`."""
        return self.name.replace(".", "_")


def _fragments(a: tuple[str, str, str], b: tuple[str, str, str], bits: int) -> tuple[Fragment, Fragment]:
    width = max(bits, 32)
    return (
        from_bits(*a, element_bits=bits, register_bits=width),
        from_bits(*b, element_bits=bits, register_bits=width),
    )


# Lane, register and part bits of A (r: m, c: k) and of B (r: k, c: n), by k and by the bits of an element.
_OPERANDS = {
    (4, 32): _fragments(("c0 c1 r0 r1 r2", "r3", ""), ("r0 r1 c0 c1 c2", "", ""), 32),
    (8, 32): _fragments(("c0 c1 r0 r1 r2", "r3 c2", ""), ("r0 r1 c0 c1 c2", "r2", ""), 32),
    (8, 16): _fragments(("c1 c2 r0 r1 r2", "r3", "c0"), ("r1 r2 c0 c1 c2", "", "r0"), 16),
    (16, 16): _fragments(("c1 c2 r0 r1 r2", "r3 c3", "c0"), ("r1 r2 c0 c1 c2", "r3", "r0"), 16),
    (32, 8): _fragments(("c2 c3 r0 r1 r2", "r3 c4", "c0 c1"), ("r2 r3 c0 c1 c2", "r4", "r0 r1"), 8),
    (4, 64): _fragments(("c0 c1 r0 r1 r2", "", ""), ("r0 r1 c0 c1 c2", "", ""), 64),
}
_WIDE_C = from_bits("c1 c2 r0 r1 r2", "c0 r3", element_bits=32)  # 16 x 8, a register for each element
_PACKED_C = from_bits("c1 c2 r0 r1 r2", "r3", "c0", element_bits=16)  # 16 x 8, two halves to a register
_DOUBLE_C = from_bits("c1 c2 r0 r1 r2", "c0", element_bits=64, register_bits=64)  # 8 x 8
_C = {"f32": _WIDE_C, "s32": _WIDE_C, "f16": _PACKED_C, "f64": _DOUBLE_C}


def _layout(k: int, a_type: str, b_type: str, c_type: str, suffix: str = "") -> MmaLayout:
    a, b = _OPERANDS[k, TYPE_BITS[a_type]]
    m = 8 if a_type == "f64" else 16
    kinds = a_type if a_type == b_type else f"{a_type}.{b_type}"
    return MmaLayout(f"mma.m{m}n8k{k}.{kinds}{suffix}", a, b, _C[c_type], a_type, b_type, c_type)


MMA_LAYOUTS: tuple[MmaLayout, ...] = (
    _layout(4, "tf32", "tf32", "f32"),
    _layout(8, "tf32", "tf32", "f32"),
    *(_layout(k, kind, kind, "f32") for k in (8, 16) for kind in ("f16", "bf16")),
    *(_layout(k, "f16", "f16", "f16", ".f16") for k in (8, 16)),
    *(_layout(32, a, b, "f32") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")),
    *(_layout(32, a, b, "s32") for a in ("s8", "u8") for b in ("s8", "u8")),
    *(_layout(32, kind, kind, "s32", ".satfinite") for kind in ("s8", "u8")),
    _layout(4, "f64", "f64", "f64"),
)
