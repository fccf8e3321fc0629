"""The scheduler and the device-side operations, in Numba's CUDA dialect, compiled by the same pipeline as the kernels."""
