"""Attention with masks and grouped heads: fused forward and backward, on separate arrays and on a packed projection."""

import numpy as np

from refkit.cuda_kernels import attention as kernels
from refkit.cuda_kernels import attention_backward as backward_kernels
from refkit.reference.attention import (
    attention,
    attention_backward,
    attention_delta,
    attention_dk_dv,
    attention_dq,
)
from refkit.verify import Dim, In, KernelSpec, Out, Scalar
from refkit.verify.ledger import Ledger

B, Hkv, G = Dim("B", min=0, max=3), Dim("Hkv", max=3), Dim("G", max=4)  # G query heads share a head of k and v
Tq, Tk, D = Dim("Tq", min=0, max=200), Dim("Tk", min=0, max=200), Dim("D", max=40)
T, H = Dim("T", min=0, max=200), Dim("H", max=4)

OPERATOR = "attention"
QUERIES, KEYS, ROW = (B, G * Hkv, Tq, D), (B, Hkv, Tk, D), (B, G * Hkv, Tq)
MASKS = ["bottom_right", "top_left", "none"]
FORWARD_TILES = {"block_q": [16], "block_k": [32], "depth": [48]}  # two warps a block
BACKWARD_TILES = {"own": [16], "other": [32], "depth": [48]}

LEDGER = {
    "forward": Ledger(saved="q, k, v, o, lse", flops="B G Hkv Tq Tk (4 D + 5)"),
    "backward": Ledger(saved="q, k, v, o, lse", flops="B G Hkv Tq (Tk (14 D + 10) + 2 D)"),
}


def mask():
    """The launcher's window, in keys (0: none), and its scale."""
    return {"window": Scalar([0, 1, 5, 40], dtype="int64"), "scale": Scalar([0.25, 1.0, 0.1])}


def forward(dtype="float32"):
    return {
        "q": In(*QUERIES, dtype=dtype),
        "k": In(*KEYS, dtype=dtype),
        "v": In(*KEYS, dtype=dtype),
        "o": Out(*QUERIES, dtype=dtype),
        "lse": Out(*ROW),
        **mask(),
    }


def given(dtype="float32"):
    """Without the forward pass, lse is any number: scores are held to a few units, so that p does not overflow."""
    return {
        "do": In(*QUERIES, dtype=dtype),
        "q": In(*QUERIES, dtype=dtype, values="normal"),
        "k": In(*KEYS, dtype=dtype, values="normal"),
        "v": In(*KEYS, dtype=dtype),
    }


def from_statistics(dtype="float32", **gradients):
    return {**given(dtype), "lse": In(*ROW, values="positive"), "delta": In(*ROW), **gradients, **mask()}


def from_outputs():
    return {
        **given(),
        "o": In(*QUERIES),
        "lse": In(*ROW, values="positive"),
        "dq": Out(*QUERIES),
        "dk": Out(*KEYS),
        "dv": Out(*KEYS),
        **mask(),
    }


