"""Why a test that counts does not agree: the first pattern that fits its id gives the reason."""

import fnmatch

REASONS = {
    "*test_exception.py::*test_raise_in_device_function": (
        "Expected to fail, since a GPU does not report exceptions of device functions; the executor does."
    ),
}


def reason_for(identity: str) -> str | None:
    """The reason for the test, or None where none is known."""
    return next((reason for pattern, reason in REASONS.items() if fnmatch.fnmatchcase(identity, pattern)), None)
