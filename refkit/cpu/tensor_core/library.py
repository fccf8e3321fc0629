"""The functions that serve a warp, as libraries that a kernel links where it needs them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

from numba.cuda import types

from refkit.cpu.frontend import COMPUTE_CAPABILITY
from refkit.cpu.runtime.build import Library
from refkit.cpu.runtime.primitives import words_type
from refkit.cpu.tensor_core import double_sum, fused_sum, integer_sum, matrix_moves, warpgroup_product
from refkit.cpu.tensor_core.instruction import MmaInstruction
from refkit.cpu.tensor_core.model import summation
from refkit.cpu.tensor_core.wgmma_instruction import WgmmaInstruction


def _library(symbol: str, serve: Callable[..., None], detail: object = "") -> Library:
    sources = tuple(sorted(Path(__file__).parent.glob("*.py")))
    return Library(f"{symbol} {detail}", ((symbol, serve, types.void, (words_type, words_type)),), sources)


@functools.cache
def mma_library(instruction: MmaInstruction, capability: tuple[int, int] = COMPUTE_CAPABILITY) -> tuple[Library, str]:
    """The library of an `mma.sync` as an architecture computes it, and the name of its function."""
    symbol = f"rk.{instruction.opcode}"
    if instruction.accumulator == "s32":
        return _library(symbol, integer_sum.handler(instruction)), symbol
    if instruction.accumulator == "f64":
        return _library(symbol, double_sum.handler(instruction)), symbol
    model = summation(instruction, capability)
    return _library(symbol, fused_sum.handler(instruction, model), model), symbol


@functools.cache
def matrix_library(opcode: str, count: int) -> tuple[Library, str]:
    """The library of an `ldmatrix` or `stmatrix` of `count` matrices, and the name of its function."""
    make = matrix_moves.load_handler if opcode.startswith("ld") else matrix_moves.store_handler
    symbol = f"rk.{opcode}"
    return _library(symbol, make(count, ".trans" in opcode)), symbol


@functools.cache
def wgmma_library(instruction: WgmmaInstruction) -> tuple[Library, str]:
    """The library of a form of `wgmma`, and the name of its function."""
    form = instruction
    symbol = (
        f"rk.{form.opcode}.{int(form.a_in_registers)}{int(form.a_across)}{int(form.b_across)}{form.a_sign}{form.b_sign}"
    )
    return _library(symbol, warpgroup_product.handler(form), form.summation), symbol
