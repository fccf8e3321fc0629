"""A kernel as host IR in SSA form, before it is linked: frontend, translation, polls, unrolling.

The same lowered kernel serves every way of running it: in order, under a schedule, instrumented.
"""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from llvmlite import binding as llvm

from . import engine, frontend, instrument, local_arrays, polls, recursion, translate, unrolling
from .faults import Unsupported
from .memory_model import instrumentation as tracing

_WAITING = re.compile(r"nvvm\.(barrier0|bar\.warp|shfl|vote|match)|cudaCGSynchronize$|rk\.activemask")
# blocks are merged first: an alloca is promoted only where it stands in the entry block
_PASSES = (
    "simplify_cfg",
    "sroa",
    "instruction_combine",
    "simplify_cfg",
    "sroa",
    "loop_simplify",
    "loop_rotate",
    "instruction_combine",
    "simplify_cfg",
)
_AFTER_INLINING = ("sroa", "instruction_combine", "simplify_cfg", "loop_simplify")


@dataclass(frozen=True)
class LoweredKernel:
    """A kernel's host IR and what is known about it."""

    name: str
    file: str
    line: int
    argument_types: tuple[Any, ...]
    translation: translate.Translation
    text: str
    waits: bool  # threads wait for each other at a barrier or a warp operation
    spins: bool  # a loop waits for other threads' atomics
    recursive: bool  # a device function calls itself
    watched: bool = False  # instrumented for the sanitizers
    traced: bool = False  # instrumented for the memory model
    access_sites: tuple[tracing.AccessSite, ...] = ()

    @property
    def grid_barrier(self) -> bool:
        """Whether the kernel synchronises its whole grid."""
        return "cudaCGSynchronize" in self.translation.uses


def lower(
    function: Callable[..., None],
    argument_types: tuple[Any, ...],
    *,
    fastmath: bool = False,
    debug: bool = False,
    watched: bool = False,
    traced: bool = False,
) -> LoweredKernel:
    """Lowers a kernel's Python function for a signature.

    watched: instruments it for the sanitizers. traced: for the memory model; not both.

    Raises what Numba's frontend raises where the kernel does not compile, and `Unsupported` where it links foreign
    code or holds inline assembly without a host meaning.
    """
    file = inspect.getsourcefile(function) or "<unknown>"
    line = function.__code__.co_firstlineno
    ir = frontend.kernel_ir(function, argument_types, fastmath=fastmath, debug=debug, bounds=watched)
    if ir.foreign:
        message = f"linked device code ({', '.join(ir.foreign)}) has no host meaning"
        raise Unsupported(message, kernel=function.__name__, file=file, line=line)
    try:
        translation = translate.translate(ir.modules, ir.entry, file, watched=watched)
    except Unsupported as fault:
        fault.kernel = function.__name__
        fault.file, fault.line = fault.file or file, fault.line or line
        raise
    accesses: list[tracing.AccessSite] | None = [] if traced else None
    text, spins, recursive = _with_polls(translation, file, watched, accesses)
    return LoweredKernel(
        name=function.__name__,
        file=file,
        line=line,
        argument_types=ir.argument_types,
        translation=translation,
        text=text,
        waits=any(_WAITING.match(name) for name in translation.uses)
        or any(meaning.needs_fiber for meaning in translation.meanings.values()),
        spins=spins,
        recursive=recursive,
        watched=watched,
        traced=traced,
        access_sites=tuple(accesses or ()),
    )


def _with_polls(
    translation: translate.Translation, file: str, watched: bool, accesses: list[tracing.AccessSite] | None
) -> tuple[str, bool, bool]:
    """The kernel's text in SSA form with polls; whether a loop waits for other threads; whether a function recurses."""
    text = translation.text
    if accesses is not None:
        text = tracing.with_definitions(text, (meaning.definition for meaning in translation.meanings.values()))
    module = llvm.parse_assembly(engine.retarget(text))
    passes = llvm.create_new_module_pass_manager()
    if accesses is not None:
        tracing.inline_all(module, passes)
    for name in (*_PASSES, *(tracing.PASSES if accesses is not None else ())):
        getattr(passes, f"add_{name}_pass")()
    builder = llvm.create_pass_builder(engine.target_machine(), llvm.create_pipeline_tuning_options(speed_level=1))
    passes.run(module, builder)
    text = str(module)
    if watched:
        if receivers := local_arrays.receivers(text):
            text = _inlined(module, receivers, builder)
        text = instrument.instrument(text, translation.sites, file)
    if accesses is not None:
        text = tracing.instrument(tracing.without_definitions(text), accesses, file, translation.sites)
    text, recursive = recursion.guard_recursion(text, translation.sites, file)
    text, spins = polls.insert_polls(text, translation.sites, file)
    text = "\n".join(line for line in text.splitlines() if not line.startswith("declare") or "@llvm." in line)
    return unrolling.unroll_local_arrays(translate.without_metadata(text)), spins, recursive


def _inlined(module: llvm.ModuleRef, names: set[str], builder: llvm.PassBuilder) -> str:
    """The text of a module after the functions named have become part of their callers."""
    for function in module.functions:
        if function.name in names:
            function.add_function_attribute("alwaysinline")
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    for name in _AFTER_INLINING:
        getattr(passes, f"add_{name}_pass")()
    passes.run(module, builder)
    return str(module)
