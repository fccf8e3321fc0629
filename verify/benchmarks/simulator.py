"""The GEMM under Numba's own simulator, in a process of its own: the simulator is chosen when Numba is imported.

Run with NUMBA_ENABLE_CUDASIM=1: `python -m refkit.verify.benchmarks.simulator M N K` prints seconds and the error.
"""

from __future__ import annotations

import json
import sys
import time


def main(arguments: list[str]) -> int:
    """Times one launch; the simulator runs the kernel's Python code, so nothing has to warm up."""
    import numpy as np
    from numba import cuda

    from refkit.verify.benchmarks import gemm_shape

    m, n, k = map(int, arguments)
    a, b = gemm_shape.operands(m, n, k)
    device_a, device_b = cuda.to_device(a), cuda.to_device(b)
    c = cuda.to_device(np.full((m, n), np.nan, np.float32))
    begin = time.perf_counter()
    gemm_shape.launch(device_a, device_b, c)
    seconds = time.perf_counter() - begin
    print(json.dumps({"seconds": seconds, "error": gemm_shape.check(a, b, c.copy_to_host())}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
