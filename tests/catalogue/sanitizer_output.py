"""What NVIDIA's compute-sanitizer printed about one kernel, read into a record."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath

from .entry import Mark

_PREFIX = "========= "
_PLACE = re.compile(r"([\w./-]+\.py):(\d+)")
# the banner, sums, and errors of host calls that follow from what a kernel did: none of them is a report on a kernel
_NO_REPORT = (
    "COMPUTE-SANITIZER",
    "ERROR SUMMARY",
    "RACECHECK SUMMARY",
    "LEAK SUMMARY",
    "Program hit",
    "Host API",
    "Target application",
    "Internal",
    "Error:",
    "Warning:",
    "No attachable",
)


@dataclass(frozen=True)
class Output:
    """What the tool said: the first line of each report, whether one names a marked line, the tool's own failure."""

    reports: tuple[str, ...]
    at_marked_line: bool
    failure: str

    @property
    def seen(self) -> bool:
        return bool(self.reports)

    @property
    def first_line(self) -> str:
        return self.reports[0] if self.reports else self.failure


def read(text: str, lines: Mark) -> Output:
    """The reports in the tool's standard output, for an entry whose marks are `lines`."""
    reports: list[str] = []
    places: set[tuple[str, int]] = set()
    complete, failure = False, ""
    in_report = False
    for line in text.splitlines():
        if not line.startswith(_PREFIX.strip()):
            continue
        message = line[len(_PREFIX) :]
        if not message.strip():
            in_report = False
        elif message[0] != " " and not message.startswith(_NO_REPORT):
            reports.append(message.strip())
            in_report = True
        elif message[0] != " ":
            in_report = False
            complete = complete or "SUMMARY" in message
            if message.startswith(("Internal", "Error:", "Target application", "No attachable")):
                failure = failure or message.strip()
        if in_report:
            places |= {(PurePath(file).name, int(number)) for file, number in _PLACE.findall(message)}
    if not complete and not failure:
        failure = "the tool printed no summary"
    name = PurePath(lines.file).name
    return Output(tuple(reports), any((name, line) in places for line in lines.all), failure)
