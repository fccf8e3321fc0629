"""Statements, device functions, and the program that holds them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .expressions import Expression, Name
from .kinds import Array, Kind


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
    """`for variable in range(start, stop, step)`, of few turns also where stop depends on data."""

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
    """A ticket drawn from a counter, and (t + addend) * (t * multiplier + 1) of the ticket t added to a total.

    Which thread draws which ticket depends on the order; the total does not, with one such function per program.
    """

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

    outputs: values that each thread writes as int64; a thread for which `leave` holds writes only the first `kept`.
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

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return int(np.prod(self.block))

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return int(np.prod(self.grid))
