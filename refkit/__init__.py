"""refkit verifies hand-written Numba CUDA kernels: float64 references, computed error bounds, and an executor that needs no GPU."""

__version__ = "0.1.0"
