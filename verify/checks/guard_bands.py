"""Guard bands: no byte round any argument changes, nor any byte between the elements of a strided one.

Noticed in every trial of every check; it has no cases of its own.
"""

from __future__ import annotations

from refkit.verify.case_run import CaseRun
from refkit.verify.checks import Check
from refkit.verify.findings import Finding
from refkit.verify.trial import Trial


class GuardBands(Check):
    name = "guard_bands"
    summary = "nothing is written before, behind or between the elements of any array"
    order = 40
    notices = True

    def notice(self, run: CaseRun, trial: Trial) -> list[Finding]:
        """One finding that names every array whose guard bytes changed."""
        if not trial.guards:
            return []
        message = "; ".join(f"{name}: {violations.describe()}" for name, violations in trial.guards.items())
        return [Finding(self.name, message, "an index runs out of the array: a bounds test is missing or off by one")]


CHECK = GuardBands()
