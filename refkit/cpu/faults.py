"""What a launch on the CPU executor raises when the kernel, or its launch, is at fault."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

Dim3 = tuple[int, int, int]
Position = tuple[Dim3, Dim3, str]


class KernelFault(Exception):
    """A launch that failed.

    Attributes
    ----------
    message: one line that says what is wrong, with the value and what was expected.
    kernel: name of the kernel, or None.
    file, line: where in the kernel's source, or None where it is not known.
    threads: the threads concerned, each `(block index, thread index, where it stands)`.
    """

    def __init__(
        self,
        message: str,
        *,
        kernel: str | None = None,
        file: str | None = None,
        line: int | None = None,
        threads: tuple[Position, ...] = (),
    ) -> None:
        Exception.__init__(self, message)  # not a kernel's own exception class, which may want other arguments
        self.message = message
        self.kernel = kernel
        self.file = file
        self.line = line
        self.threads = tuple(threads)

    @property
    def location(self) -> str | None:
        """`file:line`, or None where the place is not known."""
        if self.file is None:
            return None
        return self.file if self.line is None else f"{self.file}:{self.line}"

    def __str__(self) -> str:
        where = ", ".join(part for part in (self.kernel and f"kernel {self.kernel}", self.location) if part)
        return f"{self.message} ({where})" if where else self.message


class Deadlock(KernelFault):
    """Every thread that has not exited waits, and nothing can release them."""


class NoProgress(KernelFault):
    """The launch ran past its time limit without ending."""


class KernelException(KernelFault):
    """A `raise` or a failed `assert` in the kernel.

    `exception` is the Python exception, `thread` the `(block index, thread index)` that raised it. What a launch raises
    is an instance of the exception's class as well, since host code written for a GPU catches that one.
    """

    def __init__(
        self,
        message: str,
        *,
        exception: BaseException | None = None,
        thread: tuple[Dim3, Dim3] | None = None,
        **place: Any,
    ) -> None:
        super().__init__(message, **place)
        self.exception = exception
        self.thread = thread

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self.exception), self.message), self.__dict__


@functools.lru_cache(maxsize=256)
def kernel_exception_class(kind: Any) -> type[KernelException]:
    """`KernelException` that is a `kind`, an exception class, as well; alone where `kind` cannot be a base."""
    try:
        return type(KernelException.__name__, (KernelException, kind), {"__module__": __name__})
    except TypeError:  # no exception class, or one that refuses to be a base
        return KernelException


def _restored(kind: Any, message: str) -> KernelException:
    return kernel_exception_class(kind)(message)


class Unsupported(KernelFault):
    """Something that the CPU executor cannot run: linked device code, unknown inline assembly, a driver call."""


class LaunchConfigurationError(KernelFault, ValueError):
    """A grid, block or shared-memory size that no device accepts."""


@dataclass(frozen=True)
class Side:
    """One access of a race."""

    access: str  # "read", "write" or "atomic"
    file: str
    line: int
    block: Dim3 | None  # None where several blocks or threads made it
    thread: Dim3 | None


@dataclass(frozen=True)
class Finding:
    """What a sanitizer found: see docs/design/sanitizers.md for the problems."""

    sanitizer: str
    problem: str
    message: str
    kernel: str
    file: str
    line: int
    block: Dim3
    thread: Dim3
    access: str
    address: str | None = None
    other: Side | None = None


class SanitizerFault(KernelFault):
    """A launch in which the sanitizers found something; `findings` holds all of it, the first one is the message."""

    def __init__(self, message: str, *, findings: tuple[Finding, ...] = (), **place: Any) -> None:
        super().__init__(message, **place)
        self.findings = tuple(findings)
