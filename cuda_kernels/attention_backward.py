"""Attention, backward, from the saved o and lse: p is rebuilt from lse, the score matrix is never stored.

    p = exp(scale q k^T - lse),    dp = do v^T,    delta (B, H, Tq) = sum over D of do o,    ds = p (dp - delta)

    dq (B, H, Tq, D) = scale ds k        dk (B, Hkv, Tk, D) = scale ds^T q        dv (B, Hkv, Tk, D) = p^T do

dk and dv are sums over the query heads that share a head of k and v. Arrays, masks and formats are those of
`attention.py`; gradients are written, not added. delta is float32; it equals the sum of p dp over the keys (Dao et al.,
arXiv 2205.14135), so that no kernel here reduces a row of scores. dq sums over keys and dk, dv over queries, hence two
kernels, each with its own rows in registers: neither needs atomics, and results are the same bits every time.

delta:        one warp per row of do and o.
dq naive:     one thread per element of dq walks over the keys of its query.
dq fused:     one block per tile of queries walks over the tiles of keys that some of them see.
dk_dv naive:  one thread per element of dk and dv walks over the queries of its key, head by head of the group.
dk_dv fused:  one block per tile of keys walks, head by head of the group, over the tiles of queries that see some.
"""

from __future__ import annotations

import math
from typing import Any

from numba import cuda, float32

from .attention import NAIVE_BLOCK, check_heads, scale_or_default, score
from .attention_backward_fused import fused_dk_dv, fused_dq, probability
from .attention_mask import band, visible_keys, visible_queries
from .attention_tiles import BACKWARD, tiles_for
from .attention_views import heads_of, packed_views
from .launch import FLOAT32, ceil_div, check_block, launcher, read, write
from .primitives.warp import WARP, warp_sum

# --------------------------------------------------------------------------------------------------------- delta


@cuda.jit
def attention_delta_kernel(do, o, delta):
    lane = cuda.threadIdx.x % WARP
    row = cuda.grid(1) // WARP
    heads, queries = o.shape[1], o.shape[2]
    if row >= o.shape[0] * heads * queries:
        return  # the whole warp leaves: its lanes share the row
    batch, head, i = row // queries // heads, row // queries % heads, row % queries
    total = float32(0)
    for d in range(lane, o.shape[3], WARP):
        total += float32(do[batch, head, i, d]) * float32(o[batch, head, i, d])
    total = warp_sum(total)
    if lane == 0:
        delta[batch, head, i] = total


# --------------------------------------------------------------------------------------------------------- naive


@cuda.jit
def attention_dq_naive_kernel(do, q, k, v, lse, delta, scale, lower, upper, dq):
    heads, queries, depth = q.shape[1], q.shape[2], q.shape[3]
    element = cuda.grid(1)
    if element >= q.shape[0] * heads * queries * depth:
        return
    d, i = element % depth, element // depth % queries
    head, batch = element // depth // queries % heads, element // depth // queries // heads
    kv_head = head // (heads // k.shape[1])
    q_row, do_row, k_head, v_head = q[batch, head, i], do[batch, head, i], k[batch, kv_head], v[batch, kv_head]
    first, end = visible_keys(i, i, lower, upper, k.shape[2])
    total = float32(0)
    for j in range(first, end):
        p = probability(score(q_row, k_head[j], scale), lse[batch, head, i])
        ds = p * (score(do_row, v_head[j], float32(1)) - delta[batch, head, i])
        total += ds * float32(k_head[j, d])
    dq[batch, head, i, d] = scale * total


@cuda.jit
def attention_dk_dv_naive_kernel(do, q, k, v, lse, delta, scale, lower, upper, dk, dv):
    kv_heads, keys, depth = k.shape[1], k.shape[2], k.shape[3]
    element = cuda.grid(1)
    if element >= k.shape[0] * kv_heads * keys * depth:
        return
    d, j = element % depth, element // depth % keys
    kv_head, batch = element // depth // keys % kv_heads, element // depth // keys // kv_heads
    group = q.shape[1] // kv_heads
    k_row, v_row = k[batch, kv_head, j], v[batch, kv_head, j]
    first, end = visible_queries(j, j, lower, upper, q.shape[2])
    total_k, total_v = float32(0), float32(0)
    for head in range(kv_head * group, (kv_head + 1) * group):
        q_head, do_head = q[batch, head], do[batch, head]
        for i in range(first, end):
            p = probability(score(q_head[i], k_row, scale), lse[batch, head, i])
            ds = p * (score(do_head[i], v_row, float32(1)) - delta[batch, head, i])
            total_k += ds * float32(q_head[i, d])
            total_v += p * float32(do_head[i, d])
    dk[batch, kv_head, j, d] = scale * total_k
    dv[batch, kv_head, j, d] = total_v


