"""The SwiGLU MLP: de = x w, out = left silu(gate), y = out w_down, and its backward pass.

x (T, K), w (K, 2I), w_down (I, K). The backward pass is four products and one elementwise group; `planner/swiglu.py`
states the same ledger as plain Python, and a test compares the two.
"""

from refkit.planner.gemm import TILING, gemm, machine_group
from refkit.planner.ledger import entry
from refkit.planner.sheet import Group, Parameter, Sheet, figure

SHEET = Sheet(
    "swiglu",
    "SwiGLU MLP",
    "de = x w, out = left · silu(gate), y = out w_down, with x (T, K), w (K, 2I) and w_down (I, K)",
    (
        Parameter("T", "tokens T", 8192, 1, 2**20),
        Parameter("K", "model width K", 768, 1, 32_768),
        Parameter("I", "inner width I", 9216, 1, 65_536),
        *TILING,
    ),
    (
        machine_group(),
        gemm("de", "de", "T", "2 * I", "K", "forward: de = [left | gate] = x w"),
        gemm("y", "y", "T", "K", "I", "forward: y = out w_down"),
        gemm("dout", "dout", "T", "I", "K", "backward: dout = dy w_downᵀ"),
        gemm("dw_down", "dw_down", "I", "K", "T", "backward: dw_down += outᵀ dy", accumulates=True),
        gemm("dx", "dx", "T", "K", "2 * I", "backward: dx = grad_de wᵀ"),
        gemm(
            "dw", "dw", "K", "2 * I", "T", "backward: dw += xᵀ grad_de, one product over both halves", accumulates=True
        ),
        Group(
            "total",
            "forward and backward",
            "totals",
            (
                figure("forward_flops", "forward FLOPs", "FLOP", "de.flops + y.flops"),
                figure("backward_flops", "backward FLOPs", "FLOP", "dout.flops + dw_down.flops + dx.flops + dw.flops"),
                figure("forward_compute_time", "forward at the rate", "s", "forward_flops / rate"),
                figure("backward_compute_time", "backward at the rate", "s", "backward_flops / rate"),
                figure("dout_bytes", "size of dout", "B", "T * I * element"),
                figure(
                    "round_trip", "dout's round trip", "B", "2 * dout_bytes", "written by one kernel, read by the next"
                ),
                figure("round_trip_time", "time of the round trip", "s", "round_trip / bandwidth"),
                figure("saved", "kept for backward", "B", "(T * K + 2 * T * I + T * I) * element", "x, de and out"),
            ),
        ),
        Group(
            "unfused",
            "dout, then the elementwise kernel",
            "ways",
            (
                figure(
                    "bytes",
                    "traffic from dy to grad_de",
                    "B",
                    "(T * K + I * K + T * I) * element + (T * I + 2 * T * I + 2 * T * I) * element",
                    "dy, w_down, dout written; dout, de read, grad_de written",
                ),
                figure(
                    "elementwise_flops", "elementwise FLOPs", "FLOP", "14 * T * I", "14 operations an element of dout"
                ),
                figure(
                    "time",
                    "time at least",
                    "s",
                    "max(dout.compute_time, dout.memory_time)"
                    " + max(elementwise_flops / vector_rate, 5 * T * I * element / bandwidth)",
                ),
            ),
            "two kernels",
        ),
        Group(
            "fused",
            "elementwise group in the product's epilogue",
            "ways",
            (
                figure(
                    "bytes",
                    "traffic from dy to grad_de",
                    "B",
                    "(T * K + I * K) * element + (2 * T * I + 2 * T * I) * element",
                    "dy, w_down, de read, grad_de written; dout stays on chip",
                ),
                figure(
                    "elementwise_flops", "elementwise FLOPs", "FLOP", "14 * T * I", "14 operations an element of dout"
                ),
                figure(
                    "time",
                    "time at least",
                    "s",
                    "max(dout.compute_time, bytes / bandwidth)",
                    "arithmetic and traffic wholly overlapped",
                ),
            ),
            "one kernel",
        ),
        entry("x", "x", "dw contracts it", stored="T * K * element", moved="T * K * element", verdict="save"),
        entry(
            "de",
            "de = [left | gate]",
            "both halves of the gradient need both halves; making them again is a whole product",
            stored="2 * T * I * element",
            flops="de.flops",
            rebuilt_bytes="(T * K + 2 * I * K) * element",
        ),
        entry(
            "silu",
            "σ(gate) and silu(gate)",
            "a few operations on a gate that the kernel holds in registers",
            stored="2 * T * I * element",
            flops="5 * T * I",
            rate="vector_rate",
        ),
        entry(
            "out",
            "out",
            "written for y anyway and read by dw_down either way; made again, it has to be written once more",
            stored="T * I * element",
            moved="0",
            flops="5 * T * I",
            rebuilt_bytes="T * I * element",
            rate="vector_rate",
        ),
        entry(
            "dout",
            "dout",
            "needed once, where it is made: the epilogue of its own product makes grad_de of it",
            stored="T * I * element",
            verdict="keep on chip",
        ),
    ),
    (
        "Backward: {dout.flops} (dout) + {dw_down.flops} (dw_down) + {dx.flops} (dx) + {dw.flops} (dw) ="
        " {total.backward_flops}; forward {total.forward_flops}.",
        "dout is {total.dout_bytes}; its round trip through memory is {total.round_trip}, or {total.round_trip_time}:"
        " what an epilogue that turns it into grad_de spares.",
        "From dy to grad_de: at least {unfused.time} in two kernels; {fused.time} in one where arithmetic and traffic"
        " overlap wholly.",
    ),
)
