"""What differs between the formats that tensor cores multiply: the instruction, and how many elements fill a register.

In bytes all fragments are alike: A is 16 rows by 32 bytes of K, B 32 bytes of K by 8 columns, and a register holds
4 neighbouring bytes of K. With g = lane / 4 and t = lane % 4, register r of A holds bytes 4 t + 16 (r / 2) onwards
of row g + 8 (r % 2); register r of B bytes 4 t + 16 r onwards of column g; register r of C row g + 8 (r / 2), column
2 t + r % 2 (PTX ISA, "Matrix Fragments for mma.m16n8k8/k16/k32").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import cuda, float32, int32
from numba.cuda import libdevice

from .. import ptx

FRAGMENT_BYTES = 32  # of K, of one instruction


@dataclass(frozen=True)
class MmaFormat:
    """One format of operands. `prepare` is applied to each operand register before it is multiplied."""

    name: str
    element_bytes: int
    instruction: Any
    prepare: Callable[[Any], Any]
    storage: tuple[str, ...]
    """The dtypes of the arrays that hold it."""

    @property
    def k(self) -> int:
        """Elements of K that one instruction contracts."""
        return FRAGMENT_BYTES // self.element_bytes

    def bits(self, array: Any) -> Any:
        """A view of a device array of this format as unsigned integers, which is how the kernels take operands."""
        return array.view(np.dtype(f"uint{8 * self.element_bytes}"))


@cuda.jit(device=True)
def unchanged(register):
    """The register as it is."""
    return register


@cuda.jit(device=True)
def rounded_to_tf32(register):
    """float32 bits rounded to the nearest tf32: the unit itself would cut off the low bits."""
    return ptx.cvt_rna_tf32(float32(libdevice.int_as_float(int32(register))))


FORMATS = {
    "tf32": MmaFormat("tf32", 4, ptx.mma_m16n8k8_tf32, rounded_to_tf32, ("float32",)),
    "bf16": MmaFormat("bf16", 2, ptx.mma_m16n8k16_bf16, unchanged, ("bfloat16",)),
    "f16": MmaFormat("f16", 2, ptx.mma_m16n8k16_f16, unchanged, ("float16",)),
    "e4m3": MmaFormat("e4m3", 1, ptx.mma_m16n8k32_e4m3, unchanged, ("float8_e4m3fn", "uint8")),
}
