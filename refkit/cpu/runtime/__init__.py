"""The scheduler and the device-side operations, written in Numba's CUDA dialect and compiled by the same pipeline as the kernels."""
