"""The command line: `python -m refkit.verify COMMAND`, also installed as the script `refkit`."""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import sys
import traceback
from collections.abc import Sequence
from types import ModuleType
from typing import NoReturn

from refkit.verify import cli
from refkit.verify.cli import INTERRUPTED, WRONG_CALL, CommandError


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(WRONG_CALL, f"{self.prog}: {message} (see {self.prog} --help)\n")


def commands() -> dict[str, ModuleType]:
    """Every command by name: the files of `verify/cli` that define `HELP`."""
    modules = {
        entry.name: importlib.import_module(f"{cli.__name__}.{entry.name}")
        for entry in pkgutil.iter_modules(cli.__path__)
    }
    return {name: module for name, module in modules.items() if hasattr(module, "HELP")}


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    import refkit

    parser = _Parser(prog="refkit", description="Verifies hand-written Numba CUDA kernels, with or without a GPU.")
    parser.add_argument("--version", action="version", version=f"refkit {refkit.__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, module in commands().items():
        subparser = subparsers.add_parser(name, help=module.HELP, description=module.HELP)
        subparser.add_argument("--traceback", action="store_true", help="show the traceback of an error")
        module.configure(subparser)
        subparser.set_defaults(run=module.run, parser=subparser)
    return parser


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The arguments of one call; SystemExit where they are wrong."""
    arguments, unknown = build_parser().parse_known_args(argv)
    if unknown:  # said by the command's own parser, whose --help knows better
        arguments.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status; see `verify/cli/__init__.py` for what each status means."""
    with_traceback = False
    try:
        _prepare_output()
        arguments = parse(argv)
        with_traceback = arguments.traceback
        _refuse_the_simulator()
        status: int = arguments.run(arguments)
        sys.stdout.flush()
        return status
    except SystemExit as exit_:
        return exit_.code if isinstance(exit_.code, int) else WRONG_CALL
    except KeyboardInterrupt:
        print("refkit: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        cli.discard_output()
        return 1
    except Exception as error:
        if with_traceback:
            traceback.print_exc()
        return _report(error)


def _prepare_output() -> None:
    """What the terminal's encoding lacks is escaped, not fatal; a closed stdout takes what is printed all the same."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - open until the end
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")


def _refuse_the_simulator() -> None:
    from refkit.verify.environment import simulator_problem

    problem = simulator_problem()
    if problem:
        raise CommandError(problem)


def _report(error: Exception) -> int:
    """One line on stderr for `error`; its exit status."""
    from refkit.verify.backends import Unavailable
    from refkit.verify.errors import SpecError, TargetError
    from refkit.verify.store import CaseFileError

    statuses = {Unavailable: cli.CANNOT_RUN, SpecError: WRONG_CALL, TargetError: WRONG_CALL, CaseFileError: WRONG_CALL}
    if isinstance(error, CommandError):
        text, status = str(error), error.status
    elif type(error) in statuses:
        text, status = str(error), statuses[type(error)]
    else:
        text, status = f"{type(error).__name__}: {error} (--traceback shows where)", 1
    print(f"refkit: {' '.join(text.split())}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
