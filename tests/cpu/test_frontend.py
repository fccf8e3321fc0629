"""The frontend: what it compiles for the executor stays apart from what it compiles for a GPU."""

import numpy as np
import pytest
from numba import cuda, float32
from numba.cuda.descriptor import cuda_target

from refkit.cpu import emulate

pytestmark = pytest.mark.cpu


@cuda.jit
def widen(x, y):
    i = cuda.grid(1)
    y[i] = float32(x[i])


def test_functions_compiled_for_the_executor_do_not_reach_a_gpu_kernel():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    before = dict(cuda_target.target_context.cached_internal_func)
    with emulate():
        x = cuda.to_device(np.arange(32).astype(ml_dtypes.bfloat16))
        y = cuda.device_array(32, np.float32)
        widen[1, 32](x, y)
        assert (y.copy_to_host() == np.arange(32)).all()
    assert cuda_target.target_context.cached_internal_func == before
