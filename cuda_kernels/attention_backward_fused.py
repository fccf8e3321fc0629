"""The fused kernels of attention's backward pass: dq by tiles of queries, dk and dv by tiles of keys.

Formulas and launchers are in `attention_backward.py`, tiles in `attention_tiles.py`. Each kernel keeps two tiles of its
own rows, and one tile that the rows of the other side pass through: what p and dp are made of, then what they weight.
"""

from __future__ import annotations

import functools
import math
from typing import Any

from numba import cuda, float32

from .attention_mask import sees, visible_keys, visible_queries
from .attention_tiles import LANES, ROWS, AttentionTiles, add_weighted_rows, loader, row_products


@cuda.jit(device=True)
def probability(scaled_score, lse):
    """p from a score and the log-sum-exp of its row; a row of scores -inf alone, whose lse is -inf, has p = 0."""
    return math.exp(scaled_score - (lse if lse > float32(-math.inf) else float32(0)))


@functools.cache
def fused_dq(tiles: AttentionTiles) -> Any:
    """The kernel of dq; grid.x covers the tiles of queries of head 0, then those of head 1, ..., batch by batch."""
    block_q, block_k, width = tiles
    score_columns, columns = block_k // LANES, width // LANES
    padded, padded_k = width + 1, block_k + 1
    load_queries, load_keys = loader(block_q, width), loader(block_k, width)
    products, add_rows = row_products(score_columns), add_weighted_rows(block_k, columns)

    @cuda.jit
    def attention_dq_kernel(do, q, k, v, lse, delta, scale, lower, upper, dq):
        q_tile = cuda.shared.array((block_q, padded), float32)
        do_tile = cuda.shared.array((block_q, padded), float32)
        kv_tile = cuda.shared.array((block_k, padded), float32)  # values, then the keys of the same rows
        ds_tile = cuda.shared.array((block_q, padded_k), float32)
        s = cuda.local.array((ROWS, score_columns), float32)
        dp = cuda.local.array((ROWS, score_columns), float32)
        sums = cuda.local.array((ROWS, columns), float32)
        my_lse = cuda.local.array(ROWS, float32)
        my_delta = cuda.local.array(ROWS, float32)

        heads, queries, depth, keys = q.shape[1], q.shape[2], q.shape[3], k.shape[2]
        tiles_q = (queries + block_q - 1) // block_q
        first_query = cuda.blockIdx.x % tiles_q * block_q
        head, batch = cuda.blockIdx.x // tiles_q % heads, cuda.blockIdx.x // tiles_q // heads
        kv_head = head // (heads // k.shape[1])
        lane, my_row = cuda.threadIdx.x % LANES, cuda.threadIdx.x // LANES * ROWS

        for r in range(ROWS):
            query = first_query + my_row + r
            my_lse[r] = lse[batch, head, query] if query < queries else float32(0)
            my_delta[r] = delta[batch, head, query] if query < queries else float32(0)
            for c in range(columns):
                sums[r, c] = float32(0)
        load_queries(q_tile, q[batch, head], first_query)
        load_queries(do_tile, do[batch, head], first_query)
        first, end = visible_keys(first_query, min(first_query + block_q, queries) - 1, lower, upper, keys)
        for first_key in range(first, end, block_k):
            load_keys(kv_tile, v[batch, kv_head], first_key)
            cuda.syncthreads()
            products(do_tile, kv_tile, my_row, lane, depth, dp)
            cuda.syncthreads()  # the values are overwritten next
            load_keys(kv_tile, k[batch, kv_head], first_key)
            cuda.syncthreads()
            products(q_tile, kv_tile, my_row, lane, depth, s)
            for r in range(ROWS):
                for c in range(score_columns):
                    key, ds = first_key + lane + LANES * c, float32(0)
                    if key < keys and sees(first_query + my_row + r, key, lower, upper):
                        ds = probability(scale * s[r, c], my_lse[r]) * (dp[r, c] - my_delta[r])
                    ds_tile[my_row + r, lane + LANES * c] = ds
            cuda.syncthreads()
            add_rows(ds_tile, kv_tile, my_row, lane, sums)
            cuda.syncthreads()

        for r in range(ROWS):
            query = first_query + my_row + r
            for c in range(columns):
                column = lane + LANES * c
                if query < queries and column < depth:
                    dq[batch, head, query, column] = scale * sums[r, c]

    return attention_dq_kernel


