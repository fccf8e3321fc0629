"""What the threads of a launch hold while a program is interpreted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from refkit.verify.kernel_fuzz.tree import Array

WARP = 32


@dataclass(frozen=True)
class Threads:
    """Who the threads are: vectors with one element per thread of the grid, blocks one after the other.

    `block_of` and `in_block` number the block and the thread within it; `warp_of` numbers the warps of the whole grid;
    `lanes` counts the threads of each thread's warp; `registers` maps a special register to its value.
    """

    count: int
    block_of: np.ndarray
    in_block: np.ndarray
    warp_of: np.ndarray
    lanes: np.ndarray
    registers: dict[str, np.ndarray]

    @classmethod
    def of_launch(cls, grid: tuple[int, ...], block: tuple[int, ...]) -> Threads:
        """The threads of a launch; shapes are in CUDA's order, x first."""
        grid, block = (tuple(shape) + (1,) * (3 - len(shape)) for shape in (grid, block))
        per_block, blocks = int(np.prod(block)), int(np.prod(grid))
        block_of, in_block = np.divmod(np.arange(per_block * blocks), per_block)
        registers = {}
        for name, position, shape in (("threadIdx", in_block, block), ("blockIdx", block_of, grid)):
            # The x axis runs fastest, which is Fortran's order of (x, y, z).
            for axis, values in zip("xyz", np.unravel_index(position, shape, order="F")):
                registers[f"cuda.{name}.{axis}"] = values.astype(np.int32)
        for name, shape in (("blockDim", block), ("gridDim", grid)):
            for axis, extent in zip("xyz", shape):
                registers[f"cuda.{name}.{axis}"] = np.full(per_block * blocks, extent, np.int32)
        lane = in_block % WARP
        registers["cuda.laneid"] = lane.astype(np.int32)
        registers["cuda.warpsize"] = np.full(per_block * blocks, WARP, np.int32)
        below = (1 << lane.astype(np.int64)) - 1
        registers["int32(cuda.lanemask_lt())"] = below.astype(np.int32)
        warps_per_block = -(-per_block // WARP)
        lanes = np.minimum(WARP, per_block - in_block // WARP * WARP)
        return cls(
            per_block * blocks, block_of, in_block, block_of * warps_per_block + in_block // WARP, lanes, registers
        )

    def names(self) -> dict[str, np.ndarray]:
        """The variables that every kernel starts with."""
        return {
            "tid": self.in_block.astype(np.int32),
            "bid": self.block_of.astype(np.int32),
            "gid": np.arange(self.count, dtype=np.int32),
            "lane": (self.in_block % WARP).astype(np.int32),
            "warp": (self.in_block // WARP).astype(np.int32),
            "lanes": self.lanes.astype(np.int32),
        }


@dataclass
class Memory:
    """The arrays of a launch by name; shared ones with a leading axis of blocks, local ones of threads."""

    threads: Threads
    arrays: dict[str, np.ndarray]

    def declare(self, array: Array) -> None:
        """Make a shared or local array; a local one holds the sum of its indices, as kernels initialise it."""
        if array.space == "local":
            image = np.indices(array.shape).sum(axis=0).astype(array.kind.dtype)
            self.arrays[array.name] = np.repeat(image[None], self.threads.count, axis=0)
        else:
            blocks = int(self.threads.block_of[-1]) + 1
            self.arrays[array.name] = np.zeros((blocks, *array.shape), array.kind.dtype)

    def place(self, array: Array, indices: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
        """The NumPy index of the element that each thread means; `indices` are int64 and of any value."""
        confined = tuple(index % extent for index, extent in zip(indices, array.shape))
        if array.space == "own":
            return (np.arange(self.threads.count),)
        if array.space in ("local", "rows"):
            return (np.arange(self.threads.count), *confined)
        if array.space in ("shared", "dynamic"):
            return (self.threads.block_of, *confined)
        return confined
