"""Whole programs: launch shape, device functions, local arrays, variables, a body and what each thread writes."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from refkit.verify.kernel_fuzz import arguments
from refkit.verify.kernel_fuzz.tree import (
    INTEGERS,
    Array,
    Cast,
    Function,
    If,
    Kind,
    Name,
    Program,
    Return,
)

from .expressions import condition, expression, mixed
from .scope import Level, Scope, Source
from .statements import FOCUS, ORDER_FREE, block, statement

_BLOCKS = ((32,), (64,), (1,), (40,), (96,), (7,), (8, 4), (16, 2, 2), (5, 3), (4, 4, 4), (3, 5, 2), (33,), (2, 32))
_GRIDS = ((1,), (2,), (3,), (2, 2), (1, 2, 2), (3, 1, 2))
_KINDS = (Kind.INT32, Kind.INT64, Kind.UINT32, Kind.FLOAT32, Kind.BOOLEAN)
_DEFINED = tuple(Name(name, Kind.INT32) for name in ("tid", "bid", "gid", "lane", "warp"))
_LOCALS = ((4,), (8,), (5,), (2, 4), (3, 2))

NODES = 60
"""How many nodes a kernel's body may have, about, and half as many what stands before it: compiling takes time."""


@st.composite
def programs(draw: Any, nodes: int = NODES) -> Program:
    """Programs for `render` and `interpret`; they shrink towards one thread and few short statements."""
    source = Source(draw, nodes // 2)
    grid, shape = source.pick(_GRIDS), source.pick(_BLOCKS)
    source.threads = 1
    for extent in shape:
        source.threads *= extent
    source.sums = {array.name: source.pick(ORDER_FREE) for array in arguments.SUMS}
    source.ticket_worth = source.integer(1, 9), source.integer(0, 9)
    for position in range(source.integer(0, 2)):
        source.functions.append(_function(source, position))
    locals_ = tuple(_local(source, position) for position in range(source.integer(0, 2)))
    source.arrays.extend(locals_)
    owned = (*arguments.ROWS, *locals_)
    outside = Scope(_DEFINED, (), arguments.INPUTS)
    variables = []
    for position, kind in enumerate((*_KINDS, source.pick(INTEGERS))):
        variables.append((Name(f"v{position}", kind), expression(source, outside, kind, 1)))
    names = tuple(name for name, _ in variables)
    scope = Scope(
        names=(*_DEFINED, *names),
        targets=names,
        loads=(*arguments.INPUTS, *owned),
        stores=owned,
        level=Level.BLOCK,
        mask="everyone",
    )
    source.budget = nodes
    body = (statement(source, scope, source.pick(FOCUS)), *block(source, scope, 4))
    after = Scope(scope.names, names, scope.loads)
    leave = condition(source, after) if source.chance(5) else None
    return Program(
        grid=grid,
        block=shape,
        seed=source.integer(0, 2**16 - 1),
        functions=tuple(source.functions),
        arrays=tuple(source.arrays),
        variables=tuple(variables),
        body=body,
        outputs=names,
        leave=leave,
        kept=source.integer(0, len(names) - 1) if leave is not None else 0,
    )


def _local(source: Source, position: int) -> Array:
    return Array(f"local{position}", source.pick((*INTEGERS, Kind.FLOAT32)), source.pick(_LOCALS), "local")


def _function(source: Source, position: int) -> Function:
    """A pure device function, which may call those before it and return early."""
    parameters = tuple(
        Name(f"p{index}", source.pick((*INTEGERS, Kind.FLOAT32))) for index in range(source.integer(1, 3))
    )
    kind = source.pick((*INTEGERS, Kind.FLOAT32))
    outside = Scope(parameters, (), (), pure=True)
    local = Name("r", kind)
    variables = ((local, expression(source, outside, kind, 2)),)
    inside = Scope((*parameters, local), (local,), (), pure=True)
    body = block(source, inside, 2)
    if source.chance(3):
        early = Return(Cast(expression(source, inside, kind, 1), kind))
        body = (If(condition(source, inside), (early,)), *body)
    result = mixed(source, local, expression(source, inside, kind, 2))
    return Function(f"f{position}", parameters, variables, (*body, Return(result)), kind)
