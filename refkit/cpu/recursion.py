"""Guards recursive device functions: each call looks at the stack that is left, so that too many end in an error."""

from . import frontend
from .control_flow import LABEL, names, parts
from .debug_lines import Lines

STACK_BYTES = 1 << 20  # of a thread whose kernel recurses
_CALLS = "  call void @rk.poll(ptr %rk.thread, i32 {site})\n  call void @rk.stack(ptr %rk.thread, i32 {code})"


def guard_recursion(text: str, sites: list[tuple[str, int]], default_file: str) -> tuple[str, bool]:
    """The text with a check and a poll at the entry of each recursive function; and whether there is such a function.

    The poll is for functions that LLVM turns into loops. The place of each is appended to `sites`.
    """
    recursive = _recursive(text)
    if not recursive:
        return text, False
    lines = Lines(text, default_file)
    out: list[str] = []
    for define, body in parts(text):
        if not define or names(define)[0] not in recursive:
            out.extend([define, *body] if define else body)
            continue
        file, line = lines.first_location(body)
        message = f"the stack of {STACK_BYTES >> 10} KB that a thread has is used up"
        code = frontend.exception_code(RecursionError, (message,), (names(define)[0], file, line))
        first = 1 if LABEL.match(body[0]) else 0
        call = _CALLS.format(site=len(sites), code=code)
        sites.append((file, line))
        out.extend([define, *body[:first], call, *body[first:]])
    return "\n".join(out), True


def _recursive(text: str) -> set[str]:
    """The functions that call themselves, directly or through others."""
    calls = {names(define)[0]: set(names("\n".join(body))) for define, body in parts(text) if define}

    def reached(name: str) -> set[str]:
        found: set[str] = set()
        pending = [name]
        while pending:
            more = calls.get(pending.pop(), set()) - found
            found |= more
            pending.extend(more)
        return found

    return {name for name in calls if name in reached(name)}
