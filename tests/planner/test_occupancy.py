"""Occupancy against worked examples and NVIDIA's tables."""

import pytest

from refkit.planner.occupancy import MULTIPROCESSORS, next_cliff, occupancy, registers_per_warp

H100 = (9, 0)


def test_128_registers_and_256_threads_give_two_blocks_and_142_give_one():
    two = occupancy(H100, threads=256, registers=128)
    one = occupancy(H100, threads=256, registers=142)
    assert (two.blocks, two.limits) == (2, ("registers",))
    assert (one.blocks, one.limits) == (1, ("registers",))
    assert two.fraction == 16 / 64


def test_registers_are_rounded_up_per_warp():
    assert registers_per_warp(128) == 4096
    assert registers_per_warp(142) == 4608  # 4544 rounded up to a multiple of 256
    assert registers_per_warp(1) == 256


def test_warps_are_counted_per_sub_partition():
    # 168 registers take 5,376 per warp: 3 warps in each quarter of 16,384, so 12 in all; 65,536 // 5,376 is 12 as well,
    # but 184 registers (5,888) leave 2 per quarter where the whole file would hold 11
    assert occupancy(H100, threads=32, registers=168).bounds["registers"] == 12
    assert occupancy(H100, threads=32, registers=184).bounds["registers"] == 8


@pytest.mark.parametrize(
    ("shared", "blocks"),
    [
        (47 * 1024, 4),  # 48 KB with the reserved one; 228 // 48
        (113 * 1024, 2),  # 114 KB, twice in 228
        (113 * 1024 + 1, 1),  # one byte more is 128 more
        (227 * 1024, 1),
        (227 * 1024 + 1, 0),  # more than a block may have
    ],
)
def test_shared_memory_with_its_reserved_kilobyte(shared, blocks):
    found = occupancy(H100, threads=128, registers=32, shared_bytes=shared)
    assert (found.blocks, found.limits) == (blocks, ("shared memory",))


def test_shared_memory_of_turing_has_no_reserved_kilobyte():
    assert occupancy((7, 5), threads=32, registers=16, shared_bytes=32 * 1024).bounds["shared memory"] == 2
    assert occupancy((7, 5), threads=32, registers=16, shared_bytes=32 * 1024 + 1).bounds["shared memory"] == 1


@pytest.mark.parametrize(
    ("cc", "blocks", "warps"), [((7, 5), 16, 32), ((8, 6), 16, 48), ((8, 9), 24, 48), (H100, 32, 64)]
)
def test_small_blocks_are_limited_by_their_number_and_large_ones_by_warps(cc, blocks, warps):
    small = occupancy(cc, threads=32, registers=16)
    large = occupancy(cc, threads=512, registers=16)
    assert (small.blocks, small.limits) == (blocks, ("blocks",))
    assert (large.blocks, large.limits) == (warps // 16, ("warps",))


def test_a_block_with_more_registers_than_the_file_does_not_fit():
    assert occupancy(H100, threads=1024, registers=128).blocks == 0
    assert occupancy(H100, threads=1024, registers=64).blocks == 1


def test_the_cliff_is_the_most_registers_that_let_another_block_in():
    cliff = next_cliff(H100, threads=256, registers=142)
    assert (cliff.registers, cliff.blocks) == (128, 2)
    assert occupancy(H100, threads=256, registers=cliff.registers + 1).blocks == 1


def test_no_cliff_where_registers_do_not_limit():
    assert next_cliff(H100, threads=1024, registers=32) is None


@pytest.mark.parametrize(
    ("values", "named"),
    [({"threads": 0}, "threads=0"), ({"threads": 1025}, "threads=1025"), ({"registers": 256}, "registers=256")],
)
def test_impossible_values_are_named(values, named):
    with pytest.raises(ValueError, match=named):
        occupancy(H100, **{"threads": 32, "registers": 32, **values})


def test_an_unknown_architecture_names_the_known_ones():
    with pytest.raises(ValueError, match=r"\(6, 0\).*7\.5.*12\.0"):
        occupancy((6, 0), threads=32, registers=32)


def test_every_architecture_of_the_table_is_consistent():
    for sm in MULTIPROCESSORS.values():
        assert sm.shared_bytes_per_block + sm.reserved_bytes <= sm.shared_bytes
        assert sm.warps * 32 >= 1024
