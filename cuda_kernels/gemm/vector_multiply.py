"""The product of two tiles in shared memory that are read 16 bytes at a time."""

from __future__ import annotations

import functools
from typing import Any

from numba import cuda, float32

from .vectors import load_16_bytes, spread_4


@functools.cache
def read_row(count: int) -> Any:
    """`read_row(tile, k, x, held, first)`: held[first : first + count] = tile[k, x : x + count], 4 at a time if it can.

    With count a multiple of 4, x must be one too.
    """

    @cuda.jit(device=True)
    def read_vectors(tile, k, x, held, first):
        for i in range(0, count, 4):
            spread_4(load_16_bytes(tile, (k, x + i)), held, first + i)

    @cuda.jit(device=True)
    def read_elements(tile, k, x, held, first):
        for i in range(count):
            held[first + i] = tile[k, x + i]

    return read_elements if count % 4 else read_vectors


@functools.cache
def outer_product(count_m: int, count_n: int) -> Any:
    """`outer_product(a_column, b_row, values)`: values[i, j] += a_column[i] b_row[j], all in registers."""

    @cuda.jit(device=True)
    def add_outer_product(a_column, b_row, values):
        for i in range(count_m):
            for j in range(count_n):
                values[i, j] += a_column[i] * b_row[j]

    return add_outer_product


@functools.cache
def vector_multiply(depth: int, thread_m: int, thread_n: int) -> Any:
    """`multiply(a_tile, b_tile, my_row, my_column, values)`, as `staging.multiply`, in a quarter of the loads."""
    read_a, read_b, add_products = read_row(thread_m), read_row(thread_n), outer_product(thread_m, thread_n)

    @cuda.jit(device=True)
    def multiply_vectors(a_tile, b_tile, my_row, my_column, values):
        a_column, b_row = cuda.local.array(thread_m, float32), cuda.local.array(thread_n, float32)
        for kk in range(depth):
            read_a(a_tile, kk, my_row, a_column, 0)
            read_b(b_tile, kk, my_column, b_row, 0)
            add_products(a_column, b_row, values)

    return multiply_vectors
