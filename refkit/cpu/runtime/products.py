"""Groups of `wgmma` products: what is under way, from their issue to the wait that ends them.

A product is computed as it is issued, since its sums are the registers that the instruction returns. So what the
program may not do meanwhile shows to the sanitizers only: operands in shared memory are read by an operation of the
async proxy that ends at the wait, and each element of an accumulator in a local array carries a tag in that array's
shadow: the group that it belongs to, or the `wgmma.fence` that came before its last ordinary write. Changes of A's
registers before the wait are not seen: a program names values, not registers.
"""

from numba import cuda

from .async_order import learn_node, new_node
from .async_proxy import check_async
from .findings import record, sanitizer_of
from .layout import (
    BLOCK_SHARED,
    BLOCK_SHARED_BYTES,
    BLOCK_THREADS,
    THREAD_BLOCK,
    THREAD_CLOCKS,
    THREAD_LINEAR,
    THREAD_PRODUCT_FENCES,
    THREAD_PRODUCTS,
    THREAD_PRODUCTS_DONE,
    THREAD_PRODUCTS_OPEN,
    THREAD_SITE,
    THREAD_WORDS,
    THREAD_WORKER,
    WARP_SIZE,
    WARPGROUP_SIZE,
    WORKER_SANITIZER,
)
from .primitives import words
from .shadow_layout import (
    ACCUMULATOR_IN_USE,
    ASYNC_READ,
    MISALIGNED_ATOM,
    PAST_END,
    PRODUCT_NODES,
    PRODUCT_RING,
    READ,
    REGISTERS_UNFENCED,
    SANITIZER_FLAGS,
    UNINITIALIZED_LOCAL,
    WATCH_MEMORY,
    WATCH_RACE,
    WATCH_UNINITIALIZED,
    WRITE,
)

PLAIN_TAGS = 120  # tags 1 to 120: an ordinary write, by the fences before it
FIRST_GROUP_TAG = 128  # tags 128 to 247: the result of a product, by its group
GROUP_TAGS = 120


@cuda.jit(device=True)
def is_watched(thread):
    return words(thread[THREAD_WORKER])[WORKER_SANITIZER] != 0


@cuda.jit(device=True)
def leader_of(thread):
    """The first thread of the warpgroup."""
    block = words(thread[THREAD_BLOCK])
    rank = thread[THREAD_LINEAR] // WARPGROUP_SIZE * WARPGROUP_SIZE
    return words(block[BLOCK_THREADS] + rank * (8 * THREAD_WORDS))


@cuda.jit(device=True)
def node_word(group):
    return PRODUCT_NODES + group % PRODUCT_RING


def fence(thread, site):
    """`wgmma.fence`."""
    thread[THREAD_PRODUCT_FENCES] += 1


def commit_group(thread, site):
    """`wgmma.commit_group`."""
    group = thread[THREAD_PRODUCTS]
    if is_watched(thread) and thread[THREAD_LINEAR] % WARPGROUP_SIZE == 0:
        if thread[THREAD_PRODUCTS_OPEN] == 0 and group > 0:  # an empty group ends with the one before it
            clocks = words(thread[THREAD_CLOCKS])
            clocks[node_word(group)] = clocks[node_word(group - 1)]
        thread[THREAD_PRODUCTS_OPEN] = 0
    thread[THREAD_PRODUCTS] = group + 1


def wait_group(thread, site, pending):
    """`wgmma.wait_group`."""
    done = max(thread[THREAD_PRODUCTS_DONE], thread[THREAD_PRODUCTS] - pending)
    thread[THREAD_PRODUCTS_DONE] = done
    if done > 0 and is_watched(thread) and sanitizer_of(thread)[SANITIZER_FLAGS] & WATCH_RACE != 0:
        learn_node(thread, words(leader_of(thread)[THREAD_CLOCKS])[node_word(done - 1)])


