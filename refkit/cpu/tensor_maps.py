"""Tensor maps on the host: what the emulated driver makes of `cuTensorMapEncodeTiled`.

A map is 128 bytes that are opaque to programs; here they are a record of this executor's own, whose words
`runtime/tensor_boxes.py` names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .faults import Unsupported
from .runtime import tensor_boxes as record

_ELEMENT_BYTES = {
    "UINT8": 1,
    "UINT16": 2,
    "UINT32": 4,
    "INT32": 4,
    "UINT64": 8,
    "INT64": 8,
    "FLOAT16": 2,
    "FLOAT32": 4,
    "FLOAT64": 8,
    "BFLOAT16": 2,
    "FLOAT32_FTZ": 4,
}
_SWIZZLE_BYTES = {"NONE": 0, "32B": 32, "64B": 64, "128B": 128}
_MOST_BOX = 256  # elements along one axis
_ALIGNMENT = 16


@dataclass(frozen=True)
class TensorMap:
    """A map as the driver's binding hands it out: `opaque` is its sixteen words."""

    opaque: tuple[int, ...]


def encode_tiled(
    kind: Any,
    rank: int,
    address: int,
    shape: Sequence[int],
    strides: Sequence[int],
    box: Sequence[int],
    element_strides: Sequence[int],
    interleave: Any,
    swizzle: Any,
) -> TensorMap:
    """The map of a matrix; parameters are those of the driver call, axes with the contiguous one first.

    Raises ValueError for what the driver refuses, in the words of its documentation, and `Unsupported` for maps of
    another rank, interleaved ones, and elements left out.
    """
    name = kind.name.removeprefix("CU_TENSOR_MAP_DATA_TYPE_")
    swizzle_name = swizzle.name.removeprefix("CU_TENSOR_MAP_SWIZZLE_")
    if rank != 2 or name not in _ELEMENT_BYTES or swizzle_name not in _SWIZZLE_BYTES:
        raise Unsupported(f"a tensor map of rank {rank}, type {name}, swizzle {swizzle_name}")
    if not interleave.name.endswith("_NONE") or any(int(step) != 1 for step in element_strides):
        raise Unsupported("a tensor map with an interleave or with strides between elements")
    item, swizzle_bytes = _ELEMENT_BYTES[name], _SWIZZLE_BYTES[swizzle_name]
    elements, lines = (int(size) for size in shape)
    (line_bytes,) = (int(stride) for stride in strides)
    box_elements, box_lines = (int(size) for size in box)
    _check(int(address), item, elements, lines, line_bytes, box_elements, box_lines, swizzle_bytes)
    words = [0] * record.MAP_WORDS
    words[record.MAP_MAGIC] = record.MAGIC
    words[record.MAP_ADDRESS] = int(address)
    words[record.MAP_ELEMENT] = item
    words[record.MAP_LINES] = lines
    words[record.MAP_ELEMENTS] = elements
    words[record.MAP_LINE_BYTES] = line_bytes
    words[record.MAP_BOX_LINES] = box_lines
    words[record.MAP_BOX_ELEMENTS] = box_elements
    words[record.MAP_SWIZZLE] = swizzle_bytes
    return TensorMap(tuple(words))


def _check(
    address: int,
    item: int,
    elements: int,
    lines: int,
    line_bytes: int,
    box_elements: int,
    box_lines: int,
    swizzle_bytes: int,
) -> None:
    """CUDA driver API, `cuTensorMapEncodeTiled`: what a map must fulfil."""
    if address == 0 or address % _ALIGNMENT:
        raise ValueError(f"globalAddress {address:#x} must be a multiple of {_ALIGNMENT}")
    if not (1 <= elements <= 2**32 and 1 <= lines <= 2**32):
        raise ValueError(f"globalDim ({elements}, {lines}) must be between 1 and 2^32")
    if line_bytes % _ALIGNMENT or line_bytes >= 2**40 or line_bytes < elements * item:
        raise ValueError(
            f"globalStrides {line_bytes} must be a multiple of {_ALIGNMENT} that holds {elements} elements"
        )
    if not (1 <= box_elements <= _MOST_BOX and 1 <= box_lines <= _MOST_BOX):
        raise ValueError(f"boxDim ({box_elements}, {box_lines}) must be between 1 and {_MOST_BOX}")
    row = box_elements * item
    if row % _ALIGNMENT:
        raise ValueError(f"boxDim[0] * element = {row} bytes must be a multiple of {_ALIGNMENT}")
    if swizzle_bytes and row > swizzle_bytes:
        raise ValueError(f"boxDim[0] * element = {row} bytes must not be more than the swizzle's {swizzle_bytes}")
