"""The forms of `mma.sync` under test: intrinsic, shape, types; and a kernel that runs a form on many fragments."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import cuda

from refkit.cuda_kernels import ptx

WARPS = 4  # fragments per block
BITS = {"tf32": 32, "f16": 16, "bf16": 16, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "f64": 64, "f32": 32, "s32": 32}


@dataclass(frozen=True)
class Case:
    """One form; `a`, `b`, `c` are PTX element types, `accumulator` that of C and D."""

    name: str
    m: int
    k: int
    a: str
    b: str
    accumulator: str
    saturates: bool = False

    @property
    def counts(self) -> tuple[int, int, int]:
        """Registers per lane of A, B and C."""
        a, b, c = BITS[self.a], BITS[self.b], BITS[self.accumulator]
        width = 64 if self.a == "f64" else 32
        return self.m * self.k * a // (32 * width), self.k * 8 * b // (32 * width), self.m * 8 * c // (32 * width)

    @property
    def dtypes(self) -> tuple[type, type, type]:
        """NumPy types of the registers of A, B and C."""
        if self.a == "f64":
            return np.float64, np.float64, np.float64
        return np.uint32, np.uint32, np.float32 if self.accumulator == "f32" else np.uint32


def _half(k: int, kind: str, accumulator: str = "f32") -> Case:
    suffix = "" if accumulator == "f32" else "_f16"
    return Case(f"mma_m16n8k{k}_{kind}{suffix}", 16, k, kind, kind, accumulator)


def _byte(a: str, b: str, accumulator: str, saturates: bool = False) -> Case:
    kinds = (a if a == b else f"{a}_{b}") + ("_satfinite" if saturates else "")
    return Case(f"mma_m16n8k32_{kinds}", 16, 32, a, b, accumulator, saturates)


CASES = (
    Case("mma_m16n8k4_tf32", 16, 4, "tf32", "tf32", "f32"),
    Case("mma_m16n8k8_tf32", 16, 8, "tf32", "tf32", "f32"),
    *(_half(k, kind) for k in (8, 16) for kind in ("f16", "bf16")),
    *(_half(k, "f16", "f16") for k in (8, 16)),
    *(_byte(a, b, "f32") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")),
    *(_byte(a, b, "s32") for a in ("s8", "u8") for b in ("s8", "u8")),
    *(_byte(a, a, "s32", True) for a in ("s8", "u8")),
    Case("mma_m8n8k4_f64", 8, 4, "f64", "f64", "f64"),
)
BY_NAME = {case.name: case for case in CASES}


@cuda.jit(device=True)
def _take1(x, f, lane):
    return (x[f, lane, 0],)


@cuda.jit(device=True)
def _take2(x, f, lane):
    return x[f, lane, 0], x[f, lane, 1]


@cuda.jit(device=True)
def _take4(x, f, lane):
    return x[f, lane, 0], x[f, lane, 1], x[f, lane, 2], x[f, lane, 3]


_TAKE = {1: _take1, 2: _take2, 4: _take4}


@functools.cache
def kernel(case: Case) -> Callable[..., Any]:
    """A kernel `(a, b, c, d)`: each warp multiplies one fragment; arrays are (fragments, 32, registers)."""
    mma = getattr(ptx, case.name)
    a_count, b_count, c_count = case.counts
    take_a, take_b, take_c = _TAKE[a_count], _TAKE[b_count], _TAKE[c_count]

    @cuda.jit
    def multiply(a, b, c, d):
        fragment = cuda.blockIdx.x * WARPS + cuda.threadIdx.y
        lane = cuda.threadIdx.x
        if fragment < a.shape[0]:
            result = mma(take_a(a, fragment, lane), take_b(b, fragment, lane), take_c(c, fragment, lane))
            for i in range(c_count):
                d[fragment, lane, i] = result[i]

    return multiply


def run(case: Case, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """D's registers, (fragments, 32, registers), on whatever backend is active; A, B and C are given as registers."""
    d = np.zeros_like(c)
    kernel(case)[-(-len(a) // WARPS), (32, WARPS)](a, b, c, d)
    return d
