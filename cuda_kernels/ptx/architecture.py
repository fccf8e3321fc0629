"""Targets with architecture-specific instructions: `sm_90a` for `wgmma` and `setmaxnreg`."""

from __future__ import annotations

from numba.cuda.core import config

SM_90A = (9, 0, "a")


def target_sm_90a() -> None:
    """Compiles every kernel from here on for `sm_90a`, in this process: Hopper with its architecture-specific part.

    Call it once, before the first kernel is compiled; code for sm_90a runs on compute capability 9.0 alone. An
    environment variable cannot say it: Numba drops the letter there.
    """
    config.FORCE_CUDA_CC = SM_90A
