"""One array in a byte buffer with guard bytes all round it: before, behind, and in the holes between its elements.

        guard band │ element hole element hole ... │ guard band
        ≥ 256 bytes, at least one row                ≥ 256 bytes, at least one row

Guard bytes are a NaN in every floating-point format and an enormous number in every integer format, so that whoever
reads one shows it in the result; a write shows as a changed byte. A slab keeps its first image: after a launch the
image that came back is compared with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from refkit.verify.layouts import ALIGNMENT, constant_axes, place

GUARD_BYTES = 256
"""The least width of a guard band, in bytes."""

# Little-endian bits by kind and item size. The NaNs of guard and poison differ, so that a copied guard is not taken
# for an element that nobody wrote.
_GUARD = {
    ("f", 8): 0xFFF8_DEAD_BEEF_F00D,
    ("f", 4): 0xFFC0_DEAD,
    ("f", 2): 0xFFDE,
    ("f", 1): 0xFF,
    ("i", 8): 0xC0DE_DEAD_BEEF_F00D,
    ("i", 4): 0xC0DE_DEAD,
    ("i", 2): 0xC0DE,
    ("i", 1): 0x9E,
}
_NAN = {
    ("f", 8): 0x7FF9_50BE_ED50_BEED,
    ("f", 4): 0x7FD0_50BE,
    ("f", 2): 0x7FD5,
    ("f", 1): 0x7F,
    ("i", 8): 0xA5D0_50BE_ED50_BEED,
    ("i", 4): 0xA5D0_50BE,
    ("i", 2): 0xA5D0,
    ("i", 1): 0xA5,
}
_LARGE = {
    "float64": 1.2345e300,
    "float32": 1.2345e38,
    "bfloat16": 1.2345e38,
    "float16": 60000.0,
    "float8_e4m3fn": 416.0,
    "float8_e5m2": 49152.0,
}

POISONS = ("nan", "large")
"""What outputs hold before a launch: a NaN pattern, then a large finite value, since `fmax` hides a NaN."""


def _kind(dtype: np.dtype) -> str:
    return "f" if dtype.name in _LARGE else "i"


def guard_pattern(dtype: np.dtype) -> np.ndarray:
    """The bytes of one guard item of the size of `dtype` (uint8)."""
    return _bytes(_GUARD[_kind(dtype), dtype.itemsize], dtype.itemsize)


def poison_pattern(dtype: np.dtype, poison: str) -> np.ndarray:
    """The bytes that an output element of `dtype` holds before the launch (uint8); `poison` is `nan` or `large`."""
    if poison not in POISONS:
        raise ValueError(f"poison is {poison!r}; expected one of {', '.join(POISONS)}")
    if poison == "nan":
        return _bytes(_NAN[_kind(dtype), dtype.itemsize], dtype.itemsize)
    if dtype.name in _LARGE:
        return np.asarray(_LARGE[dtype.name]).astype(dtype).reshape(1).view(np.uint8)
    # An integer that is neither the other poison nor a guard, large and positive in signed and unsigned formats.
    return _bytes(0x5A2F_41B1_12AF_B1E5 >> (64 - 8 * dtype.itemsize), dtype.itemsize)


def _bytes(bits: int, itemsize: int) -> np.ndarray:
    return np.frombuffer(bits.to_bytes(itemsize, "little"), np.uint8)


@dataclass(frozen=True, eq=False)
class GuardViolations:
    """Guard bytes that changed. False where there are none.

    `bytes` are their positions relative to the first byte of the first element (negative before it), ascending;
    `elements` the same in whole items, each once; `before`, `between` and `after` count changed bytes by place.
    """

    bytes: np.ndarray
    itemsize: int
    extent: int

    def __bool__(self) -> bool:
        return self.bytes.size > 0

    def __len__(self) -> int:
        return int(self.bytes.size)

    @property
    def elements(self) -> np.ndarray:
        """Positions in items from the first element, as if the memory were one long array."""
        return np.unique(self.bytes // self.itemsize)

    @property
    def before(self) -> int:
        """Changed bytes before the first element."""
        return int(np.count_nonzero(self.bytes < 0))

    @property
    def after(self) -> int:
        """Changed bytes after the last element."""
        return int(np.count_nonzero(self.bytes >= self.extent))

    @property
    def between(self) -> int:
        """Changed bytes in the holes of a strided array."""
        return len(self) - self.before - self.after

    def describe(self) -> str:
        """One line: how many items, and how far before the start, after the end, or between the elements."""
        if not self:
            return "no guard byte changed"
        items = len(self.elements)
        parts = []
        if self.before:
            parts.append(f"up to {-int(self.elements[0])} before the first element")
        if self.between:
            parts.append("between the elements of the strided array")
        if self.after:
            past = int(self.bytes[-1] - self.extent) // self.itemsize + 1
            parts.append(f"up to {past} past the last element")
        return f"{items} item{'s' * (items != 1)} written outside the array, {' and '.join(parts)}"


@dataclass(frozen=True, eq=False)
class Slab:
    """An array's elements inside `image` (uint8, one-dimensional, on a 256-byte boundary).

    `offset` is the byte of the first element, `strides` are in bytes and never negative, `dtype` is the storage type.
    """

    image: np.ndarray
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype

    @classmethod
    def place(cls, array: np.ndarray, layout: str, rng: np.random.Generator | None = None) -> Slab:
        """A slab that holds `array` in `layout`; `rng` chooses the gaps of a strided one.

        ValueError where the layout is `broadcast` and the values change along every axis.
        """
        array = np.asarray(array)
        axes: Sequence[int] = constant_axes(array) if layout == "broadcast" else ()
        if layout == "broadcast" and array.size > 1 and not axes:
            raise ValueError("layout is 'broadcast'; expected values that are constant along some axis")
        slab = cls._empty(array.shape, array.dtype, layout, axes, rng)
        slab._view(slab.image)[...] = array
        return slab

    @classmethod
    def poisoned(
        cls,
        shape: Sequence[int],
        dtype: np.dtype,
        layout: str = "contiguous",
        poison: str = "nan",
        rng: np.random.Generator | None = None,
    ) -> Slab:
        """A slab whose every element is poison: a `nan` pattern or a `large` finite value."""
        slab = cls._empty(tuple(shape), np.dtype(dtype), layout, (), rng)
        pattern = poison_pattern(slab.dtype, poison)
        slab._element_bytes(slab.image)[...] = pattern
        return slab

    @classmethod
    def _empty(
        cls,
        shape: tuple[int, ...],
        dtype: np.dtype,
        layout: str,
        broadcast: Sequence[int],
        rng: np.random.Generator | None,
    ) -> Slab:
        placed = place(shape, dtype.itemsize, layout, broadcast=broadcast, rng=rng)
        row = max(placed.strides, default=0) if len(shape) > 1 else placed.extent
        guard = _round_up(max(GUARD_BYTES, row + dtype.itemsize))
        offset = guard + placed.shift
        image = aligned_bytes(_round_up(offset + placed.extent + guard))
        image.reshape(-1, dtype.itemsize)[...] = guard_pattern(dtype)
        return cls(image, offset, tuple(shape), placed.strides, dtype)

    @property
    def nbytes(self) -> int:
        """The size of the whole image, in bytes."""
        return int(self.image.nbytes)

    @property
    def extent(self) -> int:
        """Bytes from the first byte of the first element to the last byte of the last one; 0 for an empty array."""
        if 0 in self.shape:
            return 0
        return self.dtype.itemsize + sum((size - 1) * stride for size, stride in zip(self.shape, self.strides))

    def elements(self, image: np.ndarray) -> np.ndarray:
        """The array that lies in `image`, a read-only view of it."""
        array = self._view(image)
        array.flags.writeable = False
        return array

    def guard_violations(self, image: np.ndarray) -> GuardViolations:
        """The guard bytes of `image` that differ from those of this slab."""
        changed = image != self.image
        self._element_bytes(changed)[...] = False
        return GuardViolations(np.flatnonzero(changed) - self.offset, self.dtype.itemsize, self.extent)

    def unwritten(self, image: np.ndarray) -> np.ndarray:
        """A bool for each element: True where `image` still holds the very bits that this slab began with."""
        same = self._element_bytes(image) == self._element_bytes(self.image)
        return np.asarray(same.all(axis=-1))

    def _view(self, image: np.ndarray) -> np.ndarray:
        return np.ndarray(self.shape, self.dtype, buffer=image, offset=self.offset, strides=self.strides)

    def _element_bytes(self, image: np.ndarray) -> np.ndarray:
        """The bytes of each element, shape + (itemsize,); `image` may hold uint8 or bool."""
        shape = (*self.shape, self.dtype.itemsize)
        return np.ndarray(shape, image.dtype, buffer=image, offset=self.offset, strides=(*self.strides, 1))


def aligned_bytes(size: int) -> np.ndarray:
    """An uninitialised uint8 buffer of `size` bytes whose first byte lies on a 256-byte boundary."""
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + size]


def _round_up(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
