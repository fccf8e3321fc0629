"""Memory layout of the sanitizers, in 64-bit words: sanitizer block, shadow cells, regions, releases, findings."""

# --- sanitizer block ------------------------------------------------------------------------------------------------
SANITIZER_FLAGS = 0
SANITIZER_FINDINGS = 1  # address of the table of findings
SANITIZER_FINDING_COUNT = 2
SANITIZER_REGIONS = 3  # address of the table of global memory regions
SANITIZER_REGION_COUNT = 4
SANITIZER_LAST_REGION = 5  # the region that served the last access
SANITIZER_SHARED_SHIFT = 6
SANITIZER_RELEASES = 7  # address of the table of releases
SANITIZER_RELEASE_COUNT = 8
SANITIZER_SYNC = 9  # address of the hash table from an atomic's address to its newest release
SANITIZER_QUERY = 10  # number of the running search in the graph of releases
SANITIZER_STACK = 11  # address of the search's stack
SANITIZER_GAVE_UP = 12  # a table is full: what atomics order is no longer known, and not reported
SANITIZER_SHARED_CELL_BYTES = 13  # size of one block's shared shadow
SANITIZER_PREEMPT = 14  # a thread gives way before one access in so many, at random; 0: never
SANITIZER_EXTENTS = 15  # address of the table of the arguments' extents
SANITIZER_EXTENT_COUNT = 16
SANITIZER_SHARED_EXTENTS = 17  # the same for shared arrays, from the start of a block's shared memory
SANITIZER_SHARED_EXTENT_COUNT = 18
SANITIZER_ANSWERS = 19  # address of a table: what a thread knew, an operation of the async proxy, whether it knew that
SANITIZER_JOINS = 20  # address of the table of joined knowledge: what was known, what was learnt, both together
SANITIZER_BESIDE_BYTES = 21  # size of what is kept beside one block's shared shadow
SANITIZER_WORDS = 22

WATCH_RACE = 1
WATCH_MEMORY = 2
WATCH_UNINITIALIZED = 4
WATCH_BARRIER = 8

# --- shadow cell: one per element, a cache line ---------------------------------------------------------------------
CELL_WRITE_WHO = 0
CELL_WRITE_WHEN = 1
CELL_READ_WHO = 2
CELL_READ_WHEN = 3
CELL_ATOMIC_WHO = 4
CELL_ATOMIC_WHEN = 5
CELL_SITES = 6  # sites of the last write, read and atomic (20 bits each); bit 60: initialised
CELL_MASKS = 7  # lanes that read (low half) and lanes whose atomics came (high half), where one warp holds them all
CELL_WORDS = 8
CELL_BYTES = 64
INITIALIZED = 1 << 60
SITE_MASK = 0xFFFFF

# who: level, rank in the block from bit 3, block from bit 13; when: epoch from bit 40, warp clock from bit 20, fences
NOBODY = 0
ONE_THREAD = 1
ONE_WARP = 2
ONE_BLOCK = 3
WHOLE_GRID = 4
ASYNC_OPERATION = (
    5  # of the async proxy; the rank is that of the thread that started it, when: ASYNC_EPOCH and its node
)
ASYNC_SEVERAL = 6  # reads of the async proxy; when: ASYNC_EPOCH and a node that holds two others
ASYNC_EPOCH = 0x1FFFFF << 40  # later than every epoch of a thread
NODE_MASK = 0xFFFFFFFF

# --- beside a cell of shared memory, where a kernel uses the async proxy or mbarriers --------------------------------
BESIDE_WRITTEN = 0  # 1 + proxy fences of the writer before its ordinary write; 0: the async proxy wrote
BESIDE_READER = 1  # the last thread that read, as `who`, and its time
BESIDE_READ_WHEN = 2
BESIDE_WORDS = 4
BESIDE_BYTES = 32

