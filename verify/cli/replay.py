"""`replay CASE`: one saved failing case again."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

HELP = "run one saved failing case again, on either backend"

if TYPE_CHECKING:
    from refkit.verify.findings import Examination
    from refkit.verify.spec import KernelSpec
    from refkit.verify.store import FailingCase


def configure(parser: argparse.ArgumentParser) -> None:
    """The case file, the backend and `--json`."""
    from refkit.verify.cli import options

    parser.add_argument("case", metavar="CASE", type=Path, help="a file of .refkit/cases")
    options.add_backend(parser)
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print `failing` with what was found (status 1) or `fixed` (status 0)."""
    from refkit.verify import store
    from refkit.verify.backends import open_backend
    from refkit.verify.checks import find_check
    from refkit.verify.cli import CommandError, options
    from refkit.verify.describe import describe_case
    from refkit.verify.runner import examine_case, find_spec

    options.check_outputs(arguments)
    failing = store.load(arguments.case)
    backend = open_backend(arguments.backend)
    with backend.active():
        spec = find_spec(failing.target, failing.name)
        problem = misfit(spec, failing)
        if problem:
            raise CommandError(f"{arguments.case}: {spec.name} has changed since this case was saved: {problem}")
        try:
            find_check(failing.examined_by)
        except KeyError:
            raise CommandError(f"{arguments.case}: there is no check {failing.examined_by!r}") from None
        examination = examine_case(spec, failing.case, backend, failing.examined_by)
    print(f"{spec.name} on {backend.name}: {describe_case(failing.case)}")
    for finding in examination.findings:
        print(f"failing: {finding.check}: {finding.message}" + (f" ({finding.diagnosis})" if finding.diagnosis else ""))
    if not examination.findings:
        print(f"fixed: {failing.check} holds")
    if arguments.json is not None:
        options.write_json(arguments.json, to_json(failing, backend.name, examination))
    return 1 if examination.findings else 0


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


def to_json(failing: FailingCase, backend: str, examination: Examination) -> dict[str, object]:
    """The object that `--json` writes."""
    return {
        "spec": failing.name,
        "target": failing.target,
        "check": failing.check,
        "backend": backend,
        "case": failing.case.to_json(),
        "status": "failing" if examination.findings else "fixed",
        "findings": [
            {"check": finding.check, "message": finding.message, "diagnosis": finding.diagnosis}
            for finding in examination.findings
        ],
    }
