"""Targets with architecture-specific instructions: `sm_90a` for `wgmma` and `setmaxnreg`."""

from __future__ import annotations

from numba.cuda.core import config

SM_90A = (9, 0, "a")


def target_sm_90a() -> None:
    """Compiles every kernel from here on for `sm_90a`, in this process: Hopper with its architecture-specific part.

    numba-cuda 0.30 does so by itself on a GPU of compute capability 9.0. The call is for compiling without one, and for
    programs that force another target: the environment variable NUMBA_FORCE_CUDA_CC cannot name this one, Numba drops
    the letter. Call it before the first kernel is compiled.
    """
    config.FORCE_CUDA_CC = SM_90A
