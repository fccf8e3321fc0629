"""What `all` and `fuzz` share: select the kernels, verify them in workers, write every result, and choose the exit
status."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refkit.verify.cli import INTERRUPTED, WRONG_CALL, CommandError, discard_output, keywords, options

if TYPE_CHECKING:
    from refkit.records import KernelRecord, RunRecord
    from refkit.verify.events import Event
    from refkit.verify.options import Options
    from refkit.verify.spec import KernelSpec

MOST_GPU_WORKERS = 4
"""Workers on one GPU unless `-j` says otherwise: they overlap compilation and references, but each holds its own CUDA
context."""


MOST_NAMES = 8
"""Kernels that an error names at most."""


def run(find: Callable[[], Mapping[str, KernelSpec]], arguments: argparse.Namespace) -> int:
    """Verify what `find` returns under the command's options; the exit status."""
    from refkit.verify.cli import render
    from refkit.verify.environment import describe_environment
    from refkit.verify.interrupts import interrupted_once
    from refkit.verify.pool import run_pool

    options.check_outputs(arguments)
    backend = resolve_backend(arguments.backend)
    specs = select(find, arguments.keywords)
    chosen = with_backend(options.verification_options(arguments), backend)
    tasks = [task_of(spec) for spec in specs.values()]
    started = time.monotonic()
    environment = describe_environment(backend)

    def record_of(kernels: Sequence[KernelRecord], interrupted: bool = False) -> RunRecord:
        return run_record(arguments, backend, kernels, environment, time.monotonic() - started, interrupted)

    if chosen.cases_dir is None:
        note(f"failing cases will not be saved: {Path.cwd()} cannot be written to")
    keeper = Keeper(arguments.json, record_of)
    with interrupted_once():
        with render.progress(len(tasks), enabled=not arguments.no_progress) as show:

            def listen(event: Event) -> None:
                keeper.take(event)
                show(event)

            result = run_pool(tasks, chosen, arguments.jobs or default_jobs(backend), listen)
        record = record_of(result.records, result.interrupted)
        problems = [*keeper.finish(record), *write_junit(record, arguments.junit)]
        show_result(record)
    problems += write_report(record, arguments.report)
    for problem in problems:
        note(problem)
    return exit_status(record) or (WRONG_CALL if problems else 0)


def show_result(record: RunRecord) -> None:
    """The table and what did not hold on stdout, wrong specs on stderr; nothing where the reader of stdout has left."""
    from refkit.verify.cli import render

    try:
        render.print_summary(record)
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output()
    for kernel in record.kernels:
        if kernel.wrong_call:
            note(kernel.message)


def note(text: str) -> None:
    """One line on stderr."""
    print(f"refkit: {text}", file=sys.stderr)


def resolve_backend(name: str) -> str:
    """`cpu` or `cuda`; `Unavailable` where `cuda` is asked for and cannot run."""
    from refkit.verify.backends import open_backend

    return open_backend(name).name


def with_backend(chosen: Options, backend: str) -> Options:
    """The same options with the backend settled, so that every worker takes the same."""
    return replace(chosen, backend=backend)


def default_jobs(backend: str) -> int:
    """One worker per core; on a GPU a few."""
    from refkit.verify.environment import available_cores

    return min(available_cores(), MOST_GPU_WORKERS) if backend == "cuda" else available_cores()


def select(find: Callable[[], Mapping[str, KernelSpec]], expression: str) -> dict[str, KernelSpec]:
    """The specs that `-k expression` selects; `CommandError` where it selects none."""
    from refkit.verify.cli import render

    matches = keywords.compile_keywords(expression)
    specs = dict(find())
    chosen = {name: spec for name, spec in specs.items() if matches(words_of(spec))}
    if not chosen:
        shown = ", ".join([*specs][:MOST_NAMES]) + ", ..." * (len(specs) > MOST_NAMES)
        raise CommandError(f"-k {expression!r} matches none of the {render.counted(len(specs), 'kernel')}: {shown}")
    return chosen


def words_of(spec: KernelSpec) -> list[str]:
    """What `-k` looks at: name, operator, direction, and the storage formats."""
    return [spec.name, spec.operator, spec.direction, *{argument.dtype for argument in spec.arrays.values()}]


def task_of(spec: KernelSpec) -> Any:
    """The task of one spec; a spec of a file or module is found again by that and its name."""
    from refkit.verify.describe import precision_label
    from refkit.verify.pool import Task

    return Task(
        target=spec.target,
        name=spec.name,
        operator=spec.operator,
        precision=precision_label(spec),
        direction=spec.direction,
        deterministic=spec.deterministic,
        source=spec.source,
    )


