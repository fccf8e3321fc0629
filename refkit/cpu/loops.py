"""How the loops of a kernel end, found in its IR text: after so many turns, at a bound, or perhaps never."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from .control_flow import Function, Loop

_BRANCH = re.compile(r'\s+br i1 %("[^"]*"|[-\w$.]+), label %("[^"]*"|[-\w$.]+), label %("[^"]*"|[-\w$.]+)')
_COMPARE = re.compile(r"icmp (?:samesign )?(\w+) \w+ ([^,]+), ([^,]+)")
_BOTH = re.compile(r"(?:and i1 ([^,]+), ([^,]+)|select i1 ([^,]+), i1 ([^,]+), i1 false)$")
_EITHER = re.compile(r"(?:or i1 ([^,]+), ([^,]+)|select i1 ([^,]+), i1 true, i1 ([^,]+))$")
_INCOMING = re.compile(r'\[ ([^,]+), %("[^"]*"|[-\w$.]+) \]')
_SUM = re.compile(r"(add|sub)(?: nuw| nsw)* i\d+ ([^,]+), ([^,]+)")
_CONVERSION = re.compile(r"(?:trunc|zext|sext|freeze)\b[^%]*%(\"[^\"]*\"|[-\w$.]+)")
_POSITIVE = re.compile(r"call i32 @\"?nvvm\.read\.ptx\.sreg\.(?:ntid|nctaid)\.")
_INVERSE = {
    "slt": "sge",
    "sge": "slt",
    "sgt": "sle",
    "sle": "sgt",
    "ult": "uge",
    "uge": "ult",
    "ugt": "ule",
    "ule": "ugt",
    "eq": "ne",
    "ne": "eq",
}
_SWAPPED = {
    "slt": "sgt",
    "sgt": "slt",
    "sle": "sge",
    "sge": "sle",
    "ult": "ugt",
    "ugt": "ult",
    "ule": "uge",
    "uge": "ule",
}
_UPWARDS, _DOWNWARDS = frozenset({"slt", "sle", "ult", "ule"}), frozenset({"sgt", "sge", "ugt", "uge"})


@dataclass(frozen=True)
class Ending:
    """A loop that ends by itself: after at most `turns`, or, where that is None, at a bound known when it begins."""

    turns: int | None


@dataclass(frozen=True)
class _Counter:
    """A phi that steps by the same amount on every turn; `step` is None for a positive amount known when it begins."""

    start: int | None
    step: int | None
    offset: int  # of the compared value from the phi


def ending(function: Function, loop: Loop) -> Ending | None:
    """How a loop ends by itself, or None for one that may not.

    It does where every turn compares a counter with a bound that stays, and the counter steps towards that bound.
    """
    defined = function.definitions(loop.body)
    found: Ending | None = None
    for label in loop.body:
        branch = next((match for line in function.blocks[label] if (match := _BRANCH.match(line))), None)
        if branch is None:
            continue
        inside = [target in loop.body for target in branch.groups()[1:]]
        if all(inside) or not any(inside) or not function.every_turn(loop, {label}):
            continue
        for predicate, left, right in _continuing(branch.group(1), inside[0], defined):
            for operand, bound, relation in (
                (left, right, predicate),
                (right, left, _SWAPPED.get(predicate, predicate)),
            ):
                counter = _counter(function, loop, operand, defined)
                if counter is None or bound[1:] in defined:
                    continue
                end = _end(counter, relation, int(bound) if re.fullmatch(r"-?\d+", bound) else None)
                if end is not None and (found is None or (found.turns or 1 << 63) > (end.turns or 1 << 63)):
                    found = end
    return found


def _continuing(name: str, when: bool, defined: dict[str, str]) -> Iterator[tuple[str, str, str]]:
    """The comparisons that all must hold for a loop to go on, where it does so when the named value is `when`."""
    right = defined.get(name, "").split(", !")[0]
    if match := _COMPARE.match(right):
        predicate, first, second = match.groups()
        yield (predicate if when else _INVERSE[predicate]), first.strip(), second.strip()
    elif match := (_BOTH if when else _EITHER).match(right):
        for operand in match.groups():
            if operand is not None:
                yield from _continuing(operand.strip()[1:], when, defined)


def _counter(function: Function, loop: Loop, operand: str, defined: dict[str, str]) -> _Counter | None:
    """The counter behind a compared operand: a phi of the header, an offset from it, or a conversion of either."""
    offset = 0
    for _ in range(4):
        right = defined.get(operand[1:], "") if operand.startswith("%") else ""
        if right.startswith("phi "):
            return _stepping(function, loop, operand[1:], right, offset, defined)
        if match := _SUM.match(right):
            kind, first, second = match.groups()
            if not re.fullmatch(r"-?\d+", second.strip()):
                return _either(function, loop, first.strip(), second.strip(), defined)
            offset += int(second) if kind == "add" else -int(second)
            operand = first.strip()
        elif match := _CONVERSION.match(right):
            operand = "%" + match.group(1)
        else:
            return None
    return None


def _either(function: Function, loop: Loop, first: str, second: str, defined: dict[str, str]) -> _Counter | None:
    """The counter that is one operand of a sum whose other one stays; the offset, and so the turns, are not known."""
    for operand, other in ((first, second), (second, first)):
        stays = other[1:] not in defined or _is_positive(function, other)
        if stays and (counter := _counter(function, loop, operand, defined)):
            return _Counter(None, counter.step, 0)
    return None


def _stepping(
    function: Function, loop: Loop, phi: str, right: str, offset: int, defined: dict[str, str]
) -> _Counter | None:
    if not any(line.startswith(f"  %{phi} = ") for line in function.blocks[loop.header]):
        return None
    starts: set[int | None] = set()
    steps: set[int | None] = set()
    for value, block in _INCOMING.findall(right):
        if block not in loop.body:
            starts.add(int(value) if re.fullmatch(r"-?\d+", value) else None)
            continue
        match = _SUM.match(defined.get(value[1:], ""))
        operands = [operand.strip() for operand in match.groups()[1:]] if match else []
        if not match or f"%{phi}" not in operands:
            return None
        other = operands[1 - operands.index(f"%{phi}")]
        if re.fullmatch(r"-?\d+", other):
            steps.add(int(other) if match.group(1) == "add" else -int(other))
        elif match.group(1) == "add" and _is_positive(function, other):
            steps.add(None)
        else:
            return None
    if len(steps) != 1:
        return None
    return _Counter(starts.pop() if len(starts) == 1 else None, steps.pop(), offset)


def _is_positive(function: Function, operand: str, depth: int = 0) -> bool:
    """Whether a value is a product of block or grid sizes and positive constants: the step of a grid-stride loop."""
    if re.fullmatch(r"\d+", operand):
        return int(operand) > 0
    right = function.definitions(function.order).get(operand[1:], "")
    if _POSITIVE.search(right):
        return True
    if depth > 6 or not re.match(r"(?:mul|shl|add|zext|sext)\b", right):
        return False
    operands = [part.split()[-1] for part in re.sub(r" to i\d+.*", "", right).split(", !")[0].split(", ")]
    return all(_is_positive(function, part, depth + 1) for part in operands)


def _end(counter: _Counter, relation: str, bound: int | None) -> Ending | None:
    """How a loop ends that goes on while `counter relation bound`."""
    step = counter.step
    distance = None if counter.start is None or bound is None else bound - counter.start - counter.offset
    if relation == "ne" and distance is not None and step:
        return Ending(distance // step + 1) if distance % step == 0 and distance // step >= 0 else None
    towards = _UPWARDS if step is None or step > 0 else _DOWNWARDS
    if step == 0 or relation not in towards:
        return None
    if distance is None or step is None:
        return Ending(None)
    return Ending(max(0, distance // step) + 2)