# ------------------------------------------------------------------------------------------------------- launchers

QUERIES, KEYS, ROW = ("B", "H", "Tq", "D"), ("B", "Hkv", "Tk", "D"), ("B", "H", "Tq")
GIVEN: dict[str, Any] = {"do": read(*QUERIES), "q": read(*QUERIES), "k": read(*KEYS), "v": read(*KEYS)}
STATISTICS: dict[str, Any] = {"lse": read(*ROW, dtypes=FLOAT32), "delta": read(*ROW, dtypes=FLOAT32)}


@launcher(do=read(*QUERIES), o=read(*QUERIES), delta=write(*ROW, dtypes=FLOAT32))
def attention_delta(do: Any, o: Any, delta: Any, block: int = 128, *, stream: Any = None) -> None:
    """Writes delta (B, H, Tq), the sum of do o over D; one warp per row."""
    check_block(block)
    rows = o.shape[0] * o.shape[1] * o.shape[2]
    if rows:
        attention_delta_kernel[ceil_div(rows, block // WARP), block, stream](do, o, delta)


@launcher(**GIVEN, **STATISTICS, dq=write(*QUERIES))
def attention_dq_naive(
    do: Any,
    q: Any,
    k: Any,
    v: Any,
    lse: Any,
    delta: Any,
    dq: Any,
    window: int = 0,
    scale: float | None = None,
    causal: str = "none",
    *,
    stream: Any = None,
) -> None:
    """Writes dq (B, H, Tq, D); one thread per element, heads of any width."""
    lower, upper = band(causal, window, q.shape[2], k.shape[2])
    check_heads(q, k)
    elements = math.prod(dq.shape)
    if elements:
        blocks = ceil_div(elements, NAIVE_BLOCK)
        factor = scale_or_default(scale, q.shape[3])
        attention_dq_naive_kernel[blocks, NAIVE_BLOCK, stream](do, q, k, v, lse, delta, factor, lower, upper, dq)


@launcher(**GIVEN, **STATISTICS, dq=write(*QUERIES))
def attention_dq(
    do: Any,
    q: Any,
    k: Any,
    v: Any,
    lse: Any,
    delta: Any,
    dq: Any,
    window: int = 0,
    scale: float | None = None,
    causal: str = "none",
    block_q: int | None = None,
    block_k: int | None = None,
    depth: int | None = None,
    *,
    stream: Any = None,
) -> None:
    """Writes dq (B, H, Tq, D), D at most 256; one block per tile of block_q (a multiple of 8) queries.

    block_k is a multiple of 16, `depth` also, and at least D; None is a size that fits D.
    """
    lower, upper = band(causal, window, q.shape[2], k.shape[2])
    check_heads(q, k)
    tiles = tiles_for(q.shape[3], block_q, block_k, depth, BACKWARD, own_tiles=2)
    blocks = q.shape[0] * q.shape[1] * ceil_div(q.shape[2], tiles.own)
    if blocks:
        factor = scale_or_default(scale, q.shape[3])
        fused_dq(tiles)[blocks, tiles.threads, stream](do, q, k, v, lse, delta, factor, lower, upper, dq)


@launcher(**GIVEN, **STATISTICS, dk=write(*KEYS), dv=write(*KEYS))
def attention_dk_dv_naive(
    do: Any,
    q: Any,
    k: Any,
    v: Any,
    lse: Any,
    delta: Any,
    dk: Any,
    dv: Any,
    window: int = 0,
    scale: float | None = None,
    causal: str = "none",
    *,
    stream: Any = None,
) -> None:
    """Writes dk and dv (B, Hkv, Tk, D); one thread per element of both, heads of any width."""
    lower, upper = band(causal, window, q.shape[2], k.shape[2])
    check_heads(q, k)
    elements = math.prod(dk.shape)
    if elements:
        blocks = ceil_div(elements, NAIVE_BLOCK)
        factor = scale_or_default(scale, q.shape[3])
        kernel = attention_dk_dv_naive_kernel[blocks, NAIVE_BLOCK, stream]
        kernel(do, q, k, v, lse, delta, factor, lower, upper, dk, dv)


@launcher(**GIVEN, **STATISTICS, dk=write(*KEYS), dv=write(*KEYS))
def attention_dk_dv(
    do: Any,
    q: Any,
    k: Any,
    v: Any,
    lse: Any,
    delta: Any,
    dk: Any,
    dv: Any,
    window: int = 0,
    scale: float | None = None,
    causal: str = "none",
    block_k: int | None = None,
    block_q: int | None = None,
    depth: int | None = None,
    *,
    stream: Any = None,
) -> None:
    """Writes dk and dv (B, Hkv, Tk, D), D at most 256; one block per tile of block_k (a multiple of 8) keys.

    block_q is a multiple of 16, `depth` also, and at least D; None is a size that fits D.
    """
    lower, upper = band(causal, window, q.shape[2], k.shape[2])
    check_heads(q, k)
    tiles = tiles_for(q.shape[3], block_k, block_q, depth, BACKWARD, own_tiles=2)
    blocks = k.shape[0] * k.shape[1] * ceil_div(k.shape[2], tiles.own)
    if blocks:
        factor = scale_or_default(scale, q.shape[3])
        kernel = fused_dk_dv(tiles)[blocks, tiles.threads, stream]
        kernel(do, q, k, v, lse, delta, factor, lower, upper, dk, dv)


@launcher(
    **GIVEN,
    o=read(*QUERIES),
    lse=read(*ROW, dtypes=FLOAT32),
    dq=write(*QUERIES),
    dk=write(*KEYS),
    dv=write(*KEYS),
)
def attention_backward(
    do: Any,
    q: Any,
    k: Any,
    v: Any,
    o: Any,
    lse: Any,
    dq: Any,
    dk: Any,
    dv: Any,
    window: int = 0,
    scale: float | None = None,
    causal: str = "none",
    own: int | None = None,
    other: int | None = None,
    depth: int | None = None,
    *,
    stream: Any = None,
) -> None:
    """Writes dq, dk and dv from what the forward pass returned, by the kernels of delta, of dq, and of dk and dv.

    `own` and `other` are block_q and block_k of the kernel of dq, block_k and block_q of that of dk and dv. Scratch:
    delta.
    """
    delta = cuda.device_array(lse.shape, FLOAT32, stream=stream)
    attention_delta(do, o, delta, stream=stream)
    given = (do, q, k, v, lse, delta)
    attention_dq(*given, dq, window, scale, causal, own, other, depth, stream=stream)
    attention_dk_dv(*given, dk, dv, window, scale, causal, own, other, depth, stream=stream)


@launcher(
    do=read("B", "T", "C"),
    qkv=read("B", "T", "3*C"),
    o=read("B", "T", "C"),
    lse=read("B", "H", "T", dtypes=FLOAT32),
    dqkv=write("B", "T", "3*C"),
)
def attention_packed_backward(
    do: Any,
    qkv: Any,
    o: Any,
    lse: Any,
    dqkv: Any,
    window: int = 0,
    scale: float | None = None,
    causal: str = "none",
    own: int | None = None,
    other: int | None = None,
    depth: int | None = None,
    *,
    stream: Any = None,
) -> None:
    """Writes dqkv (B, T, 3 C), the gradient of the packed projection, from do, o (B, T, C) and lse (B, H, T)."""
    heads = lse.shape[1]
    if heads == 0:
        raise ValueError(f"lse has shape {lse.shape}; expected at least one head")
    given = (heads_of(do, heads), *packed_views(qkv, heads), heads_of(o, heads), lse)
    gradients = packed_views(dqkv, heads)
    attention_backward(*given, *gradients, window, scale, causal, own, other, depth, stream=stream)
