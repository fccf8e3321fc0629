"""numba-cuda's frontend without what IR for the CPU has no use for, and with its repeated work remembered.

The frontend takes most of the time of a cold verification. What it does for debuggers (the types and homes of
variables) and for its own assertions between passes is left out; sizes of types, line records and the typing of
built-in operations are remembered. The IR that comes out has the same instructions and the same lines.
"""

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from llvmlite import ir
from numba.cuda import lowering, target, types
from numba.cuda.core import base as core_base
from numba.cuda.core import compiler_machinery, postproc, targetconfig
from numba.cuda.core import errors as cuda_errors
from numba.cuda.core import ir as numba_ir
from numba.cuda.debuginfo import CUDADIBuilder
from numba.cuda.misc import firstlinefinder
from numba.cuda.typing.context import BaseContext as TypingContext


class LineRecords(CUDADIBuilder):
    """Debug information that holds the line of each instruction and nothing about variables."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._locations: dict[tuple[int, int], Any] = {}

    def mark_location(self, builder: Any, line: int) -> None:
        """Give the instructions that follow a line; one record serves all instructions of a line."""
        key = len(self.subprograms), line
        location = self._locations.get(key)
        if location is None:
            location = self._locations[key] = self._di_location(line)
        builder.debug_metadata = location

    def mark_variable(self, *arguments: Any, **named: Any) -> None:
        """Nothing: no debugger will ask for a variable."""

    def update_variable(self, *arguments: Any, **named: Any) -> None:
        """Nothing: no debugger will ask for a variable."""

    def _di_subroutine_type(self, line: int, function: Any, argmap: Any) -> Any:
        return self.module.add_debug_info("DISubroutineType", {"types": self.module.add_metadata([])})


# -- sizes of LLVM types ------------------------------------------------------------------------------------------


def _sized(original: Callable[..., int]) -> Callable[..., int]:
    """`Type.get_abi_size` and its like, which parse a module for every answer, with the answers kept."""
    known: dict[Any, tuple[int, Any]] = {}

    @functools.wraps(original)
    def size(self: ir.Type, target_data: Any, *more: Any) -> int:
        text = str(self)
        if "%" in text or more:  # a named structure means what its context says
            return original(self, target_data, *more)
        key = text, id(target_data)
        if key not in known:
            known[key] = original(self, target_data), target_data  # kept alive, so that its id stays its own
        return known[key][0]

    return size


_SIZES = {name: _sized(getattr(ir.Type, name)) for name in ("get_abi_size", "get_abi_alignment")}

# -- flags of a compilation ---------------------------------------------------------------------------------------


def _same_flags(self: Any, other: Any) -> Any:
    """`TargetConfig.__eq__`, which compares defaults too, for the usual case that the values set are the same."""
    if not isinstance(other, targetconfig.TargetConfig):
        return NotImplemented
    if type(self) is type(other) and self._values == other._values:
        return True
    return self.values() == other.values()


def _hash_of_flags(self: Any) -> int:
    """`TargetConfig.__hash__`: that of the option names, as in the original."""
    return _hash_of_names(tuple(self.options))


@functools.cache
def _hash_of_names(names: tuple[str, ...]) -> int:
    return hash(tuple(sorted(names)))


# -- what is asked of the same function or statement again and again ----------------------------------------------


def _variables(statement: Any, value: Any) -> list[Any]:
    """`Inst._rec_list_vars`, the variables in a value of Numba's IR, the frequent kinds first."""
    found: list[Any] = []
    _collect(value, found)
    return found


_LEAVES = frozenset({str, int, float, bool, type(None), numba_ir.Loc, type(_variables), type(abs)})


def _collect(value: Any, found: list[Any]) -> None:
    kind = type(value)
    if kind is numba_ir.Var:
        found.append(value)
    elif kind is dict:
        for member in value.values():
            _collect(member, found)
    elif kind in _LEAVES:
        return
    elif isinstance(value, numba_ir.var_types):
        found.append(value)
    elif isinstance(value, numba_ir.inst_types):
        found.extend(value.list_vars())
    elif isinstance(value, (list, tuple)):
        for member in value:
            _collect(member, found)
    elif isinstance(value, dict):
        for member in value.values():
            _collect(member, found)


_by_code: dict[Any, int | None] = {}


def _line_of_definition(function: Any) -> int | None:
    """`get_func_def_lineno`, which parses the source of a function, once for all that a factory makes of it."""
    code = function.__code__
    if code not in _by_code:
        _by_code[code] = firstlinefinder.get_func_def_lineno(function)
    return _by_code[code]


_takes_location = functools.lru_cache(maxsize=4096)(core_base._has_loc)

# -- passes -------------------------------------------------------------------------------------------------------


