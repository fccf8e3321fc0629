"""What traced kernels call: each access of a sampled block is written down, per thread and per access instruction."""

from numba import cuda

from .layout import (
    BLOCK_LINEAR,
    BLOCK_SHARED,
    BLOCK_SHARED_BYTES,
    LAUNCH_THREADS_PER_BLOCK,
    LAUNCH_TRACE,
    THREAD_BLOCK,
    THREAD_LINEAR,
    THREAD_WORKER,
    WORKER_LAUNCH,
)
from .primitives import words

# --- trace block ----------------------------------------------------------------------------------------------------
TRACE_COUNTS = 0  # address of the executions so far, by (sampled block, thread, site)
TRACE_RECORDS = 1  # address of the records, by (sampled block, thread, site, execution)
TRACE_STRIDE = 2  # every how manieth block is sampled
TRACE_SITES = 3
TRACE_QUOTA = 4  # executions that are recorded of each thread at each site
TRACE_WORDS = 8

RECORD_ADDRESS = 0  # global: the address; shared: the offset in the block's shared memory, plus SHARED
RECORD_TURN = 1
RECORD_WORDS = 2
SHARED = 1 << 62


@cuda.jit(device=True)
def record(thread, site, address, turn):
    """Records one access of one thread; past the quota it is only counted."""
    block = words(thread[THREAD_BLOCK])
    worker = words(thread[THREAD_WORKER])
    launch = words(worker[WORKER_LAUNCH])
    trace = words(launch[LAUNCH_TRACE])
    linear = block[BLOCK_LINEAR]
    stride = trace[TRACE_STRIDE]
    if linear % stride != 0:
        return
    rank = linear // stride * launch[LAUNCH_THREADS_PER_BLOCK] + thread[THREAD_LINEAR]
    row = rank * trace[TRACE_SITES] + site
    counts = words(trace[TRACE_COUNTS])
    count = counts[row]
    counts[row] = count + 1
    if count < trace[TRACE_QUOTA]:
        offset = address - block[BLOCK_SHARED]
        if offset >= 0 and offset < block[BLOCK_SHARED_BYTES]:
            address = offset + SHARED
        record = words(trace[TRACE_RECORDS] + (row * trace[TRACE_QUOTA] + count) * (8 * RECORD_WORDS))
        record[RECORD_ADDRESS] = address
        record[RECORD_TURN] = turn


def access(thread, site, address, turn):
    """One access, as a traced kernel makes it."""
    record(thread, site, address, turn)


def access_some(thread, site, address, turn, count):
    """One access of `count` bytes; of none where that is 0, as in copies that fill with zeros."""
    if count > 0:
        record(thread, site, address, turn)
