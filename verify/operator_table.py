"""The table of operators in `docs/operators.md`: made from the specs and the ledgers of their modules.

python -m refkit.verify.operator_table            prints it
python -m refkit.verify.operator_table --write    writes docs/operators.md of a checkout
"""

from __future__ import annotations

import argparse
import ast
import importlib
import itertools
import pkgutil
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from refkit.verify import specs
from refkit.verify.arguments import ArrayArgument, InOut
from refkit.verify.describe import storage_bits
from refkit.verify.discovery import shipped
from refkit.verify.ledger import Ledger
from refkit.verify.spec import KernelSpec

HEADER = """# Operators

Made by `python -m refkit.verify.operator_table --write` from the specs in `verify/specs`; a test compares.

* *kernels*: the specs of that operator and direction; a format in a name is a spec of its own.
* *formats*: storage of the arrays; sums are float32 everywhere.
* *repeatable*: the same bits at every launch; otherwise the kernels named add by atomics.
* *saved*: what the forward pass keeps for the backward pass.
* *bytes*: every array once, accumulated ones twice, at the storage of the first kernel and with the tiles of its spec:
  the least to be moved.
* *FLOPs*: additions, multiplications and transcendental functions counted as one each.

"""
COLUMNS = ("operator", "direction", "kernels", "formats", "repeatable", "saved", "bytes", "FLOPs")


@dataclass(frozen=True)
class Row:
    """One operator in one direction."""

    operator: str
    direction: str
    kernels: tuple[KernelSpec, ...]
    ledger: Ledger

    def cells(self) -> tuple[str, ...]:
        """The row as Markdown, in the order of `COLUMNS`."""
        atomic = [spec.name for spec in self.kernels if not spec.deterministic]
        return (
            f"`{self.operator}`",
            self.direction,
            " ".join(f"`{spec.name}`" for spec in self.kernels),
            ", ".join(formats(self.kernels)),
            "yes" if not atomic else "not " + " ".join(f"`{name}`" for name in atomic),
            self.ledger.saved or "nothing",
            moved(self.kernels),
            self.ledger.flops,
        )


def rows() -> list[Row]:
    """Every operator and direction that refkit ships, by name, forward first; LookupError where a ledger is missing."""
    ledgers = dict(_ledgers())
    groups: dict[tuple[str, str], list[KernelSpec]] = defaultdict(list)
    for spec in shipped().values():
        groups[spec.operator, spec.direction].append(spec)
    found = []
    for operator, direction in sorted(groups, key=lambda group: (group[0], group[1] != "forward")):
        if (operator, direction) not in ledgers:
            raise LookupError(f"no LEDGER entry for {operator!r} {direction!r} in the modules of verify/specs")
        found.append(Row(operator, direction, tuple(groups[operator, direction]), ledgers[operator, direction]))
    return found


def _ledgers() -> Iterator[tuple[tuple[str, str], Ledger]]:
    """Keys are a direction, for the operator of the module's name, or `operator direction`."""
    for entry in pkgutil.iter_modules(specs.__path__):
        module = importlib.import_module(f"{specs.__name__}.{entry.name}")
        for key, ledger in getattr(module, "LEDGER", {}).items():
            operator, _, direction = key.rpartition(" ")
            yield (operator or entry.name, direction), ledger


def formats(kernels: Iterable[KernelSpec]) -> list[str]:
    """The storage formats of the floating-point arrays, the widest first."""
    stored = {a.dtype for spec in kernels for a in spec.arrays.values() if a.is_float}
    return sorted(stored, key=lambda dtype: (-storage_bits(dtype), dtype))


def moved(kernels: Iterable[KernelSpec]) -> str:
    """Bytes moved by the group's first kernels as a formula in the dims.

    An operator whose gradients come from kernels of their own (dx, dw, db) counts each set of outputs once.
    """
    seen: dict[tuple[str, ...], KernelSpec] = {}
    for spec in kernels:
        seen.setdefault(tuple(spec.outputs), spec)
    arrays: dict[str, ArrayArgument] = {}
    for name, array in itertools.chain.from_iterable(spec.arrays.items() for spec in seen.values()):
        arrays.setdefault(name, array)
    return _formula(arrays)


def _formula(arrays: Mapping[str, ArrayArgument]) -> str:
    counts: dict[tuple[str, ...], int] = defaultdict(int)
    written: dict[tuple[str, ...], str] = {}
    for array in arrays.values():
        count, factors = storage_bits(array.dtype) // 8 * (2 if isinstance(array, InOut) else 1), list[str]()
        for dim in array.dims:
            number, names = _factors(ast.parse(str(dim), mode="eval").body)
            count, factors = count * number, factors + names
        shape = tuple(sorted(factors))
        counts[shape] += count
        written.setdefault(shape, " ".join(factors))
    return " + ".join(_term(count, written[shape]) for shape, count in counts.items())


def _term(count: int, factors: str) -> str:
    return factors if count == 1 and factors else f"{count} {factors}".strip()


def _factors(dim: ast.expr) -> tuple[int, list[str]]:
    """A dim as a number and the factors that it multiplies; a rounded-up quotient is written `ceil(K/128)`."""
    match dim:
        case ast.Constant(value=int(number)):
            return number, []
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            (first, names), (second, others) = _factors(left), _factors(right)
            return first * second, names + others
        case ast.BinOp(
            left=ast.BinOp(
                left=ast.BinOp(left=size, op=ast.Add(), right=ast.Constant(value=above)), right=ast.Constant(value=1)
            ),
            op=ast.FloorDiv(),
            right=ast.Constant(value=int(below)),
        ) if above == below:
            return 1, [f"ceil({ast.unparse(size)}/{below})"]
        case ast.Name(id=name):
            return 1, [name]
    return 1, [f"({ast.unparse(dim)})"]


def markdown() -> str:
    """The whole page."""
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    lines += ["| " + " | ".join(row.cells()) + " |" for row in rows()]
    return HEADER + "\n".join(lines) + "\n"


def main() -> None:
    """Print the page, or write it."""
    parser = argparse.ArgumentParser(prog="python -m refkit.verify.operator_table", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write docs/operators.md instead of printing")
    if parser.parse_args().write:
        (Path(specs.__path__[0]).resolve().parents[1] / "docs" / "operators.md").write_text(markdown())
    else:
        print(markdown(), end="")


if __name__ == "__main__":
    main()