def unpacked(qkv, heads):
    """q, k and v (B, H, T, D) of qkv (B, T, 3 H D)."""
    B, T, C = qkv.shape
    parts = qkv.reshape(B, T, 3, heads, C // (3 * heads))
    return tuple(parts[:, :, part].swapaxes(1, 2) for part in range(3))


def merged(x):
    """(B, T, H D) of x (B, H, T, D)."""
    B, H, T, D = x.shape
    return x.swapaxes(1, 2).reshape(B, T, H * D)


def split(x, heads):
    """(B, H, T, D) of x (B, T, H D)."""
    B, T, C = x.shape
    return x.reshape(B, T, heads, C // heads).swapaxes(1, 2)


def packed(qkv, H, scale, causal, window):
    q, k, v = unpacked(qkv, H)
    o, lse = attention(q, k, v, scale, causal, window)
    return merged(o), lse


def packed_backward(do, qkv, o, lse, H, scale, causal, window):
    q, k, v = unpacked(qkv, H)
    gradients = attention_backward(split(do, H), q, k, v, split(o, H), lse, scale, causal, window)
    return np.concatenate([merged(gradient) for gradient in gradients], axis=2)


attention_naive_spec = KernelSpec(
    launch=kernels.attention_naive, reference=attention, args=forward(), configs={"causal": MASKS}
)
attention_fused_spec = KernelSpec(
    launch=kernels.attention_fused, reference=attention, args=forward(), configs={"causal": MASKS, **FORWARD_TILES}
)
attention_fused_bf16_spec = KernelSpec(
    launch=kernels.attention_fused,
    reference=attention,
    args=forward("bfloat16"),
    layouts=["contiguous"],
    configs={"causal": MASKS, **FORWARD_TILES},
)
attention_packed_spec = KernelSpec(
    launch=kernels.attention_packed,
    reference=packed,
    args={"qkv": In(B, T, 3 * H * D), "o": Out(B, T, H * D), "lse": Out(B, H, T), **mask()},
    configs={"causal": ["top_left"], **FORWARD_TILES},
)

attention_delta_spec = KernelSpec(
    operator=OPERATOR,
    launch=backward_kernels.attention_delta,
    reference=attention_delta,
    args={"do": In(*QUERIES), "o": In(*QUERIES), "delta": Out(*ROW)},
    configs={"block": [96]},
    direction="backward",
)
attention_dq_naive_spec = KernelSpec(
    operator=OPERATOR,
    launch=backward_kernels.attention_dq_naive,
    reference=attention_dq,
    args=from_statistics(dq=Out(*QUERIES)),
    configs={"causal": MASKS},
    direction="backward",
)
attention_dq_spec = KernelSpec(
    operator=OPERATOR,
    launch=backward_kernels.attention_dq,
    reference=attention_dq,
    args=from_statistics(dq=Out(*QUERIES)),
    configs={"causal": MASKS, "block_q": [16], "block_k": [32], "depth": [48]},
    direction="backward",
)
attention_dk_dv_naive_spec = KernelSpec(
    operator=OPERATOR,
    launch=backward_kernels.attention_dk_dv_naive,
    reference=attention_dk_dv,
    args=from_statistics(dk=Out(*KEYS), dv=Out(*KEYS)),
    configs={"causal": MASKS},
    direction="backward",
)
attention_dk_dv_spec = KernelSpec(
    operator=OPERATOR,
    launch=backward_kernels.attention_dk_dv,
    reference=attention_dk_dv,
    args=from_statistics(dk=Out(*KEYS), dv=Out(*KEYS)),
    configs={"causal": MASKS, "block_k": [16], "block_q": [32], "depth": [48]},
    direction="backward",
)
attention_dk_dv_bf16_spec = KernelSpec(
    operator=OPERATOR,
    launch=backward_kernels.attention_dk_dv,
    reference=attention_dk_dv,
    args=from_statistics("bfloat16", dk=Out(*KEYS, dtype="bfloat16"), dv=Out(*KEYS, dtype="bfloat16")),
    layouts=["contiguous"],
    configs={"causal": MASKS, "block_k": [16], "block_q": [32], "depth": [48]},
    direction="backward",
)
attention_backward_spec = KernelSpec(
    operator=OPERATOR,
    launch=backward_kernels.attention_backward,
    reference=attention_backward,
    args=from_outputs(),
    layouts=["contiguous"],  # its kernels are tried with strides by themselves
    configs={"causal": MASKS, **BACKWARD_TILES},
    derivative_of=attention,
)
attention_packed_backward_spec = KernelSpec(
    operator=OPERATOR,
    launch=backward_kernels.attention_packed_backward,
    reference=packed_backward,
    args={
        "do": In(B, T, H * D),
        "qkv": In(B, T, 3 * H * D, values="normal"),
        "o": In(B, T, H * D),
        "lse": In(B, H, T, values="positive"),
        "dqkv": Out(B, T, 3 * H * D),
        **mask(),
    },
    configs={"causal": ["top_left"], **BACKWARD_TILES},
    direction="backward",
)
