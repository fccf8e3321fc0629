"""Dropout with a counter-based mask: written or made again, element by element or 128 bits at a time."""

from refkit.cuda_kernels import dropout as kernels
from refkit.reference.dropout import dropout, dropout_mask, dropout_vjp, dropout_with_mask
from refkit.verify import Dim, In, KernelSpec, Out, Scalar
from refkit.verify.ledger import Ledger

M, N = Dim("M", min=0), Dim("N", min=0, max=2_000)
BLOCK = {"block": [64]}
LEDGER = {
    "forward": Ledger(saved="seed, offset (or mask)", flops="M N"),
    "backward": Ledger(saved="", flops="M N"),
}

RULE = {
    "p": Scalar([0.25, 0.0, 0.5, 0.9, 1.0]),
    "seed": Scalar([7, 2**40 + 3, -1], dtype="int64"),
    "offset": Scalar([0, 1, 2**33], dtype="int64"),
}


def forward(dtype="float32"):
    return {"x": In(M, N, dtype=dtype), **RULE, "y": Out(M, N, dtype=dtype)}


def zeros_and_ones(rng, shape):
    return rng.integers(0, 2, shape)


def dropout_and_mask(x, p, seed, offset):
    return dropout(x, p, seed, offset), dropout_mask(x.shape, p, seed, offset).astype("uint8")


dropout_forward_spec = KernelSpec(
    launch=kernels.dropout_forward, reference=dropout, args=forward("float16"), configs=BLOCK
)
dropout_forward_vectorised_spec = KernelSpec(
    launch=kernels.dropout_forward_vectorised, reference=dropout, args=forward("bfloat16"), configs=BLOCK
)
dropout_forward_with_mask_spec = KernelSpec(
    launch=kernels.dropout_forward_with_mask,
    reference=dropout_and_mask,
    args={**forward(), "mask": Out(M, N, dtype="uint8")},
    configs=BLOCK,
)
dropout_backward_from_mask_spec = KernelSpec(
    launch=kernels.dropout_backward_from_mask,
    reference=lambda dy, mask, p: dropout_with_mask(dy, mask, p),
    args={
        "dy": In(M, N, dtype="bfloat16"),
        "mask": In(M, N, dtype="uint8", values=zeros_and_ones),
        "p": Scalar([0.25, 0.0, 0.9]),
        "dx": Out(M, N, dtype="bfloat16"),
    },
    configs=BLOCK,
    direction="backward",
)
dropout_backward_regenerated_spec = KernelSpec(
    launch=kernels.dropout_backward_regenerated,
    reference=dropout_vjp,
    args={"dy": In(M, N), **RULE, "dx": Out(M, N)},
    configs=BLOCK,
    direction="backward",
)
