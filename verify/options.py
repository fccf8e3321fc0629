"""What a verification is asked for, as one value that crosses process boundaries."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from refkit.verify.profiles import PROFILES, Profile


@dataclass(frozen=True)
class Options:
    """`backend` is auto, cpu or cuda; `seed` decides every case. `cases_dir` is where failing cases are saved (None:
    nowhere).

    `workers` is the number of cores one launch may use on the CPU (None: one), `timeout` the seconds a launch may
    take (None: the backend's own limit), `shrink` says whether failing cases are made small, `analyze` whether each
    record also holds what `analyze` measures, `traceback` whether an error inside a check is printed with its
    traceback.
    """

    backend: str = "auto"
    profile: Profile = field(default_factory=lambda: PROFILES["standard"])
    seed: int = 0
    cases_dir: Path | None = None
    workers: int | None = None
    timeout: float | None = None
    shrink: bool = True
    analyze: bool = False
    traceback: bool = False
