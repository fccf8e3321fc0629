"""Result records: what a verification found, as frozen data and as the JSON object of `--json`.

    RunRecord ─┬─ KernelRecord ─┬─ CheckRecord ─┬─ CaseRecord      one judged case
               ├─ environment   └─ ...          ├─ WorstRecord     the worst element and a coarse map of the error
               └─ ...                           └─ SourceFinding   a sanitizer's finding at a source line

`to_json()` gives plain, strict JSON values: a float that JSON cannot write is the string "NaN", "Infinity" or
"-Infinity", which Python's `float()` reads back. `from_json()` is the inverse, and ignores fields that it does not
know, so that an older refkit reads what a newer one wrote.
"""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

SCHEMA = 1
"""The number of the JSON layout: fields may be added under the same number, never changed in meaning."""


class Verdict(enum.StrEnum):
    """What a check, and a kernel as a whole, came to."""

    PASSED = "passed"
    FAILED = "failed"
    MISTRUSTED = "mistrusted"
    SKIPPED = "skipped"
    ERROR = "error"

    @property
    def holds(self) -> bool:
        """True where nothing is wrong: the check passed, or was left out for a stated reason."""
        return self in (Verdict.PASSED, Verdict.SKIPPED)


# The verdict of a kernel is the worst of its checks; a kernel with nothing but skips is itself skipped.
SEVERITY = (Verdict.SKIPPED, Verdict.PASSED, Verdict.MISTRUSTED, Verdict.ERROR, Verdict.FAILED)


def worst_verdict(verdicts: Sequence[Verdict]) -> Verdict:
    """The most severe of `verdicts`: failed, error, mistrusted, passed, skipped; of none at all, skipped."""
    return max(verdicts, key=SEVERITY.index, default=Verdict.SKIPPED)


@dataclass(frozen=True)
class CaseRecord:
    """One judged case. `ratio` is its largest |error| / allowed error, None where nothing was compared.

    `reduction` is the length of the longest sum behind the output with that ratio, `error` and `allowed` the root mean
    square of that output's error and allowed error, both relative to the root mean square of what was expected; None
    where they were not measured.
    """

    dims: Mapping[str, int]
    layout: Mapping[str, str]
    config: Mapping[str, Any]
    ratio: float | None
    scenario: str = ""
    values: str = ""
    seed: int = 0
    scalars: Mapping[str, Any] = field(default_factory=dict)
    absent: tuple[str, ...] = ()
    reduction: int | None = None
    error: float | None = None
    allowed: float | None = None


@dataclass(frozen=True)
class WorstRecord:
    """The worst element of a check and where on its output the error sits.

    `error_map` is a coarse picture, rows by columns, of the output seen as a matrix (the last axis is the column, all
    axes before it the row): each cell holds the largest |error| / allowed error inside it. `map_shape` is that
    matrix's shape. `config` is the configuration of the launch, from which the report takes the tile edges. `ulps`
    counts the elements of the output by their distance from the expected value, as in `CheckRecord`; `rms_error` and
    `rms_allowed` are the `error` and `allowed` of `CaseRecord`.
    """

    output: str
    index: tuple[int, ...]
    expected: float
    got: float
    allowed: float
    ratio: float
    shape: tuple[int, ...] = ()
    error_map: tuple[tuple[float, ...], ...] = ()
    map_shape: tuple[int, ...] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    ulps: Mapping[str, int] = field(default_factory=dict)
    rms_error: float | None = None
    rms_allowed: float | None = None


@dataclass(frozen=True)
class SourceFinding:
    """What a sanitizer or the memory model saw at one source line of a kernel.

    `code` is the text of the lines around it, from line `code_start` on.
    """

    kind: str
    message: str
    file: str = ""
    line: int = 0
    code: tuple[str, ...] = ()
    code_start: int = 0


