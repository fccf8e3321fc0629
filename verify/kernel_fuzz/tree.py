"""The syntax tree of a fuzzed kernel: expressions, statements, device functions and the program that holds them.

Every expression has a kind, and every operation ends in a cast to its kind, so that the types of a rendered program are
pinned by its own text. Indices, divisors, shift amounts and trip counts are confined by the nodes that hold them: whatever
expressions a tree is made of, what it renders to has no undefined behaviour.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

import numpy as np


class Kind(enum.Enum):
    """The type of a value; the name by which Numba knows it."""

    INT32 = "int32"
    INT64 = "int64"
    UINT32 = "uint32"
    FLOAT32 = "float32"
    BOOLEAN = "boolean"

    @property
    def dtype(self) -> np.dtype:
        """The NumPy type that holds it."""
        return np.dtype("bool" if self is Kind.BOOLEAN else self.value)

    @property
    def bits(self) -> int:
        """The width of an integer."""
        return self.dtype.itemsize * 8


INTEGERS = (Kind.INT32, Kind.INT64, Kind.UINT32)

FLOAT_LIMIT = 512
"""The largest magnitude of a float32 that a variable, an array or a function holds; all float32 values are integers."""


@dataclass(frozen=True)
class Array:
    """An array that a kernel names.

    space: `input` (global, read only), `rows` (global, one row a thread), `own` (global, one element a thread, atomics),
    `sums` (global, atomics of any thread), `local`, `shared` or `dynamic` (shared, sized by the launch).
    """

    name: str
    kind: Kind
    shape: tuple[int, ...]
    space: str


@dataclass(frozen=True)
class Name:
    """A variable, a parameter, or one of the names that every kernel defines (`tid`, `bid`, `gid`, `lane`, `warp`)."""

    name: str
    kind: Kind


@dataclass(frozen=True)
class Number:
    """A literal; `bare` ones are written without a cast, which Numba types as int64."""

    value: int
    kind: Kind
    bare: bool = False


@dataclass(frozen=True)
class Register:
    """A special register, such as `cuda.threadIdx.x`."""

    name: str
    kind: Kind = Kind.INT32


@dataclass(frozen=True)
class Arithmetic:
    """`left op right`, then cast to `kind`; op is one of + - * & | ^ min max."""

    op: str
    left: Expression
    right: Expression
    kind: Kind


@dataclass(frozen=True)
class Division:
    """`left // d` or `left % d` with d = sign · (2 + (right & 63)): neither zero nor minus one."""

    op: str
    left: Expression
    right: Expression
    sign: int
    kind: Kind


@dataclass(frozen=True)
class Shift:
    """`left << a` or `left >> a`, with a the right side modulo the width of the left side."""

    op: str
    left: Expression
    right: Expression
    kind: Kind


@dataclass(frozen=True)
class Unary:
    """One of - ~ abs popc clz ffs brev; `abs` takes its integer operand modulo 2^31 with sign, as int64."""

    op: str
    operand: Expression
    kind: Kind


@dataclass(frozen=True)
class Cast:
    """A conversion; a float32 is truncated, and reaches uint32 by way of int64."""

    operand: Expression
    kind: Kind


@dataclass(frozen=True)
class Scaled:
    """A float32 times a power of two, to an integer: `floor` or truncation."""

    operand: Expression
    factor: float
    floor: bool
    kind: Kind


@dataclass(frozen=True)
class Comparison:
    """`left op right`."""

    op: str
    left: Expression
    right: Expression
    kind: Kind = Kind.BOOLEAN


@dataclass(frozen=True)
class Logic:
    """`left and right` or `left or right`."""

    op: str
    left: Expression
    right: Expression
    kind: Kind = Kind.BOOLEAN


@dataclass(frozen=True)
class Not:
    """`not operand`."""

    operand: Expression
    kind: Kind = Kind.BOOLEAN


@dataclass(frozen=True)
class Choice:
    """`first if condition else second`, or `cuda.selp`."""

    condition: Expression
    first: Expression
    second: Expression
    selp: bool
    kind: Kind


@dataclass(frozen=True)
class Element:
    """A load; each index is taken modulo its axis. In spaces `rows` and `own` the thread's own row or element is meant.

    warp_only confines a load from shared memory to the slots that the thread's own warp wrote.
    """

    array: Array
    indices: tuple[Expression, ...]
    warp_only: bool = False

    @property
    def kind(self) -> Kind:
        return self.array.kind


@dataclass(frozen=True)
class Call:
    """A call of a device function."""

    function: Function
    arguments: tuple[Expression, ...]

    @property
    def kind(self) -> Kind:
        return self.function.kind


Expression = (
    Name
    | Number
    | Register
    | Arithmetic
    | Division
    | Shift
    | Unary
    | Cast
    | Scaled
    | Comparison
    | Logic
    | Not
    | Choice
    | Element
    | Call
)


@dataclass(frozen=True)
class Assign:
    """`target = value`."""

    target: Name
    value: Expression


@dataclass(frozen=True)
class Store:
    """A store to the thread's own part of an array (local, or its row); the array's type converts the value."""

    array: Array
    indices: tuple[Expression, ...]
    value: Expression


@dataclass(frozen=True)
class If:
    """A branch; threads of a warp may part."""

    condition: Expression
    then: Block
    otherwise: Block = ()


@dataclass(frozen=True)
class For:
    """`for variable in range(start, stop, step)`; stop is `base` plus the trips modulo `modulus`, when it depends on data."""

    variable: Name
    start: int
    stop: Expression
    step: int
    body: Block


@dataclass(frozen=True)
class While:
    """`while counter < limit and condition`, the counter advanced first."""

    counter: Name
    limit: int
    condition: Expression
    body: Block


@dataclass(frozen=True)
class Break:
    """Leaves the innermost loop."""


@dataclass(frozen=True)
class Continue:
    """Takes the next turn of the innermost loop."""


@dataclass(frozen=True)
class Return:
    """Leaves a device function with a value, or the kernel with none."""

    value: Expression | None = None


@dataclass(frozen=True)
class Exchange:
    """Every thread writes one slot of a shared array, all wait, and `body` reads any slot; then all wait again.

    slot: `own`, `reverse`, or `rotate` by `shift`; scope: `block` (barrier) or `warp` (`syncwarp`, own slots).
    vote: None for `syncthreads`, else `count`, `and` or `or` with a predicate, whose outcome goes to `target`.
    """

    array: Array
    slot: str
    shift: int
    scope: str
    value: Expression
    body: Block
    vote: str | None = None
    predicate: Expression | None = None
    target: Name | None = None


@dataclass(frozen=True)
class Accumulate:
    """A shared array is set to `initial`, updated by atomics of one operation in `update`, and read in `read`."""

    array: Array
    initial: int
    update: Block
    read: Block


@dataclass(frozen=True)
class Atomic:
    """An atomic whose order does not matter, its return value unused: one operation per array."""

    array: Array
    op: str
    index: Expression
    value: Expression


@dataclass(frozen=True)
class OwnAtomic:
    """An atomic on the thread's own element; what it returns goes to `target`. op: any, with `comparand` for cas."""

    target: Name
    array: Array
    op: str
    value: Expression
    comparand: Expression | None = None


