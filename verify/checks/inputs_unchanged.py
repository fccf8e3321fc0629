"""Inputs unchanged: every array that is only read is the same afterwards, byte for byte.

Noticed in every trial of every check; it has no cases of its own.
"""

from __future__ import annotations

from refkit.verify.case_run import CaseRun
from refkit.verify.checks import Check
from refkit.verify.findings import Finding
from refkit.verify.trial import Trial, element_name


class InputsUnchanged(Check):
    name = "inputs_unchanged"
    summary = "no input is written to"
    order = 50
    notices = True

    def notice(self, run: CaseRun, trial: Trial) -> list[Finding]:
        """One finding that names each changed input with the first element that changed."""
        if not trial.changed:
            return []
        places = [element_name(run.spec.arrays[name], name, index) for name, index in trial.changed.items()]
        message = f"the launch changed its input at {', '.join(places)}"
        # The outputs may well be right; they are judged all the same.
        return [Finding(self.name, message, "an input is used as scratch or as an output", decisive=False)]


CHECK = InputsUnchanged()