@dataclass(frozen=True)
class CheckRecord:
    """One check of one kernel.

    `worst_ratio` is the largest |error| / allowed error seen (below 1 holds); `bound` is `tracked`, `estimated` or
    `exact`; `sensitivity` is the smallest relative fault that these cases would have caught; `case` is the failing
    case, made small, and `worst` its worst element; `pattern` is that of a larger case that fails likewise, where the
    error map shows where the error sits. `ulps` counts output elements by their distance from the expected value in
    units in the last place: "0", then by the lower end of a bin that reaches to twice its value ("1", "2", "4", ...),
    and "inf" where one of the two is not finite. `orders` is how many orders of threads each case ran in beside the
    plain one, where a check tries several.
    """

    name: str
    status: Verdict
    cases: int = 0
    worst_ratio: float | None = None
    message: str = ""
    diagnosis: str = ""
    case_file: str = ""
    bound: str = ""
    sensitivity: float | None = None
    cases_data: tuple[CaseRecord, ...] = ()
    case: CaseRecord | None = None
    worst: WorstRecord | None = None
    pattern: WorstRecord | None = None
    findings: tuple[SourceFinding, ...] = ()
    ulps: Mapping[str, int] = field(default_factory=dict)
    orders: int | None = None

    def to_json(self) -> dict[str, Any]:
        """This record as plain JSON values."""
        return _plain(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> CheckRecord:
        """The record that `to_json` wrote."""
        return _build(
            cls,
            data,
            status=Verdict,
            worst_ratio=_number,
            sensitivity=_number,
            cases_data=lambda rows: tuple(_case(row) for row in rows),
            case=lambda row: None if row is None else _case(row),
            worst=_worst,
            pattern=_worst,
            findings=lambda rows: tuple(_build(SourceFinding, row, code=tuple) for row in rows),
        )


@dataclass(frozen=True)
class KernelRecord:
    """One kernel: its verdict, its checks, and where it came from. `cases` counts the distinct cases judged.

    `wrong_call` marks an `error` that lies with the spec, not with the kernel: its reference raises, or returns
    another shape. `analysis` is this kernel's entry of `analyze --json` where the run was asked for it; `mutation` what
    mutation testing found: `mutants`, `killed` and `survived` (a list of what each survivor changed).
    """

    name: str
    operator: str
    precision: str
    status: Verdict
    cases: int
    seconds: float
    checks: tuple[CheckRecord, ...] = ()
    direction: str = "forward"
    deterministic: bool = True
    target: str = ""
    source: str = ""
    message: str = ""
    wrong_call: bool = False
    analysis: Mapping[str, Any] | None = None
    mutation: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """This record as plain JSON values."""
        return _plain(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> KernelRecord:
        """The record that `to_json` wrote."""
        return _build(cls, data, status=Verdict, checks=lambda rows: tuple(CheckRecord.from_json(row) for row in rows))


@dataclass(frozen=True)
class RunRecord:
    """One run of `all` or `fuzz`: everything that `--json` writes and the report reads."""

    refkit: str
    backend: str
    profile: str
    seed: int
    kernels: tuple[KernelRecord, ...]
    seconds: float
    environment: Mapping[str, Any] = field(default_factory=dict)
    command: str = ""
    interrupted: bool = False
    schema: int = SCHEMA

    @property
    def summary(self) -> dict[str, Any]:
        """Counts over the run; `passed` to `error` count kernels, `checks` and `cases` add up over them."""
        counts = {verdict.value: sum(k.status is verdict for k in self.kernels) for verdict in Verdict}
        return {
            "kernels": len(self.kernels),
            "checks": sum(len(k.checks) for k in self.kernels),
            "cases": sum(k.cases for k in self.kernels),
            **counts,
            "seconds": self.seconds,
        }

    def to_json(self) -> dict[str, Any]:
        """This record as plain JSON values, `summary` included."""
        plain = _plain(self)
        kernels = plain.pop("kernels")
        head = {key: plain.pop(key) for key in ("schema", "refkit", "backend", "profile", "seed", "environment")}
        plain.pop("seconds")
        return {**head, "summary": self.summary, **plain, "kernels": kernels}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RunRecord:
        """The record that `to_json` wrote; ValueError where `data` has another schema."""
        if data.get("schema") != SCHEMA:
            raise ValueError(f"a result of schema {SCHEMA} is expected, this one says {data.get('schema')!r}")
        flat = {**data, "seconds": data["summary"]["seconds"]}
        return _build(cls, flat, kernels=lambda rows: tuple(KernelRecord.from_json(row) for row in rows))


def _plain(value: Any) -> Any:
    """`value` as strict JSON: records become objects, enums their values, NaN and infinities strings."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, str) or value is None or isinstance(value, bool):
        return value
    if isinstance(value, Sequence):
        return [_plain(item) for item in value]
    if hasattr(value, "item"):  # a NumPy scalar
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    return value


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _case(data: Mapping[str, Any]) -> CaseRecord:
    return _build(CaseRecord, data, ratio=_number, error=_number, allowed=_number, absent=tuple)


def _worst(data: Mapping[str, Any] | None) -> WorstRecord | None:
    if data is None:
        return None
    return _build(
        WorstRecord,
        data,
        index=tuple,
        expected=float,
        got=float,
        allowed=float,
        ratio=float,
        shape=tuple,
        map_shape=tuple,
        rms_error=_number,
        rms_allowed=_number,
        error_map=lambda rows: tuple(tuple(float(cell) for cell in row) for row in rows),
    )


T = TypeVar("T")


def _build(cls: type[T], data: Mapping[str, Any], **convert: Any) -> T:
    known = {f.name for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    return cls(**{key: convert.get(key, _same)(item) for key, item in data.items() if key in known})


def _same(value: Any) -> Any:
    return value
