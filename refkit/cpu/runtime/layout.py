"""Control blocks shared by generated code, scheduler and host: arrays of 64-bit words, and these are the word indices.

One launch has one launch block and one worker block per operating-system thread; a worker has one block control block
per resident CUDA block and one thread control block per CUDA thread.
"""

# --- thread control block -------------------------------------------------------------------------------------------
# the first cache line holds all that a barrier touches
THREAD_STACK_POINTER = 0  # where the fiber continues
THREAD_STATE = 1
THREAD_BLOCK = 2  # address of the block control block
THREAD_WORKER = 3  # address of the worker block
THREAD_SITE = 4  # the operation at which the thread waits; an index into the kernel's site table
THREAD_OPERATION = 5  # which barrier reduction, shuffle, vote or match
THREAD_VALUE = 6
THREAD_NEXT = 7  # address of the thread that runs after this one, where threads run in order; else 0
THREAD_MASK = 8
THREAD_SOURCE = 9  # shuffle: lane operand
THREAD_CLAMP = 10  # shuffle: clamp and segment operand
THREAD_PREDICATE = 11
THREAD_FUEL = 12  # polls left before the thread gives way
THREAD_TID_X = 13
THREAD_TID_Y = 14
THREAD_TID_Z = 15
THREAD_LINEAR = 16  # rank in the block
THREAD_LANE = 17
THREAD_WARP = 18
THREAD_STACK_TOP = 19
THREAD_RESULT = 21
THREAD_CLOCKS = 22  # sanitizers: address of the thread's 32 clocks, what it knows of each lane of its warp
THREAD_FENCES = 23  # sanitizers: fences executed so far
THREAD_EPOCH = 24  # sanitizers: block barriers passed so far
THREAD_KNOWS = 25  # sanitizers: newest release that the thread has seen; 0 for none
THREAD_FENCE_EPOCH = 26  # sanitizers: epoch at the last fence
THREAD_RELEASED = 27  # sanitizers: fences that the thread's atomics have made visible
THREAD_SANITIZER = 28  # sanitizers: address of the sanitizer block
THREAD_IDENTITY = 29  # sanitizers: the thread as a shadow cell holds it
THREAD_IS_FIBER = 20  # 0 where the threads of a block run as a plain loop and cannot give way
THREAD_COPIES = 30  # address of the thread's queue of asynchronous copies; 0 until it starts one
THREAD_STACK_LIMIT = 31  # the address below which the stack counts as used up
THREAD_BULK_COPIES = 32  # address of the thread's queue of bulk copies out of shared memory; 0 until it starts one
THREAD_PRODUCTS = 33  # wgmma: groups that the thread has committed
THREAD_PRODUCTS_DONE = 34  # wgmma: groups that it has waited for
THREAD_PRODUCTS_OPEN = 35  # wgmma, in the first thread of a warpgroup: whether the open group holds a product
THREAD_PRODUCT_FENCES = 36  # wgmma: fences executed so far
THREAD_WORDS = 40

# --- thread states --------------------------------------------------------------------------------------------------
RUNNABLE = 0
EXITED = 1
AT_BARRIER = 2
AT_WARP_OPERATION = 3
AT_ACTIVEMASK = 4
AT_GRID_BARRIER = 5
AT_NAMED_BARRIER = 6
AT_MBARRIER = 7
AT_WARPGROUP_OPERATION = 8

STATE_NAMES = {
    RUNNABLE: "runs",
    EXITED: "exited",
    AT_BARRIER: "waits at a block barrier",
    AT_WARP_OPERATION: "waits at a warp operation",
    AT_ACTIVEMASK: "waits at activemask",
    AT_GRID_BARRIER: "waits at a grid barrier",
    AT_NAMED_BARRIER: "waits at a named barrier",
    AT_MBARRIER: "waits for the phase of an mbarrier",
    AT_WARPGROUP_OPERATION: "waits at a warpgroup operation",
}

# --- operations -----------------------------------------------------------------------------------------------------
BARRIER_PLAIN = 0
BARRIER_COUNT = 1
BARRIER_AND = 2
BARRIER_OR = 3

SHUFFLE_INDEX = 0  # shuffle codes are those of llvm.nvvm.shfl.sync
SHUFFLE_UP = 1
SHUFFLE_DOWN = 2
SHUFFLE_XOR = 3
VOTE_ALL = 16  # 16 + code of llvm.nvvm.vote.sync
VOTE_ANY = 17
VOTE_EQUAL = 18
VOTE_BALLOT = 19
MATCH_ANY = 32
MATCH_ALL = 33
WARP_SYNC = 48
COLLECTIVE = 64  # from here on: the address of a function that serves all 32 lanes of a warp at once (mma, ldmatrix)

