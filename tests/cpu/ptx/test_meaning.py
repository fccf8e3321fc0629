"""What `meaning` promises: functions, the thread argument, memory, errors, and instructions of a user's own."""

import re
from pathlib import Path

import llvmlite.binding as llvm
import numba.cuda
import numpy as np
import pytest

from refkit.cpu import ptx
from refkit.cpu.ptx import registry
from refkit.cpu.ptx.parse import Instruction, UnknownInstruction, program
from tests.cpu.device_library.jit import vectorised


def test_every_inline_assembly_of_numba_cuda_is_known():
    """The forms are listed here, and their count is compared with the package, so that a new one is noticed."""
    forms = [
        ("activemask.b32 $0;", "=r", "i32", ()),
        ("mov.u32 $0, %lanemask_lt;", "=r", "i32", ()),
        ("brkpt;", "", "void", ()),
        ("nanosleep.u32 $0;", "r", "void", ("i32",)),
        ("mov.u32 $0, %dynamic_smem_size;", "=r", "i32", ()),
        ("tanh.approx.f32 $0, $1;", "=f,f", "float", ("float",)),
    ]
    kinds = {8: ("c", "i8"), 16: ("h", "i16"), 32: ("r", "i32"), 64: ("l", "i64")}
    for bits, (letter, type_) in kinds.items():
        for name in ("ca", "cg", "cs", "lu", "cv"):
            forms.append((f"ld.global.{name}.b{bits} $0, [$1];", f"={letter},l", type_, (f"{type_}*",)))
        for name in ("cg", "cs", "wb", "wt"):
            forms.append(
                (f"st.global.{name}.b{bits} [$0], $1;", f"l,{letter},~{{memory}}", "void", (f"{type_}*", type_))
            )
        for sign in "su":
            forms.append((f"cvt.rni.{sign}{bits}.f16 $0, $1;", f"={letter},h", type_, ("i16",)))
            forms.append((f"cvt.rn.f16.{sign}{bits} $0, $1;", f"=h,{letter}", "i16", (type_,)))
    for name, letter, type_ in (("f32", "f", "float"), ("f64", "d", "double")):
        forms.append((f"cvt.{name}.f16 $0, $1;", f"={letter},h", type_, ("i16",)))
        forms.append((f"cvt.rn.f16.{name} $0, $1;", f"=h,{letter}", "i16", (type_,)))
    for form in forms:
        module = llvm.parse_assembly(ptx.meaning(*form).definition)
        module.verify()
    package = Path(numba.cuda.__file__).parent
    uses = sum(
        len(re.findall(r"ir\.InlineAsm\(", path.read_text()))
        for path in package.rglob("*.py")
        if "tests" not in path.relative_to(package).parts
    )
    assert uses == 12


def test_the_thread_is_the_first_argument_of_those_that_need_it():
    mask = ptx.meaning("mov.u32 $0, %lanemask_lt;", "=r", "i32", ())
    assert mask.needs_thread
    assert re.search(rf'define linkonce_odr i32 @{re.escape(mask.name)}\(ptr %"?rk\.thread"?\)', mask.definition)
    plain = ptx.meaning("add.s32 $0, $1, $2;", "=r,r,r", "i32", ("i32", "i32"))
    assert not plain.needs_thread
    assert "thread" not in plain.definition


@pytest.mark.parametrize(
    ("relation", "expected"),
    [("lt", 0x1F), ("le", 0x3F), ("eq", 0x20), ("ge", 0xFFFFFFE0), ("gt", 0xFFFFFFC0)],
)
def test_lane_masks(relation, expected):
    mask = ptx.meaning(f"mov.u32 $0, %lanemask_{relation};", "=r", "i32", ())
    lane = "define i32 @rk.lane(ptr %thread) {\n  ret i32 5\n}\n"
    text = re.sub(r"^declare i32 @rk\.lane.*$", lane, mask.definition, flags=re.MULTILINE)
    assert vectorised(text, mask.name, "u4", ["*u1"])(np.zeros(1, "u1")).tolist() == [expected]


def without_hidden(meaning, result, *arguments):
    """The meaning's IR text and the name of a function in it that has the visible arguments only."""
    stubs = "".join(
        f"define void @rk.touch.{access}(ptr %t, i32 %s, ptr %a, i64 %n) {{\n  ret void\n}}\n"
        for access in ("read", "write", "atomic")
    )
    body = re.sub(r"^declare .*@rk\.touch.*$", "", meaning.definition, flags=re.MULTILINE)
    named = ", ".join(f"{kind} %a{i}" for i, kind in enumerate(arguments))
    assert meaning.needs_thread
    assert meaning.needs_site
    call = f"call {result} @{meaning.name}(ptr null, i32 0, {named})"
    end = f"  {call}\n  ret void" if result == "void" else f"  %r = {call}\n  ret {result} %r"
    return f"{body}\n{stubs}define {result} @plain({named}) {{\n{end}\n}}\n"