def list_row(spec: KernelSpec) -> dict[str, Any]:
    """One row of `list`; its checks are those that apply to the spec at all."""
    from refkit.verify.checks import all_checks
    from refkit.verify.describe import precision_label

    return {
        "name": spec.name,
        "operator": spec.operator,
        "direction": spec.direction,
        "precision": precision_label(spec),
        "deterministic": spec.deterministic,
        "checks": [check.name for check in all_checks() if not check.inapplicable(spec)],
        "source": spec.source,
    }


def run_record(
    arguments: argparse.Namespace,
    backend: str,
    kernels: Sequence[KernelRecord],
    environment: Mapping[str, Any],
    seconds: float,
    interrupted: bool,
) -> RunRecord:
    """The record of the run so far."""
    import refkit
    from refkit.records import RunRecord

    return RunRecord(
        refkit=refkit.__version__,
        backend=backend,
        profile=arguments.profile,
        seed=arguments.seed,
        kernels=tuple(kernels),
        seconds=round(seconds, 3),
        environment=environment,
        command=_command(arguments),
        interrupted=interrupted,
    )


def _command(arguments: argparse.Namespace) -> str:
    words = [arguments.command, getattr(arguments, "target", "")]
    return shlex.join([word for word in words if word] + (["-k", arguments.keywords] if arguments.keywords else []))


class Keeper:
    """Keeps the JSON of an unfinished run in `.FILE.partial` beside FILE, so that even a killed run leaves what it
    found."""

    def __init__(self, path: Path | None, record_of: Callable[[Sequence[KernelRecord], bool], RunRecord]) -> None:
        from refkit.verify.store import is_written_in_place

        self.path = path
        beside = path is not None and not is_written_in_place(path)
        self.partial = path.absolute().with_name(f".{path.name}.partial") if path is not None and beside else None
        self.record_of = record_of
        self.kernels: list[KernelRecord] = []
        # A large run has megabytes of kernels, and writes them as often as it has kernels: each becomes JSON once.
        self._texts: dict[int, tuple[KernelRecord, str]] = {}

    def take(self, event: Event) -> None:
        """Note a finished kernel."""
        from refkit.verify.events import KernelDone

        if self.partial is not None and isinstance(event, KernelDone):
            self.kernels.append(event.record)
            with suppress(OSError):  # a full disk: what is found counts all the same
                self._write(self.partial, self.record_of(self.kernels, True))

    def finish(self, record: RunRecord) -> list[str]:
        """Write the whole result in its place; what went wrong, one line each."""
        if self.path is None:
            return []
        try:
            self._write(self.path.absolute(), record)
        except OSError as error:
            return [f"--json {self.path} was not written: {error.strerror or error}"]
        if self.partial is not None:
            with suppress(OSError):
                self.partial.unlink(missing_ok=True)
        return []

    def _write(self, path: Path, record: RunRecord) -> None:
        """The JSON of `record`, a line for each kernel, its other members before them."""
        from refkit.verify.store import write_atomically

        head = {**replace(record, kernels=()).to_json(), "summary": record.summary}
        del head["kernels"]
        kernels = ",\n".join(map(self._text, record.kernels))
        members = json.dumps(head, indent=2, allow_nan=False).removesuffix("\n}")
        write_atomically(path, f'{members},\n  "kernels": [\n{kernels}\n  ]\n}}\n')

    def _text(self, kernel: KernelRecord) -> str:
        known = self._texts.get(id(kernel))
        if known is None or known[0] is not kernel:
            known = self._texts[id(kernel)] = kernel, json.dumps(kernel.to_json(), allow_nan=False)
        return known[1]


def write_junit(record: RunRecord, path: Path | None) -> list[str]:
    """Write the JUnit file, where one is asked for; what went wrong, one line each."""
    from refkit.verify.cli.junit import to_xml
    from refkit.verify.store import write_atomically

    if path is None:
        return []
    try:
        write_atomically(path.absolute(), to_xml(record))
    except OSError as error:
        return [f"--junit {path} was not written: {error.strerror or error}"]
    return []


def write_report(record: RunRecord, folder: Path | None) -> list[str]:
    """Write the report, where one is asked for, and say where it is; what went wrong, one line each."""
    if folder is None:
        return []
    try:
        from refkit.reports import write

        page = write(record.to_json(), folder)
    except OSError as error:
        return [f"--report {folder} was not written: {error.strerror or error}"]
    except KeyboardInterrupt:
        return [f"--report {folder} was not written: interrupted"]
    try:
        print(f"report: {page}", flush=True)
    except BrokenPipeError:
        discard_output()
    return []


def exit_status(record: RunRecord) -> int:
    """0, 1, 2 or 130 as `verify/cli/__init__.py` says; the first that applies of: failed, wrong spec, interrupted,
    all hold."""
    wrong = [kernel for kernel in record.kernels if not kernel.status.holds]
    if any(not kernel.wrong_call for kernel in wrong):
        return 1
    if wrong:
        return WRONG_CALL
    return INTERRUPTED if record.interrupted else 0