# --- operands in shared memory --------------------------------------------------------------------------------------
@cuda.jit(device=True)
def open_group(leader):
    """The node of the warpgroup's open group, made with its first product; 0 where nothing watches."""
    if not is_watched(leader):
        return 0
    clocks, group = words(leader[THREAD_CLOCKS]), leader[THREAD_PRODUCTS]
    if leader[THREAD_PRODUCTS_OPEN] == 0:
        before = clocks[node_word(group - 1)] if group > 0 else 0
        clocks[node_word(group)] = new_node(leader, before)
        leader[THREAD_PRODUCTS_OPEN] = 1
    return clocks[node_word(group)]


@cuda.jit(device=True)
def note_unit(leader, warp, address, size, node):
    """One piece of an operand, read on behalf of a warp of the warpgroup."""
    thread = words(
        words(leader[THREAD_BLOCK])[BLOCK_THREADS] + (leader[THREAD_LINEAR] + warp * WARP_SIZE) * (8 * THREAD_WORDS)
    )
    site = leader[THREAD_SITE]
    block = words(leader[THREAD_BLOCK])
    offset = address - block[BLOCK_SHARED]
    if offset < 0 or offset + size > block[BLOCK_SHARED_BYTES]:
        if sanitizer_of(thread)[SANITIZER_FLAGS] & WATCH_MEMORY:
            record(thread, PAST_END, site, address, ASYNC_READ, 0, 0, 0, size, 0)
    else:
        check_async(thread, site, address, size, ASYNC_READ, node)


@cuda.jit(device=True)
def check_alignment(leader, start, units, base):
    """Atoms of a swizzle begin at multiples of their size, unless the descriptor's base offset says how far off."""
    if sanitizer_of(leader)[SANITIZER_FLAGS] & WATCH_MEMORY:
        offset = start - words(leader[THREAD_BLOCK])[BLOCK_SHARED]
        if units > 1 and (offset >> 7) & (units - 1) != base & (units - 1):
            record(leader, MISALIGNED_ATOM, leader[THREAD_SITE], start, READ, 0, 0, 0, 128 * units, 0)


# --- accumulators ---------------------------------------------------------------------------------------------------
@cuda.jit(device=True)
def is_under_way(thread, tag):
    """Whether the group of a tag is one of those that the thread has not waited for."""
    if tag < FIRST_GROUP_TAG:
        return False
    done = thread[THREAD_PRODUCTS_DONE]
    ahead = (tag - FIRST_GROUP_TAG - done) % GROUP_TAGS
    return ahead <= thread[THREAD_PRODUCTS] - done


def group_tag(thread):
    """The tag of what a product gives."""
    return FIRST_GROUP_TAG + thread[THREAD_PRODUCTS] % GROUP_TAGS


def plain_tag(thread):
    """The tag of an ordinary write."""
    return 1 + thread[THREAD_PRODUCT_FENCES] % PLAIN_TAGS


def accumulator_access(thread, site, tag, access):
    """An ordinary read or write of an element of a local array that products use."""
    flags = sanitizer_of(thread)[SANITIZER_FLAGS]
    if tag == 0 and access == READ and flags & WATCH_UNINITIALIZED:
        record(thread, UNINITIALIZED_LOCAL, site, 0, READ, 0, 0, 0, 0, 0)
    if flags & WATCH_RACE and is_under_way(thread, tag):
        record(thread, ACCUMULATOR_IN_USE, site, 0, READ if access == READ else WRITE, 0, 0, 0, 0, 0)


def accumulator_operand(thread, site, tag, adds):
    """A product takes an element of its accumulator: written, and a `wgmma.fence` after that."""
    flags = sanitizer_of(thread)[SANITIZER_FLAGS]
    if tag == 0 and adds != 0 and flags & WATCH_UNINITIALIZED:
        record(thread, UNINITIALIZED_LOCAL, site, 0, READ, 0, 0, 0, 0, 0)
    unfenced = tag > 0 and tag < FIRST_GROUP_TAG and tag == 1 + thread[THREAD_PRODUCT_FENCES] % PLAIN_TAGS
    if flags & WATCH_RACE and unfenced:
        record(thread, REGISTERS_UNFENCED, site, 0, READ, 0, 0, 0, 0, 0)
