"""Sums of the rows of x (T, D) by segment, given by offsets or by ids, and their backward, a gather."""

import numpy as np

from refkit.cuda_kernels import segment_sum as kernels
from refkit.reference.segment_sum import (
    segment_sum,
    segment_sum_by_ids,
    segment_sum_by_ids_vjp,
    segment_sum_vjp,
)
from refkit.verify import Dim, In, Index, KernelSpec, Out
from refkit.verify.ledger import Ledger

T, S, D = Dim("T", min=0), Dim("S", min=0), Dim("D", min=0)
MANY_T = Dim("T", min=0, max=70_000)
MANY_S = Dim("S", min=0, max=70_000)  # more segments than a grid has blocks along y
ROWS_PER_SEGMENT = 3

LEDGER = {
    "forward": Ledger(saved="offsets or ids", flops="T D"),
    "backward": Ledger(saved="offsets or ids", flops="0"),
}


def rows_of(S):
    """As many rows as `ascending_offsets` reckons with, who knows S alone; the last two may belong to no segment."""
    return ROWS_PER_SEGMENT * S + 2


def ascending_offsets(rng, shape):
    """Offsets (S + 1,) from 0 to T: segments of random length, or few long ones and many of no row; ends left out."""
    T = rows_of(shape[0] - 1)
    offsets = np.sort(rng.integers(0, T + 1, shape))
    if rng.random() < 0.3:
        offsets = np.sort(rng.choice(rng.integers(0, T + 1, 3), shape))
    if rng.random() < 0.5:
        offsets[0], offsets[-1] = 0, T
    return offsets


def offsets_of(S, index):
    return In(S + 1, dtype=index, values=ascending_offsets, layouts=("contiguous", "strided"))


def by_offsets(S=S, dtype="float32", index="int64"):
    return {"x": In(rows_of(S), D, dtype=dtype), "offsets": offsets_of(S, index), "y": Out(S, D, dtype=dtype)}


def by_ids(T=T, S=S, dtype="float32", index="int64"):
    return {"x": In(T, D, dtype=dtype), "ids": ids_of(T, S, index), "y": Out(S, D, dtype=dtype)}


def ids_of(T, S, index="int64"):
    return Index(T, below=S, ignore=-1, dtype=index)


segment_sum_naive_spec = KernelSpec(
    launch=kernels.segment_sum_naive, reference=segment_sum, args=by_offsets(), configs={"block": [32]}
)
segment_sum_block_spec = KernelSpec(
    launch=kernels.segment_sum_block, reference=segment_sum, args=by_offsets(MANY_S), configs={"block": [96]}
)
segment_sum_block_bf16_spec = KernelSpec(
    launch=kernels.segment_sum_block,
    reference=segment_sum,
    args=by_offsets(dtype="bfloat16", index="int32"),
    configs={"block": [96]},
)
segment_sum_by_ids_atomic_spec = KernelSpec(
    launch=kernels.segment_sum_by_ids_atomic,
    reference=segment_sum_by_ids,
    args=by_ids(MANY_T),
    configs={"block": [96]},
    deterministic=False,
)
segment_sum_by_ids_sorted_spec = KernelSpec(
    launch=kernels.segment_sum_by_ids_sorted,
    reference=segment_sum_by_ids,
    args=by_ids(index="int32"),
    configs={"block": [96]},
)
segment_sum_backward_spec = KernelSpec(
    launch=kernels.segment_sum_backward,
    reference=lambda dy, offsets: segment_sum_vjp(dy, offsets, rows_of(dy.shape[0])),
    args={"dy": In(S, D), "offsets": offsets_of(S, "int64"), "dx": Out(rows_of(S), D)},
    configs={"block": [32]},
    direction="backward",
)
segment_sum_by_ids_backward_spec = KernelSpec(
    launch=kernels.segment_sum_by_ids_backward,
    reference=segment_sum_by_ids_vjp,
    args={"dy": In(S, D), "ids": ids_of(MANY_T, S), "dx": Out(MANY_T, D)},
    configs={"block": [96]},
    direction="backward",
)
