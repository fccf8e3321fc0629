"""Numbers to registers and back: the element types of `mma.sync`, packed as a fragment's registers hold them."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from refkit.cuda_kernels.layouts import Fragment

NUMPY_TYPES: dict[str, type] = {
    "tf32": np.float32,
    "f32": np.float32,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "f64": np.float64,
    "s8": np.int8,
    "u8": np.uint8,
    "s32": np.int32,
}
INTEGERS = ("s8", "u8", "s32")


def register_dtype(kind: str) -> np.dtype:
    """The NumPy type of the registers that hold a PTX type: float32 and float64 for those, otherwise 32-bit words."""
    return np.dtype({"f32": np.float32, "f64": np.float64}.get(kind, np.uint32))


def pack(values: np.ndarray, kind: str) -> np.ndarray:
    """Registers, (..., 32, registers), of numbers (..., 32, registers, parts); what `kind` cannot hold is rounded."""
    encoded: np.ndarray = np.ascontiguousarray(values.astype(NUMPY_TYPES[kind]))
    return encoded.view(register_dtype(kind))[..., 0]


def unpack(registers: np.ndarray, kind: str) -> np.ndarray:
    """Numbers as float64, (..., 32, registers, parts), of registers (..., 32, registers)."""
    whole = np.ascontiguousarray(registers)[..., None]
    return whole.view(NUMPY_TYPES[kind]).astype(np.float64)


def spread(matrices: np.ndarray, fragment: Fragment) -> np.ndarray:
    """Matrices (..., rows, columns) as a warp holds them: (..., 32, registers, parts)."""
    return matrices[..., fragment.row_of, fragment.column_of]


def gathered(held: np.ndarray, fragment: Fragment) -> np.ndarray:
    """The inverse of `spread`."""
    matrices = np.empty((*held.shape[:-3], fragment.rows, fragment.columns), held.dtype)
    matrices[..., fragment.row_of, fragment.column_of] = held
    return matrices
