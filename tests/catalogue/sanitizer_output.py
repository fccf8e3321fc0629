"""What NVIDIA's compute-sanitizer printed about one kernel, read into a record."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath

from .entry import Mark

_MARGIN = "========="
_PLACE = re.compile(r"([\w./-]+\.py):(\d+)")
_RACE = re.compile(r"(?:Error|Warning): (?:Race reported|Potential)")  # racecheck puts a severity before its reports
_FAILURE = re.compile(r"Internal|Error:|Stopped:|Target application|No attachable|Device not supported")
# what follows from a fault (errors of later host calls) or frames the output is no report on a kernel
_NO_REPORT = re.compile(r"COMPUTE-SANITIZER|\w+ SUMMARY|Program hit|Host API|Warning:|This tool|NVIDIA|Version")


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
    failures: list[str] = []
    complete = in_report = False
    for line in text.splitlines():
        if not line.startswith(_MARGIN):
            continue
        message = line[len(_MARGIN) + 1 :].rstrip()
        if message and message[0] != " ":  # a new message; what belongs to it is indented
            complete = complete or "SUMMARY" in message
            failed = _FAILURE.match(message) and not _RACE.match(message)
            in_report = not failed and bool(_RACE.match(message) or not _NO_REPORT.match(message))
            if failed:
                failures.append(message)
            elif in_report:
                reports.append(message)
        if in_report and "Host Frame" not in message:
            places |= {(PurePath(file).name, int(number)) for file, number in _PLACE.findall(message)}
    if not complete and not failures:
        failures.append("the tool printed no summary")
    name = PurePath(lines.file).name
    return Output(tuple(reports), any((name, line) in places for line in lines.all), failures[0] if failures else "")
