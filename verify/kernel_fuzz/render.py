"""A program of the syntax tree as Python source: `kernel`, a `@cuda.jit` function, and its device functions."""

from __future__ import annotations

from .arguments import OUTPUT, PARAMETERS
from .tree import (
    Accumulate,
    Arithmetic,
    Array,
    Assign,
    Atomic,
    Block,
    Break,
    Call,
    Cast,
    Choice,
    Comparison,
    Continue,
    Division,
    Element,
    Exchange,
    Expression,
    For,
    Function,
    If,
    Kind,
    Logic,
    Match,
    Name,
    Not,
    Number,
    OwnAtomic,
    Program,
    Register,
    Return,
    Scaled,
    Shift,
    Shuffle,
    Split,
    Statement,
    Store,
    SyncWarp,
    Ticket,
    Unary,
    Vote,
    While,
)

_HEADER = """import math

from numba import cuda, boolean, float32, int32, int64, uint32, uint64
"""

_AXES = "xyz"


def render(program: Program) -> str:
    """The source of `program`."""
    parts = [_HEADER]
    parts += [_function(function) for function in program.functions]
    parts.append(_kernel(program))
    return "\n\n".join(parts)


def _function(function: Function) -> str:
    lines = [f"{_bind(name)} = {expression(value)}" for name, value in function.variables]
    lines += block(function.body)
    parameters = ", ".join(parameter.name for parameter in function.parameters)
    return f"@cuda.jit(device=True)\ndef {function.name}({parameters}):\n{_indented(lines)}\n"


def _kernel(program: Program) -> str:
    lines = _prologue(program)
    lines += [line for array in program.arrays for line in _declaration(array)]
    lines += [f"{_bind(name)} = {expression(value)}" for name, value in program.variables]
    lines += block(program.body)
    for position, value in enumerate(program.outputs):
        if program.leave is not None and position == program.kept:
            lines += [f"if {expression(program.leave)}:", "    return"]
        lines.append(f"{OUTPUT}[gid, {position}] = int64({expression(value)})")
    parameters = ", ".join([*(array.name for array in PARAMETERS), OUTPUT])
    return f"@cuda.jit\ndef kernel({parameters}):\n{_indented(lines)}\n"


def _prologue(program: Program) -> list[str]:
    """The names that every kernel defines, computed from the special registers alone."""
    thread = "cuda.threadIdx.x"
    block_index = "cuda.blockIdx.x"
    if len(program.block) > 1 or len(program.grid) > 1:
        thread = "cuda.threadIdx.x + cuda.blockDim.x * (cuda.threadIdx.y + cuda.blockDim.y * cuda.threadIdx.z)"
        block_index = "cuda.blockIdx.x + cuda.gridDim.x * (cuda.blockIdx.y + cuda.gridDim.y * cuda.blockIdx.z)"
    return [
        f"tid = int32({thread})",
        f"bid = int32({block_index})",
        f"gid = int32(bid * {program.threads} + tid)",
        "lane = int32(tid & 31)",
        "warp = int32(tid >> 5)",
        f"lanes = int32(min(32, {program.threads} - warp * 32))",
        "everyone = int64((int64(1) << lanes) - 1)",
    ]


def _declaration(array: Array) -> list[str]:
    space = "local" if array.space == "local" else "shared"
    shape = 0 if array.space == "dynamic" else array.shape if len(array.shape) > 1 else array.shape[0]
    lines = [f"{array.name} = cuda.{space}.array({shape}, {array.kind.value})"]
    if array.space == "local":
        targets = [f"{array.name}_{axis}" for axis in _AXES[: len(array.shape)]]
        for depth, (target, extent) in enumerate(zip(targets, array.shape)):
            lines.append("    " * depth + f"for {target} in range({extent}):")
        lines.append("    " * len(targets) + f"{array.name}[{', '.join(targets)}] = {' + '.join(targets)}")
    return lines


def _bind(name: Name) -> str:
    return name.name


def _indented(lines: list[str]) -> str:
    return "\n".join("    " + line for line in lines)


def block(statements: Block) -> list[str]:
    """The lines of a block; `pass` for an empty one."""
    lines = [line for statement in statements for line in _statement(statement)]
    return lines or ["pass"]


def _nested(head: str, body: Block) -> list[str]:
    return [head, *("    " + line for line in block(body))]


