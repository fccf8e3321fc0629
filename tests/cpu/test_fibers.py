"""The context switch: the host's, by many switches in a kernel; aarch64's, by a program of its own under qemu-user."""

import pathlib
import platform
import shutil
import subprocess

import numpy as np
import pytest
from llvmlite import binding as llvm
from numba import cuda

from refkit.cpu import Unsupported, emulate, fibers

pytestmark = pytest.mark.cpu

CROSS_ASSEMBLER, CROSS_LINKER = shutil.which("aarch64-linux-gnu-as"), shutil.which("aarch64-linux-gnu-ld")
QEMU = shutil.which("qemu-aarch64")
ROUNDS = 1000

# Two fibers give way to each other ROUNDS times. Each first fills every callee-saved register with values of its own,
# and after each switch compares them all; the exit status is 0 if all survived, else the number of the one at fault.
INTEGERS = [f"x{n}" for n in range(19, 29)]
FLOATS = [f"d{n}" for n in range(8, 16)]


def aarch64_body(seed: int) -> str:
    """Assembly of one fiber: entry(own, other), where `own` and `other` are words that hold stack pointers."""
    lines = [
        f".globl body{seed}",
        f"body{seed}:",
        "sub sp, sp, #32",
        "str x0, [sp, #0]",
        "str x1, [sp, #8]",
        f"mov x9, #{ROUNDS}",
        "str x9, [sp, #16]",
    ]
    for n, register in enumerate(INTEGERS):
        lines.append(f"mov {register}, #{seed * 256 + n}")
    for n, register in enumerate(FLOATS):
        lines += [f"mov x9, #{seed * 4096 + n}", f"fmov {register}, x9"]
    lines += [f"again{seed}:", "ldr x0, [sp, #0]", "ldr x1, [sp, #8]", "ldr x1, [x1]", "bl rk_switch"]
    for n, register in enumerate(INTEGERS):
        lines += [f"mov x0, #{n + 1}", f"mov x10, #{seed * 256 + n}", f"cmp {register}, x10", "b.ne leave"]
    for n, register in enumerate(FLOATS):
        lines += [
            f"mov x0, #{n + 101}",
            f"mov x10, #{seed * 4096 + n}",
            f"fmov x11, {register}",
            "cmp x11, x10",
            "b.ne leave",
        ]
    lines += ["ldr x9, [sp, #16]", "subs x9, x9, #1", "str x9, [sp, #16]", f"b.ne again{seed}", "mov x0, #0", "b leave"]
    return "\n".join(lines)


LEAVE = "leave:\nmov x8, #93\nsvc #0"  # exit(x0)

# lays out both stacks as the scheduler's prepare_stack does, and switches to the first
START = """
@stack1 = internal global [8192 x i8] zeroinitializer, align 16
@stack2 = internal global [8192 x i8] zeroinitializer, align 16
@pointer0 = internal global i64 0
@pointer1 = internal global i64 0
@pointer2 = internal global i64 0
declare void @rk_switch(ptr, i64)
declare void @rk_start()
declare void @body1()
declare void @body2()

define internal i64 @prepare(ptr %stack, ptr %entry, ptr %own, ptr %other) {
  %frame = getelementptr i8, ptr %stack, i64 TOP
  %first = getelementptr i64, ptr %frame, i64 FIRST
  %second = getelementptr i64, ptr %frame, i64 SECOND
  %body = getelementptr i64, ptr %frame, i64 ENTRY
  %return = getelementptr i64, ptr %frame, i64 RETURN
  store ptr %own, ptr %first
  store ptr %other, ptr %second
  store ptr %entry, ptr %body
  store ptr @rk_start, ptr %return
  %address = ptrtoint ptr %frame to i64
  ret i64 %address
}

define void @_start() {
  %a = call i64 @prepare(ptr @stack1, ptr @body1, ptr @pointer1, ptr @pointer2)
  %b = call i64 @prepare(ptr @stack2, ptr @body2, ptr @pointer2, ptr @pointer1)
  store i64 %a, ptr @pointer1
  store i64 %b, ptr @pointer2
  call void @rk_switch(ptr @pointer0, i64 %a)
  unreachable
}
"""
AARCH64_FRAME = {"WORDS": 20, "FIRST": 0, "SECOND": 1, "ENTRY": 2, "RETURN": 11}


