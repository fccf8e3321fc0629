"""Puts a poll into every loop of a kernel that may not end, or not soon, so that the host can always stop it.

A loop that waits for another thread lets that thread run at each turn. A loop that passes a barrier or a warp operation
on each turn needs no poll: there the scheduler has control anyway. Short loops, and innermost loops that count towards
a bound, have none: a poll would keep LLVM from vectorising them.
"""

import re
from dataclasses import dataclass

from .control_flow import LABEL, Function, Loop, names, parts
from .debug_lines import Lines
from .loops import ending

_WAITING = re.compile(
    r"@\"?(?:nvvm\.(?:barrier0|bar\.warp|shfl|vote|match)|cudaCGSynchronize|rk\.activemask|rk\.ptx\.mbarrier\.(?:try|test)_wait)"
)
_SHARED_STATE = re.compile(
    r"\b(?:atomicrmw|cmpxchg|load atomic|load volatile|fence)\b|nanosleep|@\"?___numba_atomic"
    r"|@\"?(?:nvvm\.(?:membar|atomic)|rk\.atomic|rk\.ptx\.(?:atom|red|fence|membar|ld\.(?:acquire|relaxed|volatile)))"
)
_CHANGES_STATE = re.compile(
    r"^\s+(?:store|atomicrmw|cmpxchg)\b|\bcall\b(?![^@\n]*@\"?(?:llvm\.|nvvm\.(?:read|membar)))", re.MULTILINE
)
_SHORT = 1 << 16  # turns


@dataclass(frozen=True)
class _Facts:
    """What is known about the functions of a module, by name."""

    shared_state: frozenset[str]  # functions that use atomics or fences, or call one that does
    looping: frozenset[str]  # functions that hold a loop, or call one that does


def insert_polls(text: str, sites: list[tuple[str, int]], default_file: str) -> tuple[str, bool]:
    """The text with a poll in every loop that may not end, and whether a loop waits for other threads.

    The place of each poll is appended to `sites`.
    """
    lines = Lines(text, default_file)
    facts = _facts(text)
    out: list[str] = []
    spins = False
    for define, body in parts(text):
        # the atomic loops of numba-cuda's own helpers end as soon as one thread succeeds
        if not define or "@___numba_atomic" in define or "@rk." in define:
            out.extend([define, *body] if define else body)
            continue
        polled, spun = _polled(body, lines, sites, facts)
        spins = spins or spun
        out.extend([define, *polled])
    return "\n".join(out), spins


def _facts(text: str) -> _Facts:
    calls: dict[str, set[str]] = {}
    shared, looping = set(), set()
    for define, body in parts(text):
        if not define:
            continue
        name, joined = names(define)[0], "\n".join(body)
        calls[name] = set(names(joined))
        if _SHARED_STATE.search(joined):
            shared.add(name)
        if Function(body).loops():
            looping.add(name)
    return _Facts(_with_callers(shared, calls), _with_callers(looping, calls))


def _with_callers(chosen: set[str], calls: dict[str, set[str]]) -> frozenset[str]:
    found = set(chosen)
    while more := {name for name, called in calls.items() if name not in found and called & found}:
        found |= more
    return frozenset(found)


def _polled(text_lines: list[str], lines: Lines, sites: list[tuple[str, int]], facts: _Facts) -> tuple[list[str], bool]:
    function = Function(text_lines)
    loops = function.loops()
    spins = False
    polls: dict[str, tuple[str, Loop]] = {}
    for loop in loops:
        waiting = _waits_for_others(function, loop, facts)
        spins = spins or waiting
        passes = {label for label in loop.body if _WAITING.search(function.text({label}))}
        if function.every_turn(loop, passes) or _ends_soon(function, loop, loops, facts):
            continue
        polls[loop.header] = ("rk.spin" if waiting else "rk.poll", loop)
    out = []
    for label in function.order:
        block = function.blocks[label]
        position = max(
            (i + 1 for i, line in enumerate(block) if " = phi " in line), default=bool(LABEL.match(block[0]))
        )
        out.extend(block[:position])
        if label in polls:
            name, loop = polls[label]
            sites.append(lines.first_location(block + function.text(loop.body).splitlines()))
            out.append(f"  call void @{name}(ptr %rk.thread, i32 {len(sites) - 1})")
        out.extend(block[position:])
    return out, spins


def _waits_for_others(function: Function, loop: Loop, facts: _Facts) -> bool:
    """Whether only another thread can end a loop: it looks at shared state, or changes nothing from turn to turn."""
    if ending(function, loop) is not None:
        return False
    text = function.text(loop.body)
    if _SHARED_STATE.search(text) or facts.shared_state.intersection(names(text)):
        return True
    changes = " = phi " in function.text({loop.header}) or _CHANGES_STATE.search(text)
    return " load " in text and not changes


def _ends_soon(function: Function, loop: Loop, loops: list[Loop], facts: _Facts) -> bool:
    turns = _turns(function, loop, loops)
    if turns is not None and turns <= _SHORT:
        return True
    innermost = not any(other.body < loop.body for other in loops)
    calls_loops = facts.looping.intersection(names(function.text(loop.body)))
    return ending(function, loop) is not None and innermost and not calls_loops


def _turns(function: Function, loop: Loop, loops: list[Loop]) -> int | None:
    """How often the innermost body runs at most while a loop runs once; None where that is not known."""
    end = ending(function, loop)
    if end is None or end.turns is None:
        return None
    inner = [_turns(function, other, loops) for other in loops if other.body < loop.body]
    return None if None in inner else end.turns * max([1, *(turns for turns in inner if turns is not None)])
