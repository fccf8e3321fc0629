"""One step of AdamW: master weights and moments replaced, parameters written in their own format."""

from refkit.cuda_kernels import adamw as kernels
from refkit.reference.adamw import adamw
from refkit.verify import Dim, In, InOut, KernelSpec, Out, Scalar
from refkit.verify.ledger import Ledger

M, N = Dim("M", min=0), Dim("N", min=0, max=2_000)
BLOCK = {"block": [64]}
LEDGER = {"forward": Ledger(saved="", flops="15 M N")}


def arguments(dtype):
    layouts = ("contiguous", "strided")
    return {
        "master": InOut(M, N, layouts=layouts),
        "m": InOut(M, N),
        "v": InOut(M, N, values="positive"),
        "gradient": In(M, N, dtype=dtype),
        "parameters": Out(M, N, dtype=dtype),
        "lr": Scalar([0.01, 0.3]),
        "beta1": Scalar([0.9, 0.0]),
        "beta2": Scalar([0.95, 0.999]),
        "eps": Scalar([1e-5, 1e-2]),
        "weight_decay": Scalar([0.1, 0.0]),
        "step": Scalar([1, 2, 1000], dtype="int64"),
    }


def adamw_and_parameters(master, m, v, gradient, lr, beta1, beta2, eps, weight_decay, step):
    state = adamw(master, m, v, gradient, lr, beta1, beta2, eps, weight_decay, step)
    return *state, state.master


adamw_spec = KernelSpec(launch=kernels.adamw, reference=adamw_and_parameters, args=arguments("float16"), configs=BLOCK)
adamw_vectorised_spec = KernelSpec(
    launch=kernels.adamw_vectorised, reference=adamw_and_parameters, args=arguments("float32"), configs=BLOCK
)
adamw_vectorised_bf16_spec = KernelSpec(
    launch=kernels.adamw_vectorised, reference=adamw_and_parameters, args=arguments("bfloat16"), configs=BLOCK
)
