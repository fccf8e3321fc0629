"""Tasks over worker processes, none of which can cost more than its own task."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any


def each(
    task: Callable[[Any], Any], items: Sequence[Any], *, jobs: int, timeout: float, fresh: bool = False
) -> Iterator[tuple[int, Any]]:
    """`(position, task(item))` for each item, in order; None where no answer came within `timeout` seconds.

    task: a function of a module, which must not raise. Once an answer fails to come, the remaining items have none: a
    worker that died or hangs would hold them up one by one. fresh: every task in a process of its own.
    """
    context = multiprocessing.get_context("spawn")
    with (
        tempfile.TemporaryDirectory(prefix="refkit-fuzz-") as cache,
        context.Pool(jobs, _start, (cache, jobs), maxtasksperchild=1 if fresh else None) as pool,
    ):
        answers = pool.imap(task, items)
        for position in range(len(items)):
            try:
                answer = answers.next(timeout)
            except multiprocessing.TimeoutError:
                yield from ((left, None) for left in range(position, len(items)))
                return
            yield position, answer


def _start(cache: str, jobs: int) -> None:
    """Thousands of kernels that nobody compiles again would push others out of the executor's cache."""
    os.environ["REFKIT_CACHE_DIR"] = cache
    # One thread each where there are as many processes as cores.
    if jobs > 1:
        os.environ.setdefault("OMP_NUM_THREADS", "1")
