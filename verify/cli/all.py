"""`all`: every kernel that refkit ships."""

from __future__ import annotations

import argparse

HELP = "verify every kernel that refkit ships"


def configure(parser: argparse.ArgumentParser) -> None:
    """The options of a verification."""
    from refkit.verify.cli import options

    options.add_verification(parser)


def run(arguments: argparse.Namespace) -> int:
    """Verify the shipped kernels that `-k` selects."""
    from refkit.verify.cli import verification
    from refkit.verify.discovery import shipped

    return verification.run(shipped, arguments)
