"""The scheduler and the device-side operations, in Numba's CUDA dialect, compiled by the kernels' own pipeline."""
