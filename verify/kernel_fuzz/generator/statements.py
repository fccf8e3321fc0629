"""Random statements: which of them a place admits depends on the threads that are known to arrive there together."""

from __future__ import annotations

from dataclasses import replace

from refkit.verify.kernel_fuzz import arguments
from refkit.verify.kernel_fuzz.tree import (
    INTEGERS,
    Arithmetic,
    Array,
    Assign,
    Atomic,
    Block,
    Break,
    Continue,
    Expression,
    For,
    If,
    Kind,
    Name,
    Number,
    OwnAtomic,
    Statement,
    Store,
    Ticket,
    While,
)

from . import collectives
from .expressions import condition, expression, mixed, uniform_condition, uniform_integer
from .scope import Level, Scope, Source

_DEEPEST = 3
_PURE = ("assign", "assign", "if", "for", "while", "leave")
_THREAD = (*_PURE, "store", "atomic", "own_atomic", "ticket")
_GROUP = ("vote", "match", "shuffle", "shuffle", "syncwarp")
FOCUS = ("assign", "shuffle", "exchange", "vote", "accumulate", "match", "split", "uniform_for", "shuffle", "exchange")
"""Shapes of a program's first statement, so that most programs have one for which threads wait for each other."""
_ADMITTED = {
    Level.THREAD: _THREAD,
    Level.GROUP: (*_GROUP, *_THREAD),
    Level.WARP: (*_GROUP, "split", "uniform_if", "uniform_for", *_THREAD),
    Level.BLOCK: (*_GROUP, "split", "uniform_if", "uniform_for", "exchange", "exchange", "accumulate", *_THREAD),
}
ORDER_FREE = ("add", "min", "max", "and_", "or_", "xor")


def block(source: Source, scope: Scope, most: int = 3) -> Block:
    """One to `most` statements."""
    return tuple(statement(source, scope) for _ in range(source.integer(1, most)))


def statement(source: Source, scope: Scope, shape: str = "") -> Statement:
    """One statement that `scope` admits, of the shape given or any; an assignment once the budget is spent."""
    if not shape:
        admitted = _PURE if scope.pure else _ADMITTED[scope.level]
        shape = source.pick(admitted) if source.spend() and source.budget > 0 else "assign"
    nests = shape in ("if", "for", "while", "uniform_if", "uniform_for", "split", "exchange", "accumulate")
    if nests and scope.depth >= _DEEPEST:
        shape = "assign"
    if shape in _GROUP or shape == "split":
        return collectives.warp_operation(source, scope, shape, block)
    if shape in ("exchange", "accumulate"):
        return collectives.barrier_phase(source, scope, shape, block)
    if shape.startswith("uniform"):
        return _uniform(source, scope, shape)
    match shape:
        case "if":
            return _if(source, scope.deeper(level=Level.THREAD))
        case "for":
            return _for(source, scope.deeper(level=Level.THREAD, leaving=True))
        case "while":
            return _while(source, scope.deeper(level=Level.THREAD, leaving=True))
        case "leave" if scope.leaving and scope.level is Level.THREAD:
            return _leave(source, scope)
        case "store" if scope.stores:
            return _store(source, scope)
        case "atomic":
            return _atomic(source, scope)
        case "own_atomic":
            return _own_atomic(source, scope)
        case "ticket":
            index = expression(source, scope, Kind.INT32, 1)
            return Ticket(arguments.TICKETS, arguments.TICKET_TOTALS, index, *source.ticket_worth)
    return assign(source, scope)


def assign(source: Source, scope: Scope) -> Statement:
    """An assignment that mostly takes in what the target held: otherwise much would be dead code."""
    target = source.pick(scope.targets)
    value = expression(source, scope, target.kind)
    return Assign(target, value if source.chance(4) else mixed(source, target, value))


def _if(source: Source, inner: Scope) -> Statement:
    chosen = condition(source, inner)
    otherwise = block(source, inner, 2) if source.chance(2) else ()
    return If(chosen, block(source, inner, 2), otherwise)


