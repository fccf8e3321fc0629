"""Do the CPU executor and a GPU agree? The same cases of every shipped kernel on both, compared output by output.

On small integers the outputs that the error model calls exact have to be the same bits; any other two results may lie
at most the sum of their allowed errors apart. Run it on a machine with a GPU:

    python -m refkit.verify.agreement --cases 12 --json agreement.json
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from refkit.verify.backends import Backend, Unavailable, open_backend
from refkit.verify.case import Case
from refkit.verify.case_run import CaseRun
from refkit.verify.checks.integer_exact import exact_outputs
from refkit.verify.discovery import shipped
from refkit.verify.drawing import draw_cases, seed_of
from refkit.verify.inputs import integer_lane_obstacle
from refkit.verify.sizes import Budget
from refkit.verify.spec import KernelSpec
from refkit.verify.strategies import cases
from refkit.verify.trial import bits_differ

BUDGET = Budget(2**14, 2**18)


@dataclass(frozen=True)
class Agreement:
    """What two backends said of one kernel. `worst` is |difference| over the sum of the allowed errors."""

    name: str
    exact_outputs: tuple[str, ...]
    integer_cases: int
    differing_bits: int
    real_cases: int
    worst: float
    failures: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """No bit differs on integers, and every other difference lies within the model."""
        return not self.failures and self.differing_bits == 0 and self.worst <= 1


def compare(spec: KernelSpec, left: Backend, right: Backend, count: int, seed: int = 0) -> Agreement:
    """`count` integer cases and `count` real cases of one kernel on two backends."""
    integers: list[Case] = []
    exact: set[str] = set()
    if not integer_lane_obstacle(spec):
        strategy = cases(spec, values="integers", layouts=("contiguous",), budget=BUDGET)
        integers = draw_cases(strategy, count, seed_of(seed, spec.name, "agreement on integers"))
        exact = exact_outputs(spec, tuple(integers))
    real = draw_cases(cases(spec, budget=BUDGET), count, seed_of(seed, spec.name, "agreement"))
    failures: list[str] = []
    differing = sum(_differing_elements(spec, case, left, right, exact, failures) for case in integers if exact)
    worst = max((_distance(spec, case, left, right, failures) for case in real), default=0.0)
    return Agreement(
        spec.name, tuple(sorted(exact)), len(integers) if exact else 0, differing, len(real), worst, tuple(failures)
    )


def _outputs(
    spec: KernelSpec, case: Case, left: Backend, right: Backend, failures: list[str]
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]] | None:
    trials = []
    for backend in (left, right):
        with backend.active():
            trial = CaseRun(spec, case, backend).trial()
        if trial.fault is not None:
            failures.append(f"{backend.name}: {trial.fault}")
            return None
        trials.append(dict(trial.outputs))
    return trials[0], trials[1]


def _differing_elements(
    spec: KernelSpec, case: Case, left: Backend, right: Backend, exact: set[str], failures: list[str]
) -> int:
    outputs = _outputs(spec, case, left, right, failures)
    if outputs is None:
        return 0
    return sum(int(bits_differ(outputs[0][name], outputs[1][name]).sum()) for name in exact)


def _distance(spec: KernelSpec, case: Case, left: Backend, right: Backend, failures: list[str]) -> float:
    outputs = _outputs(spec, case, left, right, failures)
    if outputs is None:
        return 0.0
    worst = 0.0
    for name, bounded in CaseRun(spec, case, left).expectation.items():
        mine, other = (np.asarray(side[name]).astype(np.float64) for side in outputs)
        with np.errstate(all="ignore"):
            difference = np.abs(mine - other)
            ratio = np.where(difference == 0, 0.0, difference / (2 * bounded.allowed))
        same = (mine == other) | (np.isnan(mine) & np.isnan(other))
        ratio = np.where(same, 0.0, np.where(np.isnan(ratio), np.inf, ratio))
        worst = max(worst, float(ratio.max(initial=0.0)))
    return worst


def main(arguments: list[str] | None = None) -> int:
    """Compares every shipped kernel; 0 where all agree, 1 where one does not, 3 without a GPU."""
    parser = argparse.ArgumentParser(prog="python -m refkit.verify.agreement", description=__doc__)
    parser.add_argument("--cases", type=int, default=12, help="cases of each kind per kernel")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    try:
        right = open_backend("cuda")
    except Unavailable as error:
        print(f"refkit: {error}", file=sys.stderr)
        return 3
    from refkit.verify.cli.options import write_json
    from refkit.verify.environment import describe_environment

    found = []
    for name, spec in sorted(shipped().items()):
        agreement = compare(spec, open_backend("cpu"), right, options.cases, options.seed)
        found.append(agreement)
        verdict = "agree" if agreement.holds else "DIFFER"
        bits = f"{agreement.integer_cases} integer cases bit for bit, " if agreement.exact_outputs else ""
        real = f"{agreement.real_cases} real cases, worst {agreement.worst:.2g} of the model"
        print(f"{name:40s} {verdict}: {bits}{real}")
        for failure in agreement.failures:
            print(f"    {failure}")
    if options.json is not None:
        rows = [{**asdict(row), "holds": row.holds} for row in found]
        write_json(options.json, {"environment": describe_environment("cuda"), "seed": options.seed, "kernels": rows})
    return 0 if all(row.holds for row in found) else 1


if __name__ == "__main__":
    sys.exit(main())
