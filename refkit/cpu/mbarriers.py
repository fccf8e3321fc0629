"""What an mbarrier still waits for, in words: for the report of a launch in which nothing can go on."""

import ctypes

from .runtime import mbarrier


def missing(address: int, parity: int) -> str:
    """Why the phase of a parity has not ended, of the mbarrier at an address of the worker's shared memory."""
    state = ctypes.c_int64.from_address(address).value
    if state >> mbarrier.VALID_SHIFT != 1:
        return "there is no mbarrier"
    if state >> mbarrier.PHASE_SHIFT & 1 != parity:
        return f"the phase of parity {parity} has ended"
    arrivals = state >> mbarrier.PENDING_SHIFT & mbarrier.EXPECTED_MASK
    size = (state >> mbarrier.BYTES_SHIFT & mbarrier.BYTES_MASK) - mbarrier.BYTES_BIAS
    expected = state & mbarrier.EXPECTED_MASK
    parts = [f"{arrivals} of {expected} arrivals are missing"] if arrivals else []
    parts += [f"{size} bytes are missing"] if size > 0 else []
    parts += [f"{-size} bytes more than expected have come"] if size < 0 else []
    return f"parity {parity}: {' and '.join(parts)}"
