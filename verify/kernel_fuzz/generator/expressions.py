"""Random expressions of a wanted kind. Float32 values stay integers that float32 holds exactly."""

from __future__ import annotations

from refkit.verify.kernel_fuzz.tree import (
    FLOAT_LIMIT,
    INTEGERS,
    Arithmetic,
    Call,
    Cast,
    Choice,
    Comparison,
    Division,
    Element,
    Expression,
    Kind,
    Logic,
    Name,
    Not,
    Number,
    Register,
    Scaled,
    Shift,
    Unary,
)

from .scope import Level, Scope, Source

_NUMBERS = {
    Kind.INT32: (0, 1, -1, 2, 3, 5, 7, -6, 31, 100, 255, -256, 65535, 2**31 - 1, -(2**31), 0x55555555),
    Kind.INT64: (0, 1, -1, 2, 3, 5, 7, -9, 63, 1000, 0xFFFF, 2**32 - 1, 2**31, -(2**31) - 1, 2**62, -(2**61) - 7),
    Kind.UINT32: (0, 1, 2, 3, 6, 31, 255, 65535, 2**31, 2**32 - 1, 0xAAAAAAAA),
    Kind.FLOAT32: (0, 1, -1, 2, -3, 5, 16, -100, 255),
}
_COMPARISONS = ("<", "==", "!=", "<=", ">", ">=")
_EXACT = 2**24

_AXES = tuple(f"cuda.{name}.{axis}" for name in ("threadIdx", "blockIdx", "blockDim", "gridDim") for axis in "xyz")
_REGISTERS = (*_AXES, "cuda.laneid", "cuda.warpsize", "int32(cuda.lanemask_lt())")


def expression(source: Source, scope: Scope, kind: Kind, depth: int = 3) -> Expression:
    """An expression of `kind`, at most `depth` operations deep."""
    if kind is Kind.BOOLEAN:
        return condition(source, scope, depth)
    if kind is Kind.FLOAT32:
        return clamped(*_float(source, scope, depth))
    if depth == 0 or not source.spend():
        return _integer_leaf(source, scope, kind)
    shape = source.pick(
        ("leaf", "arithmetic", "arithmetic", "arithmetic", "shift", "division", "unary", "cast", "other")
    )
    match shape:
        case "arithmetic":
            op = source.pick(("+", "-", "*", "&", "|", "^", "min", "max"))
            return Arithmetic(op, *_operands(source, scope, kind, depth - 1), kind)
        case "shift":
            left = expression(source, scope, source.pick((kind, *INTEGERS)), depth - 1)
            right = _operand(source, scope, depth - 2)
            # Bits that a narrower result does not hold are cut off, as everywhere.
            return Shift(source.pick(("<<", ">>")), left, right, kind)
        case "division":
            sign = -1 if source.chance(4) else 1
            left = expression(source, scope, source.pick((kind, *INTEGERS)), depth - 1)
            return Division(source.pick(("//", "%")), left, _operand(source, scope, depth - 2), sign, kind)
        case "unary":
            return _unary(source, scope, kind, depth)
        case "cast":
            return Cast(expression(source, scope, source.pick(INTEGERS), depth - 1), kind)
        case "other":
            return _other(source, scope, kind, depth)
    return _integer_leaf(source, scope, kind)


def condition(source: Source, scope: Scope, depth: int = 2) -> Expression:
    """A boolean expression."""
    flags = scope.among(Kind.BOOLEAN)
    if depth > 0 and source.spend():
        shape = source.pick(("compare", "compare", "compare", "float", "logic", "not", "name"))
        if shape == "logic":
            op = source.pick(("and", "or"))
            return Logic(op, condition(source, scope, depth - 1), condition(source, scope, depth - 1))
        if shape == "not":
            return Not(condition(source, scope, depth - 1))
        if shape == "float":
            left, right = _float(source, scope, depth - 1)[0], _float_of_any_integer(source, scope, depth - 1)
            return Comparison(source.pick(_COMPARISONS), left, right)
        if shape == "name" and flags:
            return source.pick(flags)
    left, right = _operands(source, scope, source.pick(INTEGERS), max(depth - 1, 0))
    return Comparison(source.pick(_COMPARISONS), left, right)


