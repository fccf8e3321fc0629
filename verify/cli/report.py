"""`report A.json B.json`: what broke and what improved between two runs; with one file, its report."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refkit.verify.cli import CommandError

if TYPE_CHECKING:
    from refkit.reports.comparison import Comparison

HELP = "what broke and what improved between two runs saved with --json"


def configure(parser: argparse.ArgumentParser) -> None:
    """The two runs, the folder of the page and `--json`."""
    from refkit.verify.cli import options

    parser.add_argument("first", type=Path, metavar="A.json", help="the run before")
    parser.add_argument(
        "second", type=Path, metavar="B.json", nargs="?", help="the run after; without it --out gets the report of A"
    )
    parser.add_argument("--out", dest="report", type=Path, metavar="DIR", help="folder for the page (index.html)")
    options.add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Compare the runs; 1 where something broke, else 0. With one run, write its report."""
    from refkit.reports import ReportError, read_file, write
    from refkit.reports.comparison import compare, write_comparison
    from refkit.verify.cli import options

    options.check_outputs(arguments)
    try:
        first = read_file(arguments.first)
        if arguments.second is None:
            if arguments.report is None:
                raise CommandError("report needs a second run to compare with, or --out for the report of one run")
            print(f"report: {write(first, arguments.report)}")
            return 0
        names = (str(arguments.first), str(arguments.second))
        comparison = compare(first, read_file(arguments.second), names)
    except ReportError as error:
        text = str(error)
        named = text.startswith((str(arguments.first), str(arguments.second)))
        raise CommandError(text if named else f"{arguments.first}: {text}") from None
    except OSError as error:
        raise CommandError(f"{error.filename}: {error.strerror or error}") from None
    _print(comparison)
    if arguments.json is not None:
        options.write_json(arguments.json, comparison.to_json())
    if arguments.report is not None:
        print(f"report: {write_comparison(comparison, arguments.report)}")
    return int(bool(comparison.broke))


def _print(comparison: Comparison) -> None:
    from rich.text import Text

    from refkit.verify.cli.render import console

    out = console()
    for kernel in comparison.broke:
        _print_kernel(out, kernel, kernel.broken, "broke", "bold red")
    for kernel in comparison.improved:
        _print_kernel(out, kernel, kernel.mended, "improved", "green")
    for kernel in comparison.dropped:
        _print_kernel(out, kernel, kernel.dropped, "no longer checked", "yellow")
    for word, kernels in (("new", comparison.new), ("gone", comparison.gone)):
        for each in kernels:
            out.print(Text(f"{word}: {each.name} ({each.status})"), soft_wrap=True)
    out.print(Text(comparison.headline()), soft_wrap=True)


def _print_kernel(out: Any, kernel: Any, checks: Any, word: str, style: str) -> None:
    from rich.text import Text

    verdicts = f"{kernel.before.status} → {kernel.after.status}"
    out.print(Text.assemble((word, style), f": {kernel.name} ({verdicts})"), soft_wrap=True)
    for check in checks:
        tail = f": {check.message}" if check.message else ""
        out.print(Text(f"  {check.name}: {check.before} → {check.after}{tail}"), soft_wrap=True)
        if word == "broke" and check.replay:
            out.print(Text(f"  again: {check.replay}"), soft_wrap=True)
