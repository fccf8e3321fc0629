"""What a GPU does with the planted faults: each faulty kernel in a process of its own, beside the right results.

    python -m tests.catalogue.on_hardware --json FILE [MODULE ...]

A fault whose results are right all the same is one that only a sanitizer shows. A process that hangs is killed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from . import Entry, entries

TIMEOUT = 20.0  # seconds, compilation included
PROCESSES = 8


def outcome(entry: Entry) -> str:
    """What the faulty kernel came to, in words; runs it on the current GPU."""
    _, expected = entry.correct()
    got = entry.faulty()
    same = all(np.array_equal(x, y, equal_nan=True) or np.allclose(x, y, rtol=1e-2) for x, y in zip(got, expected))
    return "the right result" if same else "a wrong result"


def run_apart(name: str) -> str:
    """`outcome` of the entry of this name in a process of its own."""
    command = [sys.executable, "-m", __spec__.name, "--one", name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        return "it hangs"
    if done.returncode == 0:
        return done.stdout.strip().splitlines()[-1]
    last = (done.stderr.strip().splitlines() or ["no message"])[-1]
    return f"an error: {last[:200]}"


def main() -> None:
    """Runs every entry of the modules named (all without a name) and writes what happened."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="*")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    known = {entry.name: entry for entry in entries() if entry.faulty is not None}
    if arguments.one:
        print(outcome(known[arguments.one]))
        return
    chosen = [
        entry for entry in known.values() if not arguments.modules or Path(entry.lines.file).stem in arguments.modules
    ]
    with ThreadPoolExecutor(PROCESSES) as pool:
        results = list(pool.map(lambda entry: run_apart(entry.name), chosen))
    rows = [
        {"name": entry.name, "note": entry.note, "problem": f"{entry.sanitizer}/{entry.problem}", "hardware": result}
        for entry, result in zip(chosen, results)
    ]
    for row in rows:
        print(f"{row['name']:45} {row['problem']:32} {row['hardware']}")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
