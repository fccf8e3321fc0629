"""PTX of a kernel that calls linked device code, such as numba-cuda's own bfloat16 and float16 arithmetic.

numba-cuda links such kernels at link time (LTO): NVVM and NVRTC make LTO-IR, and nvJitLink makes one piece of PTX of
it. All three work without a driver; numba-cuda's own linker asks for one.
"""

from __future__ import annotations

from typing import Any


def linked_ptx(library: Any, compute_capability: tuple[int, int]) -> str:
    """PTX of a numba-cuda code library with all that it links.

    Raises what NVRTC and nvJitLink raise, ValueError for linked code that is not CUDA source, and ImportError where
    nvJitLink is not installed.
    """
    from cuda.bindings import nvjitlink
    from numba.cuda.cudadrv import nvrtc

    library._llvm_strs = [_without_debug_info(text) for text in library.llvm_strs]
    pieces = [library.get_ltoir(cc=compute_capability)]
    for item in library._linking_files:
        if getattr(item, "kind", "") != "cu" or not hasattr(item, "data"):
            raise ValueError(f"links {getattr(item, 'name', item)}, which is not CUDA source")
        code, _ = nvrtc.compile(item.data, item.name, compute_capability, ltoir=True)
        pieces.append(bytes(code.code))
    major, minor = compute_capability
    handle = nvjitlink.create(3, ["-lto", "-ptx", f"-arch=sm_{major}{minor}"])
    try:
        for number, piece in enumerate(pieces):
            nvjitlink.add_data(handle, nvjitlink.InputType.LTOIR, piece, len(piece), f"piece {number}")
        nvjitlink.complete(handle)
        text = bytearray(nvjitlink.get_linked_ptx_size(handle))
        nvjitlink.get_linked_ptx(handle, text)
    finally:
        nvjitlink.destroy(handle)
    return text.decode().rstrip("\0")


def _without_debug_info(text: str) -> str:
    """IR whose debug information counts as outdated and is dropped: NVRTC's pieces state its version in another way."""
    return text.replace('!"Debug Info Version"', '!"Debug Info Dropped"')
