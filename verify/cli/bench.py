"""`bench`: speed beside a peer that is measured in the same call."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from refkit.verify.cli import CANNOT_RUN, CommandError
from refkit.verify.cli.options import add_json, check_outputs, write_json

if TYPE_CHECKING:
    from refkit.verify.benchmarks import Row

HELP = "speed against a peer measured in the same call; `bench cpu` times the CPU executor"


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of `bench`."""
    parser.add_argument("operator", nargs="?", metavar="NAME", help="one benchmark; without it, all that can run here")
    add_json(parser)
    parser.add_argument("--no-progress", action="store_true", help="print no line for what is being measured")


def run(arguments: argparse.Namespace) -> int:
    """Measures, prints a table, writes the JSON; status 3 where the named benchmark cannot run here."""
    from rich.console import Console

    from refkit import __version__
    from refkit.verify.benchmarks import available
    from refkit.verify.environment import describe_environment

    check_outputs(arguments)
    benchmarks = available()
    name = arguments.operator
    if name is not None and name not in benchmarks:
        raise CommandError(f"bench {name}: no such benchmark; there are {', '.join(sorted(benchmarks))}")
    chosen = [name] if name is not None else sorted(benchmarks)
    console = Console()
    rows: list[Row] = []

    def progress(text: str) -> None:
        if not arguments.no_progress:
            console.print(f"measuring {text}")

    try:
        for chosen_name in chosen:
            reason = benchmarks[chosen_name].missing()
            if reason is not None:
                if name is not None:
                    raise CommandError(f"bench {chosen_name} cannot run here: {reason}", CANNOT_RUN)
                console.print(f"{chosen_name}: skipped, {reason}")
                continue
            for row in benchmarks[chosen_name].rows(progress):
                rows.append(row)
                console.print(_line(row), soft_wrap=True)
    finally:  # what was measured is kept, even where a later row fails
        if arguments.json is not None and rows:
            backend = "cuda" if any(row.clock_before is not None for row in rows) else "cpu"
            data = {"schema": 1, "refkit": __version__, "environment": describe_environment(backend)}
            write_json(arguments.json, {**data, "rows": [row.to_json() for row in rows]})
    return 0


def _line(row: Row) -> str:
    if not row.median_us:  # a summary of other rows
        return f"{row.name} ({row.shape}): {row.ratio:,.3g} times {row.peer}"
    return (
        f"{row.name} {row.shape}: {row.rate:,.0f} {row.unit} ({row.median_us / 1e3:,.1f} ms), "
        f"{row.ratio:,.3g} times {row.peer} ({row.peer_rate:,.3g} {row.unit} at {row.peer_shape})"
    )
