"""As much of torch, on NumPy arrays, as the GEMM benchmarks touch: results are checked without a GPU."""

from types import ModuleType, SimpleNamespace

import numpy as np


class Tensor(np.ndarray):
    """A NumPy array with torch's names for what the benchmarks call."""

    def fill_(self, value):
        """Sets every element."""
        self[...] = value

    def float(self):
        """A float32 copy."""
        return self.astype(np.float32)

    def double(self):
        """A float64 copy."""
        return self.astype(np.float64)

    def to(self, dtype):
        """A copy of that dtype."""
        return self.astype(dtype)

    def t(self):
        """The transposed view."""
        return self.T

    def norm(self):
        """The Euclidean norm of all elements."""
        return np.sqrt((np.asarray(self) ** 2).sum())


def fake_torch() -> ModuleType:
    """A module to put in the place of torch."""
    torch = ModuleType("torch")
    generator = np.random.default_rng(0)

    def randn(*shape, device):
        return generator.standard_normal(shape).view(Tensor)

    def empty(*shape, device, dtype):
        return np.empty(shape, dtype).view(Tensor)

    torch.randn, torch.empty, torch.isnan = randn, empty, np.isnan
    torch.manual_seed = lambda seed: None
    torch.float32 = np.float32
    torch.cuda = SimpleNamespace(
        synchronize=lambda: None, current_stream=lambda: "stream", get_device_name=lambda: "no GPU"
    )
    torch.backends = SimpleNamespace(cuda=SimpleNamespace(matmul=SimpleNamespace(allow_tf32=None)))
    torch.matmul = lambda a, b, out: np.matmul(a, b, out=out)
    return torch
