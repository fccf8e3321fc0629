"""Cross-entropy of the logits x w, never in memory as a whole: loss and lse; dx, and dw accumulated in float32."""

from refkit.cuda_kernels import linear_cross_entropy as kernels
from refkit.cuda_kernels import linear_cross_entropy_backward as backward_kernels
from refkit.reference.linear_cross_entropy import linear_cross_entropy, linear_cross_entropy_gradients
from refkit.verify import Dim, In, Index, InOut, KernelSpec, Out, Scalar
from refkit.verify.ledger import Ledger
from refkit.verify.specs.cross_entropy import IGNORE_INDEX, IGNORED, LABEL_SMOOTHING, log_sums

T, K, V = Dim("T", min=0), Dim("K", min=0, max=128), Dim("V")
CHUNK = 40
# A single chunk, or one row of weights, is a view of another layout, for which every kernel would be compiled again:
# those sizes are the fused kernel's here, and the launcher tests' of the chunked ones.
CHUNKED_K, CHUNKED_V = Dim("K", min=2, max=64), Dim("V", min=CHUNK + 1, max=200)

OPERATOR = "linear_cross_entropy"
# Unequal tiles, and chunks that end within one, so that a mix-up shows.
TILES = {"block_m": [48], "block_n": [32], "block_k": [8], "thread_m": [4], "thread_n": [4], "block": [64]}
CHUNKED = {"chunk": [CHUNK], **TILES}

LEDGER = {
    "forward": Ledger(saved="x, w, labels, lse", flops="2 T K V + 3 T V"),
    "backward": Ledger(saved="", flops="6 T K V + 4 T V"),
}


def forward(K=K, V=V, dtype="float32", labels="int64", rows=None, refused=False):
    return {
        "x": In(T, K, dtype=dtype),
        "w": In(K, V, dtype=dtype),
        "labels": Index(T, below=V, ignore=IGNORED, dtype=labels, out_of_range="error" if refused else None),
        "loss": Out(T if rows is None else rows),
        "lse": Out(T),
        "ignore_index": Scalar([IGNORED], dtype="int64") if refused else IGNORE_INDEX,
        "label_smoothing": LABEL_SMOOTHING,
    }


def small_weights(rng, shape):
    """Weights for which the logits of ordinary rows are of size one."""
    return rng.standard_normal(shape) / max(1, shape[0]) ** 0.5


def backward(K=CHUNKED_K, V=CHUNKED_V, dtype="float32", labels="int64", rows=None):
    return {
        "dloss": In(T if rows is None else rows),
        "x": In(T, K, dtype=dtype, values="normal"),
        "w": In(K, V, dtype=dtype, values=small_weights),
        "labels": Index(T, below=V, ignore=IGNORED, dtype=labels),
        "lse": In(T, values=log_sums),
        "dx": Out(T, K, dtype=dtype),
        "dw": InOut(K, V),
        "ignore_index": IGNORE_INDEX,
        "label_smoothing": LABEL_SMOOTHING,
    }


def gradients_accumulated(dloss, x, w, labels, lse, dw, ignore_index, label_smoothing, reduction="none"):
    dx, own = linear_cross_entropy_gradients(dloss, x, w, labels, lse, ignore_index, label_smoothing, reduction)
    return dx, dw + own


linear_cross_entropy_chunked_spec = KernelSpec(
    launch=kernels.linear_cross_entropy_chunked,
    reference=linear_cross_entropy,
    args=forward(CHUNKED_K, CHUNKED_V),
    configs=CHUNKED,
)
linear_cross_entropy_fused_spec = KernelSpec(
    launch=kernels.linear_cross_entropy_fused, reference=linear_cross_entropy, args=forward(), configs={"tile": [8]}
)
linear_cross_entropy_fused_bf16_spec = KernelSpec(
    launch=kernels.linear_cross_entropy_fused,
    reference=linear_cross_entropy,
    args=forward(dtype="bfloat16", labels="int32", rows=1, refused=True),
    configs={"tile": [4], "reduction": ["mean"], "check": [True]},
    layouts=("contiguous",),
)

linear_cross_entropy_backward_chunked_spec = KernelSpec(
    operator=OPERATOR,
    launch=backward_kernels.linear_cross_entropy_backward_chunked,
    reference=gradients_accumulated,
    args=backward(),
    configs=CHUNKED,
    derivative_of=linear_cross_entropy,
)
linear_cross_entropy_backward_chunked_bf16_spec = KernelSpec(
    operator=OPERATOR,
    launch=backward_kernels.linear_cross_entropy_backward_chunked,
    reference=gradients_accumulated,
    args=backward(dtype="bfloat16", labels="int32", rows=1),
    configs={"reduction": ["mean"], **CHUNKED},
    derivative_of=linear_cross_entropy,
    layouts=("contiguous",),
)
