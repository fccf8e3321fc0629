"""Tasks over worker processes, none of which can cost more than its own task."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

MOST_LOST = 3


def each(
    task: Callable[[Any], Any], items: Sequence[Any], *, jobs: int, timeout: float, fresh: bool = False
) -> Iterator[tuple[int, Any]]:
    """`(position, task(item))` for each item, in order; None where no answer came within `timeout` seconds.

    task: a function of a module, which must not raise. A worker that dies takes one task with it; after `MOST_LOST`
    such tasks the remaining items have no answer either. fresh: every task in a process of its own.
    """
    context = multiprocessing.get_context("spawn")
    with (
        tempfile.TemporaryDirectory(prefix="refkit-fuzz-") as cache,
        context.Pool(jobs, _start, (cache, jobs), maxtasksperchild=1 if fresh else None) as pool,
    ):
        answers = [pool.apply_async(task, (item,)) for item in items]
        lost = 0
        for position, pending in enumerate(answers):
            try:
                answer = pending.get(timeout if lost < MOST_LOST else 0)
            except multiprocessing.TimeoutError:
                answer, lost = None, lost + 1
            yield position, answer


def _start(cache: str, jobs: int) -> None:
    """Thousands of kernels that nobody compiles again would push others out of the executor's cache."""
    os.environ["REFKIT_CACHE_DIR"] = cache
    # One thread each where there are as many processes as cores.
    if jobs > 1:
        os.environ.setdefault("OMP_NUM_THREADS", "1")
