"""Which tests count: the rules by which one is outside the denominator, each a predicate over what was recorded.

The first rule that fits names the reason. No rule looks at whether a test passed, with two exceptions that say so: a
test that was skipped never ran, and a test that failed before its first launch counts unless its source has no launch.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .results import Test

INSPECTION = frozenset(
    {
        # what was compiled for a GPU: assembly, LLVM IR, machine code, resources
        *("inspect_asm", "inspect_llvm", "inspect_lto_ptx", "inspect_sass", "inspect_sass_cfg", "inspect_types"),
        *("get_regs_per_thread", "get_const_mem_size", "get_shared_mem_per_block", "get_max_threads_per_block"),
        *("get_local_mem_per_thread", "_codelibrary", "get_asm_str", "get_llvm_str", "get_cubin", "get_sass"),
        *("assertFileCheckAsm", "assertFileCheckLLVM", "assertFileCheckMatches", "_type_annotation"),
        *("ptx", "sass", "asm", "llvm"),
        # compilation without a launch, for its text
        *("compile_ptx", "compile_ptx_for_current_device", "cuda.compile", "compile_for_current_device", "compile_all"),
        # what the compiler prints while it works
        *("DUMP_ASSEMBLY", "DUMP_LLVM", "DUMP_IR", "DUMP_BYTECODE", "DUMP_CFG", "DUMP_OPTIMIZED", "DUMP_SSA"),
    }
)
FOREIGN = frozenset(
    {
        *("declare_device", "CUSource", "LTOIR", "PTXSource", "Cubin", "Fatbin", "Archive", "Object"),
        *("nvrtc", "nvjitlink", "cupy", "cffi_ptr", "link_cu", "add_cu", "add_file"),
    }
)
LAUNCHES_NOTHING = "launches nothing"
FOREIGN_KEYWORDS = frozenset({"link", "lto"})
HARDWARE = frozenset({"get_ipc_handle", "open_ipc_array", "IpcHandle", "IpcArrayHandle"})


@dataclass(frozen=True)
class Rule:
    """What puts a test outside the denominator: `meaning` says why in a sentence, under the heading `name`."""

    name: str
    meaning: str
    applies: "Callable[[Test], bool]"


RULES = (
    Rule("skipped by the suite", "The suite itself leaves the test out here.", lambda test: test.outcome == "skipped"),
    Rule(
        "inspects generated code",
        "The test, or a helper it calls, reads assembly, LLVM IR, machine code or registers: "
        + ", ".join(sorted(INSPECTION)),
        lambda test: bool(INSPECTION & test.names),
    ),
    Rule(
        "links foreign code",
        "The kernel is linked with code written in another language: the keywords "
        f"{', '.join(sorted(FOREIGN_KEYWORDS))}, or {', '.join(sorted(FOREIGN))}",
        lambda test: bool(FOREIGN & test.names) or bool(test.keywords),
    ),
    Rule(
        "needs hardware that is not emulated",
        f"Memory shared between processes through the driver: {', '.join(sorted(HARDWARE))}",
        lambda test: bool(HARDWARE & test.names),
    ),
    Rule(
        LAUNCHES_NOTHING,
        "No launch was asked for. A test that failed before its first launch is here only if no `kernel[...](...)` "
        "stands in its source or that of its helpers.",
        lambda test: test.launches == 0 and (test.agrees or not test.writes_a_launch),
    ),
)


def outside(test: "Test") -> Rule | None:
    """The rule that puts the test outside the denominator, or None where it counts."""
    return next((rule for rule in RULES if rule.applies(test)), None)