def test_vector_loads_and_stores_with_offsets_and_hints():
    memory = np.arange(8, dtype="f4")
    load = ptx.meaning(
        "ld.global.nc.L1::no_allocate.v4.f32 {$0, $1, $2, $3}, [$4+16];",
        "=f,=f,=f,=f,l",
        "{ float, float, float, float }",
        ("i64",),
    )
    sum_ = without_hidden(load, "{float, float, float, float}", "i64") + (
        "define float @sum(i64 %p) {\n  %v = call {float, float, float, float} @plain(i64 %p)\n"
        "  %a = extractvalue {float, float, float, float} %v, 0\n"
        "  %d = extractvalue {float, float, float, float} %v, 3\n"
        "  %s = fsub float %d, %a\n  ret float %s\n}\n"
    )
    assert vectorised(sum_, "sum", "f4", ["u8"])(np.array([memory.ctypes.data])).tolist() == [3]
    store = ptx.meaning("st.global.wt.v2.f32 [$0+4], {$1, $2};", "l,f,f,~{memory}", "void", ("i64", "float", "float"))
    run = vectorised(without_hidden(store, "void", "i64", "float", "float"), "plain", None, ["u8", "f4", "f4"])
    run(np.array([memory.ctypes.data]), np.ones(1), np.full(1, 9))
    assert memory[:4].tolist() == [0, 1, 9, 3]


def test_atomics_return_the_old_value():
    memory = np.array([5, -3], "i4")

    def atomic(meaning):
        return vectorised(without_hidden(meaning, "i32", "i64", "i32"), "plain", "i4", ["u8", "i4"])

    address = np.array([memory.ctypes.data] * 3)
    add = ptx.meaning("atom.global.add.s32 $0, [$1], $2;", "=r,l,r", "i32", ("i64", "i32"))
    assert atomic(add)(address, np.array([1, 2, 3])).tolist() == [5, 6, 8]
    least = ptx.meaning("atom.relaxed.gpu.global.min.s32 $0, [$1+4], $2;", "=r,l,r", "i32", ("i64", "i32"))
    assert atomic(least)(address[:1], np.array([-8])).tolist() == [-3]
    swap = ptx.meaning("atom.acq_rel.gpu.cas.b32 $0, [$1], $2, $3;", "=r,l,r,r", "i32", ("i64", "i32", "i32"))
    run = vectorised(without_hidden(swap, "i32", "i64", "i32", "i32"), "plain", "i4", ["u8", "i4", "i4"])
    assert run(address[:2], np.array([11, 11]), np.array([1, 2])).tolist() == [11, 1]
    red = ptx.meaning(
        "{ .reg .pred p; setp.lt.s32 p, $1, 0; @p red.global.add.s32 [$0], $1; }", "l,r", "void", ("i64", "i32")
    )
    vectorised(without_hidden(red, "void", "i64", "i32"), "plain", None, ["u8", "i4"])(address, np.array([-1, 100, -2]))
    assert memory.tolist() == [-2, -8]


def test_tied_operands_start_from_their_input():
    meaning = ptx.meaning("add.s32 $0, $0, $1;", "=r,r,0", "i32", ("i32", "i32"))
    run = vectorised(meaning.definition, meaning.name, "i4", ["i4", "i4"])
    assert run(np.array([1, 2]), np.array([10, 20])).tolist() == [11, 22]


def test_clocks_advance():
    for text, letter, result, dtype in (("%clock64", "l", "i64", "i8"), ("%globaltimer", "l", "i64", "i8")):
        meaning = ptx.meaning(f"mov.u64 $0, {text};", f"={letter}", result, ())
        wrapped = meaning.definition + (
            f"define i64 @now(i64 %x) {{\n  %t = call i64 @{meaning.name}()\n  ret i64 %t\n}}\n"
        )
        times = vectorised(wrapped, "now", dtype, ["i8"])(np.zeros(2000, "i8"))
        assert np.all(np.diff(times) >= 0)
        assert times[-1] > times[0]


@pytest.mark.parametrize(
    ("text", "constraints", "result", "arguments", "says"),
    [
        ("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 $0, $1;", "=d,d", "double", ("double",), "mma.sync"),
        ("mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32 $0, $1;", "=r,r", "i32", ("i32",), "m16n8k64"),
        ("add.s33 $0, $1, $1;", "=r,r", "i32", ("i32",), "add.s33"),
        ("mov.u32 $0, %envreg3;", "=r", "i32", (), "%envreg3"),
        ("bra done; done: add.s32 $0, $1, 1;", "=r,r", "i32", ("i32",), "done: add.s32"),
        ("add.s32 $0, $1, t;", "=r,r", "i32", ("i32",), "add.s32 $0, $1, t"),
        ("ld.shared.b32 $0, [$1];", "=r,r", "i32", ("i32",), "32-bit shared-memory address"),
    ],
)
def test_what_is_not_known_is_named(text, constraints, result, arguments, says):
    with pytest.raises(UnknownInstruction, match=re.escape(says)):
        ptx.meaning(text, constraints, result, arguments)


def test_a_program_can_add_an_instruction(monkeypatch):
    monkeypatch.setattr(registry, "_TABLE", list(registry._TABLE))

    @ptx.register(r"triple\.u32")
    def _triple(frame: ptx.Frame, instruction: Instruction) -> None:
        x = frame.read(instruction.operands[1], ptx.ptx_type("u32"))
        frame.write(instruction.operands[0], frame.b.add(x, frame.b.add(x, x)))

    meaning = ptx.meaning("triple.u32 $0, $1;", "=r,r", "i32", ("i32",))
    assert vectorised(meaning.definition, meaning.name, "u4", ["u4"])(np.array([7])).tolist() == [21]


def test_statements_are_read():
    text = "{ .reg .b32 r<2>; /* two */ @!p mov.b64 {r0, r1}, $1; }"
    declaration, instruction = program(text)
    assert declaration.names == ("r0", "r1")
    assert instruction == Instruction("mov.b64", ("{r0, r1}", "$1"), "!p")
