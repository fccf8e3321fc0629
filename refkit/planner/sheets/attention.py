"""Attention o = softmax(scale q k^T) v and its backward pass: the score matrix stored, or made again.

q, k, v, o (B, H, L, D); scores (B, H, L, L). Seven products in the textbook's forward and backward pass, six of them
distinct; every one has one array of the size of the scores and two of the size of q. Softmax is 5 or so operations a
score and counted by its traffic alone.
"""

from refkit.planner.ledger import entry
from refkit.planner.sheet import Group, Parameter, Sheet, figure

_SIZES = Group(
    "sizes",
    "sizes",
    "totals",
    (
        figure("pairs", "visible pairs of a head", "count", "L * (L + 1) // 2 if causal == 1 else L * L"),
        figure("scores", "score matrix", "B", "B * H * L * L * element", "causal or not: the upper half is stored too"),
        figure("tensor", "q (k, v, o alike)", "B", "B * H * L * D * element"),
        figure("rows", "a number per row (lse, delta)", "B", "B * H * L * 4", "float32"),
        figure("ridge", "ridge point", "FLOP/B", "rate / bandwidth"),
        figure("blocks", "blocks", "count", "B * H * ceil(L / tile_q)", "one per tile of queries"),
        figure("waves", "waves", "decimal", "blocks / (SMs * blocks_per_sm)"),
        figure("full", "machine full", "fraction", "blocks / (ceil(waves) * SMs * blocks_per_sm)"),
    ),
)


def _product(name: str, title: str, m: str, n: str, k: str, about: str, stored: int, two_kernels: int) -> Group:
    """One of the products; how often each way of the backward pass does it."""
    return Group(
        name,
        title,
        "gemms",
        (
            figure("batch", "products", "count", "B * H", step=True),
            figure("m", "m, rows", "count", m),
            figure("n", "n, columns", "count", n),
            figure("k", "k, contracted", "count", k),
            figure("flops", "FLOPs of visible pairs", "FLOP", "2 * B * H * sizes.pairs * D"),
            figure(
                "unmasked_flops", "FLOPs of all pairs", "FLOP", "2 * B * H * L * L * D", "what a stored matrix takes"
            ),
            figure(
                "bytes",
                "traffic, scores stored",
                "B",
                "2 * sizes.tensor + sizes.scores",
                "two arrays like q and one matrix of scores",
            ),
            figure("intensity", "intensity, scores stored", "FLOP/B", "unmasked_flops / bytes"),
            figure("bound", "then bound by", "text", "'memory' if intensity < sizes.ridge else 'arithmetic'"),
            figure("stored_time", "time, scores stored", "s", "max(unmasked_flops / rate, bytes / bandwidth)"),
            figure("compute_time", "time of visible pairs", "s", "flops / rate", "arithmetic alone, scores on chip"),
            figure("times_stored", "times done, stored", "count", str(stored)),
            figure(
                "times_recomputed",
                "times done, recomputed",
                "count",
                str(two_kernels),
                "in two kernels, without atomics",
            ),
        ),
        about,
    )


def _way(
    name: str,
    title: str,
    about: str,
    *,
    forward: tuple[str, str, str],
    backward: tuple[str, str, str],
    kept: str,
    scratch: str,
    note: str = "",
) -> Group:
    """A way to do it. forward, backward: formulas of FLOPs, bytes and time."""
    return Group(
        name,
        title,
        "ways",
        (
            figure("forward_flops", "forward FLOPs", "FLOP", forward[0]),
            figure("forward_bytes", "forward traffic", "B", forward[1]),
            figure("forward_time", "forward, at least", "s", forward[2]),
            figure("backward_flops", "backward FLOPs", "FLOP", backward[0]),
            figure("backward_bytes", "backward traffic", "B", backward[1], note),
            figure("backward_time", "backward, at least", "s", backward[2]),
            figure("kept", "memory kept for backward", "B", kept),
            figure("scratch", "scratch memory", "B", scratch),
        ),
        about,
    )


_FORWARD = "max(forward_flops / rate, forward_bytes / bandwidth)"
_BACKWARD = "max(backward_flops / rate, backward_bytes / bandwidth)"

