"""The sum of squares of a tensor, added to a total: one block, atomics, and two stages in a fixed order."""

import numpy as np

from refkit.cuda_kernels import sum_of_squares as kernels
from refkit.reference.sum_of_squares import sum_of_squares
from refkit.verify import Dim, In, InOut, KernelSpec
from refkit.verify.ledger import Ledger

M, N = Dim("M", min=0), Dim("N", min=0, max=5_000)
BLOCK = {"block": [96]}
LEDGER = {"forward": Ledger(saved="", flops="2 M N")}


def arguments(dtype="float32"):
    return {"x": In(M, N, dtype=dtype), "total": InOut(1)}


def accumulated(x, total):
    return total + sum_of_squares(x)


def accumulated_by_atomics(x, total, block):
    """The old value is one of the terms of the sum: every addition of a part is rounded at its size."""
    flat = x.reshape(-1)
    blocks = -(-flat.shape[0] // (block * kernels.PER_THREAD))
    threads = blocks * block
    parts = [total]
    for first in range(0, threads, block):
        of_block = [flat[start : start + block] for start in range(first, flat.shape[0], threads)]
        parts.append(sum_of_squares(np.concatenate(of_block)))
    return np.concatenate(parts).sum(keepdims=True)


sum_of_squares_block_spec = KernelSpec(
    launch=kernels.sum_of_squares_block, reference=accumulated, args=arguments("bfloat16"), configs=BLOCK
)
sum_of_squares_atomic_spec = KernelSpec(
    launch=kernels.sum_of_squares_atomic,
    reference=accumulated_by_atomics,
    args=arguments(),
    configs={"block": [32]},
    deterministic=False,
)
sum_of_squares_two_stage_spec = KernelSpec(
    launch=kernels.sum_of_squares_two_stage, reference=accumulated, args=arguments(), configs=BLOCK
)
sum_of_squares_two_stage_vectorised_spec = KernelSpec(
    launch=kernels.sum_of_squares_two_stage_vectorised,
    reference=accumulated,
    args=arguments("float16"),
    configs={"block": [32]},
)
