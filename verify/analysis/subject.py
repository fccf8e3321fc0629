"""All that `analyze` says about one spec, as one record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from refkit.cpu import MemoryReport
from refkit.verify.analysis import resources, toolchain
from refkit.verify.analysis.fragments import FragmentUse, fragments_of
from refkit.verify.analysis.representative import representative_case
from refkit.verify.analysis.resources import Resources
from refkit.verify.analysis.traffic import trace_case
from refkit.verify.backends import LaunchFault
from refkit.verify.case import Case
from refkit.verify.errors import SpecError
from refkit.verify.source import lines_around
from refkit.verify.spec import KernelSpec


@dataclass(frozen=True)
class KernelAnalysis:
    """One spec: its representative case, the traffic of each source line, and what its kernels compile to.

    fragments: the layouts of the warp-matrix instructions in them. problem: why there is nothing but the case, where
    the launch failed.
    """

    spec: KernelSpec
    case: Case
    report: MemoryReport
    resources: tuple[Resources, ...] = ()
    fragments: tuple[FragmentUse, ...] = ()
    problem: str = ""

    @property
    def spills(self) -> tuple[Resources, ...]:
        """The kernels and architectures that spill registers."""
        return tuple(each for each in self.resources if each.spill_bytes)

    def to_json(self) -> dict[str, Any]:
        """One entry of the `kernels` of `analyze --json`."""
        return {
            "name": self.spec.name,
            "operator": self.spec.operator,
            "case": {"dims": dict(self.case.dims), "config": dict(self.case.config)},
            "lines": [{**line.to_json(), "code": _code(line)} for line in self.report.lines],
            "resources": [each.to_json() for each in self.resources],
            "fragments": [each.to_json() for each in self.fragments],
            "problem": self.problem,
        }


def analyze_spec(
    spec: KernelSpec, architectures: Sequence[tuple[int, int]], *, timeout: float | None = None
) -> KernelAnalysis:
    """Runs the representative case of a spec under the memory model, and compiles what it launched.

    Nothing is compiled where the tools for it are not installed (`toolchain.missing()` says which).
    """
    case = representative_case(spec)
    try:
        traffic = trace_case(spec, case, timeout=timeout)
    except LaunchFault as fault:
        return KernelAnalysis(spec, case, MemoryReport(()), problem=str(fault))
    found: list[Resources] = []
    if not toolchain.missing():
        launches = {(launch.kernel, launch.argument_types, launch.block): launch for launch in traffic.launches}
        found = [resources.resources(launch, each) for launch in launches.values() for each in architectures]
    return KernelAnalysis(spec, case, traffic.report, tuple(found), fragments_of(traffic.launches))


def analysis_record(spec: KernelSpec, *, timeout: float | None = None) -> dict[str, Any]:
    """What `analyze --json` says of one spec on every architecture, for the record of a verification; with `missing`,
    the tools that are not installed. A spec that cannot be analysed is a `problem`."""
    try:
        found = analyze_spec(spec, resources.ARCHITECTURES, timeout=timeout).to_json()
    except SpecError as error:
        found = {"problem": str(error)}
    return {**found, "missing": toolchain.missing()}


def _code(line: Any) -> str:
    text, _ = lines_around(line.file, line.line, around=0)
    return text[0].strip() if text else ""


def findings(report: MemoryReport) -> list[dict[str, Any]]:
    """The flagged lines as `findings` of a check record: sanitizer "banks" or "sectors", message and source line."""
    return [
        {
            "sanitizer": "banks" if line.space == "shared" else "sectors",
            "problem": line.problem,
            "message": describe(line),
            "kernel": line.kernel,
            "file": line.file,
            "line": line.line,
        }
        for line in report.flagged
    ]


def describe(line: Any) -> str:
    """One line of words about the traffic of a source line."""
    if line.space == "shared":
        return (
            f"{line.access} of {line.bytes_per_lane} bytes per lane takes {line.passes:.1f} passes over the banks "
            f"(up to {line.worst_passes}) where {line.ideal_passes:.1f} would do"
        )
    return (
        f"{line.access} of {line.bytes_per_lane} bytes per lane moves {line.sectors:.1f} sectors per request "
        f"where {line.ideal_sectors:.1f} would do"
    )