# --- block control block --------------------------------------------------------------------------------------------
BLOCK_CTAID_X = 0
BLOCK_CTAID_Y = 1
BLOCK_CTAID_Z = 2
BLOCK_NTID_X = 3
BLOCK_NTID_Y = 4
BLOCK_NTID_Z = 5
BLOCK_NCTAID_X = 6
BLOCK_NCTAID_Y = 7
BLOCK_NCTAID_Z = 8
BLOCK_SHARED = 9  # address of the shared memory
BLOCK_DYNAMIC_SHARED_BYTES = 10
BLOCK_THREADS = 11  # address of the first thread control block
BLOCK_ALIVE = 12
BLOCK_AT_BARRIER = 13
BLOCK_LINEAR = 14
BLOCK_SHARED_BYTES = 15
BLOCK_SHADOW = 16  # sanitizers: address of the shadow of the shared memory
BLOCK_FENCED = 17  # sanitizers: a thread has executed a fence since the last barrier
BLOCK_KNOWS = 18  # sanitizers: a thread knows of a release of another
BLOCK_AT_WARPGROUP = 19  # threads that wait at an operation of a warpgroup
BLOCK_BULK_COPIES = 20  # address of the queue of bulk copies into its shared memory; 0 until one is started
BLOCK_BESIDE = 21  # sanitizers: address of what is kept beside the shadow of the shared memory; 0 where nothing is
BLOCK_NAMED_BARRIERS = 24  # 16 words, one for each: threads that have arrived, and from bit 32 on how many it takes
BLOCK_WORDS = 40

# --- worker block ---------------------------------------------------------------------------------------------------
WORKER_STACK_POINTER = 0  # where the scheduler continues
WORKER_LAUNCH = 1
WORKER_BLOCKS = 2  # address of the first block control block
WORKER_RESIDENT = 3  # how many blocks it holds at once
WORKER_ALIVE = 4  # threads of the resident group that have not exited
WORKER_AT_GRID_BARRIER = 5
WORKER_RANDOM = 6  # state of the schedule's random numbers; 0: threads in order
WORKER_STATUS = 7
WORKER_STACK_TOP = 8  # stack of the worker's own fiber (plain loop)
WORKER_STOPPED_SITE = 9  # plain loop: where the running thread was stopped
WORKER_STOPPED_THREAD = 10
WORKER_FIRST_BLOCK = 11
WORKER_GROUP_BLOCKS = 12
WORKER_SANITIZER = 13  # address of the sanitizer block; 0 where nothing watches
WORKER_IN_KERNEL = 14  # whether kernel code runs, so that a signal may leave it
WORKER_STACK_LIMIT = 15  # as THREAD_STACK_LIMIT, of the worker's own fiber
WORKER_PHASES = 17  # phases of mbarriers that have ended, and barriers passed: signs of progress
WORKER_ABANDONED = 16  # takes the stack pointer of a thread that a signal left
WORKER_WORDS = 24

# --- launch block ---------------------------------------------------------------------------------------------------
LAUNCH_NEXT_BLOCK = 0  # the workers take blocks from this counter
LAUNCH_STOP = 1  # set by the host (time is up, interrupt) or by a worker at fault
LAUNCH_BLOCKS = 2
LAUNCH_BLOCK_SPAN = 3  # equal to LAUNCH_BLOCKS, or the power of two above it where the order is permuted
LAUNCH_BLOCK_FACTOR = 4
LAUNCH_BLOCK_OFFSET = 5
LAUNCH_ARGUMENTS = 6  # address of the packed kernel arguments
LAUNCH_ENTRY = 7  # address of the kernel's entry
LAUNCH_SHARED_BYTES = 8
LAUNCH_EXCEPTION = 9  # first exception code raised, with the thread and block that raised it
LAUNCH_EXCEPTION_THREAD = 10
LAUNCH_EXCEPTION_BLOCK = 11
LAUNCH_PRINT_BUFFER = 12
LAUNCH_PRINT_CAPACITY = 13  # bytes
LAUNCH_PRINT_USED = 14
LAUNCH_THREADS_PER_BLOCK = 15
LAUNCH_TRACE = 16  # memory model: address of the trace block (runtime/trace.py)
LAUNCH_BLOCK_LIST = 20  # address of the numbers of the blocks to run; 0: all of them
LAUNCH_WORDS = 24

# --- how a worker ended ---------------------------------------------------------------------------------------------
DONE = 0
STOPPED = 1
DEADLOCKED = 2

POLL_FUEL = 4096
WARP_SIZE = 32
WARPGROUP_SIZE = 128
NAMED_BARRIERS = 16
SHARED_FILL = 0xFF  # a NaN in every floating format and -1 in every integer: unwritten shared memory shows in results
