"""Synthetic run records, for tests of the report only: nothing here was measured on any kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from refkit.cuda_kernels.layouts import LAYOUTS

TF32: Any = LAYOUTS["mma.m16n8k8.tf32"]
OPERATORS = {
    "linear": ("T", "K", "N"),
    "layer_norm": ("T", "C"),
    "scatter_add": ("I", "V", "C"),
    "softmax": ("R", "C"),
    "cross_entropy": ("T", "V"),
}
REAL_CHECKS = ("accuracy", "layouts", "accumulation", "determinism")
EXACT_CHECKS = ("integer_exact", "every_output_written", "guard_bands", "inputs_unchanged", "second_launch")
VALUES = ("normal", "large_mean", "positive", "wide", "ties")
SIZES = (1, 2, 3, 7, 15, 16, 17, 31, 32, 33, 63, 64, 65, 97, 127, 128, 129, 200, 300)


def synthetic_case(rng: np.random.Generator, dims: tuple[str, ...], ratio: float | None) -> dict[str, Any]:
    """One invented case."""
    layout = str(rng.choice(["contiguous", "strided", "transposed", "offset", "broadcast"]))
    return {
        "dims": {name: int(rng.choice(SIZES)) if rng.random() < 0.7 else int(rng.integers(1, 300)) for name in dims},
        "layout": {"x": layout, "dy": "contiguous"},
        "config": {"block": int(rng.choice([64, 128, 256]))},
        "scenario": str(rng.choice(["random", "every dim 7", "tile + 1", "a prime"])),
        "values": str(rng.choice(VALUES)),
        "ratio": ratio,
        **_against_length(rng, ratio),
    }


def _against_length(rng: np.random.Generator, ratio: float | None) -> dict[str, Any]:
    if not ratio:
        return {"reduction": None, "error": None, "allowed": None}
    terms = int(2 ** rng.uniform(0, 14))
    allowed = 4e-7 * terms**0.5
    return {"reduction": terms, "error": allowed * ratio * 0.4, "allowed": allowed}


def synthetic_check(rng: np.random.Generator, name: str, dims: tuple[str, ...], cases: int) -> dict[str, Any]:
    """One invented passing check."""
    exact = name in EXACT_CHECKS
    ratios = [0.0] * cases if exact else [float(r) for r in np.exp(rng.normal(-2.8, 0.8, cases)).clip(1e-6, 0.93)]
    data = [synthetic_case(rng, dims, ratio) for ratio in ratios]
    return {
        "name": name,
        "status": "passed",
        "cases": cases,
        "worst_ratio": max(ratios, default=None),
        "message": "",
        "diagnosis": "",
        "case_file": "",
        "bound": "exact" if exact else "tracked",
        "sensitivity": None if exact else float(10 ** rng.uniform(-7, -5)),
        "cases_data": data,
        "worst": synthetic_worst(rng, False) if name == "accuracy" else None,
        "findings": [],
        "ulps": {} if exact else {str(k): int(4000 * 0.5**i) + 1 for i, k in enumerate((0, 1, 2, 4, 8, 16))},
        "orders": 3 if name == "determinism" else None,
    }


def synthetic_analysis(number: int) -> dict[str, Any]:
    """An invented analysis: one good line, one poor one, two architectures, one tensor-core instruction."""
    line = {"kernel": "k", "file": "kernels/norm.py", "bytes_per_lane": 4, "lanes": 32.0}
    resource = {"kernel": f"kernel_{number}", "threads": 256, "spill_bytes": 0, "stack_bytes": 0, "shared_bytes": 2048}
    registers = {"registers": 142, "occupancy": {"blocks": 1, "fraction": 0.125, "limits": ["registers"]}}
    bounds = {"launch_bounds": [256, 2], "registers": 128, "spill_bytes": 12, "blocks_per_sm": 2}
    return {
        "case": {"dims": {"T": 256, "C": 256}, "config": {"block": 64}},
        "lines": [
            {**line, "line": 31, "space": "global", "access": "read", "sectors": 32.0, "ideal_sectors": 4.0}
            | {"problem": "uncoalesced", "code": "total += x[row, column]"},
            {**line, "line": 40, "space": "shared", "access": "write", "passes": 1.5, "worst_passes": 2}
            | {"ideal_passes": 1.0, "problem": "", "code": "tile[row, column] = value"},
        ],
        "resources": [
            {**resource, "compute_capability": "7.5", "problem": "needs compute capability 9.0"},
            {**resource, **registers, "compute_capability": "9.0", "problem": ""}
            | {"cliff": {"registers": 128, "blocks": 2}, "bounded": bounds, "bounded_256": bounds}
            | {"instructions": {"fma": 64, "load.global.16": 4, "mma": 2}},
        ],
        "fragments": [
            {"name": "mma.m16n8k8.tf32", "operand": letter, "map": list(fragment.to_text())}
            for letter, fragment in zip("ABC", (TF32.a, TF32.b, TF32.c))
        ],
        "problem": "",
        "missing": "",
    }


def synthetic_worst(rng: np.random.Generator, failing: bool, shape: tuple[int, int] = (97, 130)) -> dict[str, Any]:
    """An invented worst element; where it fails, the last 16 columns of the output are wrong."""
    m, n = min(shape[0], 64), min(shape[1], 64)
    grid = np.exp(rng.normal(-3, 0.7, (m, n)))
    index = [int(rng.integers(shape[0])), int(rng.integers(shape[1]))]
    if failing:
        grid[:, -max(1, n // 8) :] = np.exp(rng.normal(5, 1.5, (m, max(1, n // 8))))
        index[1] = shape[1] - 2
    return {
        "output": "y",
        "index": index,
        "got": 0.0 if failing else 1.2500002,
        "expected": 1.25,
        "allowed": 3.2e-6,
        "shape": list(shape),
        "config": {"block_m": 32, "block_n": 64},
        "error_map": [[round(float(cell), 5) for cell in row] for row in grid],
    }


def break_check(rng: np.random.Generator, kernel: dict[str, Any], check: dict[str, Any], number: int = 0) -> None:
    """Turns an invented passing check into a failing one, shrunk case and all."""
    for case in check["cases_data"]:
        if any(size > 64 for size in case["dims"].values()):
            case["ratio"] = float(np.exp(rng.normal(5, 2)))
    failing = [case for case in check["cases_data"] if case["ratio"] > 1]
    check.update(
        status="failed",
        worst_ratio=max(case["ratio"] for case in failing),
        message=f"{len(failing)} of {len(check['cases_data'])} cases exceed the allowed error",
        diagnosis="The last columns are never written: the loop bound is rounded down to a multiple of the block.",
        case_file=f".refkit/cases/{kernel['name']}-{check['name']}-{number}.json",
        findings=[
            {"kind": "race: read-write", "message": "two threads on sums[0]", "file": "kernels/norm.py", "line": 31}
            | {"code": ["if lane == 0:", "    sums[0] += x", "cuda.syncthreads()"], "code_start": 30}
        ],
        case={**failing[0], "dims": dict.fromkeys(failing[0]["dims"], 1) | {list(failing[0]["dims"])[-1]: 65}},
        worst=synthetic_worst(rng, True),
        sensitivity=None,
    )
    kernel["status"] = "failed"


def synthetic_run(
    kernels: int = 25, cases: int = 40, failing: tuple[int, ...] = (3, 11), seed: int = 0
) -> dict[str, Any]:
    """An invented run of `kernels` kernels with nine checks of `cases` cases each; those numbered in `failing` fail."""
    rng = np.random.default_rng(seed)
    operators = list(OPERATORS)
    versions = ("naive", "tiled", "split_k", "two_stage", "atomic")
    entries = []
    for number in range(kernels):
        operator = operators[number % len(operators)]
        dims = OPERATORS[operator]
        version = versions[number // len(operators) % len(versions)]
        suffix = "" if number < 25 else f"_{number}"
        checks = [synthetic_check(rng, name, dims, cases) for name in REAL_CHECKS + EXACT_CHECKS]
        checks.append(
            {"name": "race", "status": "skipped", "cases": 0, "worst_ratio": None, "message": "runs on the CPU only"}
        )
        kernel = {
            "name": f"{operator}_{version}{suffix}",
            "operator": operator,
            "direction": "backward" if number % 2 else "forward",
            "precision": {
                "multiply": "bfloat16" if number % 3 == 2 else "float32",
                "accumulate": "float32",
                "fast_math": False,
            },
            "status": "passed",
            "cases": sum(check["cases"] for check in checks),
            "seconds": float(rng.uniform(0.5, 9)),
            "deterministic": number % 4 != 0,
            "checks": checks,
            "analysis": synthetic_analysis(number) if number % 2 else None,
            "mutation": {"mutants": 40, "killed": 39, "survived": ["line 31: < for <="]} if number % 3 == 0 else None,
        }
        if number in failing:
            break_check(rng, kernel, checks[0], number)
            if number == failing[-1]:
                break_check(rng, kernel, checks[1], number)
        entries.append(kernel)
    return {
        "schema": 1,
        "refkit": "0.1.0",
        "backend": "cpu",
        "profile": "standard",
        "seed": seed,
        "environment": {
            "python": "3.11.9",
            "numpy": "2.4.6",
            "numba-cuda": "0.30.4",
            "llvmlite": "0.50.0",
            "machine": "x86_64, 2 cores",
            "gpu": None,
        },
        "summary": {
            "kernels": kernels,
            "checks": 10 * kernels,
            "cases": sum(kernel["cases"] for kernel in entries),
            "passed": 9 * kernels - len(failing),
            "failed": len(failing),
            "skipped": kernels,
            "seconds": 118.4,
        },
        "kernels": entries,
    }