SHEET = Sheet(
    "attention",
    "Attention",
    "o = softmax(scale q kᵀ) v, with q, k, v (B, H, L, D): scores stored against scores made again",
    (
        Parameter("B", "sequences B", 4, 1, 1024),
        Parameter("H", "heads H", 32, 1, 256),
        Parameter("L", "length L", 4096, 1, 2**20),
        Parameter("D", "head width D", 128, 8, 512, step=8),
        Parameter("causal", "causal", 0, 0, 1, "flag"),
        Parameter("tile_q", "queries of a block", 128, 16, 256, step=16, tuning=True),
        Parameter("blocks_per_sm", "blocks on an SM at once", 1, 1, 8, step=1, tuning=True),
    ),
    (
        _SIZES,
        _product(
            "s", "s", "L", "L", "D", "forward: s = q kᵀ; once more in each backward kernel that recomputes it", 1, 3
        ),
        _product("o", "o", "L", "D", "L", "forward: o = p v", 1, 1),
        _product("dv", "dv", "L", "D", "L", "backward: dv = pᵀ do", 1, 1),
        _product("dp", "dp", "L", "L", "D", "backward: dp = do vᵀ; once in each kernel", 1, 2),
        _product("dq", "dq", "L", "D", "L", "backward: dq = ds k", 1, 1),
        _product("dk", "dk", "L", "D", "L", "backward: dk = dsᵀ q", 1, 1),
        _way(
            "stored",
            "scores stored",
            "a kernel per product and per softmax, p kept for the backward pass",
            forward=(
                "s.unmasked_flops + o.unmasked_flops",
                "4 * sizes.tensor + 4 * sizes.scores",
                "s.stored_time + o.stored_time + 2 * sizes.scores / bandwidth",
            ),
            backward=(
                "dv.unmasked_flops + dp.unmasked_flops + dq.unmasked_flops + dk.unmasked_flops",
                "8 * sizes.tensor + 7 * sizes.scores",
                "dv.stored_time + dp.stored_time + dq.stored_time + dk.stored_time + 3 * sizes.scores / bandwidth",
            ),
            kept="3 * sizes.tensor + sizes.scores",
            scratch="sizes.scores",
            note="of scores: p read twice, dp written and read, ds written and read twice",
        ),
        _way(
            "one_kernel",
            "recomputed, one kernel",
            "p made again from lse; dq is summed over blocks by atomics, in any order",
            forward=("s.flops + o.flops", "4 * sizes.tensor + sizes.rows", _FORWARD),
            backward=(
                "s.flops + dv.flops + dp.flops + dq.flops + dk.flops",
                "9 * sizes.tensor + 3 * sizes.rows + 16 * B * H * L * D",
                _BACKWARD,
            ),
            kept="4 * sizes.tensor + sizes.rows",
            scratch="sizes.rows + 4 * B * H * L * D",
            note="q, k, v, do twice, o read; dk, dv, dq written; dq's float32 sum cleared, added to, converted",
        ),
        _way(
            "two_kernels",
            "recomputed, two kernels",
            "dq in one, dk and dv in the other: the same bits every time, s and dp made twice",
            forward=("s.flops + o.flops", "4 * sizes.tensor + sizes.rows", _FORWARD),
            backward=(
                "2 * s.flops + dv.flops + 2 * dp.flops + dq.flops + dk.flops",
                "13 * sizes.tensor + 5 * sizes.rows",
                _BACKWARD,
            ),
            kept="4 * sizes.tensor + sizes.rows",
            scratch="sizes.rows",
            note="q, k, v, do read by both; do and o for delta; dq, dk, dv written",
        ),
        Group(
            "gain",
            "stored / two kernels",
            "totals",
            (
                figure(
                    "traffic",
                    "traffic",
                    "times",
                    "(stored.forward_bytes + stored.backward_bytes)"
                    " / (two_kernels.forward_bytes + two_kernels.backward_bytes)",
                ),
                figure("kept", "memory kept", "times", "stored.kept / two_kernels.kept"),
                figure(
                    "time",
                    "time at least",
                    "times",
                    "(stored.forward_time + stored.backward_time)"
                    " / (two_kernels.forward_time + two_kernels.backward_time)",
                ),
            ),
        ),
        entry(
            "p",
            "p, the probabilities",
            "rebuilt from lse by one more product, with q and k already on chip",
            stored="sizes.scores",
            flops="s.flops",
        ),
        entry(
            "lse",
            "lse, a number per row",
            "rebuilding it is the whole product s and a pass over it",
            stored="sizes.rows",
            flops="s.flops",
        ),
        entry(
            "delta",
            "delta = Σ do · o, a number per row",
            "one pass over do and o, instead of reading o in every block of keys",
            stored="sizes.rows",
            moved="2 * sizes.tensor + 2 * sizes.rows",
            flops="2 * B * H * L * D * ceil(L / tile_q)",
            rebuilt_bytes="sizes.tensor * ceil(L / tile_q)",
            rate="vector_rate",
        ),
        entry(
            "qkv",
            "q, k, v, o",
            "every backward product contracts them",
            stored="4 * sizes.tensor",
            moved="4 * sizes.tensor",
            verdict="save",
        ),
    ),
    (
        "Storing the scores keeps {stored.kept} for the backward pass and moves {stored.forward_bytes} forward and"
        " {stored.backward_bytes} backward; recomputing them keeps {two_kernels.kept} and moves"
        " {two_kernels.forward_bytes} and {two_kernels.backward_bytes}.",
        "At least {stored.forward_time} + {stored.backward_time} stored, {two_kernels.forward_time} +"
        " {two_kernels.backward_time} recomputed in two kernels, {one_kernel.forward_time} +"
        " {one_kernel.backward_time} in one with atomics.",
        "Blocks of queries: {sizes.blocks}, in waves: {sizes.waves}; {sizes.full} of the machine is busy.",
    ),
)
