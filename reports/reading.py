"""The JSON of a run read into the views of model.py; an optional field that is absent costs its part of the page."""

from __future__ import annotations

import gzip
import json
import re
import shlex
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from refkit.reports.analysis import read_analysis
from refkit.reports.model import CaseView, CheckView, FindingView, KernelView, MutationView, RunView, WorstView
from refkit.reports.schema import ReportError, check_run
from refkit.reports.values import count, exceeds, number, text

__all__ = ["ReportError", "read_case", "read_file", "read_run", "slug"]

MAP_LIMIT = 64
STATUS_ORDER = {"failed": 0, "error": 1, "mistrusted": 2, "passed": 3, "skipped": 4}


def read_file(path: Path) -> Any:
    """The JSON in a file, packed with gzip or not; ReportError, which begins with the file's name, where it holds none,
    and OSError where it cannot be read."""
    data = path.read_bytes()
    try:
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        return json.loads(data.decode("utf-8"))
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ReportError(f"{path}: not a whole gzip file: {error}") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise ReportError(f"{path}: not JSON: {error.msg} at {place}") from None
    except UnicodeDecodeError as error:
        raise ReportError(f"{path}: not UTF-8 text: byte {error.start} is {error.object[error.start]:#04x}") from None
    except RecursionError:
        raise ReportError(f"{path}: nested too deeply for a run") from None


def read_run(run: Any) -> RunView:
    """The run of contract 1's JSON object; ReportError, naming the field, where it is not one."""
    check_run(run)
    kernels = tuple(_read_kernel(entry) for entry in run["kernels"])
    kernels = tuple(sorted(_with_slugs(kernels), key=lambda kernel: STATUS_ORDER[kernel.status]))
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
    checks = tuple(_read_check(check) for check in entry.get("checks") or ())
    return KernelView(
        name=text(entry["name"]) or "unnamed kernel",
        operator=text(entry.get("operator")),
        direction=text(entry.get("direction")),
        precision=_precision(entry.get("precision")),
        status=entry["status"],
        cases=count(entry.get("cases"), sum(check.cases for check in checks)),
        seconds=number(entry.get("seconds")),
        source=text(entry.get("source")),
        message=text(entry.get("message")),
        checks=checks,
        deterministic=entry.get("deterministic"),
        analysis=read_analysis(entry.get("analysis")),
        mutation=_read_mutation(entry.get("mutation")),
    )


def _read_mutation(entry: Mapping[str, Any] | None) -> MutationView | None:
    if entry is None:
        return None
    return MutationView(entry["mutants"], entry["killed"], tuple(text(each) for each in entry.get("survived") or ()))


def _read_check(entry: Mapping[str, Any]) -> CheckView:
    cases_data = tuple(read_case(case) for case in entry.get("cases_data") or ())
    shrunk = entry.get("case")
    failing = [case for case in cases_data if exceeds(case.ratio)]
    case_file = text(entry.get("case_file"))
    replay = text(entry.get("replay"))
    if not replay and case_file:
        replay = f"python -m refkit.verify replay {shlex.quote(case_file)}"
    return CheckView(
        name=text(entry["name"]) or "unnamed check",
        status=entry["status"],
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
        findings=tuple(_finding(item) for item in entry.get("findings") or ()),
        ulps=_object(entry.get("ulps")),
        orders=entry.get("orders"),
        pattern=_read_worst(entry.get("pattern")),
    )


def read_case(entry: Mapping[str, Any]) -> CaseView:
    """One case."""
    return CaseView(
        dims={text(key): size for key, size in _object(entry.get("dims")).items()},
        layouts={
            text(key): text(layout) for key, layout in _object(entry.get("layout") or entry.get("layouts")).items()
        },
        config=_object(entry.get("config")),
        scenario=text(entry.get("scenario")),
        values=text(entry.get("values")),
        scalars=_object(entry.get("scalars")),
        absent=tuple(text(name) for name in entry.get("absent") or ()),
        ratio=number(entry.get("ratio")),
        reduction=entry.get("reduction"),
        error=number(entry.get("error")),
        allowed=number(entry.get("allowed")),
    )


def _read_worst(entry: Mapping[str, Any] | None) -> WorstView | None:
    if not entry:
        return None
    return WorstView(
        output=text(entry.get("output")),
        index=tuple(entry.get("index") or ()),
        got=number(entry.get("got")),
        expected=number(entry.get("expected")),
        allowed=number(entry.get("allowed")),
        shape=tuple(entry.get("shape") or ()),
        map=_read_map(entry.get("error_map") or ()),
        config=_object(entry.get("config")),
    )


def _read_map(rows: Sequence[Sequence[Any]]) -> np.ma.MaskedArray | None:
    """A masked float64 array (m, n) with m, n <= MAP_LIMIT; None is masked."""
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


def _finding(item: Any) -> FindingView:
    if not isinstance(item, Mapping):
        return FindingView(text(item), "")
    line = item.get("line") or 0
    place = text(item.get("file")) + (f":{line}" if line else "")
    head = ": ".join(part for part in (text(item.get("kind")), text(item.get("message"))) if part)
    known = ("kind", "message", "file", "line", "code", "code_start")
    rest = [f"{key}: {text(value)}" for key, value in item.items() if key not in known and value]
    start = item.get("code_start") or line
    code = tuple((start + i, text(each), start + i == line) for i, each in enumerate(item.get("code") or ()))
    return FindingView(head, place, " · ".join(rest), code)


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


def _size(case: CaseView) -> tuple[int, int]:
    return (case.elements, sum(case.dims.values()))


def _object(value: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return value or {}
