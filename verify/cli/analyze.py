"""`analyze TARGET`: memory traffic per source line, and registers, spills and occupancy per architecture."""

from __future__ import annotations

import argparse

HELP = "bank conflicts, sectors per request, registers, spills and occupancy of every kernel"


def configure(parser: argparse.ArgumentParser) -> None:
    """The target, `-k`, `--json` and the architectures."""
    from refkit.verify.cli import options

    parser.add_argument("target", metavar="TARGET", help="as for fuzz; 'all' or 'shipped' for what refkit ships")
    options.add_selection(parser)
    options.add_json(parser)
    parser.add_argument(
        "--arch",
        nargs="+",
        type=_architecture,
        metavar="CC",
        default=None,
        help="architectures, such as 90 or 9.0 (default: 7.5 to 12.0)",
    )
    parser.add_argument("--timeout", type=float, default=None, metavar="S", help="seconds that one launch may take")


def run(arguments: argparse.Namespace) -> int:
    """Analyse every spec that the target and `-k` name; 1 where a launch failed, else 0."""
    from refkit.verify.analysis import toolchain
    from refkit.verify.analysis.resources import ARCHITECTURES
    from refkit.verify.analysis.subject import analyze_spec
    from refkit.verify.cli import analysis_table, options, verification
    from refkit.verify.discovery import load_target, shipped

    options.check_outputs(arguments)
    target = arguments.target
    own = target in ("all", "shipped")
    specs = verification.select(lambda: shipped() if own else load_target(target), arguments.keywords)
    architectures = tuple(dict.fromkeys(arguments.arch or ARCHITECTURES))
    missing = toolchain.missing()
    analyses = []
    for spec in specs.values():
        analysis = analyze_spec(spec, architectures, timeout=arguments.timeout)
        analyses.append(analysis)
        analysis_table.print_analysis(analysis)
    analysis_table.print_totals(analyses, missing)
    if arguments.json is not None:
        record = {"kernels": [each.to_json() for each in analyses], "missing": missing}
        options.write_json(arguments.json, record)
    return int(any(each.problem for each in analyses))


def _architecture(text: str) -> tuple[int, int]:
    from refkit.planner.occupancy import MULTIPROCESSORS

    digits = text.removeprefix("sm_").replace(".", "")
    known = {f"{major}{minor}": (major, minor) for major, minor in MULTIPROCESSORS}
    if digits not in known:
        raise argparse.ArgumentTypeError(f"{text!r} is not an architecture; known are {', '.join(known)}")
    return known[digits]
