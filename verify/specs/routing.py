"""Mixture-of-experts routing: gate, order by expert, rows brought there and back, each with its backward."""

import numpy as np

from refkit.cuda_kernels import routing as gate_kernels
from refkit.cuda_kernels import routing_order as order_kernels
from refkit.cuda_kernels import routing_rows as row_kernels
from refkit.reference.routing import (
    expert_order,
    gate,
    gate_vjp,
    permute,
    permute_vjp,
    unpermute,
    unpermute_vjp,
)
from refkit.verify import Dim, In, Index, KernelSpec, Out
from refkit.verify.ledger import Ledger

T, E, K, D = Dim("T", min=0), Dim("E"), Dim("K", max=20), Dim("D", min=0)
FEW_K = Dim("K", max=6)
MANY_T = Dim("T", min=0, max=70_000)  # more tokens than a grid has blocks along y

OPERATOR = "routing"

LEDGER = {
    "forward": Ledger(saved="experts, gates, position, rows", flops="4 T K + 2 T K D"),
    "backward": Ledger(saved="experts, gates, position, rows", flops="5 T K + 4 T K D"),
}


def no_more_than_there_are(E, K):
    return K <= E


def room_for_experts(E, K):
    return 2 * K <= E


def distinct_for_each_token(rng, shape):
    """Experts (T, K) in [0, 2 K), no two of a token alike: there are at least 2 K of them."""
    T, K = shape
    return rng.permuted(np.tile(np.arange(2 * K), (T, 1)), axis=1)[:, :K]


def gate_of(T=T, dtype="float32", index="int64"):
    return {"logits": In(T, E, dtype=dtype), "experts": Out(T, K, dtype=index), "gates": Out(T, K)}


def gate_back(T=T):
    return {
        "dgates": In(T, K),
        "gates": In(T, K, values="uniform"),
        "experts": In(T, K, dtype="int64", values=distinct_for_each_token, layouts=("contiguous", "transposed")),
        "dlogits": Out(T, E),
    }


def order_of():
    index, K = "int32", FEW_K
    return {
        "experts": Index(T, K, below=E, dtype=index),
        "position": Out(T, K, dtype=index),
        "token": Out(T * K, dtype=index),
        "offsets": Out(E + 1, dtype=index),
    }


def position(T=T):
    return Index(T, K, below=T * K, unique=True)


def back_to_tokens(T=T, dtype="float32"):
    return {"rows": In(T * K, D, dtype=dtype), "gates": In(T, K), "position": position(T), "y": Out(T, D, dtype=dtype)}


def back_to_rows(T=T):
    return {
        "dy": In(T, D),
        "rows": In(T * K, D),
        "gates": In(T, K),
        "position": position(T),
        "drows": Out(T * K, D),
        "dgates": Out(T, K),
    }


gate_naive_spec = KernelSpec(
    operator=OPERATOR,
    launch=gate_kernels.gate_naive,
    reference=gate,
    args=gate_of(MANY_T),
    configs={"block": [32]},
    requires=no_more_than_there_are,
    nonfinite=True,
)
gate_warp_spec = KernelSpec(
    operator=OPERATOR,
    launch=gate_kernels.gate_warp,
    reference=gate,
    args=gate_of(),
    configs={"block": [96]},
    requires=no_more_than_there_are,
    nonfinite=True,
)
gate_warp_bf16_spec = KernelSpec(
    operator=OPERATOR,
    launch=gate_kernels.gate_warp,
    reference=gate,
    args=gate_of(dtype="bfloat16", index="int32"),
    configs={"block": [96]},
    requires=no_more_than_there_are,
)
gate_backward_naive_spec = KernelSpec(
    operator=OPERATOR,
    launch=gate_kernels.gate_backward_naive,
    reference=gate_vjp,
    args=gate_back(MANY_T),
    configs={"block": [32]},
    requires=room_for_experts,
    direction="backward",
)
gate_backward_warp_spec = KernelSpec(
    operator=OPERATOR,
    launch=gate_kernels.gate_backward_warp,
    reference=gate_vjp,
    args=gate_back(),
    configs={"block": [96]},
    requires=room_for_experts,
    direction="backward",
)

expert_order_naive_spec = KernelSpec(
    operator=OPERATOR,
    launch=order_kernels.expert_order_naive,
    reference=expert_order,
    args=order_of(),
    configs={"block": [32]},
)
expert_order_counted_spec = KernelSpec(
    operator=OPERATOR,
    launch=order_kernels.expert_order_counted,
    reference=expert_order,
    args=order_of(),
    configs={"block": [96]},
)

permute_naive_spec = KernelSpec(
    operator=OPERATOR,
    launch=row_kernels.permute_naive,
    reference=permute,
    args={"x": In(T, D), "position": position(), "rows": Out(T * K, D)},
    configs={"block": [32]},
)
permute_token_spec = KernelSpec(
    operator=OPERATOR,
    launch=row_kernels.permute_token,
    reference=permute,
    args={"x": In(MANY_T, D), "position": position(MANY_T), "rows": Out(MANY_T * K, D)},
    configs={"block": [64]},
)
permute_backward_spec = KernelSpec(
    operator=OPERATOR,
    launch=row_kernels.permute_backward,
    reference=permute_vjp,
    args={"drows": In(T * K, D), "position": position(), "dx": Out(T, D)},
    configs={"block": [96]},
    direction="backward",
)
unpermute_spec = KernelSpec(
    operator=OPERATOR,
    launch=row_kernels.unpermute,
    reference=unpermute,
    args=back_to_tokens(MANY_T),
    configs={"block": [96]},
)
unpermute_bf16_spec = KernelSpec(
    operator=OPERATOR,
    launch=row_kernels.unpermute,
    reference=unpermute,
    args=back_to_tokens(dtype="bfloat16"),
    configs={"block": [96]},
)
unpermute_backward_naive_spec = KernelSpec(
    operator=OPERATOR,
    launch=row_kernels.unpermute_backward_naive,
    reference=unpermute_vjp,
    args=back_to_rows(),
    configs={"block": [32]},
    derivative_of=unpermute,
)
unpermute_backward_block_spec = KernelSpec(
    operator=OPERATOR,
    launch=row_kernels.unpermute_backward_block,
    reference=unpermute_vjp,
    args=back_to_rows(),
    configs={"block": [96]},
    derivative_of=unpermute,
)
