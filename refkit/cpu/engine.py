"""LLVM: retargets IR to the host, optimises it, and loads it as machine code (llvmlite, MCJIT)."""

import functools
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

import llvmlite
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
def target_machine(level: int = 3) -> llvm.TargetMachine:
    """The host's target machine, with all of the host's features; `level` is how hard it works on its code."""
    _initialised()
    return llvm.Target.from_default_triple().create_target_machine(
        opt=level, jit=True, cpu=llvm.get_host_cpu_name(), features=_features(), codemodel="jitdefault"
    )


@functools.cache
def host_header() -> str:
    """The two lines that make IR text host IR."""
    _initialised()
    return f'target triple = "{llvm.get_process_triple()}"\ntarget datalayout = "{target_machine().target_data}"\n'


def retarget(text: str) -> str:
    """IR text with its triple and data layout replaced by the host's."""
    return host_header() + re.sub(r"\ntarget (?:triple|datalayout) = [^\n]*", "", "\n" + text)


def optimise(module: llvm.ModuleRef, *, level: int = 3) -> None:
    """Runs LLVM's standard pipeline in place; vectorisation is off in llvmlite by default and on here.

    Level 1 is a short pipeline of our own: for code that runs a few hundred times on small arrays, the standard one
    takes several times as long as it saves.
    """
    if level == 1:
        _optimise_shortly(module)
        return
    options = llvm.create_pipeline_tuning_options(speed_level=level)
    options.slp_vectorization = level >= 2
    options.loop_vectorization = level >= 2
    options.loop_interleaving = level >= 2
    options.loop_unrolling = level >= 2
    builder = llvm.create_pass_builder(target_machine(), options)
    builder.getModulePassManager().run(module, builder)


def _optimise_shortly(module: llvm.ModuleRef) -> None:
    """What calls are, what variables hold and what is never reached; loops stay as they are."""
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.add_always_inliner_pass()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.add_new_gvn_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, llvm.create_pass_builder(target_machine(1), llvm.create_pipeline_tuning_options()))


@functools.cache
def identity() -> str:
    """All of the host, of LLVM and of the pipelines here that decides what machine code comes out."""
    _initialised()
    pipelines = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    versions = f"{llvmlite.__version__} {llvm.llvm_version_info} {pipelines}"
    return f"{versions} {llvm.get_process_triple()} {llvm.get_host_cpu_name()} {_features()}"


@dataclass(frozen=True)
class LoadedModule:
    """Machine code in memory; it lives as long as this object."""

    engine: llvm.ExecutionEngine

    def address(self, name: str) -> int:
        """The address of a function."""
        return self.engine.get_function_address(name)


def machine_code(module: llvm.ModuleRef, *, level: int = 3) -> bytes:
    """The object file of an optimised module."""
    return target_machine(level).emit_object(module)


def load(*object_files: bytes) -> LoadedModule:
    """Loads object files into the process; each finds its names in the others, then in the process."""
    _initialised()
    # MCJIT takes ownership of its target machine, so each engine gets one of its own
    machine = llvm.Target.from_default_triple().create_target_machine(
        opt=3, jit=True, cpu=llvm.get_host_cpu_name(), features=_features(), codemodel="jitdefault"
    )
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(host_header()), machine)
    for object_file in object_files:
        engine.add_object_file(llvm.ObjectFileRef.from_data(object_file))
    engine.finalize_object()
    return LoadedModule(engine)