def expression(node: Expression) -> str:
    """The text of an expression; brackets wherever it is not a single call or name."""
    match node:
        case Name(name, _) | Register(name, _):
            return name
        case Number(value, kind, bare):
            return f"({value})" if bare else f"{kind.value}({value})"
        case Arithmetic("min" | "max" as op, left, right, kind):
            return f"{kind.value}({op}({expression(left)}, {expression(right)}))"
        case Arithmetic(op, left, right, kind):
            first, second = expression(left), expression(right)
            if kind is not Kind.FLOAT32 and op in "+-*" and _may_overflow(op, left, right):
                first, second = f"uint64({first})", f"uint64({second})"
            return f"{kind.value}({first} {op} {second})"
        case Division(op, left, right, sign, kind):
            divisor = f"{'-' if sign < 0 else ''}(({expression(right)} & 63) + 2)"
            return f"{kind.value}({expression(left)} {op} {divisor})"
        case Shift(op, left, right, kind):
            return f"{kind.value}({expression(left)} {op} ({expression(right)} & {left.kind.bits - 1}))"
        case Unary():
            return _unary(node)
        case Cast(operand, kind):
            inner = expression(operand)
            if operand.kind is Kind.FLOAT32 and kind is Kind.UINT32:
                inner = f"int64({inner})"
            return f"{kind.value}({inner})"
        case Scaled(operand, factor, floor, kind):
            product = f"{expression(operand)} * float32({factor})"
            return f"{kind.value}(int64({f'math.floor({product})' if floor else product}))"
        case Comparison(op, left, right) | Logic(op, left, right):
            return f"({expression(left)} {op} {expression(right)})"
        case Not(operand):
            return f"(not {expression(operand)})"
        case Choice(condition, first, second, selp, _):
            if selp:
                return f"cuda.selp({expression(condition)}, {expression(first)}, {expression(second)})"
            return f"({expression(first)} if {expression(condition)} else {expression(second)})"
        case Element(array, indices, warp_only):
            if warp_only:
                return f"{array.name}[(tid - lane) + ({expression(indices[0])} % lanes)]"
            return f"{array.name}[{_place(array, indices)}]"
        case Call(function, arguments):
            return f"{function.name}({', '.join(map(expression, arguments))})"
    raise TypeError(f"{type(node).__name__} is no expression")


def _may_overflow(op: str, left: Expression, right: Expression) -> bool:
    """Whether int64 may not hold the result: Numba tells LLVM that signed + - * never overflow, unsigned ones wrap."""
    one, other = _magnitude(left), _magnitude(right)
    return (one * other if op == "*" else one + other) >= 2**63


def _magnitude(node: Expression) -> int:
    """The largest magnitude of an integer expression, by its kind."""
    if isinstance(node, Number):
        return abs(node.value)
    return 2**32 if node.kind is Kind.UINT32 else 2 ** (node.kind.bits - 1)


def _unary(node: Unary) -> str:
    operand, kind = expression(node.operand), node.kind.value
    if node.op in "-~":
        return f"{kind}({node.op}{operand})"
    if node.op == "abs":
        return f"{kind}(abs({operand if node.operand.kind is Kind.FLOAT32 else f'int64(int32({operand}))'}))"
    if node.op == "brev":
        operand = f"uint{node.operand.kind.bits}({operand})"
    return f"{kind}(cuda.{node.op}({operand}))"


def _place(array: Array, indices: tuple[Expression, ...]) -> str:
    """The index of an element, each part confined to its axis."""
    if array.space == "own":
        return "gid"
    texts = [_confined(expression(index), extent) for index, extent in zip(indices, array.shape)]
    return ", ".join(["gid", *texts] if array.space == "rows" else texts)


def _confined(text: str, extent: int) -> str:
    return f"{text} & {extent - 1}" if extent & (extent - 1) == 0 else f"{text} % {extent}"


