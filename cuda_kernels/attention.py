"""Attention, forward: s = scale q k^T, o = softmax(s) v over the keys that a query sees, lse = log(sum of exp(s)).

    q, o (B, H, Tq, D)    k, v (B, Hkv, Tk, D)    lse (B, H, Tq) float32, saved for the backward pass

Hkv divides H: heads of q share heads of k and v. Arrays have any strides, so that q, k and v may be views of one
packed projection (`packed_views`). `causal` and `window` say which keys a query sees (`attention_mask.band`); a query
that sees none gets o = 0 and lse = -inf. `scale` None is 1/sqrt(D). Arithmetic is float32, storage float32, bfloat16 or
float16. The backward pass is in `attention_backward.py`, the path by way of a score matrix in `attention_unfused.py`.

naive:  one thread per element of o, which walks twice over its keys; each score is computed D times and more.
fused:  one block per tile of queries; scores of a tile of keys at a time, never stored. A running maximum and sum per
        query, by which what is summed so far is rescaled (Milakov and Gimelshein, arXiv 1805.02867; Dao et al., arXiv
        2205.14135). Tiles that no query sees are not visited; in those that are, a hidden key weighs 0, so that a NaN
        or an infinity of its value still reaches the queries of the block, as 0 times it.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from numba import cuda, float32

from .attention_mask import band, sees, visible_keys
from .attention_tiles import FORWARD, LANES, ROWS, AttentionTiles, add_weighted_rows, loader, row_products, tiles_for
from .attention_views import heads_of, packed_views
from .launch import FLOAT32, ceil_div, launcher, read, write
from .primitives.warp import FULL_MASK

NAIVE_BLOCK = 128


@cuda.jit(device=True)
def score(q, k, scale):
    """scale times the product of a row of q and a row of k, both (D,)."""
    product = float32(0)
    for d in range(q.shape[0]):
        product += float32(q[d]) * float32(k[d])
    return scale * product


@cuda.jit
def attention_naive_kernel(q, k, v, scale, lower, upper, o, lse):
    heads, queries, depth = q.shape[1], q.shape[2], q.shape[3]
    element = cuda.grid(1)
    if element >= q.shape[0] * heads * queries * depth:
        return
    d, i = element % depth, element // depth % queries
    head, batch = element // depth // queries % heads, element // depth // queries // heads
    kv_head = head // (heads // k.shape[1])
    q_row, k_head, v_head = q[batch, head, i], k[batch, kv_head], v[batch, kv_head]
    first, end = visible_keys(i, i, lower, upper, k.shape[2])
    most = float32(-math.inf)
    for j in range(first, end):
        most = max(most, score(q_row, k_head[j], scale))
    shift = most if most > float32(-math.inf) else float32(0)
    total, weighted = float32(0), float32(0)
    for j in range(first, end):
        p = math.exp(score(q_row, k_head[j], scale) - shift)
        total += p
        weighted += p * float32(v_head[j, d])
    o[batch, head, i, d] = weighted / total if total != float32(0) else float32(0)
    if d == 0:
        lse[batch, head, i] = shift + math.log(total) if total != float32(0) else float32(-math.inf)


@cuda.jit(device=True)
def max_of_lanes(value):
    """The largest value over the 16 lanes of a group, in each of them; all 32 lanes of the warp must call."""
    for bit in range(4):
        value = max(value, cuda.shfl_xor_sync(FULL_MASK, value, 8 >> bit))
    return value


@cuda.jit(device=True)
def sum_of_lanes(value):
    """The sum over the 16 lanes of a group, in each of them; all 32 lanes of the warp must call."""
    for bit in range(4):
        value += cuda.shfl_xor_sync(FULL_MASK, value, 8 >> bit)
    return value


@functools.cache
def fused_forward(tiles: AttentionTiles) -> Any:
    """The fused kernel; grid.x covers the tiles of queries of head 0, then those of head 1, ..., batch by batch."""
    block_q, block_k, width = tiles
    score_columns, output_columns = block_k // LANES, width // LANES
    padded, padded_k = width + 1, block_k + 1
    load_queries, load_keys = loader(block_q, width), loader(block_k, width)
    products, add_rows = row_products(score_columns), add_weighted_rows(block_k, output_columns)

    @cuda.jit(device=True)
    def to_probabilities(s, scale, first_query, first_key, lane, lower, upper, keys, most, total, sums, p, first_row):
        """Turns products into exp(s - most), in `p`; brings most, total and sums up to this tile of keys."""
        for r in range(ROWS):
            largest = most[r]
            for c in range(score_columns):
                key = first_key + lane + LANES * c
                if key < keys and sees(first_query + r, key, lower, upper):
                    s[r, c] *= scale
                else:
                    s[r, c] = float32(-math.inf)
                largest = max(largest, s[r, c])
            largest = max_of_lanes(largest)
            shift = largest if largest > float32(-math.inf) else float32(0)
            shrink = math.exp(most[r] - shift)
            row_sum = float32(0)
            for c in range(score_columns):
                value = math.exp(s[r, c] - shift)
                row_sum += value
                p[first_row + r, lane + LANES * c] = value
            total[r] = total[r] * shrink + sum_of_lanes(row_sum)
            most[r] = largest
            for c in range(output_columns):
                sums[r, c] *= shrink

    @cuda.jit
    def attention_fused_kernel(q, k, v, scale, lower, upper, o, lse):
        q_tile = cuda.shared.array((block_q, padded), float32)
        kv_tile = cuda.shared.array((block_k, padded), float32)  # keys, then the values of the same rows
        p_tile = cuda.shared.array((block_q, padded_k), float32)
        s = cuda.local.array((ROWS, score_columns), float32)
        sums = cuda.local.array((ROWS, output_columns), float32)
        most = cuda.local.array(ROWS, float32)
        total = cuda.local.array(ROWS, float32)

        heads, queries, depth, keys = q.shape[1], q.shape[2], q.shape[3], k.shape[2]
        tiles_q = (queries + block_q - 1) // block_q
        first_query = cuda.blockIdx.x % tiles_q * block_q
        head, batch = cuda.blockIdx.x // tiles_q % heads, cuda.blockIdx.x // tiles_q // heads
        kv_head = head // (heads // k.shape[1])
        lane, my_row = cuda.threadIdx.x % LANES, cuda.threadIdx.x // LANES * ROWS

        for r in range(ROWS):
            most[r], total[r] = float32(-math.inf), float32(0)
            for c in range(output_columns):
                sums[r, c] = float32(0)
        load_queries(q_tile, q[batch, head], first_query)
        first, end = visible_keys(first_query, min(first_query + block_q, queries) - 1, lower, upper, keys)
        for first_key in range(first, end, block_k):
            load_keys(kv_tile, k[batch, kv_head], first_key)
            cuda.syncthreads()
            products(q_tile, kv_tile, my_row, lane, depth, s)
            to_probabilities(
                s, scale, first_query + my_row, first_key, lane, lower, upper, keys, most, total, sums, p_tile, my_row
            )
            cuda.syncthreads()  # the keys are overwritten next
            load_keys(kv_tile, v[batch, kv_head], first_key)
            cuda.syncthreads()
            add_rows(p_tile, kv_tile, my_row, lane, sums)
            cuda.syncthreads()

        for r in range(ROWS):
            query = first_query + my_row + r
            if query < queries:
                some = total[r] != float32(0)
                for c in range(output_columns):
                    column = lane + LANES * c
                    if column < depth:
                        o[batch, head, query, column] = sums[r, c] / total[r] if some else float32(0)
                if lane == 0:
                    lse[batch, head, query] = most[r] + math.log(total[r]) if some else float32(-math.inf)

    return attention_fused_kernel


def scale_or_default(scale: float | None, D: int) -> Any:
    """`scale`, or 1/sqrt(D) for None, as float32."""
    return np.float32(1 / math.sqrt(max(D, 1)) if scale is None else scale)


def check_heads(q: Any, k: Any) -> None:
    """Raises ValueError where the heads of k and v do not divide those of q, or a head has no columns."""
    if q.shape[3] == 0:
        raise ValueError(f"q has shape {q.shape}; expected heads of at least one column")
    if k.shape[1] == 0 or q.shape[1] % k.shape[1]:
        raise ValueError(f"k has {k.shape[1]} heads, expected a divisor of the {q.shape[1]} heads of q")


FORWARD_ARRAYS: dict[str, Any] = {
    "q": read("B", "H", "Tq", "D"),
    "k": read("B", "Hkv", "Tk", "D"),
    "v": read("B", "Hkv", "Tk", "D"),
    "o": write("B", "H", "Tq", "D"),
    "lse": write("B", "H", "Tq", dtypes=FLOAT32),
}


@launcher(**FORWARD_ARRAYS)
def attention_naive(
    q: Any,
    k: Any,
    v: Any,
    o: Any,
    lse: Any,
    window: int = 0,
    scale: float | None = None,
    causal: str = "none",
    *,
    stream: Any = None,
) -> None:
    """Writes o (B, H, Tq, D) and lse (B, H, Tq) of q, k and v; one thread per element of o, heads of any width."""
    lower, upper = band(causal, window, q.shape[2], k.shape[2])
    check_heads(q, k)
    elements = math.prod(q.shape)
    if elements:
        blocks = ceil_div(elements, NAIVE_BLOCK)
        factor = scale_or_default(scale, q.shape[3])
        attention_naive_kernel[blocks, NAIVE_BLOCK, stream](q, k, v, factor, lower, upper, o, lse)


@launcher(**FORWARD_ARRAYS)
def attention_fused(
    q: Any,
    k: Any,
    v: Any,
    o: Any,
    lse: Any,
    window: int = 0,
    scale: float | None = None,
    causal: str = "none",
    block_q: int | None = None,
    block_k: int | None = None,
    depth: int | None = None,
    *,
    stream: Any = None,
) -> None:
    """Writes o (B, H, Tq, D) and lse (B, H, Tq) of q, k and v, D at most 256; one block per tile of queries.

    Tiles are block_q (a multiple of 8) queries by block_k (of 16) keys, `depth` (of 16, at least D) wide; None is a
    size that fits D.
    """
    lower, upper = band(causal, window, q.shape[2], k.shape[2])
    check_heads(q, k)
    tiles = tiles_for(q.shape[3], block_q, block_k, depth, FORWARD, own_tiles=1)
    blocks = q.shape[0] * q.shape[1] * ceil_div(q.shape[2], tiles.own)
    if blocks:
        factor = scale_or_default(scale, q.shape[3])
        fused_forward(tiles)[blocks, tiles.threads, stream](q, k, v, factor, lower, upper, o, lse)


@launcher(qkv=read("B", "T", "3*C"), o=write("B", "T", "C"), lse=write("B", "H", "T", dtypes=FLOAT32))
def attention_packed(
    qkv: Any,
    o: Any,
    lse: Any,
    window: int = 0,
    scale: float | None = None,
    causal: str = "none",
    block_q: int | None = None,
    block_k: int | None = None,
    depth: int | None = None,
    *,
    stream: Any = None,
) -> None:
    """Writes o (B, T, C) and lse (B, H, T) of the packed projection qkv (B, T, 3 C), without permuting any of it.

    C = H D; the columns of qkv are those of q, k and v, each head by head, and those of o head by head.
    """
    heads = lse.shape[1]
    if heads == 0:
        raise ValueError(f"lse has shape {lse.shape}; expected at least one head")
    views = (*packed_views(qkv, heads), heads_of(o, heads))
    attention_fused(*views, lse, window, scale, causal, block_q, block_k, depth, stream=stream)