def mixed(source: Source, target: Name, value: Expression) -> Expression:
    """A value of the target's kind that depends on both the target and `value`."""
    if target.kind is Kind.BOOLEAN:
        return Comparison("!=", target, value)
    if target.kind is Kind.FLOAT32:
        return clamped(Arithmetic(source.pick(("+", "-")), target, value, Kind.FLOAT32), 2 * FLOAT_LIMIT)
    if source.chance(2):
        target_times_three = Arithmetic("*", target, Number(3, Kind.INT64, bare=True), target.kind)
        return Arithmetic("+", target_times_three, value, target.kind)
    return Arithmetic(source.pick(("+", "^", "-")), target, value, target.kind)


def uniform_integer(source: Source, scope: Scope, level: Level) -> Expression:
    """An int32 expression on which all threads of a block, or of a warp, agree."""
    leaves: list[Expression] = [Number(source.integer(0, 7), Kind.INT32), Register("cuda.blockIdx.x"), *scope.uniform]
    if not scope.pure:
        leaves += [
            Cast(Element(array, tuple(Number(source.integer(0, 7), Kind.INT32) for _ in array.shape)), Kind.INT32)
            for array in scope.loads
            if array.space == "input" and array.kind is not Kind.FLOAT32
        ]
    if level is Level.WARP:
        leaves += [Name("warp", Kind.INT32)]
    first = source.pick(leaves)
    if source.chance(2):
        return Arithmetic(source.pick(("+", "^", "*")), first, source.pick(leaves), Kind.INT32)
    return first


def uniform_condition(source: Source, scope: Scope, level: Level) -> Expression:
    """A condition on which all threads of a block, or of a warp, agree."""
    left = Arithmetic("&", uniform_integer(source, scope, level), Number(3, Kind.INT32), Kind.INT32)
    return Comparison(source.pick(_COMPARISONS), left, Number(source.integer(0, 3), Kind.INT32))


def element(source: Source, scope: Scope, kind: Kind, depth: int) -> Expression | None:
    """A load of an element of `kind`; None where no array of that kind can be read."""
    arrays = [(array, False) for array in scope.loads if array.kind is kind]
    arrays += [(array, True) for array in scope.warp_slots if array.kind is kind]
    if not arrays:
        return None
    # The arrays that were added last are those of the innermost phase, and there to be read.
    array, warp_only = source.pick(arrays[::-1])
    indices = tuple(expression(source, scope, Kind.INT32, min(depth, 2)) for _ in array.shape)
    return Element(array, indices, warp_only)


def clamped(value: Expression, limit: float) -> Expression:
    """A float32 expression within FLOAT_LIMIT, `limit` being the most that it reaches."""
    if limit <= FLOAT_LIMIT:
        return value
    most, least = Number(FLOAT_LIMIT, Kind.FLOAT32), Number(-FLOAT_LIMIT, Kind.FLOAT32)
    return Arithmetic("max", Arithmetic("min", value, most, Kind.FLOAT32), least, Kind.FLOAT32)


def _operand(source: Source, scope: Scope, depth: int) -> Expression:
    """An integer operand of any kind; a literal without a cast among them."""
    if source.chance(4):
        return Number(source.pick(_NUMBERS[Kind.INT64]), Kind.INT64, bare=True)
    return expression(source, scope, source.pick(INTEGERS), max(depth, 0))


def _operands(source: Source, scope: Scope, kind: Kind, depth: int) -> tuple[Expression, Expression]:
    """Two integer operands, mostly of `kind`."""
    left = expression(source, scope, source.pick((kind, kind, *INTEGERS)), depth)
    if source.chance(2):
        return left, expression(source, scope, kind, depth)
    return left, _operand(source, scope, depth)


def _integer_leaf(source: Source, scope: Scope, kind: Kind) -> Expression:
    names = scope.among(kind)
    match source.pick(("number", "name", "name", "name", "load", "register")):
        case "name" if names:
            return source.pick(names)
        case "load":
            loaded = element(source, scope, kind, 0) if source.spend() else None
            if loaded is not None:
                return loaded
        case "register" if kind is Kind.INT32 and not scope.pure:
            return Cast(Register(source.pick(_REGISTERS)), kind)
    return Number(source.pick(_NUMBERS[kind]), kind)


