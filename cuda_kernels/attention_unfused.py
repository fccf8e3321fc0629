"""Attention by way of the score matrix: products, a softmax between them, and copies that bring heads together.

    forward:   s = q k^T, p = masked softmax of scale s, o = p v
    backward:  dv = p^T do, dp = do v^T, ds = scale p (dp - sum over keys of p dp), dq = ds k, dk = ds^T q

q, o (B, H, Tq, D), k, v (B, Hkv, Tk, D), p (B, H, Tq, Tk) float32, saved. It is there to be compared with the fused
path (`attention.py`): every score is computed, those no query sees among them, written to memory and read back. The
rows of the query heads that share a head of k and v stand one below the other, so that one product serves the group.

permute_heads:            one thread per element; its own inverse, with the two axes exchanged.
masked_softmax:           one warp per row, loops over the visible keys; may work in place.
masked_softmax_backward: likewise.
"""

from __future__ import annotations

import math
from typing import Any

from numba import cuda, float32

from .attention import check_heads, scale_or_default
from .attention_mask import band, visible_keys
from .attention_views import swapped
from .gemm import Tiles, launch_batched_gemm, store
from .launch import FLOAT32, ceil_div, check_block, launcher, read, write
from .primitives.warp import WARP, warp_max, warp_sum

BLOCK = 256


@cuda.jit
def permute_heads_kernel(x, y):
    """y[b, i, j, d] = x[b, j, i, d]."""
    rows, columns, depth = y.shape[1], y.shape[2], y.shape[3]
    element = cuda.grid(1)
    if element >= y.shape[0] * rows * columns * depth:
        return
    d, j = element % depth, element // depth % columns
    i, batch = element // depth // columns % rows, element // depth // columns // rows
    y[batch, i, j, d] = x[batch, j, i, d]


@cuda.jit
def masked_softmax_kernel(s, scale, lower, upper, p):
    heads, queries, keys = s.shape[1], s.shape[2], s.shape[3]
    lane = cuda.threadIdx.x % WARP
    row = cuda.grid(1) // WARP
    if row >= s.shape[0] * heads * queries:
        return  # the whole warp leaves: its lanes share the row
    batch, head, i = row // queries // heads, row // queries % heads, row % queries
    first, end = visible_keys(i, i, lower, upper, keys)
    most = float32(-math.inf)
    for j in range(first + lane, end, WARP):
        most = max(most, scale * s[batch, head, i, j])
    most = warp_max(most)
    shift = most if most > float32(-math.inf) else float32(0)
    total = float32(0)
    for j in range(first + lane, end, WARP):
        total += math.exp(scale * s[batch, head, i, j] - shift)
    total = warp_sum(total)
    for j in range(first + lane, end, WARP):  # the elements that this lane read: s and p may be one array
        value = math.exp(scale * s[batch, head, i, j] - shift)
        p[batch, head, i, j] = value / total if total != float32(0) else float32(0)
    hide(p, batch, head, i, lane, first, end)


@cuda.jit
def masked_softmax_backward_kernel(dp, p, scale, lower, upper, ds):
    heads, queries, keys = p.shape[1], p.shape[2], p.shape[3]
    lane = cuda.threadIdx.x % WARP
    row = cuda.grid(1) // WARP
    if row >= p.shape[0] * heads * queries:
        return
    batch, head, i = row // queries // heads, row // queries % heads, row % queries
    first, end = visible_keys(i, i, lower, upper, keys)
    total = float32(0)
    for j in range(first + lane, end, WARP):
        total += p[batch, head, i, j] * dp[batch, head, i, j]
    total = warp_sum(total)
    for j in range(first + lane, end, WARP):  # the elements that this lane read: dp and ds may be one array
        ds[batch, head, i, j] = scale * (p[batch, head, i, j] * (dp[batch, head, i, j] - total))
    hide(ds, batch, head, i, lane, first, end)


@cuda.jit(device=True)
def hide(x, batch, head, i, lane, first, end):
    """0 in the elements of a row outside of first to end."""
    keys = x.shape[3]
    for j in range(lane, min(first, keys), WARP):
        x[batch, head, i, j] = float32(0)
    for j in range(max(first, end, 0) + lane, keys, WARP):
        x[batch, head, i, j] = float32(0)


# ------------------------------------------------------------------------------------------------------- launchers

QUERIES, KEYS, SCORES = ("B", "H", "Tq", "D"), ("B", "Hkv", "Tk", "D"), ("B", "H", "Tq", "Tk")
TILES = Tiles(block_m=64, block_n=64, block_k=16, thread_m=4, thread_n=4)


@launcher(x=read("B", "T", "H", "D"), y=write("B", "H", "T", "D"))
def split_heads(x: Any, y: Any, block: int = BLOCK, *, stream: Any = None) -> None:
    """Writes y (B, H, T, D), the heads of x (B, T, H, D) one after the other; one thread per element."""
    _permute(x, y, block, stream)


@launcher(y=read("B", "H", "T", "D"), x=write("B", "T", "H", "D"))
def merge_heads(y: Any, x: Any, block: int = BLOCK, *, stream: Any = None) -> None:
    """Writes x (B, T, H, D), the heads of y (B, H, T, D) side by side; one thread per element."""
    _permute(y, x, block, stream)


