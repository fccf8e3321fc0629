"""One program judged: the executor, in order and under seeded schedules, against the interpreter."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from .arguments import locate
from .execution import Rendered, build, run
from .interpreter import interpret
from .tree import Program


@dataclass(frozen=True)
class Discrepancy:
    """A program on which two ways of running it disagree, or that one of them could not run.

    kind: `value`, `fault` (the launch raised) or `schedule` (the executor disagrees with itself).
    """

    kind: str
    program: Rendered
    message: str

    def __str__(self) -> str:
        launch = f"grid {self.program.grid}, block {self.program.block}, seed {self.program.seed}"
        shared = f"{self.program.shared_bytes} bytes of dynamic shared memory"
        return f"{self.message}\n{launch}, {shared}\n\n{self.program.source}"


def first_difference(program: Rendered, expected: np.ndarray, got: np.ndarray, names: tuple[str, str]) -> str:
    """Where two results part, in words: array, index, thread and both values."""
    position = int(np.flatnonzero(expected != got)[0])
    place = locate(position, program.threads, program.outputs)
    values = f"{names[0]} {expected[position]}, {names[1]} {got[position]}"
    return f"{place}: {values}; {np.count_nonzero(expected != got)} of {len(expected)} values differ"


def judge(program: Program, *, schedules: Iterable[int] = (), sanitize: Iterable[str] = ()) -> Discrepancy | None:
    """The first disagreement about `program`, or None.

    schedules: seeds under which the executor runs it again; sanitize: sanitizers that watch those runs, or the run in
    order where there are none. None of them may report a program that is right by construction.
    """
    rendered = Rendered.of(program)
    expected = interpret(program)
    seeds = tuple(schedules)
    ways = [(None, () if seeds else tuple(sanitize)), *((seed, tuple(sanitize)) for seed in seeds)]
    kernel = build(rendered.source)
    for schedule, watching in ways:
        name = "in order" if schedule is None else f"schedule {schedule}"
        try:
            got = run(rendered, "cpu", schedule=schedule, sanitize=watching, kernel=kernel)
        except Exception as error:  # whatever the compiler or the launch raises is what is looked for
            return Discrepancy("fault", rendered, f"executor ({name}): {type(error).__name__}: {error}")
        if not np.array_equal(expected, got):
            kind = "value" if schedule is None else "schedule"
            message = first_difference(rendered, expected, got, ("interpreter", f"executor ({name})"))
            return Discrepancy(kind, rendered, message)
    return None
