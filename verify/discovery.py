"""Specs found where they are written: refkit's own by listing a folder, a user's by file or module.

load_target("scale_rows.py")            every spec in the file
load_target("my.package.kernels:scale") one of them, by its name or its variable's
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import os
import pkgutil
import re
import sys
import zlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from refkit.verify.environment import simulator_problem
from refkit.verify.errors import USERS_FAULTS, SpecError, TargetError, raised_at
from refkit.verify.spec import KernelSpec

_MODULE_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


@cache
def shipped() -> Mapping[str, KernelSpec]:
    """Every spec of `verify/specs` by name, module by module; `TargetError` where one cannot be imported."""
    from refkit.verify import specs

    found: dict[str, KernelSpec] = {}
    for entry in pkgutil.iter_modules(specs.__path__):
        name = f"{specs.__name__}.{entry.name}"
        with import_context():
            module = _guarded_import(name, name)
        for variable, spec in _specs_of(module):
            _add(found, _operator(spec.named(_short(variable)), entry.name), name)
    return found


def _operator(spec: KernelSpec, stem: str) -> KernelSpec:
    # One operator, one name: that of its files. A kernel that came from elsewhere still belongs to the spec's file.
    return spec if spec.operator != spec.name else spec.of_operator(stem)


def load_target(text: str) -> dict[str, KernelSpec]:
    """The specs of `path/to/file.py` or `package.module`, either with `:name`, by name.

    Raises `TargetError` where there is no such file, module or name, where it holds no spec, or where its own code
    raises on import; `SpecError` where one of its specs is wrong. Both are one line.
    """
    where, colon, wanted = text.partition(":")
    if not where or (colon and not wanted):
        raise TargetError(f"{text!r} is not a target; expected path/to/file.py or package.module, either with :name")
    is_path = _is_path(where)
    module = import_target(where)
    target = str(Path(where).resolve()) if is_path else where
    found: dict[str, KernelSpec] = {}
    variables: dict[str, str] = {}
    for variable, spec in _specs_of(module):
        # A variable that is just "spec" says nothing; the launcher does.
        spec = spec.named(spec.name if variable == "spec" else _short(variable), target)
        _add(found, spec, where)
        variables[variable] = spec.name
    if not found:
        raise TargetError(
            f"{where}: no KernelSpec in it; expected a module variable such as scale_spec = KernelSpec(...)"
        )
    if not wanted:
        return found
    name = wanted if wanted in found else variables.get(wanted, "")
    if not name:
        raise TargetError(f"{where}: no spec named {wanted!r}; {_suggest(wanted, [*found, *variables], list(found))}")
    return {name: found[name]}


def import_target(where: str) -> ModuleType:
    """The module of `path/to/file.py` or `package.module`; `TargetError` where there is none or its own code raises."""
    with import_context():
        return _import_file(Path(where)) if _is_path(where) else _import_module(where)


def _is_path(where: str) -> bool:
    path = Path(where)
    is_path = path.suffix == ".py" or os.sep in where or path.exists()
    # A module may lie beside a folder or file of the same name without suffix.
    return is_path and not (path.suffix != ".py" and _MODULE_NAME.fullmatch(where) and _finds(where))


def find_spec(target: str, name: str) -> KernelSpec:
    """The spec `name` of `target`, or of the shipped ones where `target` is empty; raises `TargetError` or
    `SpecError`."""
    specs = load_target(target) if target else shipped()
    if name not in specs:
        raise TargetError(f"{target or 'refkit'} has no spec named {name!r}; it has {', '.join(sorted(specs))}")
    return specs[name]


@contextmanager
def import_context() -> Iterator[None]:
    """Where targets are imported: with emulation on a machine without a GPU, so that eagerly typed kernels import.

    `TargetError` where Numba's own simulator is switched on: kernels would have no compiled form to run or to read.
    """
    problem = simulator_problem()
    if problem:
        raise TargetError(problem)
    with nullcontext() if _gpu_available() else _emulation():
        yield


@cache
def _gpu_available() -> bool:
    from numba import cuda

    return bool(cuda.is_available())


def _emulation() -> AbstractContextManager[Any]:
    from refkit import cpu

    return cpu.emulate()


# -- importing ----------------------------------------------------------------------------------------------------


def _import_file(path: Path) -> ModuleType:
    """The module of a file, imported under a name of its own, its folder first on sys.path meanwhile."""
    if not path.exists():
        close = difflib.get_close_matches(path.name, [other.name for other in path.parent.glob("*.py")], n=1)
        hint = f"; did you mean {path.parent / close[0]}?" if close else ""
        raise TargetError(f"{path}: no such file{hint}")
    if path.is_dir():
        raise TargetError(f"{path} is a folder; expected a Python file")
    if path.suffix != ".py":
        raise TargetError(f"{path} is not a Python file; expected a name that ends with .py")
    path = path.resolve()
    # Its own name: a user's numpy.py or verify.py must not take the place of the real one, nor be taken for it.
    name = f"refkit_target_{path.stem}_{zlib.crc32(os.fsencode(path)):08x}"
    loader_spec = importlib.util.spec_from_file_location(name, path)
    assert loader_spec is not None
    assert loader_spec.loader is not None
    module = importlib.util.module_from_spec(loader_spec)
    sys.modules[name] = module
    try:
        with _on_path(str(path.parent)), _own_errors(str(path)):
            loader_spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _import_module(name: str) -> ModuleType:
    if not _MODULE_NAME.fullmatch(name):
        raise TargetError(f"{name!r} is not a target; expected path/to/file.py or package.module, either with :name")
    with _on_path(os.getcwd()):
        return _guarded_import(name, name)


def _guarded_import(name: str, shown: str) -> ModuleType:
    with _own_errors(shown):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            # The target itself is missing, not something that it imports.
            if error.name and (name == error.name or name.startswith(error.name + ".")):
                raise TargetError(f"{shown}: no module named {error.name!r}") from None
            raise


@contextmanager
def _own_errors(shown: str) -> Iterator[None]:
    """Whatever the target's code raises becomes one line with the target's own file and line."""
    try:
        yield
    except (SpecError, TargetError):
        raise
    except SyntaxError as error:
        line = f":{error.lineno}" if error.lineno else ""
        raise TargetError(f"{error.filename or shown}{line}: {error.msg}") from error
    except USERS_FAULTS as error:
        text = " ".join(str(error).split())
        raise TargetError(f"{raised_at(error) or shown}: {type(error).__name__}: {text}".rstrip(": ")) from error


@contextmanager
def _on_path(folder: str) -> Iterator[None]:
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        # The target may have changed sys.path itself.
        if folder in sys.path:
            sys.path.remove(folder)


def _finds(name: str) -> bool:
    """True where Python finds a module of this name with a file of its own (a plain folder has none)."""
    with _on_path(os.getcwd()):
        try:
            found = importlib.util.find_spec(name)
        except (ImportError, ValueError):
            return False
    return found is not None and found.origin is not None


# -- specs in a module --------------------------------------------------------------------------------------------


def _specs_of(module: ModuleType) -> Iterator[tuple[str, KernelSpec]]:
    """Variable and spec, for each spec of `module` once, those in its lists and dicts included."""
    seen: set[int] = set()
    for variable, value in list(vars(module).items()):
        if variable.startswith("__"):
            continue
        for name, spec in _specs_in(variable, value):
            if id(spec) not in seen:
                seen.add(id(spec))
                yield name, spec


def _specs_in(variable: str, value: object) -> Iterator[tuple[str, KernelSpec]]:
    if isinstance(value, KernelSpec):
        yield variable, value
    elif isinstance(value, (list, tuple)):
        for position, item in enumerate(value):
            if isinstance(item, KernelSpec):
                yield f"{_short(variable)}_{position}", item
    elif isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, KernelSpec):
                yield f"{_short(variable)}_{key}", item


def _short(variable: str) -> str:
    for suffix in ("_spec", "_specs"):
        if variable.endswith(suffix) and variable != suffix:
            return variable.removesuffix(suffix)
    return variable


def _add(found: dict[str, KernelSpec], spec: KernelSpec, where: str) -> None:
    if spec.name in found:
        raise TargetError(f"{where}: two specs are named {spec.name!r}: {found[spec.name].source} and {spec.source}")
    found[spec.name] = spec


def _suggest(wanted: str, names: list[str], shown: list[str]) -> str:
    close = difflib.get_close_matches(wanted, names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"expected one of {', '.join(shown)}"