def _permute(x: Any, y: Any, block: int, stream: Any) -> None:
    check_block(block)
    elements = math.prod(y.shape)
    if elements:
        permute_heads_kernel[ceil_div(elements, block), block, stream](x, y)


@launcher(in_place=("s", "p"), s=read(*SCORES, dtypes=FLOAT32), p=write(*SCORES, dtypes=FLOAT32))
def masked_softmax(
    s: Any,
    p: Any,
    window: int = 0,
    scale: float = 1.0,
    causal: str = "none",
    block: int = BLOCK,
    *,
    stream: Any = None,
) -> None:
    """Writes p (B, H, Tq, Tk), the softmax of scale s over the keys that a query sees, 0 elsewhere; one warp per row.

    s and p may be the same array.
    """
    check_block(block)
    lower, upper = band(causal, window, p.shape[2], p.shape[3])
    rows = math.prod(p.shape[:3])
    if rows and p.shape[3]:
        factor = scale_or_default(scale, 1)
        masked_softmax_kernel[ceil_div(rows, block // WARP), block, stream](s, factor, lower, upper, p)


@launcher(
    in_place=("dp", "ds"),
    dp=read(*SCORES, dtypes=FLOAT32),
    p=read(*SCORES, dtypes=FLOAT32),
    ds=write(*SCORES, dtypes=FLOAT32),
)
def masked_softmax_backward(
    dp: Any,
    p: Any,
    ds: Any,
    window: int = 0,
    scale: float = 1.0,
    causal: str = "none",
    block: int = BLOCK,
    *,
    stream: Any = None,
) -> None:
    """Writes ds (B, H, Tq, Tk) from the saved p; one warp per row. dp and ds may be the same array."""
    check_block(block)
    lower, upper = band(causal, window, p.shape[2], p.shape[3])
    rows = math.prod(p.shape[:3])
    if rows and p.shape[3]:
        factor = scale_or_default(scale, 1)
        kernel = masked_softmax_backward_kernel[ceil_div(rows, block // WARP), block, stream]
        kernel(dp, p, factor, lower, upper, ds)


@launcher(q=read(*QUERIES), k=read(*KEYS), v=read(*KEYS), o=write(*QUERIES), p=write(*SCORES, dtypes=FLOAT32))
def attention_unfused(
    q: Any,
    k: Any,
    v: Any,
    o: Any,
    p: Any,
    window: int = 0,
    scale: float | None = None,
    causal: str = "none",
    tiles: Tiles = TILES,
    *,
    stream: Any = None,
) -> None:
    """Writes o (B, H, Tq, D) and p (B, H, Tq, Tk), which holds the scores in between; arrays are C-contiguous."""
    band(causal, window, q.shape[2], k.shape[2])
    check_heads(q, k)
    q, k, v, o, scores = _as_matrices(k.shape, q=q, k=k, v=v, o=o, p=p)
    launch_batched_gemm(store, q, swapped(k), scores, tiles, stream=stream)
    masked_softmax(p, p, window, scale_or_default(scale, q.shape[2]), causal, stream=stream)
    launch_batched_gemm(store, scores, v, o, tiles, stream=stream)


@launcher(
    do=read(*QUERIES),
    q=read(*QUERIES),
    k=read(*KEYS),
    v=read(*KEYS),
    p=read(*SCORES, dtypes=FLOAT32),
    dq=write(*QUERIES),
    dk=write(*KEYS),
    dv=write(*KEYS),
)
def attention_unfused_backward(
    do: Any,
    q: Any,
    k: Any,
    v: Any,
    p: Any,
    dq: Any,
    dk: Any,
    dv: Any,
    window: int = 0,
    scale: float | None = None,
    causal: str = "none",
    tiles: Tiles = TILES,
    *,
    stream: Any = None,
) -> None:
    """Writes dq, dk and dv from the saved p; arrays are C-contiguous. Scratch: one more score matrix."""
    check_heads(q, k)
    ds = cuda.device_array(p.shape, FLOAT32, stream=stream)
    arrays = {"do": do, "q": q, "k": k, "v": v, "p": p, "dq": dq, "dk": dk, "dv": dv, "ds": ds}
    do, q, k, v, probabilities, dq, dk, dv, scores = _as_matrices(k.shape, **arrays)
    launch_batched_gemm(store, swapped(probabilities), do, dv, tiles, stream=stream)
    launch_batched_gemm(store, do, swapped(v), scores, tiles, stream=stream)
    masked_softmax_backward(ds, p, ds, window, scale_or_default(scale, q.shape[2]), causal, stream=stream)
    launch_batched_gemm(store, scores, k, dq, tiles, stream=stream)
    launch_batched_gemm(store, swapped(scores), q, dk, tiles, stream=stream)


def _as_matrices(keys: tuple[int, ...], **arrays: Any) -> list[Any]:
    """Each (B, H or Hkv, T, columns) as (B Hkv, rows, columns); ValueError where that would take a copy."""
    matrices = keys[0] * keys[1]
    views = []
    for name, array in arrays.items():
        if array.size and not array.is_c_contiguous():
            raise ValueError(
                f"{name} has strides {array.strides}, expected a C-contiguous array of shape {array.shape}"
            )
        rows = array.shape[1] // keys[1] * array.shape[2]
        views.append(array.reshape(matrices, rows, array.shape[3]))
    return views
