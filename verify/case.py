"""One case: everything that decides what a launch is given, as frozen data that survives JSON without loss."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

import numpy as np

Value = TypeVar("Value")


class FrozenMapping(Mapping[str, Value]):
    """A mapping that cannot change and can be hashed; equal to any mapping with the same items."""

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, Value] | None = None) -> None:
        self._items = dict(items or {})

    def __getitem__(self, key: str) -> Value:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(frozenset(self._items.items()))

    def __repr__(self) -> str:
        return repr(self._items)

    def __reduce__(self) -> tuple[type[FrozenMapping[Value]], tuple[dict[str, Value]]]:
        return type(self), (self._items,)


@dataclass(frozen=True)
class Case:
    """One launch of one kernel, before any array exists; the inputs are a pure function of it.

    `dims`: size of each dim. `config`: launcher keywords. `layouts`: layout of each array argument that is not
    contiguous. `values`: a name of `values.py`. `scalars`: scalars and flags. `absent`: optional arguments passed as
    None. `scenario`: why the case is there.
    """

    dims: Mapping[str, int]
    config: Mapping[str, Any] = field(default_factory=FrozenMapping)
    layouts: Mapping[str, str] = field(default_factory=FrozenMapping)
    values: str = "mixture"
    scalars: Mapping[str, float | int | bool] = field(default_factory=FrozenMapping)
    absent: tuple[str, ...] = ()
    seed: int = 0
    scenario: str = "random"

    def __post_init__(self) -> None:
        for name in ("dims", "config", "layouts", "scalars"):
            items = {key: plain(value) for key, value in getattr(self, name).items()}
            object.__setattr__(self, name, FrozenMapping(items))
        object.__setattr__(self, "absent", tuple(self.absent))

    def layout(self, name: str) -> str:
        """The layout of the array argument `name`."""
        return self.layouts.get(name, "contiguous")

    def to_json(self) -> dict[str, Any]:
        """This case as strict JSON values; `from_json` gives back an equal case, floats to the last bit."""
        out: dict[str, Any] = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, Mapping):
                value = {key: _encode(entry) for key, entry in value.items()}
            out[item.name] = list(value) if isinstance(value, tuple) else value
        return out

    @classmethod
    def from_json(cls, data: Mapping[str, Any] | str) -> Case:
        """The case that `to_json` wrote (an object or its text); ValueError names what is wrong with `data`."""
        if isinstance(data, str):
            data = json.loads(data)
        known = {item.name for item in fields(cls)}
        if not isinstance(data, Mapping) or not isinstance(data.get("dims"), Mapping):
            raise ValueError("a case is a JSON object with at least 'dims'")
        unknown = sorted(set(data) - known)
        if unknown:
            raise ValueError(f"a case has the unknown field {unknown[0]!r}; expected some of {sorted(known)}")
        arguments = dict(data)
        for name in ("dims", "config", "layouts", "scalars"):
            entries = arguments.get(name, {})
            arguments[name] = {key: _decode(entry) for key, entry in entries.items()}
        return cls(**arguments)


def plain(value: Any) -> Any:
    """`value` with NumPy scalars as Python ones and lists as tuples; TypeError where a case file could not hold it."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (list, tuple)):
        return tuple(plain(item) for item in value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"{value!r} cannot be kept in a case; expected None, bool, int, float, str, or a tuple of them")


def _encode(value: Any) -> Any:
    if isinstance(value, tuple):
        return {"tuple": [_encode(item) for item in value]}
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    return value


def _decode(value: Any) -> Any:
    if isinstance(value, Mapping):
        if set(value) == {"tuple"}:
            return tuple(_decode(item) for item in value["tuple"])
        if set(value) == {"float"}:
            return float(value["float"])
        raise ValueError(f"a case holds {dict(value)!r}; expected a plain value, a tuple or a float")
    return value
