"""Cross-entropy of logits (T, V), with the head logits = x w before it where its width K is given.

The logits are the largest array of a language model: what counts is how often (T, V) numbers pass through memory
between the head's forward product and its two backward products, and how many of them are there at once.
"""

from refkit.planner.gemm import TILING, gemm, machine_group
from refkit.planner.ledger import entry
from refkit.planner.sheet import Group, Parameter, Sheet, figure


def _way(
    name: str, title: str, about: str, memory: str, traffic: str, note: str, extra: str = "0", needs: str = ""
) -> Group:
    return Group(
        name,
        title,
        "ways",
        (
            figure("memory", "memory of (T, V) arrays", "B", memory),
            figure("bytes", "traffic of (T, V) arrays", "B", traffic, note),
            figure("extra_flops", "extra FLOPs", "FLOP", extra),
            figure(
                "time", "time at least", "s", "max(bytes / bandwidth, extra_flops / rate)", "beside the head's products"
            ),
        ),
        about,
        needs,
    )


SHEET = Sheet(
    "cross_entropy",
    "Cross-entropy",
    "loss = lse − logits[label], dlogits = softmax(logits) − one-hot, with logits (T, V) = x w",
    (
        Parameter("T", "tokens T", 8192, 1, 2**20),
        Parameter("V", "vocabulary V", 128_256, 2, 2**18),
        Parameter("K", "width of the head K", 4096, 1, 32_768, optional=True),
        Parameter("chunk", "classes of a chunk", 8192, 128, 65_536, tuning=True),
        *TILING,
    ),
    (
        machine_group(),
        Group(
            "sizes",
            "sizes",
            "totals",
            (
                figure("logits", "logits", "B", "T * V * element"),
                figure("logits_float32", "logits in float32", "B", "T * V * 4"),
                figure("rows", "a number per row (lse)", "B", "T * 4", "float32"),
                figure("share", "logits / device memory", "fraction", "logits / memory"),
                figure(
                    "breakeven",
                    "width at which rebuilding costs as much",
                    "count",
                    "element * rate / bandwidth",
                    "2 T V K operations against 2 T V elements moved",
                ),
            ),
        ),
        gemm("head", "logits", "T", "V", "K", "forward: logits = x w", needs="K"),
        gemm("dx", "dx", "T", "K", "V", "backward: dx = dlogits wᵀ", needs="K"),
        gemm("dw", "dw", "K", "V", "T", "backward: dw += xᵀ dlogits", accumulates=True, needs="K"),
        Group(
            "total",
            "the head's products",
            "totals",
            (
                figure("flops", "FLOPs", "FLOP", "head.flops + dx.flops + dw.flops"),
                figure("compute_time", "time at the rate", "s", "flops / rate"),
            ),
            needs="K",
        ),
        _way(
            "unfused",
            "log-softmax stored",
            "float32 log-probabilities kept for the backward pass, dlogits beside them",
            "2 * sizes.logits + sizes.logits_float32",
            "6 * sizes.logits + 2 * sizes.logits_float32",
            "logits written and read twice, log-probabilities written and read, dlogits written and read twice",
        ),
        _way(
            "fused",
            "fused, in place",
            "one pass for lse and loss, one that turns logits into dlogits where they lie",
            "sizes.logits + sizes.rows",
            "6 * sizes.logits",
            "logits written, read forward, read and overwritten backward, dlogits read twice",
        ),
        _way(
            "chunked",
            "in chunks, logits made again",
            "a chunk of classes at a time in float32, forward and once more backward; it may stay in the L2 cache",
            "4 * T * min(chunk, V) + 4 * sizes.rows",
            "7 * sizes.logits_float32",
            "forward written and read; backward written, read, overwritten, read twice",
            extra="head.flops",
            needs="K",
        ),
        entry(
            "logits",
            "logits",
            "rebuilt by the head's product; faster where the head is narrower than the width above",
            stored="sizes.logits",
            flops="head.flops",
            rebuilt_bytes="(T * K + K * V) * element",
            needs="K",
        ),
        entry(
            "softmax",
            "softmax(logits)",
            "exp(logits − lse) of a logit that the kernel has just read",
            stored="sizes.logits_float32",
            flops="3 * T * V",
            rate="vector_rate",
        ),
        entry(
            "lse",
            "lse, a number per row",
            "rebuilding it is a pass over all logits",
            stored="sizes.rows",
            flops="3 * T * V",
            rebuilt_bytes="sizes.logits",
            rate="vector_rate",
        ),
    ),
    (
        "The logits are {sizes.logits} ({sizes.logits_float32} in float32), {sizes.share} of the device's memory.",
        "With a stored log-softmax {unfused.memory} are alive at once; fused and in place, {fused.memory}; the traffic"
        " is {unfused.bytes} against {fused.bytes}, or {unfused.time} against {fused.time}.",
        "In chunks of {chunk} classes {chunked.memory} are enough, for {chunked.extra_flops} more.",
        "Making logits again is cheaper than keeping them for heads narrower than {sizes.breakeven}.",
    ),
)
