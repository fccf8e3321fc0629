"""Bank conflicts of the layouts agree with the memory model of the executor, which states the rules on its own."""

import numpy as np
import pytest

from refkit.cpu.memory_model.banks import bank_passes
from refkit.cuda_kernels.layouts import access

LANES = np.arange(32)


@pytest.mark.parametrize("bytes_per_lane", [1, 2, 4, 8, 16])
def test_the_executor_counts_the_same(bytes_per_lane):
    rng = np.random.default_rng(bytes_per_lane)
    spans = np.repeat([32, 64, 256, 4096], 50)[:, None]
    offsets = rng.integers(0, 4096, (200, 32)) % spans * bytes_per_lane
    active = rng.random((200, 32)) < rng.choice([1.0, 0.5], (200, 1))
    passes, _ = bank_passes(offsets, active, bytes_per_lane)
    assert np.array_equal(access(offsets, bytes_per_lane, active).wavefronts, passes)
    assert len(np.unique(passes)) > 2


@pytest.mark.parametrize(
    ("stride", "bytes_per_lane", "wavefronts", "ways"),
    [(4, 4, 1, 1), (8, 4, 2, 2), (128, 4, 32, 32), (0, 4, 1, 1), (16, 16, 4, 1), (128, 16, 32, 8), (8, 8, 2, 1)],
)
def test_strides(stride, bytes_per_lane, wavefronts, ways):
    found = access(LANES * stride, bytes_per_lane)
    assert (found.wavefronts.tolist(), found.ways) == ([wavefronts], ways)


def test_alignment_of_the_lanes_that_take_part():
    assert access(LANES * 16, 16).aligned
    odd = LANES * 16 + (LANES == 7) * 4
    assert not access(odd, 16).aligned
    assert access(odd, 16, LANES != 7).aligned