def _unary(source: Source, scope: Scope, kind: Kind, depth: int) -> Expression:
    op = source.pick(("-", "~", "abs", "popc", "clz", "ffs", "brev"))
    # ~ of a uint32 may be computed in 32 or 64 bits, which a wider result would show.
    same_kind = op in ("-", "~", "brev")
    operand = expression(source, scope, kind if same_kind else source.pick(INTEGERS), depth - 1)
    return Unary(op, operand, kind)


def _other(source: Source, scope: Scope, kind: Kind, depth: int) -> Expression:
    match source.pick(("choice", "load", "float", "boolean", "call")):
        case "choice":
            first, second = (expression(source, scope, kind, depth - 1) for _ in range(2))
            return Choice(condition(source, scope, depth - 1), first, second, source.chance(2), kind)
        case "load":
            return element(source, scope, kind, depth - 1) or _integer_leaf(source, scope, kind)
        case "float":
            value = clamped(*_float(source, scope, depth - 1))
            if source.chance(2):
                return Cast(value, kind)
            return Scaled(value, source.pick((0.5, 0.25)), source.chance(2), kind)
        case "boolean":
            return Cast(condition(source, scope, depth - 1), kind)
        case "call" if functions := [function for function in source.functions if function.kind is kind]:
            return _call(source, scope, functions, depth)
    return _integer_leaf(source, scope, kind)


def _call(source: Source, scope: Scope, functions: list, depth: int) -> Expression:
    function = source.pick(functions)
    arguments = tuple(expression(source, scope, parameter.kind, depth - 1) for parameter in function.parameters)
    return Call(function, arguments)


def _float(source: Source, scope: Scope, depth: int) -> tuple[Expression, float]:
    """A float32 expression and the largest magnitude that it can have, at most 2^24."""
    if depth > 0 and source.spend():
        shape = source.pick(("arithmetic", "arithmetic", "integer", "unary", "choice", "call"))
        if shape == "arithmetic":
            return _float_arithmetic(source, scope, depth)
        if shape == "integer":
            low = Arithmetic("&", expression(source, scope, Kind.INT32, depth - 1), Number(255, Kind.INT32), Kind.INT32)
            return Cast(low, Kind.FLOAT32), 255
        if shape == "unary":
            value, limit = _float(source, scope, depth - 1)
            return Unary(source.pick(("-", "abs")), value, Kind.FLOAT32), limit
        if shape == "choice":
            (first, one), (second, other) = (_float(source, scope, depth - 1) for _ in range(2))
            chosen = Choice(condition(source, scope, 1), first, second, source.chance(2), Kind.FLOAT32)
            return chosen, max(one, other)
        if functions := [function for function in source.functions if function.kind is Kind.FLOAT32]:
            return _call(source, scope, functions, depth), FLOAT_LIMIT
    names = scope.among(Kind.FLOAT32)
    shape = source.pick(("number", "name", "load"))
    if shape == "name" and names:
        return source.pick(names), FLOAT_LIMIT
    if shape == "load" and (loaded := element(source, scope, Kind.FLOAT32, 0)) is not None:
        return loaded, FLOAT_LIMIT
    number = source.pick(_NUMBERS[Kind.FLOAT32])
    return Number(number, Kind.FLOAT32), abs(number)


def _float_arithmetic(source: Source, scope: Scope, depth: int) -> tuple[Expression, float]:
    (left, one), (right, other) = (_float(source, scope, depth - 1) for _ in range(2))
    op = source.pick(("+", "-", "*", "min", "max"))
    limit = {"*": one * other, "min": max(one, other), "max": max(one, other)}.get(op, one + other)
    if limit > _EXACT:
        left, right = clamped(left, one), clamped(right, other)
        limit = FLOAT_LIMIT**2
    return Arithmetic(op, left, right, Kind.FLOAT32), limit


def _float_of_any_integer(source: Source, scope: Scope, depth: int) -> Expression:
    """A float32 expression that may also be any integer, rounded: good for comparisons only."""
    if source.chance(3):
        return Cast(expression(source, scope, source.pick(INTEGERS), max(depth, 0)), Kind.FLOAT32)
    return _float(source, scope, depth)[0]
