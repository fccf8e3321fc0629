"""Arrays that kernels allocate: their memory, when it is freed, and what numba-cuda's statistics say of it."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from numba import cuda
from numba.cuda import config
from numba.cuda.memory_management.nrt import rtsys

from refkit.cpu import SANITIZERS, Unsupported, emulate

pytestmark = pytest.mark.cpu


@pytest.fixture(autouse=True)
def allocating(monkeypatch):
    monkeypatch.setattr(config, "CUDA_ENABLE_NRT", True)


@cuda.jit
def sums_of_copies(x, out):
    i = cuda.grid(1)
    mine = x[i : i + 5].copy()
    mine[0] = 100
    alias = mine
    out[i] = mine.sum() + alias[1]


def expected(x, count):
    rows = np.stack([x[i : i + 5] for i in range(count)])
    return rows[:, 1:].sum(axis=1) + 100 + rows[:, 1]


@pytest.mark.parametrize("settings", [{}, {"schedule": 3}, {"sanitize": SANITIZERS}])
def test_each_thread_has_its_own_array(settings):
    x, out = np.arange(105.0), np.zeros(100)
    with emulate(**settings):
        sums_of_copies[4, 25](x, out)
    np.testing.assert_array_equal(out, expected(x, 100))


def test_all_that_is_allocated_is_freed_and_counted():
    x, out = np.arange(105.0), np.zeros(100)
    with emulate():
        rtsys.memsys_enable_stats()
        before = rtsys.get_allocation_stats()
        sums_of_copies[4, 25](x, out)
        after = rtsys.get_allocation_stats()
        assert [new - old for new, old in zip(after, before)] == [100] * 4
        assert rtsys.memsys_get_stats_alloc() == after.alloc
        rtsys.memsys_disable_stats()
        sums_of_copies[4, 25](x, out)
        with pytest.raises(RuntimeError, match="NRT stats are disabled"):
            rtsys.get_allocation_stats()
        rtsys.memsys_enable_stats()
        assert rtsys.get_allocation_stats() == after
        rtsys.memsys_disable_stats()


def test_an_array_outlives_the_function_that_made_it():
    @cuda.jit(device=True)
    def made(x, k):
        return x.copy() if k % 2 else x

    @cuda.jit
    def kernel(x, out):
        i = cuda.grid(1)
        y = made(x, i)
        z = made(y, i + 1)
        y = z
        out[i] = y[i] + z[i]

    x, out = np.arange(8, dtype=np.int64), np.zeros(8, np.int64)
    with emulate():
        rtsys.memsys_enable_stats()
        before = rtsys.get_allocation_stats()
        kernel[1, 8](x, out)
        after = rtsys.get_allocation_stats()
        rtsys.memsys_disable_stats()
    np.testing.assert_array_equal(out, 2 * x)
    assert after.alloc - before.alloc == after.free - before.free == 8


def test_a_kernel_from_the_cache_counts_in_its_own_process(tmp_path):
    (tmp_path / "program.py").write_text(
        textwrap.dedent(
            """
            import numpy as np
            from numba import cuda
            from numba.cuda.memory_management.nrt import rtsys
            from refkit.cpu import emulate

            @cuda.jit
            def kernel(x, out):
                out[cuda.grid(1)] = x.copy().sum()

            with emulate():
                rtsys.memsys_enable_stats()
                kernel[1, 3](np.ones(4), np.zeros(3))
                print(rtsys.get_allocation_stats().free)
            """
        )
    )
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import program"],
            capture_output=True,
            text=True,
            env={**os.environ, "NUMBA_CUDA_ENABLE_NRT": "1"},
        )
        assert done.stdout == "3\n", done.stderr


def test_what_the_memory_system_does_in_cuda_code_is_refused():
    with emulate(), pytest.raises(Unsupported, match="NRT_MemSys_print"):
        rtsys.print_memsys()