def start_object() -> bytes:
    """The object file of `_start`, by LLVM; llvmlite holds no assembler for a machine that is not its own."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    text = START.replace("TOP", str(8192 - 64 - 8 * AARCH64_FRAME["WORDS"]))
    for name in ("FIRST", "SECOND", "ENTRY", "RETURN"):
        text = text.replace(f"i64 {name}", f"i64 {AARCH64_FRAME[name]}")
    machine = llvm.Target.from_triple("aarch64-linux-gnu").create_target_machine(opt=2, reloc="static")
    return machine.emit_object(llvm.parse_assembly('target triple = "aarch64-linux-gnu"\n' + text))


def status_of_program(switch: str, folder: pathlib.Path) -> int:
    """Links a context switch with the two fibers and `_start`, and runs the program."""
    assembly = "\n".join([switch.strip(), aarch64_body(1), aarch64_body(2), LEAVE, ""])
    (folder / "switch.s").write_text(assembly)
    (folder / "start.o").write_bytes(start_object())
    subprocess.run([CROSS_ASSEMBLER, "-o", folder / "switch.o", folder / "switch.s"], check=True)
    subprocess.run([CROSS_LINKER, "-o", folder / "program", folder / "start.o", folder / "switch.o"], check=True)
    return subprocess.run([QEMU, folder / "program"], timeout=60).returncode


@pytest.mark.skipif(
    None in (CROSS_ASSEMBLER, CROSS_LINKER, QEMU),
    reason="needs aarch64-linux-gnu-as and -ld (binutils-aarch64-linux-gnu) and qemu-aarch64 (qemu-user)",
)
@pytest.mark.parametrize(
    ("right", "wrong", "status"),
    [
        ("", "", 0),
        ("ldp x23, x24, [sp, #32]", "ldp x23, x9, [sp, #32]", 6),  # x24 is lost
        ("stp x19, x20, [sp, #0]", "stp x9, x20, [sp, #0]", 1),  # x19 is not saved
        ("ldp d8, d9, [sp, #96]", "ldp d8, d0, [sp, #96]", 102),  # d9 is lost
    ],
    ids=["as it is", "x24 lost", "x19 not saved", "d9 lost"],
)
def test_aarch64_keeps_every_callee_saved_register(right, wrong, status, tmp_path):
    assert right in fibers.AARCH64
    assert status_of_program(fibers.AARCH64.replace(right, wrong) if right else fibers.AARCH64, tmp_path) == status


@pytest.mark.parametrize(("system", "machine"), [("darwin", "arm64"), ("win32", "AMD64"), ("linux", "ppc64le")])
def test_other_platforms_are_refused_in_one_line(system, machine):
    with pytest.raises(Unsupported, match=f"runs on 64-bit Linux on x86-64 and aarch64, not on {system} on {machine}"):
        fibers.check_platform(system, machine)
    fibers.check_platform("linux", "aarch64")
    fibers.check_platform("linux", "x86_64")


def test_the_frame_of_this_machine_is_the_one_that_the_switch_restores():
    assert platform.machine() in ("x86_64", "aarch64")
    frame = (fibers.FRAME_WORDS, fibers.FRAME_FIRST, fibers.FRAME_SECOND, fibers.FRAME_ENTRY, fibers.FRAME_RETURN)
    if platform.machine() == "aarch64":
        assert frame == tuple(AARCH64_FRAME.values())
    pops = [line.split("%")[1] for line in fibers.X86_64.splitlines() if line.startswith("popq")]
    if platform.machine() == "x86_64":
        named = {
            "r12": fibers.FRAME_FIRST,
            "r13": fibers.FRAME_SECOND,
            "r14": fibers.FRAME_ENTRY,
            "rcx": fibers.FRAME_RETURN,
        }
        assert {register: pops.index(register) for register in named} == named


@cuda.jit
def busy(x, out, rounds):
    """More live values than there are registers, over many switches."""
    i = cuda.threadIdx.x
    a, b, c, d, e, f, g, h = x[i], x[i] + 1, x[i] + 2, x[i] + 3, x[i] + 4, x[i] + 5, x[i] + 6, x[i] + 7
    j, k, m, n, p, q, r, s = i, i + 1, i + 2, i + 3, i + 4, i + 5, i + 6, i + 7
    for _ in range(rounds):
        cuda.syncthreads()
        a, b, c, d, e, f, g, h = b, c, d, e, f, g, h, a
        cuda.syncwarp(0xFFFFFFFF)
        j, k, m, n, p, q, r, s = k, m, n, p, q, r, s, j
    out[i] = a + 2 * b + 4 * c + 8 * d + 16 * e + 32 * f + 64 * g + 128 * h
    out[i] += j + 2 * k + 4 * m + 8 * n + 16 * p + 32 * q + 64 * r + 128 * s


@pytest.mark.parametrize("schedule", [None, 1])
def test_this_machine_keeps_all_values(schedule):
    x, out = np.arange(96) / 4, np.zeros(96)
    with emulate(schedule=schedule):
        busy[1, 96](x, out, 8 * 100 + 3)
    weight = 2.0 ** np.arange(8)
    floats = [weight @ np.roll(value + np.arange(8), -3) for value in x]
    integers = [weight @ np.roll(i + np.arange(8), -3) for i in range(96)]
    np.testing.assert_array_equal(out, np.add(floats, integers))
