"""Matrix products on tensor cores by `mma.sync`, c (M, N) = a (M, K) @ b (K, N), sums in float32.

One source serves tf32, bf16, f16 and fp8, all four transposes and every epilogue. `formats.py`: what differs between
formats; `tiles.py`: sizes; `shared_tiles.py`: where a byte of a tile lies in shared memory; `copies.py`: global to
shared memory; `fragments.py`: shared memory to registers; `mainloop.py`: the pipeline; `write_out.py`: sums to c;
`multistage.py` and `lane_major.py`: the kernels.
"""

from .formats import FORMATS, MmaFormat
from .lane_major import launch_lane_major_gemm
from .multistage import launch_multistage_gemm
from .tiles import MmaTiles

__all__ = ["FORMATS", "MmaFormat", "MmaTiles", "launch_lane_major_gemm", "launch_multistage_gemm"]
