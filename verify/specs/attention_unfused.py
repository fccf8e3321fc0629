"""Attention by way of the score matrix, and its pieces: permuted heads, masked softmax, products before and after."""

from refkit.cuda_kernels import attention_unfused as kernels
from refkit.cuda_kernels.gemm import Tiles
from refkit.reference.attention import (
    attention_unfused,
    attention_unfused_backward,
    masked_softmax,
    masked_softmax_vjp,
)
from refkit.verify import Dim, In, KernelSpec, Out, Scalar
from refkit.verify.ledger import Ledger

B, Hkv, G = Dim("B", min=0, max=3), Dim("Hkv", max=3), Dim("G", max=4)  # G query heads share a head of k and v
Tq, Tk, D = Dim("Tq", min=0, max=80), Dim("Tk", min=0, max=80), Dim("D", max=40)
T, H = Dim("T", min=0, max=5000), Dim("H", min=0, max=6)
LONG_Tk = Dim("Tk", min=0, max=3000)

QUERIES, KEYS, SCORES = (B, G * Hkv, Tq, D), (B, Hkv, Tk, D), (B, G * Hkv, Tq, Tk)
ROWS = (B, H, Tq, LONG_Tk)
MASKS = ["bottom_right", "top_left", "none"]
TILES = Tiles(block_m=16, block_n=32, block_k=8, thread_m=4, thread_n=4)

LEDGER = {
    "forward": Ledger(saved="q, k, v, p", flops="B G Hkv Tq Tk (4 D + 6)"),
    "backward": Ledger(saved="q, k, v, p", flops="B G Hkv Tq Tk (8 D + 5)"),
}


def mask():
    """The launcher's window, in keys (0: none), and its scale."""
    return {"window": Scalar([0, 1, 5, 40], dtype="int64"), "scale": Scalar([0.25, 1.0, 0.1])}


def unfused(q, k, v, o, p, window, scale, causal):
    kernels.attention_unfused(q, k, v, o, p, window, scale, causal, TILES)


def unfused_backward(do, q, k, v, p, dq, dk, dv, window, scale, causal):
    kernels.attention_unfused_backward(do, q, k, v, p, dq, dk, dv, window, scale, causal, TILES)


split_heads_spec = KernelSpec(
    launch=kernels.split_heads,
    reference=lambda x: x.swapaxes(1, 2),
    args={"x": In(B, T, H, D), "y": Out(B, H, T, D)},
    configs={"block": [96]},
)
merge_heads_spec = KernelSpec(
    launch=kernels.merge_heads,
    reference=lambda y: y.swapaxes(1, 2),
    args={"y": In(B, H, T, D), "x": Out(B, T, H, D)},
    configs={"block": [96]},
    direction="backward",
)

masked_softmax_spec = KernelSpec(
    launch=kernels.masked_softmax,
    reference=masked_softmax,
    args={"s": In(*ROWS), "p": Out(*ROWS), **mask()},
    configs={"causal": MASKS, "block": [96]},
)
masked_softmax_backward_spec = KernelSpec(
    launch=kernels.masked_softmax_backward,
    reference=masked_softmax_vjp,
    args={"dp": In(*ROWS), "p": In(*ROWS, values="uniform"), "ds": Out(*ROWS), **mask()},
    configs={"causal": MASKS, "block": [96]},
    direction="backward",
)

attention_unfused_spec = KernelSpec(
    launch=unfused,
    reference=attention_unfused,
    args={"q": In(*QUERIES), "k": In(*KEYS), "v": In(*KEYS), "o": Out(*QUERIES), "p": Out(*SCORES), **mask()},
    layouts=["contiguous"],
    configs={"causal": MASKS},
)
attention_unfused_backward_spec = KernelSpec(
    launch=unfused_backward,
    reference=attention_unfused_backward,
    args={
        "do": In(*QUERIES),
        "q": In(*QUERIES),
        "k": In(*KEYS),
        "v": In(*KEYS),
        "p": In(*SCORES, values="uniform"),
        "dq": Out(*QUERIES),
        "dk": Out(*KEYS),
        "dv": Out(*KEYS),
        **mask(),
    },
    layouts=["contiguous"],
    configs={"causal": MASKS},
    derivative_of=attention_unfused,
)
