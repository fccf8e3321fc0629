"""The figures of one matrix product (m, k) by (k, n): work, traffic, tiles, waves, split-K, time.

The split-K model is that of the kernels' own launchers (`cuda_kernels/gemm/split_k.py`), and a test holds the two
together. Traffic counts each operand read once and the result written once: what a cache of any size cannot spare.
"""

from __future__ import annotations

from refkit.planner.sheet import Figure, Group, Parameter, figure

TILING = (
    Parameter("tile_m", "rows of a tile", 128, 16, 256, step=16, tuning=True),
    Parameter("tile_n", "columns of a tile", 128, 16, 256, step=16, tuning=True),
    Parameter("tile_k", "depth of a slice", 32, 8, 128, step=8, tuning=True),
    Parameter("blocks_per_sm", "blocks on an SM at once", 1, 1, 8, step=1, tuning=True),
)
"""How a kernel cuts its product into blocks."""

_TIME_OF_SPLITS = "ceil(s * tiles / slots) * (ceil(slices / s) + finish)"

RESULT_BYTES = "m * n * result"
ACCUMULATED_BYTES = "2 * 4 * m * n"
"""A float32 buffer that is added to: read and written."""


def machine_group() -> Group:
    """What the device and the tile come to, before any size of the layer."""
    return Group(
        "machine",
        "device and tile",
        "totals",
        (
            figure("ridge", "ridge point", "FLOP/B", "rate / bandwidth", "a kernel below it waits for memory"),
            figure(
                "tile_intensity",
                "intensity of a tile",
                "FLOP/B",
                "2 * tile_m * tile_n / ((tile_m + tile_n) * element)",
                "2 m n k operations for (m + n) k elements; below the ridge it is the L2 cache that has to help",
            ),
        ),
    )


def gemm(
    name: str, title: str, m: str, n: str, k: str, about: str, *, accumulates: bool = False, needs: str = ""
) -> Group:
    """A matrix product. m, n, k: formulas of its sizes; the contraction is k. accumulates: its result is added to a
    float32 buffer, as a weight gradient is. needs: as in `Group`."""
    figures = (*_work(m, n, k, accumulates), *_tiles(), *_split_k(), *_time())
    return Group(name, title, "gemms", figures, about, needs)


def _work(m: str, n: str, k: str, accumulates: bool) -> tuple[Figure, ...]:
    written = ACCUMULATED_BYTES if accumulates else RESULT_BYTES
    added = "; the result is added to float32, so read and written" if accumulates else ""
    return (
        figure("m", "m, rows", "count", m),
        figure("n", "n, columns", "count", n),
        figure("k", "k, contracted", "count", k),
        figure("flops", "FLOPs", "FLOP", "2 * m * n * k", "a multiplication and an addition for each"),
        figure(
            "bytes",
            "traffic",
            "B",
            f"(m * k + k * n) * element + {written}",
            f"each operand once, the result once{added}",
        ),
        figure("intensity", "arithmetic intensity", "FLOP/B", "flops / bytes"),
        figure("bound", "bound by", "text", "'memory' if intensity < rate / bandwidth else 'arithmetic'"),
    )


def _tiles() -> tuple[Figure, ...]:
    return (
        figure("tiles", "output tiles", "count", "ceil(m / tile_m) * ceil(n / tile_n)", "one block each"),
        figure("slots", "blocks at once", "count", "SMs * blocks_per_sm", step=True),
        figure("waves", "waves", "decimal", "tiles / slots"),
        figure(
            "full",
            "machine full",
            "fraction",
            "tiles / (ceil(waves) * slots)",
            "the last wave takes as long as the others, however few blocks are in it",
        ),
    )


def _split_k() -> tuple[Figure, ...]:
    return (
        figure("slices", "slices of k", "count", "ceil(k / tile_k)", step=True),
        figure(
            "finish",
            "cost of a block's end",
            "decimal",
            "2 * tile_m * tile_n / ((tile_m + tile_n) * tile_k)",
            "in slices: its tile read and written once",
            step=True,
        ),
        figure(
            "most_splits",
            "splits worth trying",
            "count",
            "max(1, min(floor(slices / finish), 65535, ceil(2 * slots / tiles)))",
            "no part shorter than its own end, no more than two waves",
            step=True,
        ),
        figure(
            "split_k",
            "splits of k",
            "count",
            f"first_within(1.05, ({_TIME_OF_SPLITS} for s in range(1, most_splits + 1)))",
            "waves times the slices of a part and its end",
        ),
        figure(
            "split_gain",
            "gain by splitting",
            "times",
            "ceil(waves) * (slices + finish) / (ceil(split_k * tiles / slots) * (ceil(slices / split_k) + finish))",
        ),
        figure("split_verdict", "split-K", "text", "'pays' if split_k > 1 else 'does not pay'"),
        figure(
            "split_full",
            "machine full, split",
            "fraction",
            "split_k * tiles / (ceil(split_k * tiles / slots) * slots)",
        ),
        figure(
            "workspace",
            "workspace of the splits",
            "B",
            "split_k * m * n * 4 if split_k > 1 else 0",
            "float32 partial sums of the repeatable form; the atomic form needs none",
        ),
    )


def _time() -> tuple[Figure, ...]:
    return (
        figure("compute_time", "time at the rate", "s", "flops / rate", "arithmetic alone, every SM at work"),
        figure("memory_time", "time for the traffic", "s", "bytes / bandwidth", "traffic alone"),
        figure(
            "time",
            "time, idle SMs counted",
            "s",
            "max(compute_time / full / split_gain, (bytes + 2 * workspace) / bandwidth)",
            "the longer of the two: waves as they are, k split as above, the workspace written and read",
        ),
    )
