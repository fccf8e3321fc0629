"""`replay CASE`: one saved failing case again."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

HELP = "run one saved failing case again, on either backend"

if TYPE_CHECKING:
    from refkit.verify.findings import Finding
    from refkit.verify.spec import KernelSpec
    from refkit.verify.store import FailingCase


@dataclass(frozen=True)
class Replay:
    """What came of a case run again on `backend`; `findings` are check, message and diagnosis of each."""

    name: str
    backend: str
    findings: tuple[tuple[str, str, str], ...]


def configure(parser: argparse.ArgumentParser) -> None:
    """The case file, the backend and `--json`."""
    from refkit.verify.cli import options

    parser.add_argument("case", metavar="CASE", type=Path, help="a file of .refkit/cases")
    options.add_backend(parser)
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print `failing` with what was found (status 1) or `fixed` (status 0)."""
    from refkit.verify import postmortem, store
    from refkit.verify.cli import options
    from refkit.verify.describe import describe_case
    from refkit.verify.isolation import ProcessLost, run_isolated

    options.check_outputs(arguments)
    failing = store.load(arguments.case)
    try:
        replay = run_isolated(again, arguments.case, arguments.backend)
    except ProcessLost as lost:
        backend = failing.backend if arguments.backend == "auto" else arguments.backend
        findings = [(failing.check, f"the process {lost}", "")]
        if lost.exitcode in postmortem.CRASHES:
            findings += postmortem.as_findings(failing.target, failing.name, failing.case.to_json())
        replay = Replay(failing.name, backend, tuple(findings))
    print(f"{replay.name} on {replay.backend}: {describe_case(failing.case)}")
    for check, message, diagnosis in replay.findings:
        print(f"failing: {check}: {message}" + (f" ({diagnosis})" if diagnosis else ""))
    if not replay.findings:
        print(f"fixed: {failing.check} holds")
    if arguments.json is not None:
        options.write_json(arguments.json, to_json(failing, replay))
    return 1 if replay.findings else 0


def again(path: Path, backend: str) -> Replay:
    """Run the case of the file again, in this process."""
    from refkit.verify import store
    from refkit.verify.backends import open_backend
    from refkit.verify.checks import find_check
    from refkit.verify.cli import CommandError
    from refkit.verify.discovery import find_spec
    from refkit.verify.runner import examine_case

    failing = store.load(path)
    opened = open_backend(backend)
    with opened.active():
        spec = find_spec(failing.target, failing.name)
        problem = misfit(spec, failing)
        if problem:
            raise CommandError(f"{path}: {spec.name} has changed since this case was saved: {problem}")
        try:
            find_check(failing.examined_by)
        except KeyError:
            raise CommandError(f"{path}: there is no check {failing.examined_by!r}") from None
        found = examine_case(spec, failing.case, opened, failing.examined_by).findings
    return Replay(spec.name, opened.name, tuple(map(_plain, found)))


def _plain(finding: Finding) -> tuple[str, str, str]:
    return finding.check, finding.message, finding.diagnosis


def misfit(spec: KernelSpec, failing: FailingCase) -> str:
    """Why the case does not fit the spec as it is now; empty where it does."""
    case = failing.case
    for kind, saved, present in (
        ("dims", set(case.dims), set(spec.dims)),
        ("configs", set(case.config), set(spec.configs)),
        ("scalars", set(case.scalars), set(spec.scalars)),
    ):
        if saved != present:
            now, then = (", ".join(sorted(names)) or "none" for names in (present, saved))
            return f"its {kind} are now {now}; the case has {then}"
    unknown = sorted(set(case.layouts) - set(spec.arrays)) + sorted(set(case.absent) - set(spec.optional))
    if unknown:
        return f"it has no argument {unknown[0]!r} of that kind"
    if not spec.admits(case.dims, case.config):
        return f"it no longer admits the sizes {dict(case.dims)}"
    return ""


def to_json(failing: FailingCase, replay: Replay) -> dict[str, object]:
    """The object that `--json` writes."""
    return {
        "spec": failing.name,
        "target": failing.target,
        "check": failing.check,
        "backend": replay.backend,
        "case": failing.case.to_json(),
        "status": "failing" if replay.findings else "fixed",
        "findings": [
            {"check": check, "message": message, "diagnosis": diagnosis}
            for check, message, diagnosis in replay.findings
        ],
    }
