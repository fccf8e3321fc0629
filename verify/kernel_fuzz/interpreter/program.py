"""The statements of a program, executed over masks of active threads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from refkit.verify.kernel_fuzz import arguments
from refkit.verify.kernel_fuzz.tree import (
    Accumulate,
    Assign,
    Atomic,
    Block,
    Break,
    Continue,
    Exchange,
    Expression,
    For,
    Function,
    If,
    Match,
    Name,
    OwnAtomic,
    Program,
    Return,
    Shuffle,
    Split,
    Statement,
    Store,
    SyncWarp,
    Ticket,
    Vote,
    While,
)

from . import atomics, warps
from .expressions import Evaluator
from .state import Memory, Threads


def interpret(program: Program) -> np.ndarray:
    """Everything that the program writes, as `arguments.gather` orders it: a vector of int64."""
    threads = Threads.of_launch(program.grid, program.block)
    passed = arguments.draw_arguments(program.seed, threads.count, len(program.outputs))
    memory = Memory(threads, dict(passed))
    for array in program.arrays:
        memory.declare(array)
    everyone = np.ones(threads.count, bool)
    # Wrapping is what these programs mean by integer arithmetic, so NumPy need not warn of it.
    with np.errstate(over="ignore"):
        scope = _Scope(memory, threads.names(), everyone)
        scope.start(program.variables)
        active = scope.block(program.body, everyone)
        for position, value in enumerate(program.outputs):
            if program.leave is not None and position == program.kept:
                active = active & ~scope.value(program.leave)
            passed[arguments.OUTPUT][active, position] = scope.value(value).astype(np.int64)[active]
    return arguments.gather(passed)


@dataclass
class _Loop:
    """Which threads have left the current turn, and which the loop."""

    continued: np.ndarray
    broken: np.ndarray


@dataclass
class _Scope:
    """One activation of the kernel or of a device function, for all threads."""

    memory: Memory
    variables: dict[str, np.ndarray]
    everyone: np.ndarray
    loops: list[_Loop] = field(default_factory=list)
    result: Any = None

    def __post_init__(self) -> None:
        self.value = Evaluator(self.variables, self.memory, self._call)

    def start(self, variables: tuple[tuple[Name, Expression], ...]) -> None:
        """Give the variables their first values, in order."""
        for name, value in variables:
            self.variables[name.name] = self.value(value)

    def block(self, statements: Block, active: np.ndarray) -> np.ndarray:
        """Execute the statements; the threads that reach the end."""
        for statement in statements:
            if not active.any():
                break
            active = self._execute(statement, active)
        return active

    def _execute(self, node: Statement, active: np.ndarray) -> np.ndarray:
        nobody = np.zeros_like(active)
        match node:
            case If(condition, then, otherwise):
                chosen = self.value(condition)
                return self.block(then, active & chosen) | self.block(otherwise, active & ~chosen)
            case Split(_, condition, _, _, _, then, otherwise):
                chosen = self.value(condition)
                return self.block(then, active & chosen) | self.block(otherwise, active & ~chosen)
            case For():
                return self._for(node, active)
            case While():
                return self._while(node, active)
            case Break():
                self.loops[-1].broken |= active
                return nobody
            case Continue():
                self.loops[-1].continued |= active
                return nobody
            case Return(value):
                if value is not None:
                    self.result = self._kept(self.result, self.value(value), active)
                return nobody
            case Exchange():
                return self._exchange(node, active)
            case Accumulate(array, initial, update, read):
                self.memory.arrays[array.name][self.memory.threads.block_of[active]] = initial
                return self.block(read, self.block(update, active))
        self._simple(node, active)
        return active

    def _simple(self, node: Statement, active: np.ndarray) -> None:
        """A statement that every active thread passes."""
        threads, arrays = self.memory.threads, self.memory.arrays
        match node:
            case Assign(target, value):
                self._assign(target, self.value(value), active)
            case Store(array, indices, value):
                place = self.memory.place(array, tuple(self.value.wide(index) for index in indices))
                values = self.value(value).astype(array.kind.dtype)
                arrays[array.name][tuple(axis[active] for axis in place)] = values[active]
            case Atomic(array, op, index, value):
                place = self.memory.place(array, (self.value.wide(index),))
                atomics.apply(arrays[array.name], place, active, op, self.value(value))
            case OwnAtomic(target, array, op, value, comparand):
                compared = None if comparand is None else self.value(comparand)
                place = self.memory.place(array, ())
                found = atomics.apply(arrays[array.name], place, active, op, self.value(value), compared)
                self._assign(target, found, active)
            case Ticket(counter, total, index, multiplier, addend):
                place = self.memory.place(counter, (self.value.wide(index),))
                one = np.ones(threads.count, np.int32)
                ticket = atomics.apply(arrays[counter.name], place, active, "add", one).astype(np.int64)
                worth = (ticket + addend) * (ticket * multiplier + 1)
                atomics.apply(arrays[total.name], place, active, "add", worth)
            case Shuffle(target, mode, value, lane, _):
                moved = warps.shuffle(threads, active, mode, self.value(value), self.value.wide(lane))
                self._assign(target, moved, active)
            case Vote(target, mode, predicate, _):
                self._assign(target, warps.vote(threads, active, mode, self.value(predicate)), active)
            case Match(target, None, value, _):
                self._assign(target, warps.match_any(threads, active, self.value(value)), active)
            case Match(target, agree, value, _) if agree is not None:
                mask, agreed = warps.match_all(threads, active, self.value(value))
                self._assign(target, mask, active)
                self._assign(agree, agreed, active)
            case SyncWarp():
                pass
            case _:
                raise TypeError(f"{type(node).__name__} is no statement")

    def _for(self, node: For, active: np.ndarray) -> np.ndarray:
        stop = self.value.wide(node.stop)
        loop = _Loop(np.zeros_like(active), np.zeros_like(active))
        self.loops.append(loop)
        running, done, counter = active, np.zeros_like(active), node.start
        while True:
            more = running & (counter < stop if node.step > 0 else counter > stop)
            done = done | (running & ~more)
            if not more.any():
                break
            self._assign(node.variable, np.full(len(active), counter, node.variable.kind.dtype), more)
            loop.continued[:] = False
            running = self.block(node.body, more) | loop.continued
            counter += node.step
        self.loops.pop()
        return done | loop.broken

    def _while(self, node: While, active: np.ndarray) -> np.ndarray:
        loop = _Loop(np.zeros_like(active), np.zeros_like(active))
        self.loops.append(loop)
        self._assign(node.counter, np.zeros(len(active), np.int32), active)
        running, done = active, np.zeros_like(active)
        while running.any():
            more = running & (self.variables[node.counter.name] < node.limit) & self.value(node.condition)
            done = done | (running & ~more)
            self._assign(node.counter, self.variables[node.counter.name] + np.int32(1), more)
            loop.continued[:] = False
            running = self.block(node.body, more) | loop.continued
        self.loops.pop()
        return done | loop.broken

    def _exchange(self, node: Exchange, active: np.ndarray) -> np.ndarray:
        threads = self.memory.threads
        extent = node.array.shape[0]
        slot = {
            "own": threads.in_block,
            "reverse": extent - 1 - threads.in_block,
            "rotate": (threads.in_block + node.shift) % extent,
        }[node.slot]
        values = self.value(node.value).astype(node.array.kind.dtype)
        self.memory.arrays[node.array.name][threads.block_of[active], slot[active]] = values[active]
        if node.vote is not None and node.predicate is not None and node.target is not None:
            said = self.value(node.predicate) & active
            for number in np.unique(threads.block_of[active]):
                present = active & (threads.block_of == number)
                outcome = {"count": said[present].sum(), "and": said[present].all(), "or": said[present].any()}
                self._assign(node.target, np.full(threads.count, outcome[node.vote], np.int32), present)
        return self.block(node.body, active)

    def _assign(self, target: Name, value: np.ndarray, active: np.ndarray) -> None:
        self.variables[target.name] = self._kept(self.variables.get(target.name), value, active)

    @staticmethod
    def _kept(old: np.ndarray | None, new: np.ndarray, active: np.ndarray) -> np.ndarray:
        """`new` where active, else `old`."""
        return new if old is None else np.where(active, new, old)

    def _call(self, function: Function, values: list[np.ndarray]) -> np.ndarray:
        """The results of a device function; it is pure, so threads that do not call it may compute it too."""
        variables = {parameter.name: value for parameter, value in zip(function.parameters, values)}
        scope = _Scope(self.memory, variables, self.everyone)
        scope.start(function.variables)
        scope.block(function.body, self.everyone)
        return scope.result