@functools.cache
def fused_dk_dv(tiles: AttentionTiles) -> Any:
    """The kernel of dk and dv; grid.x covers the tiles of keys of head 0, then those of head 1, ..., batch by batch."""
    block_k, block_q, width = tiles
    score_columns, columns = block_q // LANES, width // LANES
    padded, padded_q = width + 1, block_q + 1
    load_queries, load_keys = loader(block_q, width), loader(block_k, width)
    products, add_rows = row_products(score_columns), add_weighted_rows(block_q, columns)

    @cuda.jit
    def attention_dk_dv_kernel(do, q, k, v, lse, delta, scale, lower, upper, dk, dv):
        k_tile = cuda.shared.array((block_k, padded), float32)
        v_tile = cuda.shared.array((block_k, padded), float32)
        q_tile = cuda.shared.array((block_q, padded), float32)  # queries, then do of the same rows, then queries
        weights = cuda.shared.array((block_k, padded_q), float32)  # p, then ds, transposed
        p = cuda.local.array((ROWS, score_columns), float32)
        dp = cuda.local.array((ROWS, score_columns), float32)
        sums_k = cuda.local.array((ROWS, columns), float32)
        sums_v = cuda.local.array((ROWS, columns), float32)

        kv_heads, keys, depth, queries = k.shape[1], k.shape[2], k.shape[3], q.shape[2]
        group = q.shape[1] // kv_heads
        tiles_k = (keys + block_k - 1) // block_k
        first_key = cuda.blockIdx.x % tiles_k * block_k
        kv_head, batch = cuda.blockIdx.x // tiles_k % kv_heads, cuda.blockIdx.x // tiles_k // kv_heads
        lane, my_row = cuda.threadIdx.x % LANES, cuda.threadIdx.x // LANES * ROWS

        for r in range(ROWS):
            for c in range(columns):
                sums_k[r, c], sums_v[r, c] = float32(0), float32(0)
        load_keys(k_tile, k[batch, kv_head], first_key)
        load_keys(v_tile, v[batch, kv_head], first_key)
        first, end = visible_queries(first_key, min(first_key + block_k, keys) - 1, lower, upper, queries)
        for head in range(kv_head * group, (kv_head + 1) * group):
            for first_query in range(first, end, block_q):
                load_queries(q_tile, q[batch, head], first_query)
                cuda.syncthreads()
                products(k_tile, q_tile, my_row, lane, depth, p)
                for c in range(score_columns):
                    query = first_query + lane + LANES * c
                    row_lse = lse[batch, head, query] if query < queries else float32(0)
                    for r in range(ROWS):
                        if query < queries and sees(query, first_key + my_row + r, lower, upper):
                            p[r, c] = probability(scale * p[r, c], row_lse)
                        else:
                            p[r, c] = float32(0)
                        weights[my_row + r, lane + LANES * c] = p[r, c]
                cuda.syncthreads()  # the queries are overwritten next
                load_queries(q_tile, do[batch, head], first_query)
                cuda.syncthreads()
                products(v_tile, q_tile, my_row, lane, depth, dp)
                add_rows(weights, q_tile, my_row, lane, sums_v)
                cuda.syncthreads()
                load_queries(q_tile, q[batch, head], first_query)
                for c in range(score_columns):
                    query = first_query + lane + LANES * c
                    row_delta = delta[batch, head, query] if query < queries else float32(0)
                    for r in range(ROWS):
                        weights[my_row + r, lane + LANES * c] = p[r, c] * (dp[r, c] - row_delta)
                cuda.syncthreads()
                add_rows(weights, q_tile, my_row, lane, sums_k)
                cuda.syncthreads()

        for r in range(ROWS):
            key = first_key + my_row + r
            for c in range(columns):
                column = lane + LANES * c
                if key < keys and column < depth:
                    dk[batch, kv_head, key, column] = scale * sums_k[r, c]
                    dv[batch, kv_head, key, column] = sums_v[r, c]

    return attention_dk_dv_kernel
