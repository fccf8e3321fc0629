"""Synthetic run records, for tests of the report only: nothing here was measured on any kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

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
    }


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
        "diagnosis": None,
        "case_file": None,
        "bound": "exact" if exact else "tracked",
        "sensitivity": None if exact else float(10 ** rng.uniform(-7, -5)),
        "cases_data": data,
        "worst": synthetic_worst(rng, False) if name == "accuracy" else None,
        "findings": [],
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
            "checks": checks,
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
