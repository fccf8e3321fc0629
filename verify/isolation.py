"""A function run in a process of its own: a kernel that brings the process down costs an answer and no more."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable
from multiprocessing import connection
from typing import Any, TypeVar

from refkit.verify.interrupts import uninterruptible_child

T = TypeVar("T")

_LIKELY = {
    signal.SIGSEGV: " (an access out of bounds can do that)",
    signal.SIGBUS: " (an access out of bounds can do that)",
    signal.SIGKILL: " (as the system does where memory runs out)",
}


class ProcessLost(Exception):
    """The process ended without an answer, or gave none in time; the text says how, `exitcode` is None in that case."""

    def __init__(self, message: str, exitcode: int | None = None) -> None:
        super().__init__(message)
        self.exitcode = exitcode


def run_isolated(function: Callable[..., T], *arguments: Any, timeout: float | None = None) -> T:
    """What `function(*arguments)` returns in a fresh process, or raise what it raises there; all of it is pickled.

    Raises `ProcessLost` where the process dies, or takes longer than `timeout` seconds.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(theirs, function, arguments), daemon=True)
    with uninterruptible_child():
        process.start()
    theirs.close()
    try:
        if not ours.poll(timeout):
            raise ProcessLost(f"gave no answer within {timeout:g} s")
        returned, value = ours.recv()
    except (EOFError, OSError):
        raise ProcessLost(death(process), process.exitcode) from None
    finally:
        ours.close()
        stop(process)
    if not returned:
        raise value
    return value


def _answer(channel: connection.Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    try:
        answer = (True, function(*arguments))
    except BaseException as error:
        answer = (False, error)
    try:
        channel.send(answer)
    except OSError:
        return  # nobody listens any more
    except Exception as error:  # what cannot be pickled
        channel.send((False, RuntimeError(f"{type(answer[1]).__name__} {answer[1]}: {error}")))


def death(process: Any) -> str:
    """How a process that is gone came to its end, as the end of a sentence about it."""
    process.join(timeout=5)
    code = process.exitcode
    if code is not None and code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        return f"was ended by {name}{_LIKELY.get(-code, '')}"
    return f"ended by itself with status {code}"


def stop(process: Any) -> None:
    """End the process, whatever it is doing."""
    if process.is_alive():
        process.kill()
    process.join(timeout=5)
