"""Matrix product of strided views, c (M, N) = a (M, K) b (K, N), accumulated in float32: a ladder of kernels.

A transposed operand is a view with exchanged strides, so one source serves NN, NT, TN and TT. What becomes of an
element is the business of an epilogue (`epilogues.py`), which tile a block makes that of a walk (`walks.py`).

naive:               one thread per element, neighbouring threads on neighbouring rows: uncoalesced.
coalesced:           the same with neighbouring threads on neighbouring columns.
tiled:               tile x tile threads share tiles of the operands in shared memory.
register_tiled_1d:   a column of elements per thread: the tile of b is read less often.
register_tiled:      a patch of elements per thread, both tiles are read less often; K may be split over grid.y.
vectorized:          the same with 128-bit loads.
warp_tiled:          a level between block and thread, so that a warp's piece is nearly square.
double_buffered:     the next slice of K is fetched while the current one is multiplied.
batched:             many products in one launch.

The launchers `launch_*_gemm(epilogue, a, b, c, ...)` are for other operators: they check tile sizes, not shapes. The
operator of its own is `refkit.cuda_kernels.matmul`.
"""

from .batched import batched_gemm, launch_batched_gemm
from .coalesced import coalesced_gemm, launch_coalesced_gemm
from .double_buffered import double_buffered_gemm, launch_double_buffered_gemm
from .epilogues import Operands, accumulate, accumulate_atomically, fused, identity, store, store_partial
from .naive import BLOCK as NAIVE_BLOCK
from .naive import launch_naive_gemm, naive_gemm
from .register_tiled import launch_register_tiled_gemm, register_tiled_gemm
from .register_tiled_1d import launch_register_tiled_1d_gemm, register_tiled_1d_gemm
from .split_k import check_split_k, choose_split_k, launch_add_partials, split_k_or_chosen
from .staging import PADDING
from .tiled import launch_tiled_gemm, tiled_gemm
from .tiles import Tiles, WarpTiles
from .vectorized import launch_vectorized_gemm, vectorized_gemm
from .walks import in_groups, row_by_row
from .warp_tiled import launch_warp_tiled_gemm, warp_tiled_gemm

__all__ = [
    "NAIVE_BLOCK",
    "PADDING",
    "Operands",
    "Tiles",
    "WarpTiles",
    "accumulate",
    "accumulate_atomically",
    "batched_gemm",
    "check_split_k",
    "choose_split_k",
    "coalesced_gemm",
    "double_buffered_gemm",
    "fused",
    "identity",
    "in_groups",
    "launch_add_partials",
    "launch_batched_gemm",
    "launch_coalesced_gemm",
    "launch_double_buffered_gemm",
    "launch_naive_gemm",
    "launch_register_tiled_1d_gemm",
    "launch_register_tiled_gemm",
    "launch_tiled_gemm",
    "launch_vectorized_gemm",
    "launch_warp_tiled_gemm",
    "naive_gemm",
    "register_tiled_1d_gemm",
    "register_tiled_gemm",
    "row_by_row",
    "split_k_or_chosen",
    "store",
    "store_partial",
    "tiled_gemm",
    "vectorized_gemm",
    "warp_tiled_gemm",
]
