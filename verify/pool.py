"""Worker processes that verify kernels side by side, so that a crash or a hang costs one kernel and never the run.

A worker receives `(target, name)` and imports the spec itself, since specs hold functions that no pickle carries. It
sends every event as it happens; the parent keeps them, so that whatever a worker had found outlives it. A worker that
dies, or gives no sign of life for longer than any launch may take, is replaced.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import connection
from typing import Any

from refkit.records import CheckRecord, KernelRecord, Verdict, worst_verdict
from refkit.verify import isolation, postmortem, store
from refkit.verify.case import Case
from refkit.verify.errors import USERS_FAULTS
from refkit.verify.events import CaseStarted, CheckDone, Event, KernelDone, Listener
from refkit.verify.interrupts import uninterruptible_child
from refkit.verify.options import Options

SILENCE = 120.0
"""Seconds without an event after which a worker is taken for hung: the compilation of a large kernel and one launch
fit in."""


@dataclass(frozen=True)
class Task:
    """One kernel to verify: what `discovery` finds it by (empty for the shipped ones) and what the record says of it
    anyway."""

    target: str
    name: str
    operator: str = ""
    precision: str = ""
    direction: str = "forward"
    deterministic: bool = True
    source: str = ""

    def record(self, status: Verdict, **more: Any) -> KernelRecord:
        """A kernel record with this task's particulars."""
        return KernelRecord(
            name=self.name,
            operator=self.operator,
            precision=self.precision,
            status=status,
            direction=self.direction,
            deterministic=self.deterministic,
            target=self.target,
            source=self.source,
            **{"cases": 0, "seconds": 0.0, **more},
        )


@dataclass(frozen=True)
class PoolResult:
    """The records of the kernels that were begun, in the order of the tasks; `interrupted` by Ctrl-C or a termination
    signal (see `interrupts.py`), or because nobody reads the output any more."""

    records: tuple[KernelRecord, ...]
    interrupted: bool = False


@dataclass
class _Worker:
    """One process with what the parent knows of its present task."""

    process: Any
    channel: connection.Connection
    index: int = -1
    checks: dict[str, CheckRecord] = field(default_factory=dict)
    doing: CaseStarted | None = None
    began: float = 0.0
    seen: float = field(default_factory=time.monotonic)

    @property
    def busy(self) -> bool:
        return self.index >= 0


def run_pool(
    tasks: Sequence[Task], options: Options, jobs: int, listener: Listener, *, silence: float = SILENCE
) -> PoolResult:
    """Verify every task with `jobs` workers; `listener` gets every event, also one `KernelDone` per task."""
    run = _Run(tasks, options, listener, silence)
    try:
        run.go(min(jobs, len(tasks)))
        run.stop()
        return PoolResult(run.in_order())
    except (KeyboardInterrupt, BrokenPipeError):  # or whoever read the listener's output has left
        run.give_up()
        return PoolResult(run.in_order(), interrupted=True)
    finally:
        run.stop()


class _Run:
    def __init__(self, tasks: Sequence[Task], options: Options, listener: Listener, silence: float) -> None:
        self.tasks = tasks
        self.options = options
        self.listener = listener
        self.silence = silence
        self.waiting = list(range(len(tasks)))
        self.records: dict[int, KernelRecord] = {}
        self.workers: list[_Worker] = []

    def go(self, jobs: int) -> None:
        self.workers = [_start(self.options) for _ in range(jobs)]
        while True:
            for worker in self.workers:
                if not worker.busy and self.waiting:
                    self._give(worker)
            busy = [worker for worker in self.workers if worker.busy]
            if not busy:
                return
            ready = connection.wait([w.channel for w in busy] + [w.process.sentinel for w in busy], timeout=0.5)
            for worker in busy:
                self._attend(worker, worker.channel in ready, worker.process.sentinel in ready)

    def _give(self, worker: _Worker) -> None:
        worker.index = self.waiting.pop(0)
        worker.checks, worker.doing = {}, None
        worker.began = worker.seen = time.monotonic()
        try:
            worker.channel.send(self.tasks[worker.index])
        except (BrokenPipeError, OSError):
            self._lose(worker, isolation.death(worker.process))

    def _attend(self, worker: _Worker, has_news: bool, is_dead: bool) -> None:
        if has_news or is_dead:
            # What a dead worker had still sent lies in the pipe and is read first.
            while worker.busy and worker.channel.poll():
                try:
                    event = worker.channel.recv()
                except (EOFError, OSError):
                    break
                except Exception as error:  # a message cut off by the worker's death
                    self._lose(worker, f"sent an unreadable message ({type(error).__name__}: {error})")
                    return
                self._take(worker, event)
        if is_dead and worker.busy:
            self._lose(worker, isolation.death(worker.process))
        elif worker.busy and time.monotonic() - worker.seen > self.silence:
            self._lose(worker, f"gave no sign of life for {self.silence:g} s and was stopped")

    def _take(self, worker: _Worker, event: Event) -> None:
        worker.seen = time.monotonic()
        if isinstance(event, KernelDone):
            self.finish(worker, event.record)
            if event.broken:
                self._replace(worker)
            return
        if isinstance(event, CaseStarted):
            worker.doing = event
        elif isinstance(event, CheckDone):
            worker.checks[event.record.name] = event.record
        self.listener(event)

    def finish(self, worker: _Worker, record: KernelRecord) -> None:
        self.records[worker.index] = record
        worker.index = -1
        self.listener(KernelDone(record))

    def _lose(self, worker: _Worker, why: str) -> None:
        self.finish(worker, _lost(worker, self.tasks[worker.index], why, self.options))
        self._replace(worker)

    def _replace(self, worker: _Worker) -> None:
        _stop(worker)
        self.workers.remove(worker)
        if self.waiting:
            self.workers.append(_start(self.options))

    def give_up(self) -> None:
        """Take what the workers have already sent, and close the kernels that are not done."""
        for worker in [worker for worker in self.workers if worker.busy]:
            with suppress(Exception):  # a message cut short, a listener that has nowhere to write
                while worker.busy and worker.channel.poll():
                    self._take(worker, worker.channel.recv())
            if worker.busy:
                with suppress(BrokenPipeError):
                    self.finish(worker, _interrupted(worker, self.tasks[worker.index]))

    def stop(self) -> None:
        """End every worker."""
        for worker in self.workers:
            _stop(worker)

    def in_order(self) -> tuple[KernelRecord, ...]:
        return tuple(self.records[index] for index in sorted(self.records))


