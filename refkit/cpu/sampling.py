"""Launches too large to run whole: a sample of their blocks, chosen where index arithmetic breaks.

The first and the last blocks, and those around every power of two, both of the block's number and of the number of its
first thread: there a 31- or 32-bit product of block and block size overflows.
"""

import numpy as np

EDGE = 16  # blocks at either end


def sampled_blocks(blocks: int, threads_per_block: int, most: int) -> np.ndarray:
    """Numbers of the blocks to run, in order (int64): all of them if they are at most `most`."""
    if blocks <= most:
        return np.arange(blocks, dtype=np.int64)
    chosen = {*range(EDGE), *range(blocks - EDGE, blocks)}
    for power in range(64):
        for number in (1 << power, (1 << power) // threads_per_block):
            chosen.update(range(number - 1, number + 2))
    kept = sorted(block for block in chosen if 0 <= block < blocks)
    if len(kept) < most:  # the rest evenly between them
        kept = sorted({*kept, *np.linspace(0, blocks - 1, most - len(kept), dtype=np.int64).tolist()})
    return np.array(kept, np.int64)
