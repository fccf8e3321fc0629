"""Numba CUDA kernels and their launchers, one file per operator; usable alone, inside anyone's Numba code.

A launcher takes device arrays, writes into the arrays that it is given, and launches on the default stream. Storage is
float32 or bfloat16 (`ml_dtypes.bfloat16` on the host); arithmetic and accumulation are float32.
"""
