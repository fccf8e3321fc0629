"""The gate of a mixture of experts: of E experts the K with the largest logits for each token, and their weights.

    experts (T, K) = the K largest of logits (T, E), ordered as `top_k` does;  v = the logits there
    gates (T, K)   = softmax of v over the K slots
    dlogits[t, experts[t, s]] = gates (dgates - sum_s dgates gates),  0 for experts not chosen

logits and dlogits are float32, bfloat16 or float16; gates and dgates float32; experts int32 or int64. Softmax after the
choice equals the softmax over all experts, chosen from and divided by its sum. The choice has no derivative. Backward,
experts lie in [0, E) and those of a token differ: the caller's promise, which the gate keeps. The order of tokens by
expert is in `routing_order.py`, the rows that move by it in `routing_rows.py`.

gate naive:           one thread per token.
gate warp:            one warp per token; K rounds of argmax by shuffles, then the softmax over the slots.
gate backward naive:  one thread per token.
gate backward warp:   one warp per token.
"""

from __future__ import annotations

import math
from typing import Any

from numba import cuda, float32, int64

from .launch import FLOAT32, INTEGERS, ceil_div, check_block, launcher, read, write
from .primitives.warp import WARP, warp_argmax, warp_sum
from .top_k import first_behind


@cuda.jit
def gate_naive_kernel(logits, experts, gates):
    token = cuda.grid(1)
    if token >= logits.shape[0]:
        return
    value, index, largest, total = float32(0), int64(-1), float32(0), float32(0)
    for slot in range(experts.shape[1]):
        value, index = first_behind(logits, token, 0, 1, value, index)
        if slot == 0:
            largest = value
        weight = math.exp(value - largest)
        experts[token, slot] = index
        gates[token, slot] = weight
        total += weight
    for slot in range(experts.shape[1]):
        gates[token, slot] /= total


@cuda.jit
def gate_warp_kernel(logits, experts, gates):
    lane = cuda.threadIdx.x % WARP
    token = cuda.grid(1) // WARP
    if token >= logits.shape[0]:
        return  # the whole warp leaves: its lanes share the token
    value, index, largest, total = float32(0), int64(-1), float32(0), float32(0)
    for slot in range(experts.shape[1]):
        value, index = first_behind(logits, token, lane, WARP, value, index)
        value, index = warp_argmax(value, index)
        if slot == 0:
            largest = value
        weight = math.exp(value - largest)  # every lane has the same, so that none has to ask for the sum
        total += weight
        if lane == slot % WARP:
            experts[token, slot] = index
            gates[token, slot] = weight
    for slot in range(lane, experts.shape[1], WARP):
        gates[token, slot] /= total  # the lane's own slots


@cuda.jit
def gate_backward_naive_kernel(dgates, gates, experts, dlogits):
    token = cuda.grid(1)
    if token >= dlogits.shape[0]:
        return
    total = float32(0)
    for slot in range(gates.shape[1]):
        total += dgates[token, slot] * gates[token, slot]
    for expert in range(dlogits.shape[1]):
        dlogits[token, expert] = float32(0)
    for slot in range(gates.shape[1]):
        dlogits[token, experts[token, slot]] = gates[token, slot] * (dgates[token, slot] - total)


@cuda.jit
def gate_backward_warp_kernel(dgates, gates, experts, dlogits):
    lane = cuda.threadIdx.x % WARP
    token = cuda.grid(1) // WARP
    if token >= dlogits.shape[0]:
        return
    part = float32(0)
    for slot in range(lane, gates.shape[1], WARP):
        part += dgates[token, slot] * gates[token, slot]
    total = warp_sum(part)
    for expert in range(lane, dlogits.shape[1], WARP):
        dlogits[token, expert] = float32(0)
    cuda.syncwarp()  # a lane stores where another has put its zero
    for slot in range(lane, gates.shape[1], WARP):
        dlogits[token, experts[token, slot]] = gates[token, slot] * (dgates[token, slot] - total)


CHOSEN = read("T", "K", dtypes=INTEGERS)
WEIGHTS = read("T", "K", dtypes=FLOAT32)
_gate = launcher(
    logits=read("T", "E"),
    experts=write("T", "K", dtypes=INTEGERS),
    gates=write("T", "K", dtypes=FLOAT32),
)
_gate_backward = launcher(dgates=WEIGHTS, gates=WEIGHTS, experts=CHOSEN, dlogits=write("T", "E"))


def _check_slots(K: int, E: int) -> None:
    if K > E:
        raise ValueError(f"gate: K={K} experts of each token were asked for, there are E={E}")


@_gate
def gate_naive(logits: Any, experts: Any, gates: Any, block: int = 128, *, stream: Any = None) -> None:
    """Writes experts and gates (T, K) of logits (T, E); one thread per token."""
    _check_slots(experts.shape[1], logits.shape[1])
    if 0 not in experts.shape:
        gate_naive_kernel[ceil_div(logits.shape[0], block), block, stream](logits, experts, gates)


@_gate
def gate_warp(logits: Any, experts: Any, gates: Any, block: int = 128, *, stream: Any = None) -> None:
    """Writes experts and gates (T, K) of logits (T, E); one warp per token."""
    check_block(block)
    _check_slots(experts.shape[1], logits.shape[1])
    if 0 not in experts.shape:
        gate_warp_kernel[ceil_div(logits.shape[0], block // WARP), block, stream](logits, experts, gates)


@_gate_backward
def gate_backward_naive(
    dgates: Any, gates: Any, experts: Any, dlogits: Any, block: int = 128, *, stream: Any = None
) -> None:
    """Writes dlogits (T, E) from dgates, gates and experts (T, K); one thread per token."""
    _check_slots(experts.shape[1], dlogits.shape[1])
    if 0 not in dlogits.shape:
        blocks = ceil_div(dlogits.shape[0], block)
        gate_backward_naive_kernel[blocks, block, stream](dgates, gates, experts, dlogits)


@_gate_backward
def gate_backward_warp(
    dgates: Any, gates: Any, experts: Any, dlogits: Any, block: int = 128, *, stream: Any = None
) -> None:
    """Writes dlogits (T, E) from dgates, gates and experts (T, K); one warp per token."""
    check_block(block)
    _check_slots(experts.shape[1], dlogits.shape[1])
    if 0 not in dlogits.shape:
        blocks = ceil_div(dlogits.shape[0], block // WARP)
        gate_backward_warp_kernel[blocks, block, stream](dgates, gates, experts, dlogits)
