"""Runs numba-cuda's own test suite on the CPU executor and prints the share of its kernels that agree.

    python -m tests.numba_suite [-j N] [--module M]... [--json FILE] [--markdown FILE]
    python -m tests.numba_suite --from FILE --markdown FILE      # from an earlier --json, running nothing

Exit status: 0 if at least 90 % agree, 1 if fewer, 2 for a wrong call.
"""

import argparse
import sys
from pathlib import Path

from . import report, runner

WANTED = 0.9


def main() -> int:
    """Runs the command line; returns the exit status."""
    options = _options()
    if options.earlier:
        suite = report.load(options.earlier)
    else:
        available = runner.test_modules()
        chosen = [name for name in available if not options.module or name.rpartition(".")[2] in options.module]
        if unknown := set(options.module) - {name.rpartition(".")[2] for name in available}:
            print(f"no test module {', '.join(sorted(unknown))} in numba-cuda", file=sys.stderr)
            return 2
        modules = runner.run_modules(chosen, options.jobs, lambda module: print(report.line(module), flush=True))
        suite = report.Suite(tuple(modules), report.environment())
    print(report.summary(suite))
    if options.json:
        options.json.write_text(report.dump(suite), encoding="utf-8")
    if options.markdown:
        options.markdown.write_text(report.markdown(suite), encoding="utf-8")
    return 0 if suite.share >= WANTED else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.numba_suite", description=__doc__.split("\n")[0])
    parser.add_argument("-j", dest="jobs", type=int, default=1, help="modules at a time")
    parser.add_argument("--module", action="append", default=[], help="run this module only, such as test_lang")
    parser.add_argument("--json", type=Path, help="write everything that was recorded to this file")
    parser.add_argument("--markdown", type=Path, help="write the report that docs/numba_suite.md holds to this file")
    parser.add_argument("--from", dest="earlier", type=Path, help="read an earlier --json instead of running")
    options = parser.parse_args()
    if options.jobs < 1:
        parser.error(f"-j {options.jobs}: expected at least 1")
    return options


if __name__ == "__main__":
    sys.exit(main())
