"""How an intrinsic becomes one PTX instruction: checks of operands and architecture, inline assembly, tuple results."""

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba.cuda import cgutils, types
from numba.cuda.core import config, targetconfig
from numba.cuda.core.errors import LoweringError, TypingError

I16, I32, I64 = (ir.IntType(bits) for bits in (16, 32, 64))
F32, F64 = ir.FloatType(), ir.DoubleType()
VOID = ir.VoidType()

LETTERS = {I16: "h", I32: "r", I64: "l", F32: "f", F64: "d"}
NUMBA_TYPES = {I16: types.uint16, I32: types.uint32, I64: types.uint64, F32: types.float32, F64: types.float64}


class UnsupportedArchitecture(LoweringError):
    """An instruction that the compute capability being compiled for does not have."""


def _require(capability: tuple[int, int], instruction: str) -> None:
    """Raises `UnsupportedArchitecture` where the code being compiled is for less than `capability`.

    It is called while code is generated: Numba remembers what it has typed, for whatever architecture.
    """
    target = tuple(targetconfig.ConfigStack().top().compute_capability)[:2]
    if target < capability:
        raise UnsupportedArchitecture(
            f"{instruction} needs compute capability {capability[0]}.{capability[1]} or higher; "
            f"this kernel is compiled for {target[0]}.{target[1]}"
        )


def require_sm_90a(instruction: str) -> None:
    """Raises `UnsupportedArchitecture` where the code being compiled is not for `sm_90a`.

    numba-cuda compiles for the architecture-specific target of compute capability 9.0 unless another is forced.
    """
    forced = config.FORCE_CUDA_CC
    target = tuple(forced or (*tuple(targetconfig.ConfigStack().top().compute_capability)[:2], "a"))
    if target != (9, 0, "a"):
        shown = f"{target[0]}.{target[1]}{''.join(map(str, target[2:])) if forced else ''}"
        raise UnsupportedArchitecture(
            f"{instruction} needs the target sm_90a (compute capability 9.0; `refkit.cuda_kernels.ptx.target_sm_90a()` "
            f"chooses it where another is forced); this kernel is compiled for {shown}"
        )


def literal(value: Any, name: str, allowed: Sequence[int] | range) -> int:
    """The value of an argument that is part of the instruction's text.

    Raises TypingError where it is not known at compile time or not allowed.
    """
    if not isinstance(value, types.IntegerLiteral):
        raise TypingError(f"{name} must be a constant, got {value}")
    if value.literal_value not in allowed:
        raise TypingError(f"{name} must be one of {list(allowed)}, got {value.literal_value}")
    return int(value.literal_value)


def registers(value: Any, name: str, count: int, kind: ir.Type) -> Any:
    """The Numba type of an operand of `count` registers: a tuple, or a scalar where `count` is 1.

    Raises TypingError where the argument is something else: another length, or floats where bits are wanted.
    """
    wanted = NUMBA_TYPES[kind]
    scalar = types.Float if kind in (F32, F64) else types.Integer
    elements = (value,) if count == 1 and not isinstance(value, types.BaseTuple) else getattr(value, "types", ())
    if len(elements) != count or not all(isinstance(element, (scalar, types.Literal)) for element in elements):
        raise TypingError(f"{name} must be {count} x {wanted}, got {value}")
    return wanted if count == 1 and not isinstance(value, types.BaseTuple) else types.UniTuple(wanted, count)


def assembly(
    text: str,
    results: Sequence[ir.Type],
    *,
    capability: tuple[int, int] = (0, 0),
    memory: bool = False,
    effects: bool = False,
) -> Callable[[Any, ir.IRBuilder, Any, Sequence[ir.Value]], ir.Value]:
    """A code generator for one instruction; it gives a tuple where there are several results, or a dummy for none.

    text: PTX with `$0`, `$1`, ...: results first, then the arguments; tuples count element by element.
    capability: the least compute capability that has the instruction; below it, generation raises
        `UnsupportedArchitecture`, with the line of the kernel.
    memory: it reads or writes memory, so that no access may be moved across it.
    effects: it may be neither repeated, moved nor left out, since other lanes take part.
    """

    def generate(context: Any, builder: ir.IRBuilder, signature: Any, arguments: Sequence[ir.Value]) -> ir.Value:
        _require(capability, text.split(" ")[0].rstrip(";"))
        values = [value for argument in arguments for value in _elements(builder, argument)]
        result = VOID if not results else results[0] if len(results) == 1 else ir.LiteralStructType(list(results))
        letters = [f"={LETTERS[kind]}" for kind in results] + [LETTERS[value.type] for value in values]
        constraints = ",".join(letters + ["~{memory}"] * memory)
        kind = ir.FunctionType(result, [value.type for value in values])
        call = builder.call(ir.InlineAsm(kind, text, constraints, side_effect=memory or effects), values)
        if not results:
            return context.get_dummy_value()
        if len(results) == 1:
            return call
        parts = [builder.extract_value(call, i) for i in range(len(results))]
        return context.make_tuple(builder, signature.return_type, parts)

    return generate


def _elements(builder: ir.IRBuilder, value: ir.Value) -> list[ir.Value]:
    if isinstance(value.type, (ir.ArrayType, ir.LiteralStructType)):
        return list(cgutils.unpack_tuple(builder, value))
    return [value]


def result_type(results: Sequence[ir.Type]) -> Any:
    """The Numba type of an instruction's results."""
    if not results:
        return types.void
    kind = NUMBA_TYPES[results[0]]
    return kind if len(results) == 1 else types.UniTuple(kind, len(results))


def braces(first: int, count: int) -> str:
    """`count` operands from `$first` on, as PTX writes a vector."""
    return "{" + ", ".join(f"${first + i}" for i in range(count)) + "}"
