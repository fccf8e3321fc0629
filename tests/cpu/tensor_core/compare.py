"""Compares the executor's tensor cores with a GPU's, bit for bit, on the same random fragments.

    python -m tests.cpu.tensor_core.compare --output mma.json --save mma.npz      on a machine with a GPU
    python -m tests.cpu.tensor_core.compare --against mma.npz --output mma.json   without one, against what was saved

For each form of `mma.sync`: `--fragments` in all, divided among the classes of `draws.py`. What does not match is
listed with its inputs. Exit status 1 where anything differs.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import refkit.cpu

from .cases import BITS, CASES, Case, run
from .draws import CLASSES, draw
from .oracle import NUMPY
from .tables import multiply

EXAMPLES = 5  # of each form and class
SAVED = 40  # fragments of each form and class


def classes(case: Case) -> tuple[str, ...]:
    """The classes of inputs that make sense for a form."""
    return ("random",) if case.accumulator == "s32" else CLASSES


def fragments(case: Case, count: int, seed: int) -> Iterator[tuple[str, tuple[np.ndarray, np.ndarray, np.ndarray]]]:
    """The inputs of each class."""
    names = classes(case)
    for what in names:
        yield what, draw(case, what, max(1, count // len(names)), seed)


def on_executor(case: Case, inputs: tuple[np.ndarray, np.ndarray, np.ndarray]) -> np.ndarray:
    """D as encodings, by the executor."""
    with refkit.cpu.emulate():
        return multiply(case, run, *inputs)


def on_gpu(case: Case, inputs: tuple[np.ndarray, np.ndarray, np.ndarray]) -> np.ndarray:
    """D as encodings, by the GPU."""
    return multiply(case, run, *inputs)


def differing(case: Case, mine: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Where two results differ; the payloads of float64 NaN are no matter."""
    wrong = mine != theirs
    if case.accumulator == "f64":
        both = np.isnan(mine.view(np.float64)) & np.isnan(theirs.view(np.float64))
        wrong &= ~both
    return wrong


def _number(bits: Any, kind: str) -> str:
    word = np.array([bits], f"u{BITS[kind] // 8}")
    value = int(word.view(np.int32)[0]) if kind == "s32" else None
    if kind in NUMPY:
        value = float(word.view(NUMPY[kind])[0])
    return f"{int(bits):#x}" + ("" if value is None else f" = {value!r}")


def example(case: Case, inputs: tuple[np.ndarray, ...], where: np.ndarray, mine: Any, theirs: Any) -> dict[str, Any]:
    """One mismatch with all that it was computed from."""
    fragment, row, column = (int(i) for i in where)
    a, b, c = inputs
    return {
        "fragment": fragment,
        "row": row,
        "column": column,
        "a": [_number(bits, case.a) for bits in a[fragment, row]],
        "b": [_number(bits, case.b) for bits in b[fragment, :, column]],
        "c": _number(c[fragment, row, column], case.accumulator),
        "executor": _number(mine, case.accumulator),
        "gpu": _number(theirs, case.accumulator),
    }


def compare(
    case: Case, what: str, inputs: tuple[np.ndarray, ...], mine: np.ndarray, theirs: np.ndarray
) -> dict[str, Any]:
    """The record of one form and class."""
    wrong = np.argwhere(differing(case, mine, theirs))
    return {
        "class": what,
        "fragments": len(mine),
        "elements": int(mine.size),
        "mismatches": len(wrong),
        "examples": [example(case, inputs, at, mine[tuple(at)], theirs[tuple(at)]) for at in wrong[:EXAMPLES]],
    }


def device() -> dict[str, Any]:
    """The GPU's name and compute capability."""
    from numba import cuda

    current = cuda.get_current_device()
    name = current.name.decode() if isinstance(current.name, bytes) else str(current.name)
    return {"name": name, "capability": list(current.compute_capability)}


def main(arguments: list[str] | None = None) -> int:
    """Runs the comparison; the number of the exit status is 1 where anything differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fragments", type=int, default=10_000, help="of each form")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-k", default="", help="only forms with this in their name")
    parser.add_argument("--output", type=Path, help="where the JSON goes")
    parser.add_argument("--save", type=Path, help=f"keep the GPU's results of {SAVED} fragments of each form and class")
    parser.add_argument("--against", type=Path, help="compare with results saved so, without a GPU")
    options = parser.parse_args(arguments)
    saved = dict(np.load(options.against)) if options.against else {}
    forms = [case for case in CASES if options.k in case.name]
    report: dict[str, Any] = {"seed": options.seed, "host": platform.processor(), "forms": []}
    report["device"] = json.loads(str(saved.pop("device"))) if saved else device()
    kept: dict[str, Any] = {"device": json.dumps(report["device"])}
    for case in forms:
        start, records = time.monotonic(), []
        for what, inputs in fragments(case, options.fragments, options.seed):
            key = f"{case.name}/{what}"
            if saved:
                theirs = saved[key]
                inputs = tuple(part[: len(theirs)] for part in inputs)
            else:
                theirs = on_gpu(case, inputs)
                kept[key] = theirs[:SAVED]
            records.append(compare(case, what, inputs, on_executor(case, inputs), theirs))
        seconds = round(time.monotonic() - start, 2)
        wrong = {record["class"]: record["mismatches"] for record in records if record["mismatches"]}
        report["forms"].append({"name": case.name, "seconds": seconds, "classes": records})
        print(f"{case.name:32} {seconds:6.2f} s  {wrong or 'agrees'}", flush=True)
    if options.save:
        np.savez_compressed(options.save, **kept)
    if options.output:
        options.output.write_text(json.dumps(report, indent=1))
    differs = any(record["mismatches"] for form in report["forms"] for record in form["classes"])
    return 1 if differs else 0


if __name__ == "__main__":
    sys.exit(main())
