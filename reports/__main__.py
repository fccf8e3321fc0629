"""`python -m refkit.reports results.json --out DIR`: the report of a saved run.

Exit status: 0 the report was written; 2 the call was wrong (no such file, no JSON, not a run, folder not writable).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from refkit.reports import ReportError, read_file, write


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line instead of argparse's two."""
        self.exit(2, f"refkit.reports: {message} (--help shows the call)\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status; prints the path of the page."""
    parser = _Parser(prog="python -m refkit.reports", description="Writes the HTML report of a run saved with --json.")
    parser.add_argument("results", type=Path, help="the JSON file that `python -m refkit.verify all --json FILE` wrote")
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="folder for index.html and the PNG files"
    )
    options = parser.parse_args(arguments)
    try:
        print(write(read_file(options.results), options.out))
    except (ReportError, OSError) as error:
        print(f"refkit.reports: {_one_line(error, options.results)}", file=sys.stderr)
        return 2
    return 0


def _one_line(error: Exception, results: Path) -> str:
    if isinstance(error, OSError):
        return f"{error.filename or results}: {error.strerror or error}"
    return str(error) if str(error).startswith(f"{results}: ") else f"{results}: {error}"


if __name__ == "__main__":
    sys.exit(main())
