"""Why a kernel brought its process down: the same case once more under the sanitizers, which stop before the harm."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from typing import Any

from refkit.verify.isolation import run_isolated

PATIENCE = 60.0
"""Seconds that the second look may take."""
CRASHES = (-signal.SIGSEGV, -signal.SIGBUS)
"""Exit codes of a process that touched memory which is not its own."""


def look_again(target: str, name: str, case: Mapping[str, Any]) -> tuple[str, str]:
    """Message and diagnosis of what the sanitizers say of `case` (in its JSON form) of the spec `name` of `target`.

    Both are '' where they say nothing, or where the second look comes to no end either.
    """
    try:
        return run_isolated(_sanitized, target, name, dict(case), timeout=PATIENCE)
    except Exception:  # no answer is no reason to lose the first one
        return "", ""


def as_findings(target: str, name: str, case: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """The same as check, message and diagnosis; empty where the sanitizers say nothing."""
    message, diagnosis = look_again(target, name, case)
    return [("sanitizers", message, diagnosis)] if message else []


def _sanitized(target: str, name: str, case: Mapping[str, Any]) -> tuple[str, str]:
    from refkit.verify.backends.cpu import CpuBackend
    from refkit.verify.case import Case
    from refkit.verify.discovery import find_spec
    from refkit.verify.runner import examine_case

    backend = CpuBackend()
    with backend.active():
        spec = find_spec(target, name)
        finding = examine_case(spec, Case.from_json(case), backend, "sanitizers").finding("sanitizers")
    return (finding.message, finding.diagnosis) if finding is not None else ("", "")
