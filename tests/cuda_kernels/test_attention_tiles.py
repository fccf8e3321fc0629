import pytest

from refkit.cuda_kernels.attention_tiles import BACKWARD, DEPTHS, FORWARD, AttentionTiles, tiles_for


@pytest.mark.parametrize(("defaults", "own_tiles"), [(FORWARD, 1), (BACKWARD, 2)])
@pytest.mark.parametrize("D", [1, 32, 33, 64, 65, 128, 129, 256])
def test_every_width_of_heads_has_tiles_that_fit(defaults, own_tiles, D):
    tiles = tiles_for(D, None, None, None, defaults, own_tiles)
    assert D <= tiles.depth < 2 * max(D, 32)
    assert tiles.threads % 32 == 0


def test_sizes_given_take_the_place_of_the_usual_ones():
    assert tiles_for(40, 8, None, 48, FORWARD, 1) == AttentionTiles(8, FORWARD[64].other, 48)


@pytest.mark.parametrize(
    ("D", "own", "other", "depth", "message"),
    [
        (257, None, None, None, "D=257: the fused kernels take heads of 1 to 256 columns"),
        (0, None, None, None, "D=0"),
        (8, 12, None, None, "own tile size 12 must be a positive multiple of 8"),
        (8, None, 24, None, "other tile size 24 must be a positive multiple of 16"),
        (8, None, None, 20, "depth tile size 20 must be a positive multiple of 16"),
        (8, 0, None, None, "own tile size 0"),
        (20, None, None, 16, "depth=16 is less than the D=20 columns of a head"),
        (8, 512, 16, 16, "needs 2048 threads per block"),
        (256, 32, 32, None, "needs 70016 bytes of shared memory, at most 49152"),
    ],
)
def test_sizes_that_do_not_fit_are_named(D, own, other, depth, message):
    with pytest.raises(ValueError, match=message):
        tiles_for(D, own, other, depth, FORWARD, own_tiles=1)


def test_depths_are_those_of_the_tables():
    assert tuple(FORWARD) == tuple(BACKWARD) == DEPTHS