def _statement(node: Statement) -> list[str]:
    match node:
        case Assign(target, value):
            return [f"{target.name} = {expression(value)}"]
        case Store(array, indices, value):
            return [f"{array.name}[{_place(array, indices)}] = {expression(value)}"]
        case If(condition, then, otherwise):
            lines = _nested(f"if {expression(condition)}:", then)
            return lines + _nested("else:", otherwise) if otherwise else lines
        case For(variable, start, stop, step, body):
            kind = variable.kind.value
            bounds = f"{kind}({start}), {expression(stop)}, {kind}({step})"
            return _nested(f"for {variable.name} in range({bounds}):", body)
        case While(counter, limit, condition, body):
            head = f"while {counter.name} < {limit} and {expression(condition)}:"
            advance = Assign(counter, Arithmetic("+", counter, Number(1, Kind.INT64, bare=True), Kind.INT32))
            return [f"{counter.name} = int32(0)", *_nested(head, (advance, *body))]
        case Break():
            return ["break"]
        case Continue():
            return ["continue"]
        case Return(value):
            return ["return" if value is None else f"return {expression(value)}"]
        case Exchange():
            return _exchange(node)
        case Accumulate(array, initial, update, read):
            per_block = "int32(cuda.blockDim.x * cuda.blockDim.y * cuda.blockDim.z)"
            fill = f"for {array.name}_i in range(tid, {array.shape[0]}, {per_block}):"
            sync = "cuda.syncthreads()"
            lines = [fill, f"    {array.name}[{array.name}_i] = {initial}", sync, *block(update), sync]
            return [*lines, *block(read), sync]
        case Atomic() | OwnAtomic() | Ticket():
            return _atomic(node)
        case Shuffle() | Vote() | Match() | SyncWarp():
            return _warp_operation(node)
        case Split(mask, condition, flag, mask_true, mask_false, then, otherwise):
            return [
                f"{flag} = {expression(condition)}",
                f"{mask_true} = cuda.ballot_sync({mask}, {flag})",
                f"{mask_false} = int32({mask} ^ {mask_true})",
                *_nested(f"if {flag}:", then),
                *_nested("else:", otherwise),
            ]
    raise TypeError(f"{type(node).__name__} is no statement")


def _exchange(node: Exchange) -> list[str]:
    slot = {
        "own": "tid",
        "reverse": f"{node.array.shape[0]} - 1 - tid",
        "rotate": f"(tid + {node.shift}) % {node.array.shape[0]}",
    }[node.slot]
    write = f"{node.array.name}[{slot}] = {expression(node.value)}"
    if node.scope == "warp":
        return [write, "cuda.syncwarp(everyone)", *block(node.body), "cuda.syncwarp(everyone)"]
    sync = "cuda.syncthreads()"
    if node.vote is not None and node.predicate is not None and node.target is not None:
        sync = f"{node.target.name} = int32(cuda.syncthreads_{node.vote}(int32({expression(node.predicate)})))"
    return [write, sync, *block(node.body), "cuda.syncthreads()"]


def _atomic(node: Atomic | OwnAtomic | Ticket) -> list[str]:
    match node:
        case Atomic(array, op, index, value):
            place = _confined(expression(index), array.shape[0])
            return [f"cuda.atomic.{op}({array.name}, {place}, {expression(value)})"]
        case OwnAtomic(target, array, op, value, comparand):
            operands = [] if comparand is None else [expression(comparand)]
            operands.append(expression(value))
            kind = target.kind.value
            return [f"{target.name} = {kind}(cuda.atomic.{op}({array.name}, gid, {', '.join(operands)}))"]
        case Ticket(counter, total, index, multiplier, addend):
            place = _confined(expression(index), counter.shape[0])
            return [
                f"ticket = int64(cuda.atomic.add({counter.name}, {place}, int32(1)))",
                f"cuda.atomic.add({total.name}, {place}, (ticket + {addend}) * (ticket * {multiplier} + 1))",
            ]


def _warp_operation(node: Shuffle | Vote | Match | SyncWarp) -> list[str]:
    match node:
        case Shuffle(target, mode, value, lane, mask):
            if mode in ("first", "last"):
                source = f"cuda.ffs(int32({mask})) - 1" if mode == "first" else f"31 - cuda.clz(int32({mask}))"
                return [f"{target.name} = cuda.shfl_sync({mask}, {expression(value)}, {source})"]
            name = "shfl_sync" if mode == "idx" else f"shfl_{mode}_sync"
            source = f"{expression(lane)} % lanes" if mode == "idx" else expression(lane)
            return [f"{target.name} = cuda.{name}({mask}, {expression(value)}, {source})"]
        case Vote(target, mode, predicate, mask):
            name = "ballot_sync" if mode == "ballot" else f"{mode}_sync"
            return [f"{target.name} = cuda.{name}({mask}, {expression(predicate)})"]
        case Match(target, None, value, mask):
            return [f"{target.name} = cuda.match_any_sync({mask}, {expression(value)})"]
        case Match(target, agree, value, mask) if agree is not None:
            return [f"{target.name}, {agree.name} = cuda.match_all_sync({mask}, {expression(value)})"]
        case SyncWarp(mask):
            return [f"cuda.syncwarp({mask})"]
    raise TypeError(f"{type(node).__name__} is no warp operation")
