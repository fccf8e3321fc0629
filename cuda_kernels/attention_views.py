"""Views of device arrays that attention works on without a copy: heads inside a projection, matrices of a batch."""

from __future__ import annotations

from typing import Any

from .launch.views import part_of, strided_view


def swapped(array: Any) -> Any:
    """A view with the last two axes exchanged."""
    shape, strides = array.shape, array.strides
    return strided_view(array, (*shape[:-2], shape[-1], shape[-2]), (*strides[:-2], strides[-1], strides[-2]))


def heads_of(x: Any, heads: int) -> Any:
    """The view (B, heads, T, D) of x (B, T, heads D), any strides. Raises ValueError where heads does not divide C."""
    B, T, C = x.shape
    if heads <= 0 or C % heads:
        raise ValueError(f"heads={heads} must be positive and divide the {C} columns of an array of shape {x.shape}")
    D = C // heads
    batch, row, column = x.strides
    return strided_view(x, (B, heads, T, D), (batch, column * D, row, column))


def packed_views(qkv: Any, heads: int, kv_heads: int | None = None) -> tuple[Any, Any, Any]:
    """q (B, heads, T, D), k and v (B, kv_heads, T, D) as views of a packed projection.

    qkv is (B, T, (heads + 2 kv_heads) D); its columns are those of q, then k, then v, each head by head. kv_heads None
    is `heads`, so that qkv is (B, T, 3 C). Raises ValueError where the columns do not divide.
    """
    kv_heads = heads if kv_heads is None else kv_heads
    columns = qkv.shape[2]
    if heads <= 0 or kv_heads <= 0 or columns % (heads + 2 * kv_heads):
        raise ValueError(
            f"qkv has {columns} columns, expected a multiple of heads + 2 kv_heads = {heads} + 2 * {kv_heads}"
        )
    D = columns // (heads + 2 * kv_heads)
    q_columns, kv_columns = heads * D, kv_heads * D
    return (
        heads_of(part_of(qkv, 2, 0, q_columns), heads),
        heads_of(part_of(qkv, 2, q_columns, kv_columns), kv_heads),
        heads_of(part_of(qkv, 2, q_columns + kv_columns, kv_columns), kv_heads),
    )
