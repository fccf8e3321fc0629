from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def jax() -> ModuleType:
    """JAX on the CPU in float64: an implementation of every operator that nobody here wrote."""
    jax = pytest.importorskip("jax", reason="JAX is not installed: pip install 'refkit-cuda[jax]'")
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_enable_x64", True)
    return jax
