"""What differs between the formats of `wgmma`: the instruction, its K, and whether K has to be contiguous."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import ptx

LINE_BYTES = 128  # of a swizzled tile's line: the largest swizzle, so that eight lines cover all banks


@dataclass(frozen=True)
class WgmmaFormat:
    """One format of operands.

    transposes: an operand may have M or N contiguous; otherwise K must be. promotes: sums of one slice of K are added
    in float32, since the tensor core's own are too coarse.
    """

    name: str
    element_bytes: int
    instruction: Any
    transposes: bool
    promotes: bool
    storage: tuple[str, ...]
    """The dtypes of the arrays that hold it."""

    @property
    def k(self) -> int:
        """Elements of K that one instruction contracts."""
        return 32 // self.element_bytes

    @property
    def line(self) -> int:
        """Elements of a line in shared memory."""
        return LINE_BYTES // self.element_bytes

    def bits(self, array: Any) -> Any:
        """A view of a device array of this format as unsigned integers, which is how tensor maps name it."""
        return array.view(np.dtype(f"uint{8 * self.element_bytes}"))


FORMATS = {
    "tf32": WgmmaFormat("tf32", 4, ptx.wgmma_m64k8_tf32, False, False, ("float32",)),
    "bf16": WgmmaFormat("bf16", 2, ptx.wgmma_m64k16_bf16, True, False, ("bfloat16",)),
    "f16": WgmmaFormat("f16", 2, ptx.wgmma_m64k16_f16, True, False, ("float16",)),
    "e4m3": WgmmaFormat("e4m3", 1, ptx.wgmma_m64k32_e4m3, False, True, ("float8_e4m3fn", "uint8")),
}
