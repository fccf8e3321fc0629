"""A linear layer y = x w: forward, dx = dy w^T, dw += x^T dy. x (T, K), w (K, N), y (T, N).

All three have 2 T K N operations; they differ in what they contract: K, N, and for dw the tokens T.
"""

from refkit.planner.gemm import TILING, gemm, machine_group
from refkit.planner.ledger import entry
from refkit.planner.sheet import Group, Parameter, Sheet, figure

SHEET = Sheet(
    "linear",
    "Linear layer",
    "y = x w, dx = dy wᵀ, dw += xᵀ dy, with x (T, K) and w (K, N)",
    (
        Parameter("T", "tokens T", 8192, 1, 2**20),
        Parameter("K", "input width K", 4096, 1, 65_536),
        Parameter("N", "output width N", 14_336, 1, 131_072),
        *TILING,
    ),
    (
        machine_group(),
        gemm("forward", "forward", "T", "N", "K", "y = x w: contracts the input width"),
        gemm("dX", "dX", "T", "K", "N", "dx = dy wᵀ: contracts the output width; the transpose is a stride"),
        gemm("dW", "dW", "K", "N", "T", "dw += xᵀ dy: contracts the tokens, in float32", accumulates=True),
        Group(
            "total",
            "all three",
            "totals",
            (
                figure("flops", "FLOPs", "FLOP", "forward.flops + dX.flops + dW.flops"),
                figure("bytes", "traffic", "B", "forward.bytes + dX.bytes + dW.bytes"),
                figure("compute_time", "time at the rate", "s", "flops / rate", "arithmetic alone"),
                figure("time", "time, idle SMs counted", "s", "forward.time + dX.time + dW.time"),
            ),
        ),
        entry(
            "x",
            "x",
            "dw contracts it, and nothing in this layer can make it again",
            stored="T * K * element",
            moved="T * K * element",
            verdict="save",
        ),
        entry(
            "y",
            "y, for an activation after it",
            "the backward pass of the layer itself never reads y; that of a GELU after it does",
            stored="T * N * result",
            flops="forward.flops",
            rebuilt_bytes="forward.bytes",
        ),
        entry(
            "transposes",
            "copies of xᵀ and wᵀ",
            "swapped strides read the same memory; nothing is to be copied",
            stored="(T * K + K * N) * element",
            verdict="read by strides",
        ),
        entry(
            "accumulator",
            "dw in float32",
            "a sum over T products, added to over micro-batches: bfloat16 would lose the small ones",
            stored="4 * K * N",
            verdict="keep in float32",
        ),
    ),
    (
        "Three products of {forward.flops} each, {total.flops} in all: {total.compute_time} at {rate}.",
        "Tiles of dW: {dW.tiles}, where {dW.slots} blocks run at once: {dW.full} of the machine is busy. Splitting its"
        " contraction over T {dW.split_verdict} (splits: {dW.split_k}, gain: {dW.split_gain}).",
        "The forward product is bound by {forward.bound}: {forward.intensity} against a ridge point of"
        " {machine.ridge}. A tile alone has {machine.tile_intensity}.",
    ),
)
