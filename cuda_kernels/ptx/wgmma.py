"""`wgmma`: matrix products of a warpgroup, asynchronous, operands in shared memory (PTX ISA 9.1, "Asynchronous
Warpgroup Level Matrix Instructions").

A warpgroup is four warps whose first has a number divisible by 4; all 128 threads execute the same calls. D is 64 x n:
accumulator register i of a thread holds row 16 (warp % 4) + lane / 4 + 8 (i / 2 % 2), column 8 (i / 4) + 2 (lane % 4) +
i % 2. A is 64 x k, in shared memory by a descriptor or in registers (as A of `mma.sync` m16n8kX, 16 rows a warp); B is
k x n, in shared memory. k is 32 bytes: 16 for 16-bit formats, 8 for tf32, 32 for fp8.

Order of calls: write registers and shared memory; `fence_proxy_async` after ordinary shared stores; `wgmma_fence`; the
products; `wgmma_commit_group`; `wgmma_wait_group`. Until the wait neither the accumulator nor the operands may be
touched. Needs `sm_90a`: call `target_sm_90a` once.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.cuda import types
from numba.cuda.core.errors import TypingError
from numba.cuda.extending import intrinsic

from .assembly import F32, I32, I64, assembly, braces, literal, registers, require_sm_90a

_NS = range(8, 257, 8)
_K_MAJOR, _MN_MAJOR = 0, 1


def _void(name: str, text: str, doc: str) -> Any:
    def instruction(typingctx: Any) -> Any:
        generate = assembly(text, [], memory=True)

        def checked(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
            require_sm_90a(text.split(" ")[0].rstrip(";"))
            return generate(context, builder, signature, arguments)

        return types.void(), checked

    instruction.__name__, instruction.__doc__ = name, doc
    return intrinsic(instruction)


wgmma_fence = _void(
    "wgmma_fence",
    "wgmma.fence.sync.aligned;",
    "Orders earlier accesses to registers (and shared memory) before the products that follow; all 128 threads.",
)
wgmma_commit_group = _void(
    "wgmma_commit_group",
    "wgmma.commit_group.sync.aligned;",
    "Closes the products started since the last commit into a group; all 128 threads.",
)


@intrinsic
def wgmma_wait_group(typingctx: Any, pending: Any) -> Any:
    """Waits until at most `pending` (a constant, 0 to 7) of the newest groups are still under way; all 128 threads."""
    count = literal(pending, "wgmma_wait_group: pending", range(8))
    generate = assembly(f"wgmma.wait_group.sync.aligned {count};", [], memory=True)

    def checked(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        require_sm_90a("wgmma.wait_group")
        return generate(context, builder, signature, [])

    return types.void(pending), checked


def _accumulate(name: str, text: str, count: int, inputs: int) -> Any:
    """The generator of one product: the accumulator's registers are read from a local array and written back to it."""

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Any) -> ir.Value:
        require_sm_90a(name)
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        places = [builder.gep(array.data, [ir.Constant(I32, i)]) for i in range(count)]
        operands: list[ir.Value] = []
        for argument in arguments[1 : 1 + inputs]:
            is_tuple = isinstance(argument.type, (ir.ArrayType, ir.LiteralStructType))
            parts = range(len(argument.type.elements) if isinstance(argument.type, ir.LiteralStructType) else 4)
            operands += [builder.extract_value(argument, i) for i in parts] if is_tuple else [argument]
        operands += [builder.load(place) for place in places]
        letters = {I32: "r", I64: "l"}
        constraints = ["=f"] * count + [letters[x.type] for x in operands[:-count]] + [str(i) for i in range(count)]
        result = ir.LiteralStructType([F32] * count)
        kind = ir.FunctionType(result, [x.type for x in operands])
        call = builder.call(ir.InlineAsm(kind, text, ",".join(constraints), side_effect=True), operands)
        for i, place in enumerate(places):
            builder.store(builder.extract_value(call, i), place)
        return context.get_dummy_value()

    return generate


def _check_accumulator(name: str, accumulator: Any) -> None:
    if not (isinstance(accumulator, types.Array) and accumulator.dtype == types.float32 and accumulator.ndim == 1):
        raise TypingError(
            f"{name}: the accumulator must be a local array of float32 in one dimension, got {accumulator}"
        )


