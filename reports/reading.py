"""The JSON of a run read into the views of model.py; a missing or odd field costs its part of the page, no more."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from refkit.reports.model import CaseView, CheckView, KernelView, RunView, WorstView
from refkit.reports.values import count, exceeds, number, text

SCHEMA = 1
MAP_LIMIT = 64
STATUS_ORDER = {"failed": 0, "error": 1, "mistrusted": 2, "passed": 4, "skipped": 5}
UNKNOWN_STATUS = 3


class ReportError(ValueError):
    """What was handed in is not a run; the message is one line."""


def read_run(run: Any) -> RunView:
    """The run of contract 1's JSON object; ReportError where it is not one."""
    if not isinstance(run, Mapping):
        raise ReportError(f"the run is a JSON {_json_type(run)}, expected an object as --json writes it")
    if run.get("schema", SCHEMA) != SCHEMA:
        raise ReportError(f"the run has schema {run['schema']!r}, this refkit reads schema {SCHEMA}")
    if not isinstance(run.get("kernels"), list):
        raise ReportError("the run has no list 'kernels', expected an object as `refkit all --json FILE` writes it")
    kernels = tuple(_read_kernel(entry) for entry in run["kernels"] if isinstance(entry, Mapping))
    kernels = tuple(sorted(_with_slugs(kernels), key=lambda kernel: STATUS_ORDER.get(kernel.status, UNKNOWN_STATUS)))
    summary = _object(run.get("summary"))
    counts: dict[str, int] = {}
    for kernel in kernels:
        counts[kernel.status] = counts.get(kernel.status, 0) + 1
    interrupted = run.get("interrupted")
    return RunView(
        refkit=text(run.get("refkit")),
        backend=text(run.get("backend")),
        profile=text(run.get("profile")),
        seed=text(run.get("seed")),
        command=text(run.get("command")),
        environment=tuple((text(key), text(value)) for key, value in _object(run.get("environment")).items()),
        interrupted=""
        if not interrupted
        else "Stopped early"
        if interrupted is True
        else f"Stopped early: {text(interrupted)}",
        checks=count(summary.get("checks"), sum(len(kernel.checks) for kernel in kernels)),
        cases=count(summary.get("cases"), sum(kernel.cases for kernel in kernels)),
        seconds=number(summary.get("seconds")),
        kernels=kernels,
        counts=counts,
    )


def _read_kernel(entry: Mapping[str, Any]) -> KernelView:
    checks = tuple(_read_check(check) for check in _items(entry.get("checks")))
    return KernelView(
        name=text(entry.get("name")) or "unnamed kernel",
        operator=text(entry.get("operator")),
        direction=text(entry.get("direction")),
        precision=_precision(entry.get("precision")),
        status=text(entry.get("status")) or _worst_status(checks),
        cases=count(entry.get("cases"), sum(check.cases for check in checks)),
        seconds=number(entry.get("seconds")),
        source=text(entry.get("source")),
        message=text(entry.get("message")),
        checks=checks,
    )


def _read_check(entry: Mapping[str, Any]) -> CheckView:
    cases_data = tuple(read_case(case) for case in _items(entry.get("cases_data")))
    shrunk = entry.get("case")
    failing = [case for case in cases_data if exceeds(case.ratio)]
    case_file = text(entry.get("case_file"))
    replay = text(entry.get("replay"))
    if not replay and case_file:
        replay = f"python -m refkit.verify replay {shlex.quote(case_file)}"
    return CheckView(
        name=text(entry.get("name")) or "unnamed check",
        status=text(entry.get("status")) or "error",
        cases=count(entry.get("cases"), len(cases_data)),
        worst_ratio=number(entry.get("worst_ratio")),
        message=text(entry.get("message")),
        diagnosis=text(entry.get("diagnosis")),
        case_file=case_file,
        replay=replay,
        bound=text(entry.get("bound")),
        sensitivity=number(entry.get("sensitivity")),
        cases_data=cases_data,
        case=read_case(shrunk) if isinstance(shrunk, Mapping) else min(failing, key=_size, default=None),
        case_is_shrunk=isinstance(shrunk, Mapping),
        worst=_read_worst(entry.get("worst")),
        findings=_findings(entry.get("findings")),
    )


