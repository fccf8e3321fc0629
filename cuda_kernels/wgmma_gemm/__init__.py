"""Matrix products by `wgmma` on Hopper, c (M, N) = a (M, K) @ b (K, N), sums in float32.

`formats.py`: what differs between formats; `tiles.py`: sizes and shared memory; `producer.py`: bulk tensor copies;
`consumer.py`: products; `kernel.py`: who is what, and sums to c; `copies.py`: operands that need one; `launching.py`:
tensor maps and the launch.
"""

from .copies import copy_for
from .formats import FORMATS, WgmmaFormat
from .launching import launch_wgmma_gemm
from .tiles import WgmmaTiles

__all__ = ["FORMATS", "WgmmaFormat", "WgmmaTiles", "copy_for", "launch_wgmma_gemm"]