def _lost(worker: _Worker, task: Task, why: str, options: Options) -> KernelRecord:
    """The record of a kernel whose worker was lost: what it had found, and one error that says what was running."""
    doing = worker.doing
    during = f" while {doing.check} judged {doing.what}" if doing else " while the kernel was imported or prepared"
    message = f"the worker process {why}{during}"
    case_file = ""
    if doing is not None and doing.case is not None and options.cases_dir is not None:
        failing = store.FailingCase.of(
            target=task.target, name=task.name, check=doing.check, examined_by=doing.check,
            case=Case.from_json(doing.case), seed=options.seed, backend=options.backend, message=message,
        )  # fmt: skip
        case_file = store.try_to_save(failing, options.cases_dir)
    error = CheckRecord(doing.check if doing else "launch", Verdict.ERROR, message=message, case_file=case_file)
    checks = {**worker.checks, error.name: error}
    if doing is not None and doing.case is not None and worker.process.exitcode in postmortem.CRASHES:
        seen, diagnosis = postmortem.look_again(task.target, task.name, doing.case)
        if seen and error.name != "sanitizers":
            checks["sanitizers"] = CheckRecord(
                "sanitizers", Verdict.FAILED, cases=1, message=f"{seen} [{doing.what}]", diagnosis=diagnosis,
                case_file=case_file,
            )  # fmt: skip
    return task.record(
        worst_verdict([check.status for check in checks.values()]),
        cases=doing.done if doing else 0,
        seconds=round(time.monotonic() - worker.began, 3),
        checks=tuple(checks.values()),
        message=message,
    )


def _interrupted(worker: _Worker, task: Task) -> KernelRecord:
    """The record of a kernel cut short: its failures stand, its passes do not make it pass."""
    verdict = worst_verdict([check.status for check in worker.checks.values()])
    done = worker.doing.done if worker.doing else 0
    return task.record(
        Verdict.SKIPPED if verdict.holds else verdict,
        cases=done,
        seconds=round(time.monotonic() - worker.began, 3),
        checks=tuple(worker.checks.values()),
        message=f"interrupted after {done} cases",
    )


def _start(options: Options) -> _Worker:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, options), daemon=True)
    with _single_threaded_libraries(), uninterruptible_child():
        process.start()
    theirs.close()
    return _Worker(process, ours)


def _stop(worker: _Worker) -> None:
    worker.channel.close()
    isolation.stop(worker.process)


@contextmanager
def _single_threaded_libraries() -> Iterator[None]:
    """One core per worker: BLAS threads of several workers would only fight, and change the order of sums."""
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update({name: value or "1" for name, value in before.items()})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]


def _work(channel: connection.Connection, options: Options) -> None:
    """The worker's life: tasks in, events out, until the parent closes the channel."""
    from refkit.verify.runner import verify_target

    # Compiling makes objects by the million and hardly a cycle; looking for cycles less often saves a tenth of it.
    gc.freeze()
    gc.set_threshold(200_000, 50, 100)

    def tell(event: Event) -> None:
        try:
            channel.send(event)
        except OSError:  # the parent has gone; nobody waits for anything more
            os._exit(1)

    while True:
        try:
            task = channel.recv()
        except (EOFError, OSError):
            return
        started = time.monotonic()
        try:
            done = verify_target(task, options, tell)
        except USERS_FAULTS as error:
            done = KernelDone(_crashed(task, error, time.monotonic() - started))
        tell(done)
        if not options.profile.sanitize:  # a brief run ends before garbage matters: about 6 MB a kernel
            gc.freeze()


def _crashed(task: Task, error: BaseException, seconds: float) -> KernelRecord:
    from refkit.verify.backends import faults

    place = faults.user_location(error)
    message = f"{place + ': ' if place else ''}{faults.one_line(error)}"
    check = CheckRecord("launch", Verdict.ERROR, message=message)
    return task.record(Verdict.ERROR, seconds=round(seconds, 3), checks=(check,), message=message)
