"""The K largest of each row of x (T, C) with their indices, and the backward pass that scatters to them."""

import numpy as np

from refkit.cuda_kernels import top_k as kernels
from refkit.reference.top_k import top_k, top_k_vjp
from refkit.verify import Dim, In, KernelSpec, Out
from refkit.verify.ledger import Ledger

T, C, K = Dim("T", min=0), Dim("C"), Dim("K", max=40)
MANY_T = Dim("T", min=0, max=70_000)  # more rows than a grid has blocks along y

LEDGER = {
    "forward": Ledger(saved="indices", flops="0"),
    "backward": Ledger(saved="indices", flops="0"),
}


def forward(T=T, dtype="float32", index="int64"):
    return {"x": In(T, C, dtype=dtype), "values": Out(T, K, dtype=dtype), "indices": Out(T, K, dtype=index)}


def distinct_in_each_row(rng, shape):
    """Indices (T, K) in [0, 2 K), no two of a row alike: the launcher is given at least 2 K columns."""
    T, K = shape
    return rng.permuted(np.tile(np.arange(2 * K), (T, 1)), axis=1)[:, :K]


def backward(T=T, dtype="float32", index="int64"):
    return {
        "dvalues": In(T, K, dtype=dtype),
        "indices": In(T, K, dtype=index, values=distinct_in_each_row, layouts=("contiguous", "strided", "transposed")),
        "dx": Out(T, C, dtype=dtype),
    }


def no_more_than_there_are(C, K):
    return K <= C


def room_for_indices(C, K):
    return 2 * K <= C


top_k_naive_spec = KernelSpec(
    launch=kernels.top_k_naive,
    reference=top_k,
    args=forward(MANY_T),
    configs={"block": [32]},
    requires=no_more_than_there_are,
    nonfinite=True,
)
top_k_warp_spec = KernelSpec(
    launch=kernels.top_k_warp,
    reference=top_k,
    args=forward(),
    configs={"block": [96]},
    requires=no_more_than_there_are,
    nonfinite=True,
)
top_k_warp_bf16_spec = KernelSpec(
    launch=kernels.top_k_warp,
    reference=top_k,
    args=forward(dtype="bfloat16", index="int32"),
    configs={"block": [96]},
    requires=no_more_than_there_are,
)
top_k_backward_naive_spec = KernelSpec(
    launch=kernels.top_k_backward_naive,
    reference=top_k_vjp,
    args=backward(MANY_T),
    configs={"block": [32]},
    requires=room_for_indices,
    direction="backward",
)
top_k_backward_warp_spec = KernelSpec(
    launch=kernels.top_k_backward_warp,
    reference=top_k_vjp,
    args=backward(index="int32"),
    configs={"block": [96]},
    requires=room_for_indices,
    direction="backward",
)
