"""Blocks per SM from registers, threads and shared memory: the arithmetic of `planner/occupancy.py` as formulas."""

from refkit.planner.sheet import Group, Parameter, Sheet, figure

SHEET = Sheet(
    "occupancy",
    "Occupancy",
    "how many blocks one multiprocessor holds at once, and what allows no more",
    (
        Parameter("registers", "registers per thread", 128, 16, 255, step=1),
        Parameter("threads", "threads per block", 256, 32, 1024, step=32),
        Parameter("shared_bytes", "shared memory per block", 0, 0, 232_448, "B", step=1024),
    ),
    (
        Group(
            "sm",
            "blocks per SM",
            "blocks",
            (
                figure("warps", "warps per block", "count", "ceil(threads / 32)"),
                figure(
                    "warp_registers",
                    "registers per warp",
                    "count",
                    "ceil(registers * 32 / 256) * 256",
                    "allocated in units of 256",
                ),
                figure(
                    "by_registers",
                    "blocks by registers",
                    "count",
                    "0 if warp_registers * ceil(warps / 4) * 4 > 65536 else floor(16384 / warp_registers) * 4 // warps",
                    "a quarter of the 65,536 registers belongs to each quarter of the SM",
                ),
                figure("by_warps", "blocks by warps", "count", "sm_warps // warps"),
                figure(
                    "block_bytes",
                    "shared memory of a block",
                    "B",
                    "ceil((shared_bytes + shared_reserved) / shared_unit) * shared_unit",
                    "with what the system keeps, in whole units",
                ),
                figure(
                    "by_shared",
                    "blocks by shared memory",
                    "count",
                    "0 if shared_bytes > block_shared else sm_shared // block_bytes if block_bytes > 0 else sm_blocks",
                ),
                figure("blocks", "blocks per SM", "count", "min(by_registers, by_warps, by_shared, sm_blocks)"),
                figure(
                    "limit",
                    "limited by",
                    "text",
                    "'registers' if by_registers == blocks else 'warps' if by_warps == blocks"
                    " else 'blocks' if sm_blocks == blocks else 'shared memory'",
                    "the first of those that allow no more",
                ),
                figure("occupancy", "occupancy", "fraction", "blocks * warps / sm_warps"),
                figure(
                    "next_registers",
                    "registers for one block more",
                    "count",
                    "floor(floor(16384 / ceil((blocks + 1) * warps / 4)) / 256) * 8"
                    " if min(by_warps, by_shared, sm_blocks) > blocks and blocks > 0 else 0",
                    "0 where fewer registers would not help",
                ),
            ),
        ),
    ),
    (
        "{registers} registers × {threads} threads; blocks per SM: {sm.blocks}, limited by {sm.limit}; occupancy"
        " {sm.occupancy}.",
    ),
)
