"""Cross-entropy of softmax(logits) (T, V) against labels (T,): loss and lse, and dlogits from the saved lse."""

import numpy as np

from refkit.cuda_kernels import cross_entropy as kernels
from refkit.cuda_kernels import cross_entropy_backward as backward_kernels
from refkit.reference.cross_entropy import cross_entropy, cross_entropy_dlogits
from refkit.verify import Dim, In, Index, InOut, KernelSpec, Out, Scalar
from refkit.verify.ledger import Ledger

T, V = Dim("T", min=0), Dim("V")
MANY_T = Dim("T", min=0, max=70_000)  # more rows than a grid has blocks along y
WIDE_V = Dim("V", max=5000)

OPERATOR = "cross_entropy"
IGNORED = -100
# Labels of -100 are ignored, or wrong where another index is: their loss is NaN then. 2 is a class, or none at all.
IGNORE_INDEX = Scalar([IGNORED, 2], dtype="int64")
LABEL_SMOOTHING = Scalar([0.0, 0.1, 0.5])

LEDGER = {
    "forward": Ledger(saved="logits, labels, lse", flops="3 T V"),
    "backward": Ledger(saved="", flops="4 T V"),
}


def log_sums(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """What an lse may be: above the largest logit of ordinary rows."""
    return rng.uniform(3, 12, shape)


def forward(T=T, V=V, dtype="float32", labels="int64", rows=None, refused=False):
    return {
        "logits": In(T, V, dtype=dtype),
        "labels": Index(T, below=V, ignore=IGNORED, dtype=labels, out_of_range="error" if refused else None),
        "loss": Out(T if rows is None else rows),
        "lse": Out(T),
        "ignore_index": Scalar([IGNORED], dtype="int64") if refused else IGNORE_INDEX,
        "label_smoothing": LABEL_SMOOTHING,
    }


def backward(T=T, V=V, dtype="float32", labels="int64", rows=None):
    return {
        "dloss": In(T if rows is None else rows),
        "logits": In(T, V, dtype=dtype, values="normal"),
        "labels": Index(T, below=V, ignore=IGNORED, dtype=labels),
        "lse": In(T, values=log_sums),
        "dlogits": Out(T, V, dtype=dtype),
        "ignore_index": IGNORE_INDEX,
        "label_smoothing": LABEL_SMOOTHING,
    }


def cross_entropy_backward_in_place(
    dloss, logits, labels, lse, ignore_index, label_smoothing, reduction="none", block=256
):
    """The logits give way to their gradient."""
    backward_kernels.cross_entropy_backward_block(
        dloss, logits, labels, lse, logits, ignore_index, label_smoothing, reduction, block
    )


cross_entropy_naive_spec = KernelSpec(
    launch=kernels.cross_entropy_naive,
    reference=cross_entropy,
    args=forward(MANY_T),
    configs={"block": [32]},
    nonfinite=True,
)
cross_entropy_online_spec = KernelSpec(
    launch=kernels.cross_entropy_online,
    reference=cross_entropy,
    args=forward(V=WIDE_V),
    configs={"block": [32, 96]},
    nonfinite=True,
)
cross_entropy_online_mean_spec = KernelSpec(
    launch=kernels.cross_entropy_online,
    reference=cross_entropy,
    args=forward(rows=1, refused=True),
    configs={"block": [64], "reduction": ["mean", "sum"], "check": [True]},
)
cross_entropy_online_bf16_spec = KernelSpec(
    launch=kernels.cross_entropy_online,
    reference=cross_entropy,
    args=forward(dtype="bfloat16", labels="int32"),
    configs={"block": [96]},
)

cross_entropy_backward_naive_spec = KernelSpec(
    operator=OPERATOR,
    launch=backward_kernels.cross_entropy_backward_naive,
    reference=cross_entropy_dlogits,
    args=backward(),
    configs={"block": [32]},
    derivative_of=cross_entropy,
)
cross_entropy_backward_block_spec = KernelSpec(
    operator=OPERATOR,
    launch=backward_kernels.cross_entropy_backward_block,
    reference=cross_entropy_dlogits,
    args=backward(MANY_T),
    configs={"block": [32, 96]},
    derivative_of=cross_entropy,
    nonfinite=True,
)
cross_entropy_backward_mean_spec = KernelSpec(
    operator=OPERATOR,
    launch=backward_kernels.cross_entropy_backward_block,
    reference=cross_entropy_dlogits,
    args=backward(rows=1, dtype="bfloat16", labels="int32"),
    configs={"block": [96], "reduction": ["mean", "sum"]},
    derivative_of=cross_entropy,
)
cross_entropy_backward_in_place_spec = KernelSpec(
    operator=OPERATOR,
    launch=cross_entropy_backward_in_place,
    reference=cross_entropy_dlogits,
    args={
        name: InOut(T, V, values="normal") if name == "logits" else argument
        for name, argument in backward().items()
        if name != "dlogits"
    },
    configs={"block": [64]},
    direction="backward",
)
