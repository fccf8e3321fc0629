"""From a kernel to machine code without a GPU: NVVM makes PTX, `ptxas` assembles it and says what it needs.

Both are optional packages: `pip install "numba-cuda[cu13]" nvidia-cuda-nvcc`.
"""

from __future__ import annotations

import functools
import importlib.util
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refkit.verify.analysis.linking import linked_ptx

INSTALL = 'pip install "numba-cuda[cu13]" nvidia-cuda-nvcc'


class CompilationError(Exception):
    """NVVM or ptxas refused a kernel; one line."""


@dataclass(frozen=True)
class Assembled:
    """What ptxas says of one kernel. Bytes are per thread, shared_bytes per block (static)."""

    registers: int
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int
    shared_bytes: int


def missing() -> str:
    """Which tools are not installed, in one line; empty where everything is."""
    tools = (("NVVM", _has_nvvm()), ("NVRTC", _has_nvrtc()), ("ptxas", find_ptxas() is not None))
    absent = [name for name, found in tools if not found]
    if not absent:
        return ""
    return f"registers and occupancy need {', '.join(absent)}, not installed here: {INSTALL}"


@functools.cache
def _has_nvvm() -> bool:
    from numba.cuda.cudadrv import nvvm

    try:
        nvvm.NVVM()
    except Exception:  # the loader raises several kinds, by platform and version
        return False
    return True


@functools.cache
def _has_nvrtc() -> bool:
    """Whether NVRTC is there, which numba-cuda asks for the architectures that it may compile for."""
    from numba.cuda.cudadrv import nvrtc

    try:
        nvrtc.get_arch_option(9, 0)
    except Exception:  # as above
        return False
    return True


@functools.cache
def find_ptxas() -> Path | None:
    """`ptxas` of the packages nvidia-cuda-nvcc (any CUDA version), else that on PATH."""
    found = importlib.util.find_spec("nvidia")
    for root in found.submodule_search_locations or () if found else ():
        for path in sorted(Path(root).glob("*/bin/ptxas"), reverse=True):
            return path
    on_path = shutil.which("ptxas")
    return Path(on_path) if on_path else None


def ptx_of(
    function: Callable[..., Any],
    argument_types: tuple[Any, ...],
    compute_capability: tuple[int, int],
    *,
    fastmath: bool = False,
    launch_bounds: Any = None,
) -> str:
    """A kernel's PTX. launch_bounds: as `@cuda.jit` takes them. Raises `CompilationError`."""
    from numba.cuda import compiler, types

    from refkit.cpu.frontend import without_driver

    try:
        with without_driver():
            library, _ = compiler._compile_pyfunc_with_fixup(
                function,
                types.void(*argument_types),
                device=False,
                fastmath=fastmath,
                cc=compute_capability,
                abi="numba",
                launch_bounds=launch_bounds,
            )
            if library._linking_files:
                return linked_ptx(library, compute_capability)
            return str(library.get_asm_str(cc=compute_capability))
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise CompilationError(f"{function.__name__} does not compile: {lines[0]}") from None


def assemble(ptx: str, compute_capability: tuple[int, int]) -> Assembled:
    """What ptxas makes of a kernel's PTX. Raises `CompilationError` with its first complaint."""
    ptxas = find_ptxas()
    if ptxas is None:
        raise CompilationError(f"ptxas is not installed: {INSTALL}")
    if match := re.search(r"^\.extern \.func[^\n]*?(\w+)\s*$", ptx, re.MULTILINE):
        raise CompilationError(f"calls {match.group(1)}, which is linked on the device and not part of its PTX")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.ptx"
        target = ptxas_target(ptx, compute_capability)
        source.write_text(re.sub(r"^\.target sm_\w+", f".target {target}", ptx, flags=re.MULTILINE))
        # never -o /dev/null: ptxas replaces its output file, and as root that device
        command = [str(ptxas), f"-arch={target}", "-v", str(source), "-o", str(Path(folder) / "kernel.cubin")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    output = done.stderr + done.stdout
    if done.returncode != 0:
        complaint = next((line for line in output.splitlines() if "error" in line or "fatal" in line), output[:200])
        raise CompilationError(f"ptxas: {re.sub(r'^ptxas .*?, line [0-9]+; ', '', complaint.strip())}")
    return parse_report(output)


def parse_report(output: str) -> Assembled:
    """The figures in the text that `ptxas -v` prints for one kernel."""

    def number(pattern: str) -> int:
        match = re.search(pattern, output)
        return int(match.group(1)) if match else 0

    return Assembled(
        registers=number(r"Used (\d+) registers"),
        spill_store_bytes=number(r"(\d+) bytes spill stores"),
        spill_load_bytes=number(r"(\d+) bytes spill loads"),
        stack_bytes=number(r"(\d+) bytes stack frame"),
        shared_bytes=number(r"(\d+) bytes smem"),
    )


def ptxas_target(ptx: str, compute_capability: tuple[int, int]) -> str:
    """`sm_90`, or `sm_90a` where the PTX has instructions that only this one architecture has."""
    own = compute_capability == (9, 0) and re.search(r"\b(?:wgmma|setmaxnreg)\.", ptx)
    return "sm_{}{}{}".format(*compute_capability, "a" if own else "")
