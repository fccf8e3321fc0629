"""Gather of the rows of x (V, D) by index (I,), and its backward: scatter-add and the embedding's, into float32."""

from refkit.cuda_kernels import scatter_add as kernels
from refkit.reference.scatter_add import embedding_backward, gather, scatter_add
from refkit.verify import Dim, In, Index, InOut, KernelSpec, Out, Scalar
from refkit.verify.ledger import Ledger

V, D, I = Dim("V"), Dim("D", min=0), Dim("I", min=0)  # noqa: E741
MANY_I = Dim("I", min=0, max=70_000)  # more rows than a grid has blocks along y

LEDGER = {
    "forward": Ledger(saved="index", flops="0"),
    "backward": Ledger(saved="index", flops="I D"),
}

BLOCK = {"block": [32, 96]}


def rows_added(dtype="float32", index="int64"):
    return {"dx": InOut(V, D), "index": Index(I, below=V, dtype=index), "dy": In(I, D, dtype=dtype)}


def embedding_rows_added(dtype="float32", index="int64"):
    # -1 means no padding row; 2 is a row of its own, or none at all where V is smaller.
    return dict(**rows_added(dtype, index), padding_idx=Scalar([0, 2, -1], dtype="int64"))


gather_spec = KernelSpec(
    launch=kernels.gather,
    reference=gather,
    args={"x": In(V, D), "index": Index(MANY_I, below=V), "y": Out(MANY_I, D)},
    configs=BLOCK,
    nonfinite=True,
)
gather_bf16_spec = KernelSpec(
    launch=kernels.gather,
    reference=gather,
    args={"x": In(V, D, dtype="bfloat16"), "index": Index(I, below=V, dtype="int32"), "y": Out(I, D, dtype="bfloat16")},
    configs={"block": [96]},
)
gather_checked_spec = KernelSpec(
    launch=kernels.gather,
    reference=gather,
    args={"x": In(V, D), "index": Index(I, below=V, out_of_range="error"), "y": Out(I, D)},
    configs={"block": [96], "check": [True]},
)

scatter_add_naive_spec = KernelSpec(
    launch=kernels.scatter_add_naive,
    reference=scatter_add,
    args=rows_added(),
    configs={"block": [32]},
    direction="backward",
)
scatter_add_atomic_spec = KernelSpec(
    launch=kernels.scatter_add_atomic,
    reference=scatter_add,
    args=rows_added(),
    configs=BLOCK,
    deterministic=False,
    direction="backward",
)
scatter_add_sorted_spec = KernelSpec(
    launch=kernels.scatter_add_sorted,
    reference=scatter_add,
    args=rows_added(),
    configs=BLOCK,
    direction="backward",
)
scatter_add_sorted_bf16_spec = KernelSpec(
    launch=kernels.scatter_add_sorted,
    reference=scatter_add,
    args=rows_added("bfloat16", "int32"),
    configs={"block": [96]},
    direction="backward",
)

embedding_backward_atomic_spec = KernelSpec(
    operator="embedding",
    launch=kernels.embedding_backward_atomic,
    reference=embedding_backward,
    args=embedding_rows_added(),
    configs=BLOCK,
    deterministic=False,
    direction="backward",
)
embedding_backward_sorted_spec = KernelSpec(
    operator="embedding",
    launch=kernels.embedding_backward_sorted,
    reference=embedding_backward,
    args=embedding_rows_added(),
    configs=BLOCK,
    direction="backward",
)
embedding_backward_atomic_bf16_spec = KernelSpec(
    operator="embedding",
    launch=kernels.embedding_backward_atomic,
    reference=embedding_backward,
    args=embedding_rows_added("bfloat16", "int32"),
    configs={"block": [96]},
    deterministic=False,
    direction="backward",
)
