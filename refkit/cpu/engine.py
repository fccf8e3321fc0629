"""LLVM: retargets IR to the host, optimises it, and loads it as machine code (llvmlite, MCJIT)."""

import functools
import re
from dataclasses import dataclass

from llvmlite import binding as llvm


@functools.cache
def _initialised() -> bool:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()
    return True


@functools.cache
def _features() -> str:
    """The host's features, less the gathers and scatters, which are slower than scalar accesses on most processors."""
    features = llvm.get_host_cpu_features().flatten()
    if llvm.get_process_triple().startswith("x86_64"):
        features += ",+prefer-no-gather,+prefer-no-scatter"
    return features


@functools.cache
def target_machine(jit_code_model: bool = False) -> llvm.TargetMachine:
    """The host's target machine with all of the host's features."""
    _initialised()
    return llvm.Target.from_default_triple().create_target_machine(
        opt=3,
        jit=True,
        cpu=llvm.get_host_cpu_name(),
        features=_features(),
        codemodel="jitdefault" if jit_code_model else "default",
    )


@functools.cache
def host_header() -> str:
    """The two lines that make IR text host IR."""
    _initialised()
    return f'target triple = "{llvm.get_process_triple()}"\ntarget datalayout = "{target_machine().target_data}"\n'


def retarget(text: str) -> str:
    """IR text with its triple and data layout replaced by the host's."""
    return host_header() + re.sub(r"^target (triple|datalayout) = .*$", "", text, flags=re.MULTILINE)


def optimise(module: llvm.ModuleRef, *, level: int = 3) -> None:
    """Runs LLVM's standard pipeline in place; vectorisation is off in llvmlite by default and on here."""
    options = llvm.create_pipeline_tuning_options(speed_level=level)
    options.slp_vectorization = level >= 2
    options.loop_vectorization = level >= 2
    options.loop_interleaving = level >= 2
    options.loop_unrolling = level >= 2
    builder = llvm.create_pass_builder(target_machine(), options)
    builder.getModulePassManager().run(module, builder)


@dataclass(frozen=True)
class LoadedModule:
    """Machine code in memory; it lives as long as this object."""

    engine: llvm.ExecutionEngine

    def address(self, name: str) -> int:
        """The address of a function."""
        return self.engine.get_function_address(name)


def load(module: llvm.ModuleRef) -> LoadedModule:
    """Generates machine code for a module and loads it; the module belongs to the result."""
    engine = llvm.create_mcjit_compiler(module, _jit_target_machine())
    engine.finalize_object()
    engine.run_static_constructors()
    return LoadedModule(engine)


def _jit_target_machine() -> llvm.TargetMachine:
    # MCJIT takes ownership, so each engine gets a machine of its own
    target_machine()
    return llvm.Target.from_default_triple().create_target_machine(
        opt=3,
        jit=True,
        cpu=llvm.get_host_cpu_name(),
        features=_features(),
        codemodel="jitdefault",
    )
