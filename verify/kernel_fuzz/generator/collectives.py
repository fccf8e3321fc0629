"""Statements for which threads wait for each other: barrier phases over shared memory, shuffles, votes and matches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from refkit.verify.kernel_fuzz.tree import (
    INTEGERS,
    Accumulate,
    Array,
    Assign,
    Atomic,
    Block,
    Element,
    Exchange,
    Kind,
    Match,
    Name,
    Number,
    Shuffle,
    Split,
    Statement,
    SyncWarp,
    Vote,
)

from .expressions import condition, expression, mixed
from .scope import Level, Scope, Source

_ORDER_FREE = ("add", "min", "max", "and_", "or_", "xor")
_SHUFFLED = (Kind.INT32, Kind.INT64, Kind.FLOAT32)
_WARP = 32

Blocks = Callable[[Source, Scope, int], Block]


def _shared(source: Source, kind: Kind, slots: int) -> Array:
    """A shared array of that kind and size, new to this program; one may be sized by the launch."""
    dynamic = not any(array.space == "dynamic" for array in source.arrays) and source.chance(4)
    array = Array(source.fresh("shared"), kind, (slots,), "dynamic" if dynamic else "shared")
    source.arrays.append(array)
    return array


def barrier_phase(source: Source, scope: Scope, shape: str, block: Blocks) -> Statement:
    """A phase over a shared array of its own; what waits inside it are at most the threads of a warp."""
    if shape == "accumulate":
        return _accumulate(source, scope, block)
    kind = source.pick((*INTEGERS, Kind.FLOAT32))
    value = expression(source, scope, kind, 2)
    by_warp = source.chance(4)
    slot = "own" if by_warp else source.pick(("own", "reverse", "rotate"))
    array = _shared(source, kind, source.threads)
    inner = scope.deeper(level=Level.WARP, leaving=False)
    if by_warp:
        inner = replace(inner, warp_slots=(*inner.warp_slots, array))
        body = (_read(source, inner, array, True), *block(source, inner, 2))
        return Exchange(array, slot, 0, "warp", value, body)
    shift = source.integer(0, source.threads - 1)
    vote, predicate = None, None
    targets = [name for name in scope.targets if name.kind is Kind.INT32]
    if source.chance(2):
        vote, predicate = source.pick(("count", "and", "or")), condition(source, scope)
    target = source.pick(targets) if vote else None
    # Value and predicate are drawn first: no phase reads its own array while it is written.
    inner = replace(inner, loads=(*inner.loads, array))
    body = (_read(source, inner, array, False), *block(source, inner, 2))
    return Exchange(array, slot, shift, "block", value, body, vote, predicate, target)


def _accumulate(source: Source, scope: Scope, block: Blocks) -> Statement:
    kind, op = source.pick(INTEGERS), source.pick(_ORDER_FREE)
    initial = {"min": 2**31 - 1, "and_": 2**31 - 1}.get(op, 0)
    array = _shared(source, kind, source.pick((1, 2, 4, 7)))
    update = scope.deeper(level=Level.WARP, leaving=False, atomics=(*scope.atomics, (array, op)))
    read = scope.deeper(level=Level.WARP, leaving=False, loads=(*scope.loads, array))
    index = expression(source, update, Kind.INT32, 2)
    first = Atomic(array, op, index, expression(source, update, kind, 2))
    updates = (first, *block(source, update, 1))
    return Accumulate(array, initial, updates, (_read(source, read, array, False), *block(source, read, 1)))


def _read(source: Source, scope: Scope, array: Array, warp_only: bool) -> Statement:
    """A variable that takes in an element of `array`, whatever thread wrote it."""
    target = next(name for name in scope.targets if name.kind is array.kind)
    loaded = Element(array, (expression(source, scope, Kind.INT32, 2),), warp_only)
    return Assign(target, mixed(source, target, loaded))


def warp_operation(source: Source, scope: Scope, shape: str, block: Blocks) -> Statement:
    """A warp operation of all threads that `scope.mask` names."""
    mask = scope.mask
    if scope.level >= Level.WARP and source.threads % _WARP == 0 and source.chance(2):
        mask = "0xFFFFFFFF"
    match shape:
        case "syncwarp":
            return SyncWarp(mask)
        case "vote":
            mode = source.pick(("all", "any", "eq", "ballot"))
            targets = _targets(scope, Kind.INT32 if mode == "ballot" else Kind.BOOLEAN)
            return Vote(source.pick(targets), mode, condition(source, scope), mask)
        case "match":
            value = expression(source, scope, source.pick((Kind.INT32, Kind.INT64)), 2)
            agree = source.pick(_targets(scope, Kind.BOOLEAN)) if source.chance(2) else None
            return Match(source.pick(_targets(scope, Kind.INT32)), agree, value, mask)
        case "shuffle":
            return _shuffle(source, scope, mask)
    return _split(source, scope, block)


def _targets(scope: Scope, kind: Kind) -> list[Name]:
    return [name for name in scope.targets if name.kind is kind]


def _shuffle(source: Source, scope: Scope, mask: str) -> Statement:
    kind = source.pick(_SHUFFLED)
    target = source.pick(_targets(scope, kind))
    value = expression(source, scope, kind, 2)
    if scope.level is Level.GROUP:
        return Shuffle(target, source.pick(("first", "last")), value, Number(0, Kind.INT32), mask)
    # In a warp that is not full, `down` and `xor` could read a lane that does not exist.
    whole = source.threads % _WARP == 0
    mode = source.pick(("idx", "up", "down", "xor") if whole else ("idx", "up"))
    return Shuffle(target, mode, value, expression(source, scope, Kind.INT32, 2), mask)


def _split(source: Source, scope: Scope, block: Blocks) -> Statement:
    mask_true, mask_false = source.fresh("mask"), source.fresh("mask")
    chosen = condition(source, scope)
    sides = [
        block(source, scope.deeper(level=Level.GROUP, mask=mask, uniform=(), leaving=False), 2)
        for mask in (mask_true, mask_false)
    ]
    return Split("everyone", chosen, source.fresh("side"), mask_true, mask_false, *sides)