def _run_pass(self: Any, index: int, pss: Any, state: Any) -> None:
    """`PassManager._runPass` without events, timings and assertions."""
    pss.analysis = self._analysis
    with cuda_errors.new_error_context(f"Pass {pss.name()}"):
        mutated = bool(pss.run_initialization(state))
        mutated |= bool(pss.run_pass(state))
        mutated |= bool(pss.run_finalizer(state))
    if compiler_machinery._pass_registry.get(type(pss)).mutates_CFG:
        if mutated:
            postproc.PostProcessor(state.func_ir).run()
        else:
            state.func_ir.blocks = compiler_machinery.transforms.canonicalize_cfg(state.func_ir.blocks)


def _post_process(original: Callable[..., None]) -> Callable[..., None]:
    """`PostProcessor.run` that leaves the live variables of blocks out where nothing reads them."""

    @functools.wraps(original)
    def run(self: Any, emit_dels: bool = False, extend_lifetimes: bool = False) -> None:
        if emit_dels or self.func_ir.is_generator:
            original(self, emit_dels, extend_lifetimes)
            return
        self.func_ir.blocks = compiler_machinery.transforms.canonicalize_cfg(self.func_ir.blocks)
        self.func_ir.variable_lifetime = postproc.VariableLifetime(self.func_ir.blocks)  # computed when asked for
        self.func_ir.generator_info = None

    return run


# -- typing -------------------------------------------------------------------------------------------------------

_FUNCTIONS = (types.Callable, types.Dispatcher)


def _remembering(original: Callable[..., Any], known: dict[Any, Any]) -> Callable[..., Any]:
    """`_resolve_user_function_type` that keeps the signatures of built-in functions in `known`.

    Only of those that Numba implements itself: an overload written in Python is compiled when its call is typed.
    """

    @functools.wraps(original)
    def resolve(self: Any, func: Any, args: Any, kws: Any, literals: Any = None) -> Any:
        kind = func if isinstance(func, types.Type) else self._lookup_global(func)
        if type(kind) is not types.Function or kws or literals is not None:
            return original(self, func, args, kws, literals)
        key = id(self), kind, args
        found = known.get(key)
        if found is None:
            found = original(self, func, args, kws, literals)
            simple = not any(isinstance(argument, _FUNCTIONS) for argument in args)
            if found is not None and simple and kind._impl_keys.get(found.args) == kind.typing_key:
                known[key] = found
        return found

    return resolve


def _refresh(original: Callable[..., None]) -> Callable[..., None]:
    """`refresh` of a context, for each function that is compiled, where nothing was declared since the last one."""

    @functools.wraps(original)
    def refresh(context: Any) -> None:
        key = id(context._registries)  # which the contexts of single functions share
        if _declarations.get(key) != _count_of_declarations(context):
            original(context)
            _declarations[key] = _count_of_declarations(context)

    return refresh


_declarations: dict[int, int] = {}
_registries: dict[int, tuple[int, list[Any]]] = {}


def _count_of_declarations(context: Any) -> int:
    """Entries in the registries that a context reads, which only grow."""
    known = context._registries
    count, lists = _registries.get(id(known), (-1, []))
    if count != len(known):
        lists = [getattr(registry, name) for registry, loader in known.items() for name in loader.registry_items]
        _registries[id(known)] = len(known), lists
    return sum(map(len, lists))


_remembered: dict[Any, dict[Any, Any]] = {}


@contextmanager
def lean(flavour: Any = None) -> Iterator[None]:
    """Inside, the frontend works as the module says. What is remembered is kept apart by `flavour`: whatever else
    changes how built-in operations are compiled."""
    known = _remembered.setdefault(flavour, {})
    resolve = TypingContext._resolve_user_function_type
    patches: list[tuple[Any, str, Any]] = [
        *((ir.Type, name, size) for name, size in _SIZES.items()),
        (target.CUDATargetContext, "DIBuilder", LineRecords),
        (lowering.CUDALower, "storevar", lowering.Lower.storevar),
        (lowering, "get_func_def_lineno", _line_of_definition),
        (core_base, "_has_loc", _takes_location),
        (numba_ir.Inst, "_rec_list_vars", _variables),
        (targetconfig.TargetConfig, "__eq__", _same_flags),
        (targetconfig.TargetConfig, "__hash__", _hash_of_flags),
        (compiler_machinery.PassManager, "_runPass", _run_pass),
        (postproc.PostProcessor, "run", _post_process(postproc.PostProcessor.run)),
        (TypingContext, "_resolve_user_function_type", _remembering(resolve, known)),
        (TypingContext, "refresh", _refresh(TypingContext.refresh)),
        (core_base.BaseContext, "refresh", _refresh(core_base.BaseContext.refresh)),
    ]
    with ExitStack() as stack:
        for owner, name, value in patches:
            stack.enter_context(mock.patch.object(owner, name, value))
        yield