def _trips(source: Source, count: Expression, kind: Kind) -> tuple[int, Expression, int]:
    """Start, stop and step of a loop of at most eight turns, `count` deciding how many."""
    few = Arithmetic("&", count, Number(7, kind), kind)
    if source.chance(4):
        return 7, Arithmetic("-", few, Number(1, kind), kind), -1 if source.chance(2) else -2
    if source.chance(4):
        return source.integer(-2, 2), few, source.integer(1, 3)
    return 0, few, 1


def _loop_scope(scope: Scope, variable: Name, uniform: bool) -> Scope:
    agreed = (*scope.uniform, variable) if uniform else scope.uniform
    return replace(scope, names=(*scope.names, variable), uniform=agreed)


def _for(source: Source, inner: Scope) -> Statement:
    kind = source.pick((Kind.INT32, Kind.INT32, Kind.INT64))
    variable = Name(source.fresh("i"), kind)
    if source.chance(2):
        start, stop, step = _trips(source, expression(source, inner, kind, 2), kind)
    else:
        start, stop, step = 0, Number(source.integer(1, 6), kind), 1
    return For(variable, start, stop, step, _turn(source, _loop_scope(inner, variable, False)))


def _turn(source: Source, inner: Scope) -> Block:
    """The body of a loop that threads may leave one by one."""
    body = block(source, inner, 2)
    return (_leave(source, inner), *body) if source.chance(3) else body


def _leave(source: Source, scope: Scope) -> Statement:
    return If(condition(source, scope), (Break() if source.chance(2) else Continue(),))


def _while(source: Source, inner: Scope) -> Statement:
    counter = Name(source.fresh("k"), Kind.INT32)
    goes_on = condition(source, inner)
    body = _turn(source, _loop_scope(inner, counter, False))
    return While(counter, source.integer(1, 6), goes_on, body)


def _uniform(source: Source, scope: Scope, shape: str) -> Statement:
    """A branch or loop that the threads of the level take together, so that they may wait for each other inside."""
    inner = scope.deeper(leaving=False)
    if shape == "uniform_if":
        otherwise = block(source, inner, 2) if source.chance(2) else ()
        return If(uniform_condition(source, scope, scope.level), block(source, inner, 2), otherwise)
    variable = Name(source.fresh("u"), Kind.INT32)
    if source.chance(2):
        start, stop, step = _trips(source, uniform_integer(source, scope, scope.level), Kind.INT32)
    else:
        start, stop, step = 0, Number(source.integer(1, 4), Kind.INT32), 1
    return For(variable, start, stop, step, block(source, _loop_scope(inner, variable, True), 2))


def _indices(source: Source, scope: Scope, array: Array) -> tuple[Expression, ...]:
    return tuple(expression(source, scope, Kind.INT32, 1) for _ in array.shape)


def _store(source: Source, scope: Scope) -> Statement:
    array = source.pick(scope.stores)
    # A value of another integer kind is converted by the store itself.
    kind = array.kind if array.kind is Kind.FLOAT32 else source.pick((array.kind, *INTEGERS))
    return Store(array, _indices(source, scope, array), expression(source, scope, kind, 2))


def _atomic(source: Source, scope: Scope) -> Statement:
    choices = [(array, source.sums[array.name]) for array in arguments.SUMS]
    array, op = source.pick([*scope.atomics, *choices])
    return Atomic(array, op, expression(source, scope, Kind.INT32, 1), expression(source, scope, array.kind, 2))


def _own_atomic(source: Source, scope: Scope) -> Statement:
    array = source.pick(arguments.OWN)
    # Only unsigned elements can be counted round a limit, so those are drawn often where they can.
    ops = [*(("inc", "dec", "inc", "dec") if array.kind is Kind.UINT32 else ()), *ORDER_FREE, "sub", "exch", "cas"]
    op = source.pick(ops)
    targets = [name for name in scope.targets if name.kind is array.kind]
    if not targets:
        return assign(source, scope)
    value = expression(source, scope, array.kind, 2)
    comparand = expression(source, scope, array.kind, 1) if op == "cas" else None
    return OwnAtomic(source.pick(targets), array, op, value, comparand)
