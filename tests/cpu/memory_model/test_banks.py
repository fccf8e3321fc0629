"""Passes over the banks, against counts made by hand."""

import numpy as np
import pytest

from refkit.cpu.memory_model.banks import bank_passes

LANES = np.arange(32)
ALL = np.ones(32, bool)


def passes(words, bytes_per_lane=4, active=ALL, **options):
    offsets = 4 * np.asarray(words, np.int64)
    found, fewest = bank_passes(offsets[None], np.asarray(active)[None], bytes_per_lane, **options)
    return int(found[0]), int(fewest[0])


@pytest.mark.parametrize(
    ("stride", "expected"), [(0, 1), (1, 1), (2, 2), (3, 1), (4, 4), (8, 8), (16, 16), (31, 1), (32, 32), (33, 1)]
)
def test_strides_of_words(stride, expected):
    # gcd(stride, 32) lanes share a bank; stride 0 is one word for all
    assert passes(LANES * stride) == (expected, 1)


def test_lanes_with_the_same_word_share_a_pass():
    assert passes(LANES // 2) == (1, 1)
    assert passes(np.where(LANES % 2, 0, 32)) == (2, 1)  # two words of bank 0


def test_bytes_of_one_word_share_a_pass():
    offsets = np.arange(32, dtype=np.int64)[None]  # 8 words
    assert bank_passes(offsets, ALL[None], 1)[0][0] == 1


@pytest.mark.parametrize(
    ("stride", "expected"),
    [
        (2, 2),  # 64-bit, contiguous: a pass per half warp
        (4, 4),  # every other element: 16 lanes, 4 words apart: 2 lanes per bank pair and half
        (32, 32),  # one bank pair: 16 passes per half
    ],
)
def test_64_bit_accesses_go_by_half_warps(stride, expected):
    assert passes(LANES * stride, 8) == (expected, 2)


@pytest.mark.parametrize(
    ("stride", "expected"),
    [
        (4, 4),  # 128-bit, contiguous: a pass per quarter warp
        (8, 8),  # 8 lanes, 8 words apart: 2 lanes per bank
        (32, 32),  # all 8 lanes of a quarter at banks 0 to 3
        (36, 4),  # rows padded by 4 words: each lane 4 banks on
    ],
)
def test_128_bit_accesses_go_by_quarter_warps(stride, expected):
    assert passes(LANES * stride, 16) == (expected, 4)


def test_inactive_lanes_take_no_pass():
    assert passes(LANES * 32, active=LANES < 3) == (3, 1)
    assert passes(LANES * 4, 16, active=LANES < 8) == (1, 1)
    assert passes(LANES * 4, 16, active=LANES % 8 == 0) == (4, 4)


def test_atomics_on_one_word_are_served_one_by_one():
    assert passes(LANES * 0, shares_words=False) == (32, 1)
    assert passes(LANES, shares_words=False) == (1, 1)


def test_requests_are_counted_apart():
    offsets = 4 * np.stack([LANES, LANES * 32, LANES * 2]).astype(np.int64)
    found, fewest = bank_passes(offsets, np.ones((3, 32), bool), 4)
    assert found.tolist() == [1, 32, 2]
    assert fewest.tolist() == [1, 1, 1]
