"""`fuzz TARGET`: a user's own kernels."""

from __future__ import annotations

import argparse

HELP = "verify every KernelSpec found in a file or module"


def configure(parser: argparse.ArgumentParser) -> None:
    """The target and the options of a verification."""
    from refkit.verify.cli import options

    parser.add_argument("target", metavar="TARGET", help="path/to/file.py or package.module, either with :name")
    options.add_verification(parser)


def run(arguments: argparse.Namespace) -> int:
    """Verify the specs of the target that `-k` selects."""
    from refkit.verify.cli import verification
    from refkit.verify.discovery import load_target

    return verification.run(lambda: load_target(arguments.target), arguments)
