"""refkit verifies hand-written Numba CUDA kernels: float64 references, computed bounds, an executor without a GPU."""

__version__ = "0.1.0"
