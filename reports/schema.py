"""What the JSON of a run has to look like: fields that are missing or of another type are refused by name.

The fields of contract 1 and those of docs/design/report_data.md. Fields that are not named here are ignored, so that an
older refkit reads what a newer one wrote; optional fields may be absent or null.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from refkit.reports.values import number

SCHEMA = 1
STATUSES = ("passed", "failed", "mistrusted", "skipped", "error")

Checker = Callable[[Any, str], None]
"""Raises ReportError where a value is not what belongs in the field of that name."""


class ReportError(ValueError):
    """What was handed in is not a run; the message is one line."""


def _refuse(name: str, value: Any, expected: str) -> None:
    raise ReportError(f"{name} is {_described(value)}, expected {expected}")


def _described(value: Any) -> str:
    names = {list: "list", str: "string", bool: "boolean", int: "number", float: "number", type(None): "null"}
    kind = names.get(type(value), "object" if isinstance(value, Mapping) else type(value).__name__)
    if kind in ("list", "object", "null"):
        return f"a JSON {kind}"
    shown = repr(value)
    return f"the JSON {kind} {shown if len(shown) <= 40 else shown[:37] + '...'}"


def text(value: Any, name: str) -> None:
    """A string."""
    if not isinstance(value, str):
        _refuse(name, value, "a string")


def label(value: Any, name: str) -> None:
    """A string, a number or a boolean: whatever is shown as it stands."""
    if not isinstance(value, str | int | float):
        _refuse(name, value, "a string or a number")


def ratio(value: Any, name: str) -> None:
    """A number, or one of the strings that stand for NaN and the infinities."""
    if number(value) is None:
        _refuse(name, value, "a number, 'NaN', 'Infinity' or '-Infinity'")


def count(value: Any, name: str) -> None:
    """A whole number from 0."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        _refuse(name, value, "a whole number from 0")


def flag(value: Any, name: str) -> None:
    """True or false."""
    if not isinstance(value, bool):
        _refuse(name, value, "true or false")


def anything(value: Any, name: str) -> None:
    """Any value at all."""


def status(value: Any, name: str) -> None:
    """One of the five verdicts."""
    if value not in STATUSES:
        _refuse(name, value, f"one of {', '.join(STATUSES)}")


def list_of(item: Checker) -> Checker:
    """A list, each item of which `item` accepts; items are named by number."""

    def check(value: Any, name: str) -> None:
        if not isinstance(value, list | tuple):
            _refuse(name, value, "a list")
        for position, each in enumerate(value):
            item(each, f"{name}[{position}]")

    return check


def object_of(item: Checker) -> Checker:
    """An object, each value of which `item` accepts."""

    def check(value: Any, name: str) -> None:
        if not isinstance(value, Mapping):
            _refuse(name, value, "an object")
        for key, each in value.items():
            item(each, f"{name}.{key}")

    return check


def either(first: Checker, second: Checker, when: Callable[[Any], bool]) -> Checker:
    """`first` where `when` says so of the value, else `second`."""
    return lambda value, name: (first if when(value) else second)(value, name)


def or_null(item: Checker) -> Checker:
    """null, or what `item` accepts."""
    return either(anything, item, lambda value: value is None)


@dataclass(frozen=True)
class Record:
    """An object with named fields."""

    required: Mapping[str, Checker] = field(default_factory=dict)
    optional: Mapping[str, Checker] = field(default_factory=dict)

    def __call__(self, value: Any, name: str) -> None:
        """Check every known field."""
        if not isinstance(value, Mapping):
            _refuse(name, value, "an object")
        for key, item in self.required.items():
            if key not in value:
                raise ReportError(f"{_joined(name, key)} is missing")
            item(value[key], _joined(name, key))
        for key, item in self.optional.items():
            if value.get(key) is not None:
                item(value[key], _joined(name, key))


def _joined(name: str, key: str) -> str:
    return f"{name}.{key}" if name else key