# --- region of global memory ----------------------------------------------------------------------------------------
REGION_BASE = 0
REGION_END = 1
REGION_SHIFT = 2  # log2 of the bytes that one cell stands for
REGION_SHADOW = 3
REGION_WRITTEN = 4  # 1: all of it counts as written
REGION_WORDS = 5

# --- extent of an array: from its lowest element to the end of its highest ------------------------------------------
EXTENT_BASE = 0
EXTENT_END = 1
EXTENT_WORDS = 2

# --- what the sanitizers keep per thread: 32 clocks, one per lane of its warp, and ----------------------------------
FENCED_KNOWLEDGE = 32  # the newest release that the thread had seen at its last fence: what its own releases pass on
DEVICE_FENCES = 33  # fences up to the last one of device scope
DEVICE_EPOCH = 34  # epoch at that fence
PROXY_FENCES = 35  # `fence.proxy.async` executed so far
PROXY_FENCE_EPOCH = 36  # epoch and knowledge at the last of them
PROXY_FENCE_KNOWS = 37
MBARRIER_FENCES = 38  # fences so far after which the async proxy sees mbarriers
PRODUCT_NODES = 40  # in the first thread of a warpgroup: nodes of its last PRODUCT_RING groups of products
PRODUCT_RING = 16
CLOCK_WORDS = 56

# --- release: a fence and an atomic behind it -----------------------------------------------------------------------
RELEASE_BLOCK = 0
RELEASE_EPOCH = 1  # accesses of the block before this epoch are released
RELEASE_RANK = 2
RELEASE_FENCES = 3  # accesses of the thread before its last fence are released
RELEASE_PARENT = 4  # what the thread knew
RELEASE_BEFORE = 5  # the release before this one at the same address
RELEASE_ADDRESS = 6
RELEASE_MARK = 7  # the last search that came by
RELEASE_CLOCKS = 8  # 32 clocks of the thread's warp
RELEASE_DEVICE_EPOCH = 40  # as RELEASE_EPOCH and RELEASE_FENCES, for readers in other blocks
RELEASE_DEVICE_FENCES = 41
RELEASE_WORDS = 42
RELEASE_CAPACITY = 1 << 16
SYNC_CAPACITY = 1 << 12
JOIN_CAPACITY = 1 << 10  # rows of the tables of joins and of answers; a pair has one place in each
JOIN_WORDS = 4
STACK_CAPACITY = 1 << 17

# --- finding --------------------------------------------------------------------------------------------------------
FINDING_PROBLEM = 0
FINDING_SITE = 1
FINDING_WHO = 2
FINDING_ADDRESS = 3
FINDING_OTHER_WHO = 4
FINDING_OTHER_SITE = 5
FINDING_DETAIL = 6  # bounds: the index; past the end: bytes; barriers: how many threads; warp operations: the mask
FINDING_LIMIT = 7  # bounds: the length of the axis; past the end: how many bytes lie in the array
FINDING_ACCESS = 8
FINDING_OTHER_ACCESS = 9
FINDING_WORDS = 12
FINDING_CAPACITY = 64

READ = 0
WRITE = 1
ATOMIC = 2
OPERATION = 3
ASYNC_READ = 4
ASYNC_WRITE = 5

RACE_WRITE_WRITE = 1
RACE_READ_WRITE = 2
RACE_ATOMIC_PLAIN = 3
OUT_OF_BOUNDS = 4
NEGATIVE_INDEX = 5
MISALIGNED = 6
UNINITIALIZED_GLOBAL = 7
UNINITIALIZED_SHARED = 8
UNINITIALIZED_LOCAL = 9
DIVERGENT_BARRIER = 10
EXITED_THREADS = 11
NOT_IN_OWN_MASK = 12
MASK_DISAGREES = 13
READS_ABSENT_LANE = 14
PAST_END = 15
ASYNC_PROXY = 16
ACCUMULATOR_IN_USE = 17
REGISTERS_UNFENCED = 18
NO_MBARRIER = 19
TOO_MANY_ARRIVALS = 20
MISALIGNED_ATOM = 21
NO_TENSOR_MAP = 22