def _text(kind: str, k: int, n: int, a: str, first: int, tail: str) -> str:
    d = braces(0, n // 2)
    opcode = f"wgmma.mma_async.sync.aligned.m64n{n}k{k}.f32.{kind}.{kind}"
    condition = f"${first}"
    return f"{{ .reg .pred p; setp.ne.b32 p, {condition}, 0; {opcode} {d}, {a}, p, 1, 1{tail}; }}"


def _shared(kind: str, k: int, majors: bool) -> Any:
    name = f"wgmma_m64k{k}_{kind}"

    def both(
        typingctx: Any, accumulator: Any, a: Any, b: Any, n: Any, accumulate: Any, a_major: Any, b_major: Any
    ) -> Any:
        size = literal(n, f"{name}: n", _NS)
        ta, tb = (literal(x, f"{name}: major", (_K_MAJOR, _MN_MAJOR)) for x in (a_major, b_major))
        _check_accumulator(name, accumulator)
        count = size // 2
        text = _text(kind, k, size, f"${count}, ${count + 1}", count + 2, f", {ta}, {tb}")
        generate = _accumulate(name, text, count, 3)
        signature = types.void(accumulator, types.uint64, types.uint64, n, types.uint32, a_major, b_major)
        return signature, lambda c, b_, s, v: generate(c, b_, s, [v[0], v[1], v[2], v[4]])

    def k_major(typingctx: Any, accumulator: Any, a: Any, b: Any, n: Any, accumulate: Any) -> Any:
        size = literal(n, f"{name}: n", _NS)
        _check_accumulator(name, accumulator)
        count = size // 2
        text = _text(kind, k, size, f"${count}, ${count + 1}", count + 2, "")
        generate = _accumulate(name, text, count, 3)
        signature = types.void(accumulator, types.uint64, types.uint64, n, types.uint32)
        return signature, lambda c, b_, s, v: generate(c, b_, s, [v[0], v[1], v[2], v[4]])

    function = both if majors else k_major
    function.__name__ = name
    function.__doc__ = (
        f"D (64, n) = A (64, {k}) B ({k}, n) + D where `accumulate` is not 0, {kind}, sums in float32; asynchronous.\n"
        "\naccumulator: local array of n / 2 float32. a, b: descriptors (`matrix_descriptor`). n: a constant, 8 to 256."
    )
    if majors:
        function.__doc__ += " a_major, b_major: constants, 0 where K is contiguous in shared memory, else 1."
    return intrinsic(function)


def _register_a(kind: str, k: int, majors: bool) -> Any:
    name = f"wgmma_m64k{k}_{kind}_register_a"

    def both(typingctx: Any, accumulator: Any, a: Any, b: Any, n: Any, accumulate: Any, b_major: Any) -> Any:
        size, tb = literal(n, f"{name}: n", _NS), literal(b_major, f"{name}: b_major", (_K_MAJOR, _MN_MAJOR))
        _check_accumulator(name, accumulator)
        count = size // 2
        text = _text(kind, k, size, f"{braces(count, 4)}, ${count + 4}", count + 5, f", {tb}")
        generate = _accumulate(name, text, count, 3)
        fragment = registers(a, f"{name}: a", 4, I32)
        signature = types.void(accumulator, fragment, types.uint64, n, types.uint32, b_major)
        return signature, lambda c, b_, s, v: generate(c, b_, s, [v[0], v[1], v[2], v[4]])

    def k_major(typingctx: Any, accumulator: Any, a: Any, b: Any, n: Any, accumulate: Any) -> Any:
        size = literal(n, f"{name}: n", _NS)
        _check_accumulator(name, accumulator)
        count = size // 2
        text = _text(kind, k, size, f"{braces(count, 4)}, ${count + 4}", count + 5, "")
        generate = _accumulate(name, text, count, 3)
        fragment = registers(a, f"{name}: a", 4, I32)
        signature = types.void(accumulator, fragment, types.uint64, n, types.uint32)
        return signature, lambda c, b_, s, v: generate(c, b_, s, [v[0], v[1], v[2], v[4]])

    function = both if majors else k_major
    function.__name__ = name
    function.__doc__ = (
        f"As `wgmma_m64k{k}_{kind}` with A in registers: a is 4 x uint32, the warp's 16 rows as A of `mma.sync`.\n\n"
        "The registers of A may not be changed before the wait either."
    )
    return intrinsic(function)


wgmma_m64k16_f16 = _shared("f16", 16, True)
wgmma_m64k16_bf16 = _shared("bf16", 16, True)
wgmma_m64k8_tf32 = _shared("tf32", 8, False)
wgmma_m64k32_e4m3 = _shared("e4m3", 32, False)
wgmma_m64k32_e5m2 = _shared("e5m2", 32, False)
wgmma_m64k16_f16_register_a = _register_a("f16", 16, True)
wgmma_m64k16_bf16_register_a = _register_a("bf16", 16, True)
wgmma_m64k8_tf32_register_a = _register_a("tf32", 8, False)
wgmma_m64k32_e4m3_register_a = _register_a("e4m3", 32, False)
