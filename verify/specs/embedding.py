"""Embedding of tokens (B, L) with an optional table of positions, and the gradient of the positions.

The gradient of the table is `embedding_backward_*` in `scatter_add.py`.
"""

from refkit.cuda_kernels import embedding as kernels
from refkit.reference.embedding import embedding, embedding_dpositions
from refkit.verify import Dim, In, Index, InOut, KernelSpec, Out
from refkit.verify.ledger import Ledger

B, L, V, D = Dim("B", min=0, max=40), Dim("L", min=0, max=40), Dim("V"), Dim("D", min=0)
MANY_B = Dim("B", min=0, max=70_000)  # more tokens than a grid has blocks along y

LEDGER = {
    "forward": Ledger(saved="tokens", flops="B L D"),
    "backward": Ledger(saved="tokens", flops="2 B L D"),
}


def forward(B=B, dtype="float32", index="int64"):
    return {
        "tokens": Index(B, L, below=V, dtype=index),
        "table": In(V, D, dtype=dtype),
        "positions": In(L, D, dtype=dtype, optional=True),
        "y": Out(B, L, D, dtype=dtype),
    }


embedding_naive_spec = KernelSpec(
    launch=kernels.embedding_naive, reference=embedding, args=forward(), configs={"block": [32]}, nonfinite=True
)
embedding_block_spec = KernelSpec(
    launch=kernels.embedding_block, reference=embedding, args=forward(MANY_B), configs={"block": [96]}, nonfinite=True
)
embedding_block_bf16_spec = KernelSpec(
    launch=kernels.embedding_block,
    reference=embedding,
    args=forward(dtype="bfloat16", index="int32"),
    configs={"block": [96]},
)
embedding_dpositions_spec = KernelSpec(
    launch=kernels.embedding_dpositions,
    reference=lambda dy, dpositions: dpositions + embedding_dpositions(dy),
    args={"dy": In(B, L, D), "dpositions": InOut(L, D)},
    configs={"block": [32]},
    direction="backward",
)
