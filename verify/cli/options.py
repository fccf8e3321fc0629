"""The options that mean the same in every command, and what becomes of them."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from refkit.verify.cli import CommandError

if TYPE_CHECKING:
    from refkit.verify.options import Options

BACKENDS = ("auto", "cpu", "cuda")
PROFILES = ("quick", "standard", "deep")


def add_backend(parser: argparse.ArgumentParser) -> None:
    """`--backend`."""
    parser.add_argument(
        "--backend", choices=BACKENDS, default="auto", help="where kernels run: auto is the GPU where there is one"
    )


def add_selection(parser: argparse.ArgumentParser) -> None:
    """`-k`."""
    parser.add_argument(
        "-k",
        dest="keywords",
        metavar="EXPR",
        default="",
        help="only kernels that match, as in pytest: 'norm and not dx'",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """`--json`."""
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result as JSON")


def add_verification(parser: argparse.ArgumentParser) -> None:
    """Every option of a verification."""
    add_backend(parser)
    parser.add_argument("--profile", choices=PROFILES, default="standard", help="how many cases, and how large")
    parser.add_argument("--seed", type=_seed, default=0, metavar="N", help="decides every case (default 0)")
    add_selection(parser)
    add_json(parser)
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write the result as JUnit XML")
    parser.add_argument("--report", type=Path, metavar="DIR", help="write a report (index.html and PNGs)")
    parser.add_argument(
        "-j", dest="jobs", type=_jobs, default=0, metavar="N", help="worker processes (default: one per core)"
    )
    parser.add_argument(
        "--analyze",
        action="store_true",
        help="also what `analyze` measures: bank conflicts, sectors, registers, occupancy",
    )
    parser.add_argument("--no-progress", action="store_true", help="no progress bars")


def verification_options(arguments: argparse.Namespace) -> Options:
    """The `Options` that the arguments of `add_verification` stand for."""
    from refkit.verify import store
    from refkit.verify.options import Options
    from refkit.verify.profiles import PROFILES as profiles

    return Options(
        backend=arguments.backend,
        profile=profiles[arguments.profile],
        seed=arguments.seed,
        cases_dir=store.CASES_DIR if store.can_save(store.CASES_DIR) else None,
        analyze=arguments.analyze,
        traceback=arguments.traceback,
    )


def check_outputs(arguments: argparse.Namespace) -> None:
    """`CommandError` where a file or folder that is to be written cannot be; said before the work and not after it."""
    from refkit.verify.store import is_written_in_place

    for option in ("json", "junit"):
        path: Path | None = getattr(arguments, option, None)
        if path is None:
            continue
        if path.is_dir():
            raise CommandError(f"--{option} {path}: this is a folder; expected a file")
        folder = path.absolute().parent
        if not folder.is_dir():
            raise CommandError(f"--{option} {path}: there is no folder {folder}")
        needed = path if is_written_in_place(path) else folder
        if not os.access(needed, os.W_OK):
            raise CommandError(f"--{option} {path}: {needed} cannot be written to")
    _check_report(getattr(arguments, "report", None))
    if _would_overwrite(arguments):
        raise CommandError(f"--json and --junit both name {arguments.json}; expected two files")


def _would_overwrite(arguments: argparse.Namespace) -> bool:
    """True where two results would overwrite each other."""
    json, junit = getattr(arguments, "json", None), getattr(arguments, "junit", None)
    return json is not None and junit is not None and json.resolve() == junit.resolve() and json != Path(os.devnull)


def _check_report(report: Path | None) -> None:
    if report is None:
        return
    folder = report.absolute()
    while not folder.exists() and not folder.is_symlink():
        folder = folder.parent
    if not folder.is_dir():
        named = "this" if folder == report.absolute() else str(folder)
        raise CommandError(f"--report {report}: {named} is a file; expected a folder")
    if not os.access(folder, os.W_OK):
        raise CommandError(f"--report {report}: {folder} cannot be written to")


def write_json(path: Path, data: Any) -> None:
    """Write one JSON object to `path`, whole or not at all."""
    import json

    from refkit.verify.store import write_atomically

    write_atomically(path.absolute(), json.dumps(data, indent=2, allow_nan=False) + "\n")


def shortened(text: str) -> str:
    """`text`, or its beginning where it is long."""
    return text if len(text) <= 40 else f"{text[:30]}...{len(text) - 30} more"


def _seed(text: str) -> int:
    try:
        seed = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{shortened(text)!r} is not an integer") from None
    if seed < 0:
        raise argparse.ArgumentTypeError(f"{seed} is negative; expected an integer from 0")
    return seed


def _jobs(text: str) -> int:
    try:
        jobs = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{shortened(text)!r} is not an integer") from None
    if jobs < 1:
        raise argparse.ArgumentTypeError(f"{jobs} workers; expected at least 1")
    return jobs
