"""How much a verification does: the number of cases per kernel, and how large they may get."""

from __future__ import annotations

from dataclasses import dataclass, replace

from refkit.verify.sizes import Budget


@dataclass(frozen=True)
class Profile:
    """`cases` is the number aimed at per kernel, shared out among the checks; the fixed cases are always among them.

    `variants` bounds the combinations of configuration, strides and absent arguments that the kernel is compiled for
    beyond those of the fixed cases (see `economy`), `schedules` is the number of orders of threads tried per case of
    `determinism`, `budget` what one random case may cost, `shrink_seconds` the most time spent on making a failing
    case small. `few_signatures` asks the backend to compile a kernel once for all layouts (see `backends.Backend`).
    """

    name: str
    cases: int
    variants: int
    schedules: int
    budget: Budget
    shrink_seconds: float
    sanitize: bool = True
    few_signatures: bool = False

    def share(self, part: float) -> int:
        """The number of cases that a check with this `part` of the whole gets; at least one."""
        return max(1, round(part * self.cases))

    def with_cases(self, cases: int) -> Profile:
        """The same profile with another number of cases per kernel."""
        return replace(self, cases=cases)


PROFILES = {
    "quick": Profile(
        "quick",
        cases=30,
        variants=1,
        schedules=2,
        budget=Budget(2**14, 2**17),
        shrink_seconds=10.0,
        sanitize=False,
        few_signatures=True,
    ),
    "standard": Profile("standard", cases=150, variants=8, schedules=3, budget=Budget(), shrink_seconds=20.0),
    "deep": Profile("deep", cases=1500, variants=100, schedules=8, budget=Budget(2**20, 2**25), shrink_seconds=60.0),
}
