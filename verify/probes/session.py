"""All probes of one call: which are asked for, what each backend showed, and where two backends differ."""

from __future__ import annotations

import difflib
import fnmatch
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import refkit
from refkit.cuda_kernels import ptx
from refkit.cuda_kernels.layouts import LAYOUTS, Layout, WgmmaLayout
from refkit.verify.backends import Backend
from refkit.verify.discovery import import_target
from refkit.verify.environment import describe_environment
from refkit.verify.errors import TargetError
from refkit.verify.interrupts import interrupted_once
from refkit.verify.probes.probe import Probe, ProbeResult
from refkit.verify.probes.values import ValueFacts, differences, is_measurable, measure
from refkit.verify.probes.warpgroup_kernels import instruction

SCHEMA = 1


def shipped_probes() -> tuple[Probe, ...]:
    """A probe for each layout of `cuda_kernels.layouts`."""
    return tuple(Probe(_intrinsic(layout), layout) for layout in LAYOUTS.values())


def _intrinsic(layout: Layout) -> Any:
    return instruction(layout) if isinstance(layout, WgmmaLayout) else getattr(ptx, layout.intrinsic)


def find_probes(wanted: str | None) -> tuple[Probe, ...]:
    """The probes of a name, of all names that begin so or match a pattern, of a Python file or module, or (None) all.

    Raises `TargetError`, in one line, where there is none.
    """
    shipped = shipped_probes()
    if not wanted:
        return shipped
    chosen = tuple(each for each in shipped if _matches(each.name, wanted))
    if chosen:
        return chosen
    if wanted.endswith(".py"):
        return _probes_in(wanted)
    names = [each.name for each in shipped]
    close = difflib.get_close_matches(wanted, names, n=1, cutoff=0.5)
    hint = f"; did you mean {close[0]}?" if close else ""
    raise TargetError(f"no probe is named {wanted!r}{hint} (--list shows all; a file with Probes ends with .py)")


def _matches(name: str, wanted: str) -> bool:
    return name == wanted or name.startswith(wanted.rstrip(".") + ".") or fnmatch.fnmatchcase(name, wanted)


def _probes_in(where: str) -> tuple[Probe, ...]:
    """The `Probe`s among the variables of a user's file."""
    found = tuple(value for value in vars(import_target(where)).values() if isinstance(value, Probe))
    if not found:
        raise TargetError(f"{where}: no Probe in it; expected a module variable such as my_probe = Probe(...)")
    return found


@dataclass(frozen=True)
class ProbeRun:
    """The results of one call, of each backend that it ran on: the one asked for first.

    differences: one line for each fact, or each map, in which the backends differ. interrupted: Ctrl-C ended it.
    """

    backend: str
    results: tuple[ProbeResult, ...]
    values: tuple[ValueFacts, ...]
    differences: tuple[str, ...]
    seconds: float
    interrupted: bool = False

    @property
    def failed(self) -> bool:
        """Whether a layout is not as its data says, or a probe could not be run."""
        statuses = [each.status for each in self.results] + [each.status for each in self.values]
        return "failed" in statuses or "error" in statuses

    def on(self, backend: str) -> tuple[tuple[ProbeResult, ...], tuple[ValueFacts, ...]]:
        """Layout and value results of one backend."""
        layouts = tuple(each for each in self.results if each.backend == backend)
        return layouts, tuple(each for each in self.values if each.backend == backend)

    def compared_with(self, record: Mapping[str, Any], backend: str) -> list[str]:
        """What differs from what a backend showed in a `probe --json` object: a line for each map and each fact."""
        layouts, values = self.on(self.backend)
        maps = {(each["name"], each["operand"]): each["map"] for each in record["probes"] if each["backend"] == backend}
        lines = [
            f"{each.name}, {verdict.operand}: {self.backend} and {backend} found different elements"
            for each in layouts
            for verdict in each.operands
            if maps.get((each.name, verdict.operand), list(verdict.found.to_text())) != list(verdict.found.to_text())
        ]
        theirs = [ValueFacts(**each) for each in record["values"] if each["backend"] == backend]
        return lines + differences(values, theirs)

    def to_json(self) -> dict[str, Any]:
        """What `probe --json` writes."""
        statuses = [each.status for each in self.results]
        summary = {status: statuses.count(status) for status in ("passed", "failed", "skipped", "error")}
        return {
            "schema": SCHEMA,
            "refkit": refkit.__version__,
            "backend": self.backend,
            "interrupted": self.interrupted,
            "environment": describe_environment(self.backend),
            "summary": {**summary, "differences": len(self.differences), "seconds": round(self.seconds, 2)},
            "probes": [entry for each in self.results for entry in each.to_json()],
            "values": [each.to_json() for each in self.values],
            "differences": list(self.differences),
        }


def run_probes(
    probes: Sequence[Probe], backends: Sequence[Backend], show: Callable[[ProbeResult], None] = lambda result: None
) -> ProbeRun:
    """Runs layout and value probes on each backend in turn; `show` is told of each layout probe as it ends.

    Values are measured of every `mma` whose layout holds: read through a wrong layout they would mean nothing. Ctrl-C
    ends the run, with what was found until then.
    """
    start = time.monotonic()
    results: list[ProbeResult] = []
    values: list[ValueFacts] = []
    interrupted = False
    try:
        with interrupted_once():
            for backend in backends:
                for probe in probes:
                    result = probe.run(backend)
                    results.append(result)
                    show(result)
                    if is_measurable(probe.layout) and result.status == "passed":
                        values.append(measure(probe.intrinsic, probe.layout, backend, probe.name))
    except KeyboardInterrupt:
        interrupted = True
    found = ProbeRun(backends[0].name, tuple(results), tuple(values), (), 0.0, interrupted)
    lines = [line for other in backends[1:] for line in found.compared_with(found.to_json(), other.name)]
    return replace(found, differences=tuple(lines), seconds=time.monotonic() - start)
