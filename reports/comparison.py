"""Two runs side by side: what broke, what improved, what is new and gone, and how errors, sensitivity and time moved.

A kernel *broke* where a check of it held in the first run and does not in the second; it *improved* where a check did
not hold and now does, and nothing broke. A check that was passed and is now skipped is neither, but is told.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refkit.reports.model import CheckView, KernelView, RunView
from refkit.reports.reading import ReportError, read_run
from refkit.reports.wording import headline


@dataclass(frozen=True)
class CheckChange:
    """One check whose verdict is another in the second run; a check that one run lacks is "absent" there."""

    name: str
    before: str
    after: str
    message: str
    diagnosis: str
    replay: str


@dataclass(frozen=True)
class KernelChange:
    """One kernel that both runs have."""

    name: str
    before: KernelView
    after: KernelView
    broken: tuple[CheckChange, ...]
    mended: tuple[CheckChange, ...]
    dropped: tuple[CheckChange, ...]

    @property
    def broke(self) -> bool:
        """Whether something held before and does not now."""
        return bool(self.broken) or (not self.before.fails and self.after.fails)

    @property
    def improved(self) -> bool:
        """Whether something did not hold and now does, with nothing broken."""
        return not self.broke and (bool(self.mended) or (self.before.fails and not self.after.fails))

    @property
    def growth(self) -> float:
        """How many times larger the worst error over allowed error is in the second run; 1 where one of them has
        none."""
        first, second = self.before.worst_ratio, self.after.worst_ratio
        if first is None or second is None or first == second:
            return 1.0
        if not math.isfinite(second) or first == 0:
            return math.inf
        return abs(second) / abs(first) if math.isfinite(first) else 0.0


@dataclass(frozen=True)
class Comparison:
    """Two runs: `kernels` that both have, worst change first; `new` only in the second, `gone` only in the first."""

    first: RunView
    second: RunView
    kernels: tuple[KernelChange, ...]
    new: tuple[KernelView, ...]
    gone: tuple[KernelView, ...]

    @property
    def broke(self) -> tuple[KernelChange, ...]:
        """The kernels that broke."""
        return tuple(kernel for kernel in self.kernels if kernel.broke)

    @property
    def improved(self) -> tuple[KernelChange, ...]:
        """The kernels that improved."""
        return tuple(kernel for kernel in self.kernels if kernel.improved)

    @property
    def dropped(self) -> tuple[KernelChange, ...]:
        """The kernels of which some check was passed and is now skipped or absent."""
        return tuple(kernel for kernel in self.kernels if kernel.dropped)

    @property
    def differences(self) -> tuple[tuple[str, str, str], ...]:
        """What the two runs do not have in common: backend, profile, seed, versions; name, first, second."""
        first, second = _settings(self.first), _settings(self.second)
        return tuple(
            (name, first.get(name, ""), second.get(name, ""))
            for name in dict.fromkeys([*first, *second])
            if first.get(name, "") != second.get(name, "")
        )

    def headline(self) -> str:
        """What changed, in one line."""
        counts = (
            (len(self.broke), "broke"),
            (len(self.improved), "improved"),
            (len(self.new), "new"),
            (len(self.gone), "gone"),
        )
        return ", ".join(f"{number:,} {word}" for number, word in counts if number) or "No verdict changed"

    def to_json(self) -> dict[str, Any]:
        """The comparison as plain JSON values."""
        return {
            "broke": [_change(kernel, kernel.broken) for kernel in self.broke],
            "improved": [_change(kernel, kernel.mended) for kernel in self.improved],
            "dropped": [_change(kernel, kernel.dropped) for kernel in self.dropped],
            "new": [{"name": kernel.name, "status": kernel.status} for kernel in self.new],
            "gone": [{"name": kernel.name, "status": kernel.status} for kernel in self.gone],
        }


def compare(first: Any, second: Any, names: Sequence[str] = ("the first run", "the second run")) -> Comparison:
    """The comparison of two JSON objects of `--json`; ReportError, which begins with the run's name and says the field,
    where one is not such an object. Kernels are matched by name."""
    before, after = (_read(run, name) for run, name in zip((first, second), names))
    earlier = {kernel.name: kernel for kernel in before.kernels}
    later = {kernel.name: kernel for kernel in after.kernels}
    both = [_compare_kernels(kernel, later[name]) for name, kernel in earlier.items() if name in later]
    both.sort(key=lambda kernel: (not kernel.broke, not kernel.improved, not kernel.dropped, -kernel.growth))
    new = tuple(kernel for name, kernel in later.items() if name not in earlier)
    gone = tuple(kernel for name, kernel in earlier.items() if name not in later)
    return Comparison(before, after, tuple(both), new, gone)


def write_comparison(comparison: Comparison, directory: str | os.PathLike[str]) -> Path:
    """Writes the page of a comparison and returns the path of its `index.html`, which needs no other file."""
    from refkit.reports.page import environment, replace_file

    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    html = (
        environment()
        .get_template("comparison.html")
        .render(
            comparison=comparison,
            headline=comparison.headline(),
            verdicts=(headline(comparison.first), headline(comparison.second)),
        )
    )
    return replace_file(folder / "index.html", html)


def _read(run: Any, name: str) -> RunView:
    try:
        return read_run(run)
    except ReportError as error:
        raise ReportError(f"{name}: {error}") from None


def _compare_kernels(before: KernelView, after: KernelView) -> KernelChange:
    names = dict.fromkeys([check.name for check in before.checks] + [check.name for check in after.checks])
    broken, mended, dropped = [], [], []
    for name in names:
        first, second = before.check(name), after.check(name)
        held, holds = _held(first), _held(second)
        if holds is False and (held or (held is None and not before.fails)):
            broken.append(_of(first, second, name))
        elif held is False and holds:
            mended.append(_of(first, second, name))
        elif held and holds is None:
            dropped.append(_of(first, second, name))
    return KernelChange(before.name, before, after, tuple(broken), tuple(mended), tuple(dropped))


def _held(check: CheckView | None) -> bool | None:
    """Whether a check passed; None where it was skipped or is not in the run."""
    if check is None or check.status == "skipped":
        return None
    return not check.fails


def _of(before: CheckView | None, after: CheckView | None, name: str) -> CheckChange:
    return CheckChange(
        name,
        before.status if before else "absent",
        after.status if after else "absent",
        after.message if after else "",
        after.diagnosis if after else "",
        after.replay if after else "",
    )


def _change(kernel: KernelChange, checks: tuple[CheckChange, ...]) -> dict[str, Any]:
    return {
        "name": kernel.name,
        "before": kernel.before.status,
        "after": kernel.after.status,
        "checks": [
            {"name": each.name, "before": each.before, "after": each.after, "message": each.message} for each in checks
        ],
    }


def _settings(run: RunView) -> dict[str, str]:
    environment = {name: value for name, value in run.environment if name != "date"}
    return {"refkit": run.refkit, "backend": run.backend, "profile": run.profile, "seed": run.seed, **environment}
