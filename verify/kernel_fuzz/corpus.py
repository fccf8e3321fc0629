"""Programs on disk with what the CPU executor made of them, so that a machine with a GPU runs the same ones.

One JSON object: `schema`, `seed`, `environment` of the writing machine, and `programs`, each with its `source`,
`grid`, `block`, `shared_bytes`, `outputs`, `seed`, the SHA-256 `digest` of its result (little-endian int64) and the
`first` values of it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from refkit.verify.environment import describe_environment

from .execution import Rendered

SCHEMA = 1
_FIRST = 8


class CorpusError(ValueError):
    """A file that is no corpus of this version; one clear line."""


@dataclass(frozen=True)
class Entry:
    """A program and its result on the CPU."""

    program: Rendered
    digest: str
    first: tuple[int, ...]

    @classmethod
    def of(cls, program: Rendered, result: np.ndarray) -> Entry:
        """The entry for a result as `execution.run` returns it."""
        return cls(program, digest(result), tuple(int(value) for value in result[:_FIRST]))

    def agrees(self, result: np.ndarray) -> bool:
        """Whether `result` is the same, bit for bit."""
        return digest(result) == self.digest

    def to_json(self) -> dict[str, Any]:
        """The entry's object in the file."""
        return {**vars(self.program), "digest": self.digest, "first": self.first}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Entry:
        """The entry of such an object; raises KeyError where a field lacks."""
        program = Rendered(
            data["source"],
            tuple(data["grid"]),
            tuple(data["block"]),
            data["shared_bytes"],
            data["outputs"],
            data["seed"],
        )
        return cls(program, data["digest"], tuple(data["first"]))


def digest(result: np.ndarray) -> str:
    """The SHA-256 of a vector of int64."""
    return hashlib.sha256(result.astype("<i8").tobytes()).hexdigest()


def write(path: Path, entries: Sequence[Entry], seed: int) -> None:
    """Write the corpus."""
    content = {
        "schema": SCHEMA,
        "seed": seed,
        "environment": describe_environment("cpu"),
        "programs": [entry.to_json() for entry in entries],
    }
    path.write_text(json.dumps(content, separators=(",", ":")))


def read(path: Path) -> tuple[list[Entry], str]:
    """The entries of a corpus, and the SHA-256 of the file; raises CorpusError, or OSError where it cannot be read."""
    text = path.read_bytes()
    try:
        content = json.loads(text)
        if content["schema"] != SCHEMA:
            raise CorpusError(f"{path}: schema {content['schema']!r}, expected {SCHEMA}")
        entries = [Entry.from_json(data) for data in content["programs"]]
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise CorpusError(f"{path}: not a corpus of fuzzed kernels ({type(error).__name__}: {error})") from None
    return entries, hashlib.sha256(text).hexdigest()
