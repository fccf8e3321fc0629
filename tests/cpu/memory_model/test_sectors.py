"""Sectors of global requests, against counts made by hand."""

import numpy as np
import pytest

from refkit.cpu.memory_model.sectors import sectors

LANES = np.arange(32)
ALL = np.ones(32, bool)
BASE = 1 << 40


def moved(offsets, bytes_per_lane=4, active=ALL):
    addresses = BASE + np.asarray(offsets, np.int64)
    found, fewest = sectors(addresses[None], np.asarray(active)[None], bytes_per_lane)
    return int(found[0]), int(fewest[0])


@pytest.mark.parametrize(
    ("offsets", "size", "expected"),
    [
        (LANES * 4, 4, (4, 4)),
        (LANES * 4 + 4, 4, (5, 4)),  # off by one element: a fifth sector
        (LANES * 8, 4, (8, 4)),  # stride 2
        (LANES * 16, 4, (16, 4)),  # stride 4
        (LANES * 128, 4, (32, 4)),  # stride 32, and any column
        (LANES * 0, 4, (1, 1)),  # the same word
        (LANES * 8, 8, (8, 8)),
        (LANES * 16, 16, (16, 16)),
        (LANES * 2, 2, (2, 2)),
        (LANES, 1, (1, 1)),
        ((LANES * 7 % 32) * 4, 4, (4, 4)),  # any order within a row
        (LANES // 16 * 4096, 4, (2, 1)),  # two words far apart
    ],
)
def test_patterns(offsets, size, expected):
    assert moved(offsets, size) == expected


def test_inactive_lanes_move_nothing():
    assert moved(LANES * 128, active=LANES < 5) == (5, 1)


def test_an_access_across_a_boundary_moves_both_sectors():
    assert moved(np.full(32, 30), 4, active=LANES == 0) == (2, 1)
