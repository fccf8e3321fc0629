"""What examining one case gives: the faults found, and the figures that the record of a check is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from refkit.records import SourceFinding, Verdict, WorstRecord
from refkit.verify.backends import LaunchFault


@dataclass(frozen=True)
class Finding:
    """One fault. `check` names the check that it speaks against, which is not always the check that came upon it.

    `message` is one line for the user; `diagnosis` the cause that the pattern suggests, or empty. `fault` is set
    where the launch itself failed; `decisive` says that the outputs of the case are wrong or missing, so that nothing
    more can be judged by them.
    """

    check: str
    message: str
    diagnosis: str = ""
    worst: WorstRecord | None = None
    verdict: Verdict = Verdict.FAILED
    fault: LaunchFault | None = None
    decisive: bool = True


@dataclass(frozen=True)
class Examination:
    """One case as one check saw it.

    `ratio` is the largest |error| / allowed error, None where nothing was compared; `bound` the kind of bound behind
    it; `sensitivity` maps each output to the relative fault of a typical element that this case would have caught;
    `survivors` names the fake outputs that this case did not reject, `identical` those of them that are the expected
    output itself, bit for bit (`trust` only); `sources` is what the sanitizers saw, by source line.
    """

    findings: tuple[Finding, ...] = ()
    ratio: float | None = None
    bound: str = ""
    worst: WorstRecord | None = None
    sensitivity: Mapping[str, float] = field(default_factory=dict)
    survivors: frozenset[str] = frozenset()
    identical: frozenset[str] = frozenset()
    sources: tuple[SourceFinding, ...] = ()

    def finding(self, check: str) -> Finding | None:
        """The first finding that speaks against `check`, or None."""
        return next((finding for finding in self.findings if finding.check == check), None)

    @property
    def decisive(self) -> Finding | None:
        """The first decisive finding, or None."""
        return next((finding for finding in self.findings if finding.decisive), None)