@dataclass(frozen=True)
class Ticket:
    """A ticket drawn from a counter, and a function of the ticket added to a sum: order-free though the tickets are not."""

    counter: Array
    total: Array
    index: Expression
    multiplier: int
    addend: int


@dataclass(frozen=True)
class Shuffle:
    """mode: `idx`, `up`, `down`, `xor`, or `first` and `last` (the least and the greatest lane of the mask)."""

    target: Name
    mode: str
    value: Expression
    lane: Expression
    mask: str


@dataclass(frozen=True)
class Vote:
    """mode: `all`, `any`, `eq` (to a boolean) or `ballot` (to an int32)."""

    target: Name
    mode: str
    predicate: Expression
    mask: str


@dataclass(frozen=True)
class Match:
    """`match_any_sync`, or `match_all_sync`, of which `agree` takes the predicate."""

    target: Name
    agree: Name | None
    value: Expression
    mask: str


@dataclass(frozen=True)
class SyncWarp:
    """`syncwarp`."""

    mask: str


@dataclass(frozen=True)
class Split:
    """A ballot parts the threads of `mask`; each side goes on with its own mask, named `mask_true` and `mask_false`."""

    mask: str
    condition: Expression
    flag: str
    mask_true: str
    mask_false: str
    then: Block
    otherwise: Block


Statement = (
    Assign
    | Store
    | If
    | For
    | While
    | Break
    | Continue
    | Return
    | Exchange
    | Accumulate
    | Atomic
    | OwnAtomic
    | Ticket
    | Shuffle
    | Vote
    | Match
    | SyncWarp
    | Split
)
Block = tuple[Statement, ...]


@dataclass(frozen=True)
class Function:
    """A device function; each way through its body ends in a `Return`."""

    name: str
    parameters: tuple[Name, ...]
    variables: tuple[tuple[Name, Expression], ...]
    body: Block
    kind: Kind


@dataclass(frozen=True)
class Program:
    """A kernel, its launch configuration and the seed of its inputs.

    outputs: int64 values that each thread writes; a thread for which `leave` holds writes only the first `kept` of them.
    """

    grid: tuple[int, ...]
    block: tuple[int, ...]
    seed: int
    functions: tuple[Function, ...]
    arrays: tuple[Array, ...]
    variables: tuple[tuple[Name, Expression], ...]
    body: Block
    outputs: tuple[Expression, ...]
    leave: Expression | None = None
    kept: int = 0
    global_arrays: tuple[Array, ...] = field(default=())

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return int(np.prod(self.block))

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return int(np.prod(self.grid))
