"""Runs numba-cuda's own test suite on the CPU executor and prints the share of its kernels that agree.

    python -m tests.numba_suite [-j N] [--module M]... [--json FILE] [--markdown FILE]
    python -m tests.numba_suite --from FILE [--module M]...     # an earlier --json, of which only these are run again

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
    available = runner.test_modules()
    if unknown := set(options.module) - {_short(name) for name in available}:
        print(f"no test module {', '.join(sorted(unknown))} in numba-cuda", file=sys.stderr)
        return 2
    past = report.load(options.earlier) if options.earlier else None
    earlier = past.modules if past else ()
    chosen = [name for name in available if _short(name) in options.module or not (options.module or earlier)]
    modules = runner.run_modules(chosen, options.jobs, lambda module: print(report.line(module), flush=True))
    replaced = {module.name: module for module in modules}
    kept = [replaced.pop(module.name, module) for module in earlier]
    suite = report.Suite(
        (*kept, *replaced.values()), past.environment if past and not modules else report.environment()
    )
    print(report.summary(suite))
    if options.json:
        options.json.write_text(report.dump(suite), encoding="utf-8")
    if options.markdown:
        options.markdown.write_text(report.markdown(suite), encoding="utf-8")
    return 0 if suite.share >= WANTED else 1


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.numba_suite", description=__doc__.split("\n")[0])
    parser.add_argument("-j", dest="jobs", type=int, default=1, help="modules at a time")
    parser.add_argument("--module", action="append", default=[], help="run this module only, such as test_lang")
    parser.add_argument("--json", type=Path, help="write everything that was recorded to this file")
    parser.add_argument("--markdown", type=Path, help="write the report that docs/numba_suite.md holds to this file")
    parser.add_argument(
        "--from", dest="earlier", type=Path, help="an earlier --json, whose modules are not run again unless named"
    )
    options = parser.parse_args()
    if options.jobs < 1:
        parser.error(f"-j {options.jobs}: expected at least 1")
    return options


if __name__ == "__main__":
    sys.exit(main())
