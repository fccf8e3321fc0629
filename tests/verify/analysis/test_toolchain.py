"""What ptxas prints, PTX text, and the two where the tools are installed."""

import pytest
from numba import cuda, float32
from numba.cuda import types

from refkit.verify.analysis import toolchain
from refkit.verify.analysis.resources import instruction_mix, with_launch_bounds
from refkit.verify.analysis.toolchain import Assembled, CompilationError, assemble, parse_report, ptx_of

installed = pytest.mark.skipif(bool(toolchain.missing()), reason=toolchain.missing())

REPORT = """ptxas info    : 8 bytes gmem
ptxas info    : Compiling entry function 'k' for 'sm_90'
ptxas info    : Function properties for k
    48 bytes stack frame, 12 bytes spill stores, 20 bytes spill loads
ptxas info    : Used 142 registers, used 1 barriers, 48 bytes cumulative stack size, 4096 bytes smem
"""
PTX = """
.visible .entry k(
	.param .u64 k_param_0
)
.maxntid 1024, 1, 1
{
	ld.param.b64 	%rd1, [k_param_0];
	ld.global.v4.f32 	{%f1, %f2, %f3, %f4}, [%rd1];
	@%p1 ld.global.f32 	%f5, [%rd1];
	fma.rn.f32 	%f6, %f1, %f2, %f3;
	st.shared.b16 	[%rd2], %rs1;
	atom.global.add.f32 	%f7, [%rd1], %f6;
	bar.sync 	0;
	mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 	{%f1}, {%r1}, {%r2}, {%f1};
}
"""


def test_the_report_of_ptxas_is_read():
    assert parse_report(REPORT) == Assembled(142, 12, 20, 48, 4096)


def test_instructions_are_counted_by_kind_and_bytes():
    assert instruction_mix(PTX) == {
        "atomic": 1,
        "barrier": 1,
        "fma": 1,
        "load.global.16": 1,
        "load.global.4": 1,
        "mma": 1,
        "store.shared.2": 1,
    }


def test_launch_bounds_take_the_place_of_those_that_are_there():
    changed = with_launch_bounds(PTX, (256, 2))
    assert ".maxntid 256, 1, 1\n.minnctapersm 2\n" in changed
    assert changed.count(".maxntid") == 1
    assert changed.index(".minnctapersm") < changed.index("{\n")


def test_linked_functions_are_named(monkeypatch):
    monkeypatch.setattr(toolchain, "find_ptxas", lambda: "ptxas")
    with pytest.raises(CompilationError, match="calls helper, which is linked"):
        assemble(".extern .func  (.param .b32 func_retval0) helper\n(\n)\n;", (9, 0))


def test_what_is_missing_is_one_line_with_the_remedy(monkeypatch):
    monkeypatch.setattr(toolchain, "_has_nvvm", lambda: True)
    monkeypatch.setattr(toolchain, "_has_nvrtc", lambda: False)
    monkeypatch.setattr(toolchain, "find_ptxas", lambda: None)
    line = toolchain.missing()
    assert "NVRTC, ptxas, not installed" in line
    assert "NVVM" not in line
    assert "pip install" in line
    assert "\n" not in line


@cuda.jit
def scale(x, y):
    i = cuda.grid(1)
    y[i] = x[i] * float32(3)


VECTOR = types.Array(types.float32, 1, "C")


@installed
@pytest.mark.parametrize("compute_capability", [(8, 0), (9, 0)])
def test_a_kernel_compiles_without_a_gpu(compute_capability):
    ptx = ptx_of(scale.py_func, (VECTOR, VECTOR), compute_capability)
    assert f".target sm_{compute_capability[0]}{compute_capability[1]}" in ptx
    made = assemble(ptx, compute_capability)
    assert 4 <= made.registers <= 32
    assert made.spill_store_bytes == 0
    assert instruction_mix(ptx)["load.global.4"] == 1


@installed
def test_launch_bounds_hold_registers_down():
    ptx = ptx_of(many_sums.py_func, (VECTOR, VECTOR), (9, 0))
    free = assemble(with_launch_bounds(ptx, (256, 1)), (9, 0))
    held = assemble(with_launch_bounds(ptx, (256, 8)), (9, 0))
    assert held.registers <= 32 < free.registers


@cuda.jit
def many_sums(x, y):
    i = cuda.grid(1)
    sums = cuda.local.array(64, float32)
    for k in range(64):
        sums[k] = float32(0)
    for turn in range(x.shape[0]):
        for k in range(64):
            sums[k] += x[turn] * sums[(k + 1) % 64]
    for k in range(64):
        y[i * 64 + k] = sums[k]


@installed
def test_a_kernel_that_does_not_compile_is_one_line():
    with pytest.raises(CompilationError, match="scale does not compile: ") as caught:
        ptx_of(scale.py_func, (types.unicode_type, VECTOR), (9, 0))
    assert "\n" not in str(caught.value)


def test_only_what_hopper_alone_has_is_assembled_for_sm_90a():
    assert toolchain.ptxas_target("wgmma.fence.sync.aligned;", (9, 0)) == "sm_90a"
    assert toolchain.ptxas_target("@%p1 setmaxnreg.dec.sync.aligned.u32 40;", (9, 0)) == "sm_90a"
    assert toolchain.ptxas_target("mma.sync.aligned.m16n8k16;", (9, 0)) == "sm_90"
    assert toolchain.ptxas_target("wgmma.fence.sync.aligned;", (10, 0)) == "sm_100"
