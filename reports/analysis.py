"""What `analyze` measured of a kernel, as the page shows it: memory traffic by source line, and resources by
architecture."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from refkit.reports.values import number, plain, text


@dataclass(frozen=True)
class LineView:
    """The requests of one kind at one source line. Sectors and passes are means per request of a warp."""

    place: str
    code: str
    access: str
    bytes_per_lane: float | None
    lanes: float | None
    sectors: str
    passes: str
    problem: str


@dataclass(frozen=True)
class ResourceView:
    """One kernel on one architecture; `problem` says why there are no figures."""

    kernel: str
    architecture: str
    registers: int
    spill_bytes: int
    stack_bytes: int
    shared_bytes: int
    blocks: int
    occupancy: float
    limits: str
    cliff: str
    bounds: str
    problem: str


@dataclass(frozen=True)
class FragmentView:
    """An operand of a warp-matrix instruction; `map` as `probe --json` writes it."""

    name: str
    operand: str
    map: tuple[str, ...]


@dataclass(frozen=True)
class AnalysisView:
    """One kernel's analysis. instructions: per launched kernel the instruction mix of the newest architecture."""

    case: str
    lines: tuple[LineView, ...]
    resources: tuple[ResourceView, ...]
    instructions: tuple[tuple[str, str], ...]
    fragments: tuple[FragmentView, ...]
    problem: str
    missing: str

    @property
    def flagged(self) -> tuple[LineView, ...]:
        """The lines with a problem."""
        return tuple(line for line in self.lines if line.problem)

    @property
    def spills(self) -> bool:
        """Whether some kernel spills registers on some architecture."""
        return any(each.spill_bytes for each in self.resources)


def read_analysis(entry: Mapping[str, Any] | None) -> AnalysisView | None:
    """The view of a kernel's `analysis`, which the schema has accepted; None where the run has none."""
    if entry is None:
        return None
    case = entry.get("case") or {}
    settings = {**(case.get("dims") or {}), **(case.get("config") or {})}
    resources = entry.get("resources") or ()
    mixes = {text(each["kernel"]): each["instructions"] for each in resources if each.get("instructions")}
    return AnalysisView(
        case=", ".join(f"{text(name)} {text(value)}" for name, value in settings.items()),
        lines=tuple(_line(each) for each in entry.get("lines") or ()),
        resources=tuple(_resource(each) for each in resources),
        instructions=tuple((kernel, _mix(mix)) for kernel, mix in mixes.items()),
        fragments=tuple(
            FragmentView(text(each["name"]), text(each["operand"]), tuple(each["map"]))
            for each in entry.get("fragments") or ()
        ),
        problem=text(entry.get("problem")),
        missing=text(entry.get("missing")),
    )


def _line(entry: Mapping[str, Any]) -> LineView:
    sectors, passes = number(entry.get("sectors")), number(entry.get("passes"))
    worst = number(entry.get("worst_passes"))
    return LineView(
        place=f"{os.path.basename(text(entry['file']))}:{entry['line']}",
        code=text(entry.get("code")),
        access=f"{text(entry['space'])} {text(entry['access'])}",
        bytes_per_lane=number(entry.get("bytes_per_lane")),
        lanes=number(entry.get("lanes")),
        sectors="" if sectors is None else f"{sectors:.1f} of {plain(number(entry.get('ideal_sectors')))}",
        passes=""
        if passes is None
        else f"{passes:.1f} of {plain(number(entry.get('ideal_passes')))}"
        + (f", up to {plain(worst)}" if worst is not None and worst > passes else ""),
        problem=text(entry.get("problem")),
    )


def _resource(entry: Mapping[str, Any]) -> ResourceView:
    occupancy, cliff = entry.get("occupancy") or {}, entry.get("cliff")
    return ResourceView(
        kernel=text(entry["kernel"]),
        architecture=text(entry["compute_capability"]),
        registers=entry.get("registers") or 0,
        spill_bytes=entry.get("spill_bytes") or 0,
        stack_bytes=entry.get("stack_bytes") or 0,
        shared_bytes=entry.get("shared_bytes") or 0,
        blocks=occupancy.get("blocks", 0),
        occupancy=number(occupancy.get("fraction")) or 0.0,
        limits=", ".join(text(each) for each in occupancy.get("limits", ())),
        cliff=_cliff(cliff, entry.get("registers") or 0),
        bounds="; ".join(dict.fromkeys(_bounded(entry[key]) for key in ("bounded", "bounded_256") if entry.get(key))),
        problem=text(entry.get("problem")),
    )


def _cliff(cliff: Mapping[str, Any] | None, registers: int) -> str:
    """The nearest cliff: "14 registers less would give 2 blocks"."""
    if cliff is None:
        return ""
    fewer = registers - cliff["registers"]
    return f"{fewer} register{'s' if fewer != 1 else ''} less would give {cliff['blocks']} blocks"


def _bounded(entry: Mapping[str, Any]) -> str:
    threads, blocks = (*entry["launch_bounds"], 1, 1)[:2]
    spills = f", {entry['spill_bytes']} B of spills" if entry["spill_bytes"] else ""
    held = entry["blocks_per_sm"]
    return f"({threads}, {blocks}): {entry['registers']} registers{spills}, {held} block{'s' if held != 1 else ''}"


def _mix(mix: Mapping[str, int]) -> str:
    """Instructions by kind, "fma 64 · load.global of 16 bytes 4"."""
    parts = []
    for name, number_of in mix.items():
        stem, _, last = name.rpartition(".")
        parts.append(f"{f'{stem} of {last} bytes' if last.isdigit() else name} {number_of:,}")
    return " · ".join(parts)
