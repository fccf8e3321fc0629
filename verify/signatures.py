"""Do the launcher and the reference of a spec take what the spec says? Each mismatch is one line that names it."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from inspect import Parameter
from typing import Any

from refkit.verify.errors import SpecError

_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


def name_of(function: object) -> str:
    """The name to show for a callable."""
    name = getattr(function, "__name__", "") or type(function).__name__
    return "lambda" if name == "<lambda>" else name


def parameters(function: Callable[..., Any]) -> Mapping[str, Parameter] | None:
    """The parameters of `function` by name; None where Python cannot tell."""
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return None


def check_callable(function: object, field: str, source: str) -> None:
    """`SpecError` where `function` cannot be called, or is a kernel and not a function that launches one."""
    if hasattr(function, "py_func") and hasattr(function, "__getitem__"):
        raise SpecError(
            f"{field} is the kernel {name_of(function)!r}; expected a function that launches it, such as "
            f"`def {field}(...): {name_of(function)}[blocks, threads](...)`",
            source,
        )
    if not callable(function):
        raise SpecError(f"{field} is {function!r}; expected a function", source)


def check_launcher(launch: Callable[..., Any], args: Sequence[str], configs: Sequence[str], source: str) -> None:
    """`SpecError` where the launcher's parameters are not `args`, in order, and `configs`.

    A further parameter is allowed where it has a default.
    """
    known = parameters(launch)
    if known is None:
        return
    kinds = {parameter.kind for parameter in known.values()}
    names = [name for name, parameter in known.items() if parameter.kind in _POSITIONAL]
    named = {*names, *(name for name, parameter in known.items() if parameter.kind is Parameter.KEYWORD_ONLY)}
    shown = f"launcher {name_of(launch)}({', '.join(known)})"
    for where, declared in (("args", args), ("configs", configs)):
        open_ended = Parameter.VAR_POSITIONAL if where == "args" else Parameter.VAR_KEYWORD
        for name in declared:
            if name not in named and open_ended not in kinds:
                raise SpecError(
                    f"{shown} has no parameter {name!r}, which {where} declares{_hint(name, named)}", source
                )
    for name in named:
        if name not in args and name not in configs and known[name].default is Parameter.empty:
            raise SpecError(f"{shown} has the parameter {name!r}, which neither args nor configs declares", source)
    order = [name for name in names if name in args]
    if Parameter.VAR_POSITIONAL not in kinds and names[: len(args)] != list(args):
        raise SpecError(
            f"{shown}: args are declared as ({', '.join(args)}); expected the launcher's order ({', '.join(order)}), "
            "before any other parameter",
            source,
        )


def check_names(
    function: Callable[..., Any], field: str, allowed: Collection[str], refused: Mapping[str, str], source: str
) -> None:
    """`SpecError` where `function` names a parameter that nothing supplies.

    `allowed` are the names that can be passed; `refused` gives, for names that a reader may expect, why not.
    """
    for name, parameter in (parameters(function) or {}).items():
        if parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
            continue
        if parameter.kind is Parameter.POSITIONAL_ONLY:
            raise SpecError(f"{field}: parameter {name!r} is positional-only; arguments are passed by name", source)
        if name not in allowed and parameter.default is Parameter.empty:
            why = refused.get(name, f"expected some of {', '.join(allowed)}{_hint(name, allowed)}")
            raise SpecError(f"{field} names the unknown argument {name!r}; {why}", source)


def _hint(name: str, known: Collection[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def pick(function: Callable[..., Any], available: Mapping[str, Any], always: Collection[str]) -> dict[str, Any]:
    """What `function` takes of `available`; where it takes `**anything`, the names in `always` as well."""
    known = parameters(function)
    if known is None:
        return {name: available[name] for name in always}
    takes_any = any(parameter.kind is Parameter.VAR_KEYWORD for parameter in known.values())
    return {name: value for name, value in available.items() if name in known or (takes_any and name in always)}
