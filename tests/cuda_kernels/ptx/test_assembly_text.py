"""The PTX of every intrinsic is accepted by NVIDIA's assembler, where that is installed."""

import re
import shutil
import subprocess

import numpy as np
import pytest
from numba import cuda, float32
from numba.cuda import types

from refkit.cpu import frontend
from refkit.cuda_kernels import ptx
from tests.cpu.tensor_core.cases import CASES, kernel

REGISTERS = {"h": "b16", "r": "b32", "l": "b64", "f": "f32", "d": "f64"}
_ASSEMBLY = re.compile(r' asm (?:sideeffect)? *"([^"]*)", "([^"]*)"')
_FRAGMENT = {np.uint32: types.uint32, np.float32: types.float32, np.float64: types.float64}


def everything_else(f, u, h, i):
    """One call of each intrinsic but the `mma` ones."""
    at, place = ptx.shared_address(f, i), ptx.global_address(f, i)
    u[0] = ptx.ldmatrix_x1(at) + ptx.ldmatrix_x1_trans(at)
    two, two_trans = ptx.ldmatrix_x2(at), ptx.ldmatrix_x2_trans(at)
    four, four_trans = ptx.ldmatrix_x4(at), ptx.ldmatrix_x4_trans(at)
    ptx.stmatrix_x1(at, u[1])
    ptx.stmatrix_x1_trans(at, u[1])
    ptx.stmatrix_x2(at, two)
    ptx.stmatrix_x2_trans(at, two_trans)
    ptx.stmatrix_x4(at, four)
    ptx.stmatrix_x4_trans(at, four_trans)
    ptx.cp_async_ca(at, place, 4)
    ptx.cp_async_ca(at, place, 8)
    ptx.cp_async_ca(at, place, 16)
    ptx.cp_async_ca_zfill(at, place, 8, 3)
    ptx.cp_async_cg(at, place)
    ptx.cp_async_cg_zfill(at, ptx.generic_address(f, i), 3)
    ptx.cp_async_ca_prefetch(at, place, 8, 64)
    ptx.cp_async_cg_prefetch(at, place, 256)
    ptx.cp_async_ca_hint(at, place, 4, ptx.createpolicy_evict_first() | ptx.createpolicy_evict_normal())
    ptx.cp_async_cg_hint(at, place, ptx.createpolicy_evict_last())
    ptx.cp_async_commit_group()
    ptx.cp_async_wait_group(2)
    ptx.cp_async_wait_all()
    ptx.bar_sync(1, 64)
    ptx.bar_arrive(2, 64)
    u[2] = ptx.cvt_rna_tf32(f[0]) + ptx.cvt_rn_bf16x2(f[0], f[1]) + ptx.cvt_rn_f16x2(f[0], f[1])
    h[0] = ptx.cvt_rn_e4m3x2(f[0], f[1])
    h[1] = ptx.cvt_rn_e5m2x2(f[0], f[1])
    u[3] = ptx.cvt_f16x2_e4m3x2(h[0]) + ptx.cvt_f16x2_e5m2x2(h[1])
    u[5] = ptx.cvt_rn_tf32(f[0]) + ptx.cvt_rz_tf32(f[1])
    u[6] = ptx.cvt_rz_bf16x2(f[0], f[1]) + ptx.cvt_rz_f16x2(f[0], f[1])
    u[7] = ptx.cvt_rn_relu_bf16x2(f[0], f[1]) + ptx.cvt_rn_relu_f16x2(f[0], f[1])
    h[2] = ptx.cvt_rn_e4m3x2_f16x2(u[0]) + ptx.cvt_rn_e5m2x2_f16x2(u[1])
    u[4] = ptx.prmt(u[0], u[1], u[2]) + ptx.lop3(u[0], u[1], u[2], 0xE8)
    ptx.st_global_v4_f32(f, i, ptx.ld_global_v4_f32(f, i))
    ptx.st_shared_v4_f32(f, i, ptx.ld_shared_v4_f32(f, i))
    ptx.st_global_v4_u32(u, i, ptx.ld_global_v4_u32(u, i))
    ptx.st_shared_v4_u32(u, i, ptx.ld_shared_v4_u32(u, i))
    cached_floats(f, i)
    cached_words(u, i)


@cuda.jit(device=True)
def cached_floats(f, i):
    """Loads and stores with a cache operator, on float32."""
    ptx.st_global_wb_v4_f32(f, i, ptx.ld_global_ca_v4_f32(f, i))
    ptx.st_global_cg_v4_f32(f, i, ptx.ld_global_cg_v4_f32(f, i))
    ptx.st_global_cs_v4_f32(f, i, ptx.ld_global_cs_v4_f32(f, i))
    ptx.st_global_wt_v4_f32(f, i, ptx.ld_global_lu_v4_f32(f, i))
    ptx.st_global_wb_v4_f32(f, i, ptx.ld_global_cv_v4_f32(f, i))
    ptx.st_global_wb_v4_f32(f, i, ptx.ld_global_nc_v4_f32(f, i))
    ptx.st_global_wb_v4_f32(f, i, ptx.ld_global_no_allocate_v4_f32(f, i))