def read_case(entry: Mapping[str, Any]) -> CaseView:
    """One case; dims that are no whole numbers are dropped."""
    absent = entry.get("absent")
    return CaseView(
        dims={text(key): int(size) for key, size in _object(entry.get("dims")).items() if isinstance(size, int)},
        layouts={text(key): text(layout) for key, layout in _object(entry.get("layout", entry.get("layouts"))).items()},
        config=_object(entry.get("config")),
        scenario=text(entry.get("scenario")),
        values=text(entry.get("values")),
        scalars=_object(entry.get("scalars")),
        absent=tuple(text(name) for name in absent) if isinstance(absent, list | tuple) else (),
        ratio=number(entry.get("ratio")),
    )


def _read_worst(entry: Any) -> WorstView | None:
    if not isinstance(entry, Mapping) or not entry:
        return None
    return WorstView(
        output=text(entry.get("output")),
        index=_integers(entry.get("index")),
        got=number(entry.get("got")),
        expected=number(entry.get("expected")),
        allowed=number(entry.get("allowed")),
        shape=_integers(entry.get("shape")),
        map=_read_map(entry.get("error_map", entry.get("map"))),
    )


def _read_map(rows: Any) -> np.ma.MaskedArray | None:
    """A masked float64 array (m, n) with m, n <= MAP_LIMIT; None is masked."""
    if not isinstance(rows, list | tuple) or not rows:
        return None
    if not isinstance(rows[0], list | tuple):
        rows = [rows]
    rows = [row for row in rows if isinstance(row, list | tuple)]
    width = max((len(row) for row in rows), default=0)
    if width == 0:
        return None
    grid = np.full((len(rows), width), -1.0)
    for i, row in enumerate(rows):
        for j, cell in enumerate(row):
            ratio = number(cell)
            if ratio is not None:
                grid[i, j] = abs(ratio)
    for axis in (0, 1):
        size = grid.shape[axis]
        if size > MAP_LIMIT:
            starts = np.arange(MAP_LIMIT) * size // MAP_LIMIT
            grid = np.maximum.reduceat(grid, starts, axis=axis)
    return np.ma.masked_less(grid, 0.0)


def _findings(value: Any) -> tuple[str, ...]:
    items = value if isinstance(value, list | tuple) else [value]
    return tuple(_finding(item) for item in items if item)


def _finding(item: Any) -> str:
    if not isinstance(item, Mapping):
        return text(item)
    place = text(item.get("file")) + (f":{text(item['line'])}" if item.get("line") else "")
    head = ": ".join(part for part in (text(item.get("kind")), text(item.get("message"))) if part)
    rest = [f"{key}: {text(value)}" for key, value in item.items() if key not in ("kind", "message", "file", "line")]
    return " · ".join(part for part in (head, place, *rest) if part)


def _precision(value: Any) -> str:
    if not isinstance(value, Mapping):
        return text(value)
    names = [text(value[key]) for key in ("multiply", "accumulate") if value.get(key)]
    joined = " × ".join(names[:1]) if len(set(names)) <= 1 else f"{names[0]}, sum {names[1]}"
    return f"{joined}, fast math" if value.get("fast_math") else joined


def _with_slugs(kernels: tuple[KernelView, ...]) -> list[KernelView]:
    taken: set[str] = set()
    named = []
    for kernel in kernels:
        stem = slug(kernel.name)
        unique, n = stem, 1
        while unique.lower() in taken:
            n += 1
            unique = f"{stem}-{n}"
        taken.add(unique.lower())
        named.append(replace(kernel, slug=unique))
    return named


def slug(name: str) -> str:
    """`name` as a safe file name and HTML id."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-")[:80] or "kernel"


def _worst_status(checks: tuple[CheckView, ...]) -> str:
    return min((c.status for c in checks), key=lambda s: STATUS_ORDER.get(s, UNKNOWN_STATUS), default="error")


def _size(case: CaseView) -> tuple[int, int]:
    return (case.elements, sum(case.dims.values()))


def _items(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list | tuple) else []


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _integers(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list | tuple):
        return ()
    return tuple(int(item) for item in value if isinstance(item, int))


def _json_type(value: Any) -> str:
    names = {list: "list", str: "string", bool: "boolean", int: "number", float: "number", type(None): "null"}
    return names.get(type(value), type(value).__name__)
