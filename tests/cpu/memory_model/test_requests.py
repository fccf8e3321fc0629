"""Records of threads become requests of warps."""

import numpy as np

from refkit.cpu.memory_model.requests import requests_of
from refkit.cpu.runtime.trace import SHARED


def records(per_lane):
    """(addresses, turns, counts) of one warp out of `[(turn, address), ...]` per lane."""
    quota = max(len(lane) for lane in per_lane)
    addresses, turns = np.zeros((1, 32, quota), np.int64), np.full((1, 32, quota), -7, np.int64)
    counts = np.zeros((1, 32), np.int64)
    for lane, seen in enumerate(per_lane):
        counts[0, lane] = len(seen)
        for execution, (turn, address) in enumerate(seen):
            addresses[0, lane, execution], turns[0, lane, execution] = address, turn
    return addresses, turns, counts


def test_uniform_executions_are_one_request_each():
    (found,) = requests_of(*records([[(0, 100 + lane), (1, 200 + lane)] for lane in range(32)]))
    assert found.addresses.tolist() == [[100 + lane for lane in range(32)], [200 + lane for lane in range(32)]]
    assert found.active.all()


def test_lanes_meet_again_in_the_same_turn():
    # odd lanes skip turn 0, so that their first record belongs to the second of the even ones
    per_lane = [[(0, 8), (1, 16)] if lane % 2 == 0 else [(1, 24)] for lane in range(32)]
    (found,) = requests_of(*records(per_lane))
    assert found.active.sum(axis=1).tolist() == [16, 32]
    assert found.addresses[1, :2].tolist() == [16, 24]


def test_lanes_that_never_came_are_inactive():
    (found,) = requests_of(*records([[(0, 4)] if lane < 3 else [] for lane in range(32)]))
    assert found.active.sum() == 3


def test_nothing_recorded_is_no_request():
    addresses = np.zeros((2, 32, 4), np.int64)
    assert requests_of(addresses, addresses, np.zeros((2, 32), np.int64)) == []


def test_spaces_are_told_apart_lane_by_lane():
    found = requests_of(*records([[(0, SHARED + 4 * lane if lane < 8 else 64)] for lane in range(32)]))
    assert [(each.shared, int(each.active.sum())) for each in found] == [(False, 24), (True, 8)]
    assert found[1].addresses[0, :3].tolist() == [0, 4, 8]


def test_requests_that_a_cut_lane_may_have_had_a_part_in_are_left_out():
    # lane 0 recorded its turns 0 and 1 of many; the others come once, in turn 1, except lane 5, in turn 9
    per_lane = [[(0, 4), (1, 4)], *([[(1, 8)]] * 4), [(9, 8)], *([[(1, 8)]] * 26)]
    addresses, turns, counts = records(per_lane)
    counts[0, 0] = 50
    (found,) = requests_of(addresses, turns, counts)
    assert found.active.sum(axis=1).tolist() == [1, 31]  # turn 9 is not there