@cuda.jit(device=True)
def cached_words(u, i):
    """The same on words."""
    ptx.st_global_wb_v4_u32(u, i, ptx.ld_global_ca_v4_u32(u, i))
    ptx.st_global_cg_v4_u32(u, i, ptx.ld_global_cg_v4_u32(u, i))
    ptx.st_global_cs_v4_u32(u, i, ptx.ld_global_cs_v4_u32(u, i))
    ptx.st_global_wt_v4_u32(u, i, ptx.ld_global_lu_v4_u32(u, i))
    ptx.st_global_wb_v4_u32(u, i, ptx.ld_global_cv_v4_u32(u, i))
    ptx.st_global_wb_v4_u32(u, i, ptx.ld_global_nc_v4_u32(u, i))
    ptx.st_global_wb_v4_u32(u, i, ptx.ld_global_no_allocate_v4_u32(u, i))


def hopper(f, u, i):
    """One call of each intrinsic of sm_90a; a wait for an mbarrier is a loop round the try."""
    at, place = ptx.shared_address(f, i), ptx.global_address(f, i)
    ptx.mbarrier_init(at, 1)
    ptx.fence_mbarrier_init()
    ptx.mbarrier_arrive(at)
    ptx.mbarrier_arrive_expect_tx(at, 64)
    u[0] = ptx.mbarrier_try_wait_parity(at, 0) + ptx.elect_sync(u[1])
    ptx.mbarrier_inval(at)
    ptx.fence_proxy_async()
    ptx.fence_tensor_map(place)
    ptx.cp_async_bulk_load(at, place, 64, at)
    ptx.cp_async_bulk_store(place, at, 64)
    ptx.cp_async_bulk_tensor_2d_load(at, place, 0, 0, at)
    ptx.cp_async_bulk_tensor_2d_store(place, 0, 0, at)
    ptx.cp_async_bulk_commit_group()
    ptx.cp_async_bulk_wait_group(1)
    ptx.cp_async_bulk_wait_group_read(0)
    ptx.setmaxnreg_dec(40)
    ptx.setmaxnreg_inc(232)
    sums = cuda.local.array(4, float32)
    fragment = (u[2], u[3], u[4], u[5])
    a = ptx.matrix_descriptor(at, 16, 1024, ptx.SWIZZLE_128B)
    ptx.wgmma_fence()
    ptx.wgmma_m64k16_bf16(sums, a, a, 8, 1, 0, 1)
    ptx.wgmma_m64k16_f16(sums, a, a, 8, 1, 0, 1)
    ptx.wgmma_m64k8_tf32(sums, a, a, 8, 1)
    ptx.wgmma_m64k32_e4m3(sums, a, a, 8, 1)
    ptx.wgmma_m64k32_e5m2(sums, a, a, 8, 1)
    ptx.wgmma_m64k16_bf16_register_a(sums, fragment, a, 8, 1, 1)
    ptx.wgmma_m64k16_f16_register_a(sums, fragment, a, 8, 1, 1)
    ptx.wgmma_m64k8_tf32_register_a(sums, fragment, a, 8, 1)
    ptx.wgmma_m64k32_e4m3_register_a(sums, fragment, a, 8, 1)
    ptx.wgmma_commit_group()
    ptx.wgmma_wait_group(0)
    f[0] = sums[0]


NO_INSTRUCTION_OF_THEIR_OWN = {
    *("NO_SWIZZLE", "SWIZZLE_32B", "SWIZZLE_64B", "SWIZZLE_128B", "SM_90A", "UnsupportedArchitecture"),
    *("target_sm_90a", "matrix_descriptor", "generic_address", "mbarrier_wait_parity"),
}


def statements() -> set[tuple[str, str]]:
    """The text and constraints of all inline assembly of the intrinsics."""
    arguments = (types.float32[::1], types.uint32[::1], types.uint16[::1], types.int64)
    modules = list(frontend.kernel_ir(everything_else, arguments).modules)
    modules += frontend.kernel_ir(hopper, (types.float32[::1], types.uint32[::1], types.int64)).modules
    for case in CASES:
        a, b, c = (_FRAGMENT[kind][:, :, ::1] for kind in case.dtypes)
        modules += frontend.kernel_ir(kernel(case).py_func, (a, b, c, c)).modules
    return {match for text in modules for match in _ASSEMBLY.findall(text)}


def test_every_intrinsic_is_among_them():
    """`cp_async_ca` has three sizes."""
    assert len(statements()) == len(set(ptx.__all__) - NO_INSTRUCTION_OF_THEIR_OWN) + 2


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="ptxas is not installed")
def test_the_assembler_accepts_every_instruction(tmp_path):
    lines, declarations = [], []
    for number, (text, constraints) in enumerate(sorted(statements())):
        letters = [part.lstrip("=") for part in constraints.split(",") if part and not part.startswith("~")]
        for index, letter in enumerate(letters):
            if letter.isdigit():  # an input in the register of a result, which the text names
                continue
            declarations.append(f".reg .{REGISTERS[letter]} %v{number}_{index};")
        lines.append(re.sub(r"\$(\d+)", rf"%v{number}_\1", text))
    body = "\n".join([*declarations, *lines])
    source = tmp_path / "all.ptx"
    source.write_text(f".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry all()\n{{\n{body}\nret;\n}}\n")
    done = subprocess.run(
        ["ptxas", "-arch=sm_90a", str(source), "-o", str(tmp_path / "all.cubin")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
