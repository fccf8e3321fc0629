"""Failing cases on disk: one JSON file each, written whole or not at all, from which `replay` runs the case again."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import refkit
from refkit.verify.case import Case
from refkit.verify.environment import package_versions

CASES_DIR = Path(".refkit") / "cases"
"""Where failing cases go, below the current folder."""
SCHEMA = 1


class CaseFileError(Exception):
    """A case file cannot be read, or its target is gone or has changed; one clear line."""


@dataclass(frozen=True)
class FailingCase:
    """One failing case with all it takes to run it again.

    `target` is what `discovery` finds the spec by (empty for a shipped one); `check` the check that it speaks against,
    `examined_by` the check that came upon it; `versions` those of refkit, numba-cuda and numpy.
    """

    target: str
    name: str
    check: str
    examined_by: str
    case: Case
    seed: int
    backend: str
    message: str
    versions: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, **fields: Any) -> FailingCase:
        """The failing case with the versions that run now."""
        return cls(**fields, versions={"refkit": refkit.__version__, **package_versions()})

    def to_json(self) -> dict[str, Any]:
        """The content of the file."""
        return {
            "schema": SCHEMA,
            "target": self.target,
            "spec": self.name,
            "check": self.check,
            "examined_by": self.examined_by,
            "case": self.case.to_json(),
            "seed": self.seed,
            "backend": self.backend,
            "message": self.message,
            "versions": dict(self.versions),
        }


def file_name(failing: FailingCase) -> str:
    """The file's name: kernel, check, and a digest of what decides the launch, so that the same case is one file."""
    what = json.dumps([failing.target, failing.name, failing.check, failing.case.to_json()], sort_keys=True)
    digest = hashlib.sha256(what.encode()).hexdigest()[:10]
    # Every file system takes such a name, whatever its encoding and its limit.
    stem = re.sub(r"[^\w.-]+", "_", f"{failing.name[:80]}-{failing.check}", flags=re.ASCII)
    return f"{stem}-{digest}.json"


def save(failing: FailingCase, folder: Path) -> Path:
    """Write the file into `folder` (made where it is missing) and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / file_name(failing)
    write_atomically(path, json.dumps(failing.to_json(), indent=2, allow_nan=False) + "\n")
    return path


def can_save(folder: Path) -> bool:
    """True where `folder` is there and can be written to, or can be made."""
    nearest = folder.absolute()
    while not nearest.exists() and nearest != nearest.parent:
        nearest = nearest.parent
    return nearest.is_dir() and os.access(nearest, os.W_OK)


def try_to_save(failing: FailingCase, folder: Path) -> str:
    """The path of the file written into `folder`; '' where it cannot be written: a fault found counts without it."""
    try:
        return str(save(failing, folder))
    except (OSError, UnicodeError):
        return ""


def load(path: Path) -> FailingCase:
    """The failing case in the file; `CaseFileError` says why where it cannot be read."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CaseFileError(f"there is no case file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise CaseFileError(f"{path} cannot be read: {error}") from None
    except json.JSONDecodeError as error:
        raise CaseFileError(f"{path} is not a case file: {error}") from None
    if not isinstance(data, Mapping) or data.get("schema") != SCHEMA:
        found = data.get("schema") if isinstance(data, Mapping) else type(data).__name__
        raise CaseFileError(f"{path} is not a case file of schema {SCHEMA} (found {found!r})")
    try:
        return FailingCase(
            target=str(data["target"]),
            name=str(data["spec"]),
            check=str(data["check"]),
            examined_by=str(data.get("examined_by", data["check"])),
            case=Case.from_json(data["case"]),
            seed=int(data.get("seed", 0)),
            backend=str(data.get("backend", "cpu")),
            message=str(data.get("message", "")),
            versions=dict(data.get("versions", {})),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CaseFileError(f"{path} is not a complete case file: {type(error).__name__}: {error}") from None


def write_atomically(path: Path, text: str) -> None:
    """Write `text` to `path` by way of a temporary file beside it, so that no reader ever sees half of it.

    What a rename must not take the place of (see `is_written_in_place`) is written to as it stands; of a symbolic link,
    the file that it names is replaced. What UTF-8 cannot hold, such as half of a file name, is escaped.
    """
    if is_written_in_place(path):
        with open(path, "a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        return
    path = path.resolve()
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        # mkstemp makes the file private; a result is as readable as any other file of the user's.
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise


def is_written_in_place(path: Path) -> bool:
    """True for a device, a pipe or a socket, and for the file that this process's own output goes to."""
    try:
        there = path.stat()
    except OSError:
        return False
    if not stat.S_ISREG(there.st_mode):
        return not stat.S_ISDIR(there.st_mode)
    for descriptor in (1, 2):
        with suppress(OSError):
            if os.path.samestat(there, os.fstat(descriptor)):
                return True
    return False


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
