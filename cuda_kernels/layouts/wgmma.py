"""What a warpgroup holds for `wgmma`, as data (PTX ISA 9.1, "Register Fragments and Shared Memory Matrix Layouts").

Fragments of a warpgroup have 128 threads, warp after warp: thread bits 5 and 6 are the warp, which holds 16 rows.
Within a warp, A in registers is as A of `mma.sync`, and 8 columns of the accumulator are as its C.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from .fragment import Fragment, LayoutError, from_bits
from .mma import TYPE_BITS
from .shared_matrix import SharedMatrix, shared_matrix

M = 64
K_BYTES = 32
"""What one product takes of K."""
TRANSPOSABLE = ("f16", "bf16")
"""Types of which M or N may be contiguous."""


@functools.cache
def accumulator(n: int) -> Fragment:
    """The fragment of the accumulator, 64 x n float32 in n / 2 registers of 128 threads; n: 8 to 256, by 8.

    Raises LayoutError for another n.
    """
    if n % 8 or not 8 <= n <= 256:
        raise LayoutError(f"n is {n}; expected a multiple of 8 from 8 to 256")
    eight_columns = from_bits("c1 c2 r0 r1 r2 r4 r5", "c0 r3", element_bits=32)
    return eight_columns.repeated(columns=n // 8)


REGISTER_A = {
    32: from_bits("c0 c1 r0 r1 r2 r4 r5", "r3 c2", element_bits=32),
    16: from_bits("c1 c2 r0 r1 r2 r4 r5", "r3 c3", "c0", element_bits=16),
    8: from_bits("c2 c3 r0 r1 r2 r4 r5", "r3 c4", "c0 c1", element_bits=8),
}
"""The fragment of A (64 x 32 bytes) in four registers, by bits of an element."""


@dataclass(frozen=True)
class WgmmaLayout:
    """Where the operands of one form of `wgmma` are, and who holds the accumulator (C and D alike, in float32).

    kind: the type of A and B. a: in shared memory, or in registers. a_descriptor, b_descriptor: what the instruction is
        told, but for the address; those that belong to `a` and `b` unless given.
    Raises LayoutError where the operands do not fit together, or to the type.
    """

    name: str
    kind: str
    a: SharedMatrix | Fragment
    b: SharedMatrix
    a_descriptor: int = -1
    b_descriptor: int = -1

    def __post_init__(self) -> None:
        bits = TYPE_BITS[self.kind]
        k = 8 * K_BYTES // bits
        shapes = [(each.rows, each.columns) for each in (self.a, self.b)]
        if shapes != [(M, k), (k, self.b.columns)]:
            raise LayoutError(f"{self.name}: A and B are {shapes}; expected ({M}, {k}) and ({k}, n)")
        for letter, operand in (("A", self.a), ("B", self.b)):
            size = operand.element_bits if isinstance(operand, Fragment) else 8 * operand.element_bytes
            if size != bits:
                raise LayoutError(f"{self.name}: {letter} has elements of {size} bits; {self.kind} has not")
            if isinstance(operand, SharedMatrix):
                if operand.major == "mn" and self.kind not in TRANSPOSABLE:
                    raise LayoutError(f"{self.name}: {letter} of {self.kind} must have K contiguous")
                name = f"{letter.lower()}_descriptor"
                if getattr(self, name) < 0:
                    object.__setattr__(self, name, operand.descriptor)

    @property
    def shape(self) -> tuple[int, int, int]:
        """m, n and k."""
        return M, self.b.columns, self.b.rows

    @property
    def c(self) -> Fragment:
        """The fragment of the accumulator."""
        return accumulator(self.b.columns)

    @property
    def a_type(self) -> str:
        """The type of A."""
        return self.kind

    @property
    def b_type(self) -> str:
        """The type of B."""
        return self.kind

    @property
    def c_type(self) -> str:
        """The type of C and D."""
        return "f32"

    @property
    def a_in_registers(self) -> bool:
        """Whether A comes in registers."""
        return isinstance(self.a, Fragment)

    @property
    def intrinsic(self) -> str:
        """The intrinsic's name in `cuda_kernels.ptx`."""
        return f"wgmma_m64k{self.b.rows}_{self.kind}" + ("_register_a" if self.a_in_registers else "")


def wgmma_layout(
    kind: str,
    n: int,
    *,
    suffix: str = "",
    register_a: bool = False,
    a_major: str = "k",
    b_major: str = "k",
    swizzle_bytes: int = 128,
    step: int = 0,
) -> WgmmaLayout:
    """The layout of a form of `wgmma`, its matrices in shared memory packed as `shared_matrix` packs them."""
    bits = TYPE_BITS[kind]
    k = 8 * K_BYTES // bits

    def stored(operand: str, mn: int, major: str) -> SharedMatrix:
        steps = step if major == "k" else 0
        return shared_matrix(operand, mn, k, bits // 8, major=major, swizzle_bytes=swizzle_bytes, step=steps)

    a = REGISTER_A[bits] if register_a else stored("A", M, a_major)
    return WgmmaLayout(f"wgmma.m64n{n}k{k}.{kind}{suffix}", kind, a, stored("B", n, b_major))


_KINDS = ("f16", "bf16", "tf32", "e4m3", "e5m2")
_SWIZZLES = {128: "swizzle_128", 64: "swizzle_64", 32: "swizzle_32", 0: "swizzle_none"}
_WIDE = 128  # two atoms along N of the widest swizzle of 16-bit types


def _transposed(kind: str, which: str, *letters: str) -> WgmmaLayout:
    """A form with M or N contiguous in some operands, with the 128-byte swizzle."""
    a_major, b_major = ("mn" if letter in letters else "k" for letter in "ab")
    return wgmma_layout(
        kind,
        _WIDE,
        suffix=f".{which}.swizzle_128",
        register_a="register_a" in which,
        a_major=a_major,
        b_major=b_major,
    )


WGMMA_LAYOUTS: tuple[WgmmaLayout, ...] = (
    wgmma_layout("bf16", 8),
    *(wgmma_layout(kind, 64) for kind in _KINDS),
    *(wgmma_layout(kind, 256) for kind in ("bf16", "e4m3")),
    *(wgmma_layout(kind, 8, suffix=".register_a", register_a=True) for kind in ("f16", "bf16", "tf32", "e4m3")),
    *(
        wgmma_layout(kind, 64, suffix=f".k_major.{name}", swizzle_bytes=size)
        for kind in _KINDS
        for size, name in _SWIZZLES.items()
    ),
    *(wgmma_layout(kind, 64, suffix=".k_major.swizzle_128.step_3", step=3) for kind in _KINDS),
    *(wgmma_layout(kind, 64, suffix=".k_major.swizzle_64.step_1", swizzle_bytes=64, step=1) for kind in _KINDS),
    *(
        wgmma_layout(kind, _WIDE, suffix=f".mn_major.{name}", a_major="mn", b_major="mn", swizzle_bytes=size)
        for kind in TRANSPOSABLE
        for size, name in _SWIZZLES.items()
    ),
    _transposed("bf16", "a_mn_major", "a"),
    _transposed("bf16", "b_mn_major", "b"),
    _transposed("bf16", "register_a.mn_major", "b"),
)
"""The forms that probes try: each type, place of A, swizzle and major, and n at both ends and between."""
