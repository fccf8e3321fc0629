"""Block-scaled fp8 products of experts: tokens are sorted by expert, and each expert has a weight of its own.

offsets (E,), int32 or int64, ascending: where the tokens of each expert end; those of expert e are offsets[e - 1] (0
for the first) to offsets[e]. No count has to be a multiple of anything, an expert may have none. Rows past the last
offset belong to nobody: y and dx are 0 there. An offset below its predecessor is taken for an empty expert, one
beyond T for T, so that no offset makes a kernel leave its arrays. Offsets stay on the device.

    y (T, N)  = x w[e]          xq (T, K), x_scales (T, K / group), wq (E, K, N), w_scales (E, K / group, N / group)
    dx (T, K) = dy w[e]^T       dyq (T, N), dy_scales (T, N / group)
    dw[e] (K, N) += x^T dy      xq_t (K, T), x_scales_t (K, T / group), dyq_t (N, T), dy_scales_t (N, T / group)

with every quotient rounded up. A group of tokens of dw may straddle two experts: each takes its own tokens of it.

y, dx:  a block looks up which expert's tile it makes; T // block_m + E + 1 rows of tiles are enough for any offsets.
dw:     one block per tile and expert.
Both keep a patch of elements per thread and two levels of sums (`fp8_blocks.py`).
"""

from __future__ import annotations

import functools
from typing import Any

from numba import cuda, float32

from .fp8_blocks import accumulate, register_tiled, store
from .fp8_formats import FP8, Fp8Format, as_bytes, format_of
from .gemm.tiles import Tiles
from .launch import FLOAT32, INTEGERS, add_into, ceil_div, check_shape, launcher, read, transposed, write


@cuda.jit(device=True)
def end_of(offsets, expert, first, tokens):
    """Where the tokens of `expert` end, if they begin at `first`."""
    return min(max(int(offsets[expert]), first), tokens)


@cuda.jit(device=True)
def find_tile(offsets, tokens, block_m, slot):
    """(expert, first_row, row_end) of the slot-th row of tiles, expert E for rows of nobody; (E + 1, 0, 0) for none."""
    experts, first = offsets.shape[0], 0
    for expert in range(experts + 1):
        end = end_of(offsets, expert, first, tokens) if expert < experts else tokens
        tiles = (end - first + block_m - 1) // block_m
        if slot < tiles:
            return expert, first + slot * block_m, end
        slot -= tiles
        first = end
    return experts + 1, 0, 0


