"""The context switch: a few instructions of assembly per architecture, as LLVM `module asm`: no compiler is needed.

`rk_switch(save, target)` saves the callee-saved registers on the running stack, stores the stack pointer in `*save`,
and continues at the stack pointer `target`. It jumps where it could return: the processor predicts a return from the
calls that went before, which is always wrong here, and costs more than the rest of the switch. `rk_start` is where a
fresh stack begins: it calls entry(first, second), which never returns. A fresh stack holds one frame of FRAME_WORDS
words, laid out as the switch restores it.
"""

import platform
import sys

from .faults import Unsupported

X86_64 = """
.text
.globl rk_switch
.type rk_switch,@function
rk_switch:
pushq %rbp
pushq %rbx
pushq %r12
pushq %r13
pushq %r14
pushq %r15
movq %rsp, (%rdi)
movq %rsi, %rsp
popq %r15
popq %r14
popq %r13
popq %r12
popq %rbx
popq %rbp
popq %rcx
jmpq *%rcx
.globl rk_start
.type rk_start,@function
rk_start:
movq %r12, %rdi
movq %r13, %rsi
callq *%r14
ud2
"""

AARCH64 = """
.text
.globl rk_switch
.type rk_switch,@function
rk_switch:
sub sp, sp, #160
stp x19, x20, [sp, #0]
stp x21, x22, [sp, #16]
stp x23, x24, [sp, #32]
stp x25, x26, [sp, #48]
stp x27, x28, [sp, #64]
stp x29, x30, [sp, #80]
stp d8, d9, [sp, #96]
stp d10, d11, [sp, #112]
stp d12, d13, [sp, #128]
stp d14, d15, [sp, #144]
mov x9, sp
str x9, [x0]
mov sp, x1
ldp x19, x20, [sp, #0]
ldp x21, x22, [sp, #16]
ldp x23, x24, [sp, #32]
ldp x25, x26, [sp, #48]
ldp x27, x28, [sp, #64]
ldp x29, x30, [sp, #80]
ldp d8, d9, [sp, #96]
ldp d10, d11, [sp, #112]
ldp d12, d13, [sp, #128]
ldp d14, d15, [sp, #144]
add sp, sp, #160
br x30
.globl rk_start
.type rk_start,@function
rk_start:
mov x0, x19
mov x1, x20
blr x21
brk #1
"""

ARCHITECTURES = ("x86_64", "aarch64")


def check_platform(system: str = sys.platform, machine: str = platform.machine()) -> None:
    """Raises `Unsupported` on a machine for which there is no context switch."""
    if system != "linux" or machine not in ARCHITECTURES or sys.maxsize < 2**32:
        what = f"{system} on {machine}"
        raise Unsupported(f"the CPU executor runs on 64-bit Linux on x86-64 and aarch64, not on {what}")


if platform.machine() == "aarch64":
    ASSEMBLY, FRAME_WORDS, FRAME_FIRST, FRAME_SECOND, FRAME_ENTRY, FRAME_RETURN = AARCH64, 20, 0, 1, 2, 11
else:
    # popped in the order r15, r14, r13, r12, rbx, rbp, return address; two words more keep rk_start 16-byte aligned
    ASSEMBLY, FRAME_WORDS, FRAME_FIRST, FRAME_SECOND, FRAME_ENTRY, FRAME_RETURN = X86_64, 9, 3, 2, 1, 6


def module_assembly(assembly: str = ASSEMBLY) -> str:
    """The `module asm` lines of LLVM IR text for an assembly listing."""
    return "".join(f'module asm "{line}"\n' for line in assembly.strip().splitlines())
