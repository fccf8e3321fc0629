"""Why a test that counts does not agree: the first pattern that fits its id gives the reason."""

import fnmatch

REASONS: dict[str, str] = {}


def reason_for(identity: str) -> str | None:
    """The reason for the test, or None where none is known."""
    return next((reason for pattern, reason in REASONS.items() if fnmatch.fnmatchcase(identity, pattern)), None)