@functools.cache
def fp8_grouped_factory(tiles: Tiles, group: int, a: Fp8Format, b: Fp8Format, transpose_b: bool) -> Any:
    """c (T, columns) = a b[e], or a b[e]^T: one tile per block; grid.x covers rows of tiles x tiles of columns."""
    make_tile = register_tiled(tiles, group, a.decode, b.decode, store)
    block_m, block_n, threads = tiles.block_m, tiles.block_n, tiles.threads

    @cuda.jit
    def fp8_grouped_kernel(a, a_scales, b, b_scales, offsets, c):
        tiles_n = (c.shape[1] + block_n - 1) // block_n
        first_column = (cuda.blockIdx.x % tiles_n) * block_n
        expert, first_row, row_end = find_tile(offsets, c.shape[0], block_m, cuda.blockIdx.x // tiles_n)
        if expert < offsets.shape[0]:
            w, w_scales = (b[expert].T, b_scales[expert].T) if transpose_b else (b[expert], b_scales[expert])
            make_tile(a, a_scales, w, w_scales, group, c, first_row, row_end, first_column, 0, a.shape[1])
        elif expert == offsets.shape[0]:
            columns = min(block_n, c.shape[1] - first_column)
            for item in range(cuda.threadIdx.x, min(block_m, row_end - first_row) * columns, threads):
                c[first_row + item // columns, first_column + item % columns] = float32(0)

    return fp8_grouped_kernel


@functools.cache
def fp8_grouped_dw_factory(tiles: Tiles, group: int, x: Fp8Format, dy: Fp8Format) -> Any:
    """dw[e] += x^T dy over the tokens of expert e; grid.x covers experts x tiles of dw[e]."""
    make_tile = register_tiled(tiles, group, x.decode, dy.decode, accumulate)
    block_m, block_n = tiles.block_m, tiles.block_n

    @cuda.jit
    def fp8_grouped_dw_kernel(xq_t, x_scales_t, dyq, dy_scales, offsets, dw):
        rows, columns, tokens = dw.shape[1], dw.shape[2], xq_t.shape[1]
        tiles_n = (columns + block_n - 1) // block_n
        tiles_of_one = ((rows + block_m - 1) // block_m) * tiles_n
        expert, tile = cuda.blockIdx.x // tiles_of_one, cuda.blockIdx.x % tiles_of_one
        first = 0
        for before in range(expert):
            first = end_of(offsets, before, first, tokens)
        end = end_of(offsets, expert, first, tokens)
        first_row, first_column = (tile // tiles_n) * block_m, (tile % tiles_n) * block_n
        make_tile(xq_t, x_scales_t, dyq, dy_scales, 1, dw[expert], first_row, rows, first_column, first, end)

    return fp8_grouped_dw_kernel


def _check_scales(name: str, scales: Any, shape: tuple[int, ...], group: int) -> None:
    if group < 1:
        raise ValueError(f"group={group} must be at least 1")
    check_shape(name, scales, shape)


def _launch_rows(
    a: Any,
    a_scales: Any,
    b: Any,
    b_scales: Any,
    offsets: Any,
    c: Any,
    formats: tuple[Fp8Format, Fp8Format],
    transpose_b: bool,
    group: int,
    tiles: Tiles,
    stream: Any,
) -> None:
    tiles.check()
    if 0 not in c.shape:
        kernel = fp8_grouped_factory(tiles, group, *formats, transpose_b)
        slots = c.shape[0] // tiles.block_m + offsets.shape[0] + 1
        blocks = slots * ceil_div(c.shape[1], tiles.block_n)
        kernel[blocks, tiles.threads, stream](as_bytes(a), a_scales, as_bytes(b), b_scales, offsets, c)


@launcher(
    xq=read("T", "K", dtypes=FP8),
    x_scales=read("T", "groups_k", dtypes=FLOAT32),
    wq=read("E", "K", "N", dtypes=FP8),
    w_scales=read("E", "groups_k", "groups_n", dtypes=FLOAT32),
    offsets=read("E", dtypes=INTEGERS),
    y=write("T", "N"),
)
def fp8_grouped_gemm(
    xq: Any,
    x_scales: Any,
    wq: Any,
    w_scales: Any,
    offsets: Any,
    y: Any,
    group: int = 128,
    x_format: str | None = None,
    w_format: str | None = None,
    block_m: int = 128,
    block_n: int = 128,
    block_k: int = 16,
    thread_m: int = 8,
    thread_n: int = 8,
    *,
    stream: Any = None,
) -> None:
    """Writes y (T, N): each token of xq (T, K) by the weight of its expert in wq (E, K, N); 0 past the last offset."""
    (experts, K, N), T = wq.shape, xq.shape[0]
    _check_scales("x_scales", x_scales, (T, ceil_div(K, group)), group)
    _check_scales("w_scales", w_scales, (experts, ceil_div(K, group), ceil_div(N, group)), group)
    formats = format_of("xq", xq, x_format), format_of("wq", wq, w_format)
    tiles = Tiles(block_m, block_n, block_k, thread_m, thread_n)
    _launch_rows(xq, x_scales, wq, w_scales, offsets, y, formats, False, group, tiles, stream)


@launcher(
    dyq=read("T", "N", dtypes=FP8),
    dy_scales=read("T", "groups_n", dtypes=FLOAT32),
    wq=read("E", "K", "N", dtypes=FP8),
    w_scales=read("E", "groups_k", "groups_n", dtypes=FLOAT32),
    offsets=read("E", dtypes=INTEGERS),
    dx=write("T", "K"),
)
def fp8_grouped_gemm_dx(
    dyq: Any,
    dy_scales: Any,
    wq: Any,
    w_scales: Any,
    offsets: Any,
    dx: Any,
    group: int = 128,
    dy_format: str | None = None,
    w_format: str | None = None,
    block_m: int = 128,
    block_n: int = 128,
    block_k: int = 16,
    thread_m: int = 8,
    thread_n: int = 8,
    *,
    stream: Any = None,
) -> None:
    """Writes dx (T, K): each row of dyq (T, N) by the transposed weight of its expert; 0 past the last offset."""
    (experts, K, N), T = wq.shape, dyq.shape[0]
    _check_scales("dy_scales", dy_scales, (T, ceil_div(N, group)), group)
    _check_scales("w_scales", w_scales, (experts, ceil_div(K, group), ceil_div(N, group)), group)
    formats = format_of("dyq", dyq, dy_format), format_of("wq", wq, w_format)
    tiles = Tiles(block_m, block_n, block_k, thread_m, thread_n)
    _launch_rows(dyq, dy_scales, wq, w_scales, offsets, dx, formats, True, group, tiles, stream)


@launcher(
    xq_t=read("K", "T", dtypes=FP8),
    x_scales_t=read("K", "groups_t", dtypes=FLOAT32),
    dyq_t=read("N", "T", dtypes=FP8),
    dy_scales_t=read("N", "groups_t", dtypes=FLOAT32),
    offsets=read("E", dtypes=INTEGERS),
    dw=add_into("E", "K", "N"),
)
def fp8_grouped_gemm_dw(
    xq_t: Any,
    x_scales_t: Any,
    dyq_t: Any,
    dy_scales_t: Any,
    offsets: Any,
    dw: Any,
    group: int = 128,
    x_format: str | None = None,
    dy_format: str | None = None,
    block_m: int = 128,
    block_n: int = 128,
    block_k: int = 16,
    thread_m: int = 8,
    thread_n: int = 8,
    *,
    stream: Any = None,
) -> None:
    """Adds x^T dy over each expert's tokens to the float32 buffer dw (E, K, N)."""
    experts, K, N = dw.shape
    for name, scales, rows in (("x_scales_t", x_scales_t, K), ("dy_scales_t", dy_scales_t, N)):
        _check_scales(name, scales, (rows, ceil_div(xq_t.shape[1], group)), group)
    tiles = Tiles(block_m, block_n, block_k, thread_m, thread_n)
    tiles.check()
    if 0 not in dw.shape:
        formats = format_of("xq_t", xq_t, x_format), format_of("dyq_t", dyq_t, dy_format)
        kernel = fp8_grouped_dw_factory(tiles, group, *formats)
        blocks = experts * ceil_div(K, block_m) * ceil_div(N, block_n)
        x, dy = as_bytes(xq_t), transposed(as_bytes(dyq_t))
        kernel[blocks, tiles.threads, stream](x, x_scales_t, dy, transposed(dy_scales_t), offsets, dw)
