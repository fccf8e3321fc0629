import pytest

from refkit.cuda_kernels.gemm import Tiles, choose_split_k
from refkit.cuda_kernels.gemm.split_k import MOST_SPLITS

TILES = Tiles(block_m=128, block_n=128, block_k=8, thread_m=8, thread_n=8)
"""A block finishes in 2 x 128 x 128 / (256 x 8) = 16 slices of K."""


@pytest.mark.parametrize(
    ("K", "M", "N", "multiprocessors", "expected"),
    [
        # 9 tiles, 512 slices: 14 x 9 = 126 blocks in one wave, 37 + 16 = 53; 13 parts give 40 + 16 = 56, 15 two waves.
        (4096, 384, 384, 132, 14),
        # On 36 multiprocessors 4 x 9 = 36 blocks in one wave, 128 + 16 = 144; 8 parts, two waves of 64 + 16: 160.
        (4096, 384, 384, 36, 4),
        # 36 tiles, 1,024 slices: 3 parts, one wave of 342 + 16 = 358; 7 parts, two waves of 147 + 16: 326.
        (8192, 768, 768, 132, 7),
        # 3,584 tiles: 28 waves already.
        (8192, 4096, 14336, 132, 1),
        # 2 tiles of 4 slices: a part would be shorter than its own finish.
        (32, 128, 256, 132, 1),
        # 1 tile, 32 slices: two parts of 16 slices, 32 instead of 48.
        (256, 128, 128, 132, 2),
        # 9 tiles on one multiprocessor: nothing is idle.
        (4096, 384, 384, 1, 1),
    ],
)
def test_worked_by_hand(K, M, N, multiprocessors, expected):
    assert choose_split_k(K, M, N, TILES, multiprocessors) == expected


@pytest.mark.parametrize(("K", "M", "N"), [(0, 5, 5), (4096, 0, 384), (4096, 384, 0)])
def test_nothing_to_do_is_not_split(K, M, N):
    assert choose_split_k(K, M, N, TILES, 132) == 1


def test_never_more_than_a_grid_has_room_for():
    tiny = Tiles(1, 1, 1, 1, 1)
    assert choose_split_k(10**7, 1, 1, tiny, 10**6) <= MOST_SPLITS
