"""A product is checked before it is timed: what is wrong has no speed."""

import sys

import numpy as np
import pytest

from refkit.verify.benchmarks import gemm_on_gpu
from refkit.verify.benchmarks.on_gpu import Timing
from tests.verify.benchmarks.fake_torch import fake_torch


@pytest.fixture(autouse=True)
def times(monkeypatch):
    """Every cuBLAS launch takes 2 microseconds, every launch of ours 4; returns what was asked to be timed."""
    asked = []

    def time_launches(launch, **options):
        asked.append(options)
        return Timing(2.0 * len(asked), 1000.0, 2000.0)

    monkeypatch.setattr(gemm_on_gpu, "time_launches", time_launches)
    monkeypatch.setitem(sys.modules, "torch", fake_torch())
    return asked


def right(a, b, c, stream):
    assert stream == "stream"
    c[...] = a @ b


def test_a_right_product_becomes_a_row_beside_cublas(times):
    row = gemm_on_gpu.against_cublas("mine", right, "fp32", "NT", 100, launches=1, repeats=3, notes={"rung": "x"})
    assert (row.name, row.shape, row.peer, row.ratio, row.median_us) == (
        "mine fp32 NT",
        "100x100x100",
        "cuBLAS",
        0.5,
        4,
    )
    assert (row.rate, row.peer_rate) == (0.5, 1.0)  # 2 million operations in 4 and 2 microseconds, in 1e12 a second
    assert (row.clock_before, row.clock_after) == (1000.0, 2000.0)
    assert {"rung": "x", "launches": 1, "repeats": 3, "device": "no GPU"}.items() <= row.notes.items()
    assert times == [{"repeats": 3}, {"launches": 1, "repeats": 3}]
    assert not sys.modules["torch"].backends.cuda.matmul.allow_tf32


@pytest.mark.parametrize("fault", ["a term is missing", "an element is unwritten", "tf32 by mistake"])
def test_a_wrong_product_is_not_timed(fault, times):
    def wrong(a, b, c, stream):
        if fault == "a term is missing":
            c[...] = a[:, :-1] @ b[:-1]
        elif fault == "an element is unwritten":
            c[1:] = a[1:] @ b
        else:
            # Bits beyond tf32's 10 dropped, as the unit does with what is not rounded.
            cut = [(x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) for x in (a, np.ascontiguousarray(b))]
            c[...] = cut[0] @ cut[1]

    with pytest.raises(AssertionError, match="mine fp32 NN: relative errors"):
        gemm_on_gpu.against_cublas("mine", wrong, "fp32", "NN", 128)
    assert times == []


def test_a_wrong_peer_is_no_measure(monkeypatch, times):
    monkeypatch.setattr(sys.modules["torch"], "matmul", lambda a, b, out: out.fill_(0))
    with pytest.raises(AssertionError, match=r"\(ours, cuBLAS\)"):
        gemm_on_gpu.against_cublas("mine", right, "fp32", "NN", 64)


def test_tf32_allows_cublas_to_use_it():
    gemm_on_gpu.against_cublas("mine", right, "tf32", "NN", 64)
    assert sys.modules["torch"].backends.cuda.matmul.allow_tf32