CASE = Record(
    optional={
        "dims": object_of(count),
        "layout": object_of(text),
        "layouts": object_of(text),
        "config": object_of(anything),
        "scenario": text,
        "values": text,
        "scalars": object_of(anything),
        "absent": list_of(text),
        "ratio": ratio,
        "reduction": count,
        "error": ratio,
        "allowed": ratio,
    }
)
WORST = Record(
    optional={
        "output": text,
        "index": list_of(count),
        "got": ratio,
        "expected": ratio,
        "allowed": ratio,
        "shape": list_of(count),
        "error_map": list_of(list_of(or_null(ratio))),
        "config": object_of(anything),
    }
)
FINDING = either(
    text,
    Record(optional={"kind": text, "message": text, "file": text, "line": count, "code": list_of(text)}),
    lambda value: isinstance(value, str),
)
CHECK = Record(
    required={"name": text, "status": status},
    optional={
        "cases": count,
        "worst_ratio": ratio,
        "message": text,
        "diagnosis": text,
        "case_file": text,
        "replay": text,
        "bound": text,
        "sensitivity": ratio,
        "cases_data": list_of(CASE),
        "case": CASE,
        "worst": WORST,
        "pattern": WORST,
        "findings": list_of(FINDING),
        "ulps": object_of(count),
        "orders": count,
    },
)
_LINE = Record(
    required={"file": text, "line": count, "space": text, "access": text},
    optional={
        "kernel": text,
        "code": text,
        "problem": text,
        **dict.fromkeys(
            ("bytes_per_lane", "lanes", "sectors", "ideal_sectors", "passes", "worst_passes", "ideal_passes"), ratio
        ),
    },
)
_BOUNDED = Record(
    required={"launch_bounds": list_of(count), "registers": count, "spill_bytes": count, "blocks_per_sm": count}
)
_RESOURCES = Record(
    required={"kernel": text, "compute_capability": text},
    optional={
        **dict.fromkeys(("threads", "registers", "spill_bytes", "stack_bytes", "shared_bytes"), count),
        "occupancy": Record(required={"blocks": count, "fraction": ratio, "limits": list_of(text)}),
        "cliff": Record(required={"registers": count, "blocks": count}),
        "bounded": _BOUNDED,
        "bounded_256": _BOUNDED,
        "instructions": object_of(count),
        "problem": text,
    },
)
ANALYSIS = Record(
    optional={
        "case": CASE,
        "lines": list_of(_LINE),
        "resources": list_of(_RESOURCES),
        "fragments": list_of(Record(required={"name": text, "operand": text, "map": list_of(text)})),
        "problem": text,
        "missing": text,
    }
)
MUTATION = Record(required={"mutants": count, "killed": count}, optional={"survived": list_of(text)})
KERNEL = Record(
    required={"name": text, "status": status},
    optional={
        "operator": text,
        "direction": text,
        "precision": either(object_of(anything), text, lambda value: isinstance(value, Mapping)),
        "cases": count,
        "seconds": ratio,
        "source": text,
        "message": text,
        "deterministic": flag,
        "checks": list_of(CHECK),
        "analysis": ANALYSIS,
        "mutation": MUTATION,
    },
)
_FIGURES = ("kernels", "checks", "cases", *STATUSES)
RUN = Record(
    required={"schema": anything, "kernels": list_of(KERNEL)},
    optional={
        "refkit": label,
        "backend": label,
        "profile": label,
        "seed": label,
        "command": text,
        "environment": object_of(anything),
        "interrupted": either(text, flag, lambda value: isinstance(value, str)),
        "summary": Record(optional={**dict.fromkeys(_FIGURES, count), "seconds": ratio}),
    },
)


def check_run(run: Any) -> None:
    """ReportError, in one line that names the field, where `run` is not the JSON object of a run."""
    if not isinstance(run, Mapping):
        raise ReportError(f"the run is {_described(run)}, expected an object as `refkit all --json FILE` writes it")
    if run.get("schema", SCHEMA) != SCHEMA:
        raise ReportError(f"schema is {run['schema']!r}, this refkit reads {SCHEMA}")
    RUN(run, "")
