"""Where moves put things: `ldmatrix`, `stmatrix`, 128-bit loads and stores, packing conversions, `cp.async`, as data.

The matrix of a `MatrixMove` is its 8 x 8 matrices one below the other: row 8 j + r is row r of matrix j, whose
address lane 8 j + r gives. That of a `LaneMove` has a row for each lane: column i is the i-th element that this lane
reads, or the i-th operand that it gives.
"""

from __future__ import annotations

from dataclasses import dataclass

from .fragment import Fragment, from_bits

_EACH_LANE = "r0 r1 r2 r3 r4"
_STACKED = {1: "", 2: "r3", 4: "r3 r4"}


@dataclass(frozen=True)
class MatrixMove:
    """Who holds what after `ldmatrix`, or gives what to `stmatrix` (PTX ISA 9.1, "ldmatrix", "stmatrix")."""

    name: str
    fragment: Fragment
    stores: bool

    @property
    def intrinsic(self) -> str:
        """The intrinsic's name in `cuda_kernels.ptx`."""
        return self.name.replace(".", "_")

    @property
    def count(self) -> int:
        """How many 8 x 8 matrices are moved."""
        return self.fragment.rows // 8


@dataclass(frozen=True)
class LaneMove:
    """What each lane moves for itself.

    kind: "load" and "store" (between memory and registers), "pack" (operands into one register), "unpack" (a register's
        parts into wider ones) or "copy" (memory to memory; registers are then pieces of 4 bytes at the destination).
    element: "f32" or "u32", or the type that a conversion makes. source: the type that it takes, of "unpack".
    space: "global" or "shared", of loads and stores. size: bytes of a copy.
    """

    name: str
    fragment: Fragment
    kind: str
    element: str
    space: str = ""
    source: str = ""
    size: int = 0
    intrinsic: str = ""

    def __post_init__(self) -> None:
        if not self.intrinsic:
            object.__setattr__(self, "intrinsic", self.name.replace(".", "_"))


def _matrix_fragment(count: int, trans: bool) -> Fragment:
    lane, part = ("r1 r2 c0 c1 c2", "r0") if trans else ("c1 c2 r0 r1 r2", "c0")
    return from_bits(lane, _STACKED[count], part, element_bits=16)


MATRIX_MOVES: tuple[MatrixMove, ...] = tuple(
    MatrixMove(f"{name}.x{count}{suffix}", _matrix_fragment(count, bool(suffix)), name == "stmatrix")
    for name in ("ldmatrix", "stmatrix")
    for suffix in ("", ".trans")
    for count in (1, 2, 4)
)

_FOUR_WORDS = from_bits(_EACH_LANE, "c0 c1", element_bits=32)
_LOAD_CACHES = ("", ".ca", ".cg", ".cs", ".lu", ".cv", ".nc", ".no_allocate")
_STORE_CACHES = ("", ".wb", ".cg", ".cs", ".wt")


def _vectors(operation: str, kind: str, space: str, caches: tuple[str, ...]) -> tuple[LaneMove, ...]:
    return tuple(
        LaneMove(f"{operation}.{space}{cache}.v4.{element}", _FOUR_WORDS, kind, element, space)
        for cache in caches
        for element in ("f32", "u32")
    )


def _pack(name: str, element: str, bits: int) -> LaneMove:
    return LaneMove(name, from_bits(_EACH_LANE, "", "c0", element_bits=bits, register_bits=2 * bits), "pack", element)


def _unpack(name: str, source: str, element: str, bits: int) -> LaneMove:
    fragment = from_bits(_EACH_LANE, "", "c0", element_bits=bits, register_bits=2 * bits)
    return LaneMove(name, fragment, "unpack", element, source=source)


def _copy(size: int, form: str) -> LaneMove:
    register = {4: "", 8: "c0", 16: "c0 c1"}[size]
    intrinsic = f"cp_async_{form.replace('.', '_')}"
    fragment = from_bits(_EACH_LANE, register, element_bits=32)
    return LaneMove(f"cp.async.{form}.{size}", fragment, "copy", "u32", size=size, intrinsic=intrinsic)


LANE_MOVES: tuple[LaneMove, ...] = (
    *_vectors("ld", "load", "global", _LOAD_CACHES),
    *_vectors("ld", "load", "shared", ("",)),
    *_vectors("st", "store", "global", _STORE_CACHES),
    *_vectors("st", "store", "shared", ("",)),
    *(_pack(f"cvt.{mode}.{kind}x2", kind, 16) for kind in ("bf16", "f16") for mode in ("rn", "rz", "rn.relu")),
    *(_pack(f"cvt.rn.{kind}x2", kind, 8) for kind in ("e4m3", "e5m2")),
    *(_unpack(f"cvt.rn.{kind}x2.f16x2", "f16", kind, 8) for kind in ("e4m3", "e5m2")),
    *(_unpack(f"cvt.f16x2.{kind}x2", kind, "f16", 16) for kind in ("e4m3", "e5m2")),
    *(_copy(size, "ca") for size in (4, 8, 16)),
    *(_copy(8, f"ca.{form}") for form in ("zfill", "prefetch", "hint")),
    *(_copy(16, form) for form in ("cg", "cg.zfill", "cg.prefetch", "cg.hint")),
)
