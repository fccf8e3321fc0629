"""The precision a kernel promises: what it multiplies in, what it accumulates in, and whether it uses fast math."""

from __future__ import annotations

from dataclasses import dataclass

from refkit.numerics.formats import FORMATS, Format


@dataclass(frozen=True)
class Precision:
    """How a kernel computes.

    `multiply` is the format that the operands of matrix products are rounded to (tensor cores); `accumulate` is the
    format of everything else: sums, elementwise arithmetic, functions. `fast_math` allows the hardware's approximate
    functions, at their documented error, and the flushing of subnormal numbers to zero.
    """

    multiply: str = "float32"
    accumulate: str = "float32"
    fast_math: bool = False

    def __post_init__(self) -> None:
        for field in ("multiply", "accumulate"):
            name = getattr(self, field)
            if name not in FORMATS:
                raise ValueError(f"Precision({field}={name!r}): expected one of {', '.join(FORMATS)}")
        if not isinstance(self.fast_math, bool):
            raise ValueError(f"Precision(fast_math={self.fast_math!r}): expected True or False")

    @property
    def unit_roundoff(self) -> float:
        """Unit roundoff of the accumulation format; 2**-24 for float32."""
        return FORMATS[self.accumulate].unit_roundoff

    @property
    def multiply_format(self) -> Format:
        """The format matrix operands are rounded to."""
        return FORMATS[self.multiply]

    @property
    def accumulate_format(self) -> Format:
        """The format of sums, elementwise arithmetic and functions."""
        return FORMATS[self.accumulate]

    @property
    def tensor_cores(self) -> bool:
        """Whether products of this precision run on tensor cores, which truncate their sums."""
        return self.multiply in ("tf32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2")
