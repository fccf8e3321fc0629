"""`list`: kernels, operators, precisions, checks."""

from __future__ import annotations

import argparse

HELP = "list kernels, operators, precisions and checks"


def configure(parser: argparse.ArgumentParser) -> None:
    """A target (the shipped kernels without one), `-k` and `--json`."""
    from refkit.verify.cli import options

    parser.add_argument(
        "target", metavar="TARGET", nargs="?", default="", help="as for fuzz; without it, what refkit ships"
    )
    options.add_selection(parser)
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print a table of the kernels and one of the checks."""
    from refkit.verify.checks import all_checks
    from refkit.verify.cli import options, render, verification
    from refkit.verify.discovery import load_target, shipped

    options.check_outputs(arguments)
    target = arguments.target
    specs = verification.select(lambda: load_target(target) if target else shipped(), arguments.keywords)
    rows = [verification.list_row(spec) for spec in specs.values()]
    checks = [{"name": check.name, "summary": check.summary} for check in all_checks()]
    if arguments.json is not None:
        options.write_json(arguments.json, {"kernels": rows, "checks": checks})
    render.print_listing(rows, checks)
    return 0
