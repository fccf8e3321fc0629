"""The same GEMM as OpenCL C under PoCL, an OpenCL for CPUs (`pip install pyopencl pocl-binary-distribution`)."""

from __future__ import annotations

import importlib.util
import statistics
import time

SOURCE = """
__kernel void gemm(__global const float *a, __global const float *b, __global float *c, int m, int n, int depth) {
  __local float a_tile[8][132];
  __local float b_tile[8][132];
  float values[8][8];
  int thread = get_local_id(0);
  int my_row = thread / 16 * 8, my_column = thread % 16 * 8;
  int first_row = get_group_id(1) * 128, first_column = get_group_id(0) * 128;
  for (int i = 0; i < 8; i++)
    for (int j = 0; j < 8; j++)
      values[i][j] = 0.0f;
  for (int first_k = 0; first_k < depth; first_k += 8) {
    for (int item = thread; item < 1024; item += 256) {
      int r = item / 8, kk = item % 8, row = first_row + r, k = first_k + kk;
      a_tile[kk][r] = row < m && k < depth ? a[row * depth + k] : 0.0f;
    }
    for (int item = thread; item < 1024; item += 256) {
      int s = item % 128, kk = item / 128, column = first_column + s, k = first_k + kk;
      b_tile[kk][s] = k < depth && column < n ? b[k * n + column] : 0.0f;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int kk = 0; kk < 8; kk++)
      for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++)
          values[i][j] += a_tile[kk][my_row + i] * b_tile[kk][my_column + j];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  for (int i = 0; i < 8; i++)
    for (int j = 0; j < 8; j++) {
      int row = first_row + my_row + i, column = first_column + my_column + j;
      if (row < m && column < n)
        c[row * n + column] = values[i][j];
    }
}
"""


def missing() -> str | None:
    """Why PoCL cannot run here; None where it can."""
    if importlib.util.find_spec("pyopencl") is None:
        return "pyopencl is not installed"
    import pyopencl

    try:
        platforms = [platform.name for platform in pyopencl.get_platforms()]
    except pyopencl.Error as error:
        return f"no OpenCL platform: {error}"
    return None if any("Portable" in name for name in platforms) else "no PoCL platform among the OpenCL platforms"


def seconds(size: int, repeats: int) -> float:
    """Median seconds of a launch after the first; raises AssertionError where the product is wrong."""
    import numpy as np
    import pyopencl

    from refkit.verify.benchmarks import gemm_shape

    a, b = gemm_shape.operands(size, size, size)
    platform = next(platform for platform in pyopencl.get_platforms() if "Portable" in platform.name)
    context = pyopencl.Context(platform.get_devices())
    queue = pyopencl.CommandQueue(context)
    flags = pyopencl.mem_flags
    buffers = [pyopencl.Buffer(context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=array) for array in (a, b)]
    c = np.full((size, size), np.nan, np.float32)
    output = pyopencl.Buffer(context, flags.READ_WRITE | flags.COPY_HOST_PTR, hostbuf=c)
    kernel = pyopencl.Kernel(pyopencl.Program(context, SOURCE).build(options="-cl-mad-enable"), "gemm")
    groups = (-(-size // 128) * 256, -(-size // 128))
    times = []
    for _ in range(repeats + 1):
        begin = time.perf_counter()
        kernel(queue, groups, (256, 1), *buffers, output, np.int32(size), np.int32(size), np.int32(size))
        queue.finish()
        times.append(time.perf_counter() - begin)
    pyopencl.enqueue_copy(queue, c, output).wait()
    gemm_shape.check(a, b, c)
    return statistics.median(times[1:])
