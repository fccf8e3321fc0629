"""`probe [NAME]`: which lane and register holds what, and how the tensor cores add up, found out by experiment."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

HELP = "fragment layouts and tensor-core arithmetic, discovered one element at a time on this machine"


def configure(parser: argparse.ArgumentParser) -> None:
    """The name, `--backend`, `--json`, `--report` and `--list`."""
    from refkit.verify.cli import options

    parser.add_argument(
        "name",
        nargs="?",
        metavar="NAME",
        help="mma.m16n8k8.tf32, its beginning (ldmatrix), a pattern ('mma.*.bf16'), or a .py file with Probes of yours",
    )
    options.add_backend(parser)
    options.add_json(parser)
    parser.add_argument("--report", type=Path, metavar="DIR", help="write a page (index.html) and a PNG of each layout")
    parser.add_argument(
        "--against", type=Path, metavar="FILE", help="compare with the --json of another run, on another device"
    )
    parser.add_argument("--list", action="store_true", help="print the names and stop")


def run(arguments: argparse.Namespace) -> int:
    """Probe what was named; on a GPU the CPU executor as well, to compare. 1 where a layout is not as its data says."""
    from refkit.verify.backends import open_backend
    from refkit.verify.cli import INTERRUPTED, options, probe_table
    from refkit.verify.probes.session import find_probes, run_probes

    options.check_outputs(arguments)
    probes = find_probes(arguments.name)
    if arguments.list:
        print("\n".join(each.name for each in probes))
        return 0
    backends = [open_backend(arguments.backend)]
    if backends[0].name == "cuda":
        backends.append(open_backend("cpu"))
    against = None if arguments.against is None else _read(arguments.against)
    found = run_probes(probes, backends, probe_table.print_result)
    probe_table.print_summary(found)
    if against is not None:
        other = f"{against['backend']} of {arguments.against}"
        probe_table.print_differences(found.backend, other, found.compared_with(against, against["backend"]))
    if arguments.json is not None or arguments.report is not None:
        record = found.to_json()
    if arguments.json is not None:
        options.write_json(arguments.json, record)
    if arguments.report is not None:
        from refkit.reports.fragments import write_probes

        print(f"report: {write_probes(record, arguments.report)}")
    if found.interrupted and not found.failed:
        print("refkit: interrupted", file=sys.stderr)
        return INTERRUPTED
    return int(found.failed)


def _read(path: Path) -> dict[str, Any]:
    """A `--json` object of `probe`; `CommandError` where the file is none."""
    from refkit.verify.cli import CommandError

    try:
        record = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise CommandError(f"--against {path}: {error}") from error
    if not isinstance(record, dict) or not {"backend", "probes", "values"} <= record.keys():
        raise CommandError(f"--against {path}: not a result of `probe --json`")
    return record
