"""PTX instructions that Numba does not offer, as typed intrinsics for use inside `@cuda.jit` kernels.

A file per family; each says which section of the PTX ISA it follows, who holds what and who takes part. On an
architecture without the instruction, compilation ends with `UnsupportedArchitecture`, which names what is needed.
"""

from .addresses import generic_address, global_address, shared_address
from .assembly import UnsupportedArchitecture
from .async_copy import (
    cp_async_ca,
    cp_async_ca_zfill,
    cp_async_cg,
    cp_async_cg_zfill,
    cp_async_commit_group,
    cp_async_wait_all,
    cp_async_wait_group,
)
from .bits import lop3, prmt
from .conversion import (
    cvt_f16x2_e4m3x2,
    cvt_f16x2_e5m2x2,
    cvt_rn_bf16x2,
    cvt_rn_e4m3x2,
    cvt_rn_e5m2x2,
    cvt_rn_f16x2,
    cvt_rna_tf32,
)
from .matrix_moves import (
    ldmatrix_x1,
    ldmatrix_x1_trans,
    ldmatrix_x2,
    ldmatrix_x2_trans,
    ldmatrix_x4,
    ldmatrix_x4_trans,
    stmatrix_x1,
    stmatrix_x1_trans,
    stmatrix_x2,
    stmatrix_x2_trans,
    stmatrix_x4,
    stmatrix_x4_trans,
)
from .mma_byte import (
    mma_m16n8k32_e4m3,
    mma_m16n8k32_e4m3_e5m2,
    mma_m16n8k32_e5m2,
    mma_m16n8k32_e5m2_e4m3,
    mma_m16n8k32_s8,
    mma_m16n8k32_s8_satfinite,
    mma_m16n8k32_s8_u8,
    mma_m16n8k32_u8,
    mma_m16n8k32_u8_s8,
    mma_m16n8k32_u8_satfinite,
)
from .mma_f64 import mma_m8n8k4_f64
from .mma_half import (
    mma_m16n8k8_bf16,
    mma_m16n8k8_f16,
    mma_m16n8k8_f16_f16,
    mma_m16n8k16_bf16,
    mma_m16n8k16_f16,
    mma_m16n8k16_f16_f16,
)
from .mma_tf32 import mma_m16n8k4_tf32, mma_m16n8k8_tf32
from .named_barrier import bar_arrive, bar_sync
from .vector_memory import (
    ld_global_v4_f32,
    ld_global_v4_u32,
    ld_shared_v4_f32,
    ld_shared_v4_u32,
    st_global_v4_f32,
    st_global_v4_u32,
    st_shared_v4_f32,
    st_shared_v4_u32,
)

__all__ = [
    "UnsupportedArchitecture",
    "bar_arrive",
    "bar_sync",
    "cp_async_ca",
    "cp_async_ca_zfill",
    "cp_async_cg",
    "cp_async_cg_zfill",
    "cp_async_commit_group",
    "cp_async_wait_all",
    "cp_async_wait_group",
    "cvt_f16x2_e4m3x2",
    "cvt_f16x2_e5m2x2",
    "cvt_rn_bf16x2",
    "cvt_rn_e4m3x2",
    "cvt_rn_e5m2x2",
    "cvt_rn_f16x2",
    "cvt_rna_tf32",
    "generic_address",
    "global_address",
    "ld_global_v4_f32",
    "ld_global_v4_u32",
    "ld_shared_v4_f32",
    "ld_shared_v4_u32",
    "ldmatrix_x1",
    "ldmatrix_x1_trans",
    "ldmatrix_x2",
    "ldmatrix_x2_trans",
    "ldmatrix_x4",
    "ldmatrix_x4_trans",
    "lop3",
    "mma_m8n8k4_f64",
    "mma_m16n8k4_tf32",
    "mma_m16n8k8_bf16",
    "mma_m16n8k8_f16",
    "mma_m16n8k8_f16_f16",
    "mma_m16n8k8_tf32",
    "mma_m16n8k16_bf16",
    "mma_m16n8k16_f16",
    "mma_m16n8k16_f16_f16",
    "mma_m16n8k32_e4m3",
    "mma_m16n8k32_e4m3_e5m2",
    "mma_m16n8k32_e5m2",
    "mma_m16n8k32_e5m2_e4m3",
    "mma_m16n8k32_s8",
    "mma_m16n8k32_s8_satfinite",
    "mma_m16n8k32_s8_u8",
    "mma_m16n8k32_u8",
    "mma_m16n8k32_u8_s8",
    "mma_m16n8k32_u8_satfinite",
    "prmt",
    "shared_address",
    "st_global_v4_f32",
    "st_global_v4_u32",
    "st_shared_v4_f32",
    "st_shared_v4_u32",
    "stmatrix_x1",
    "stmatrix_x1_trans",
    "stmatrix_x2",
    "stmatrix_x2_trans",
    "stmatrix_x4",
    "stmatrix_x4_trans",
]
