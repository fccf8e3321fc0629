"""What the page says in words: the verdict, the facts of the run, and what was found of a kernel beside its errors."""

from __future__ import annotations

from refkit.reports import values
from refkit.reports.analysis import LineView
from refkit.reports.model import KernelView, RunView

STATUS_WORDS = {"failed": "failed", "error": "ended in an error", "mistrusted": "cannot be trusted"}


def headline(run: RunView) -> str:
    """The verdict in one line."""
    total = len(run.kernels)
    skipped = run.counts.get("skipped", 0)
    if not total:
        return "No kernel was verified"
    if not run.failing:
        held = total - skipped
        if not held:
            return "Every kernel was skipped"
        line = f"{'All ' if held > 1 else ''}{values.counted(held, 'kernel')} passed"
        return line + (f", {skipped:,} skipped" if skipped else "")
    parts = [f"{run.counts[status]:,} {words}" for status, words in STATUS_WORDS.items() if run.counts.get(status)]
    return f"Of {values.counted(total, 'kernel')}, {' and '.join(parts) if len(parts) < 3 else ', '.join(parts)}"


def run_facts(run: RunView) -> list[tuple[str, str]]:
    """What stands under the verdict: sizes of the run and how it was started."""
    pairs = [
        ("checks", f"{run.checks:,}"),
        ("cases", f"{run.cases:,}"),
        ("time", values.seconds(run.seconds) if run.seconds is not None else ""),
        ("backend", run.backend),
        ("profile", run.profile),
        ("seed", run.seed),
        ("refkit", run.refkit),
        ("command", run.command),
    ]
    return [(name, value) for name, value in pairs if value]


def kernel_facts(kernel: KernelView) -> list[tuple[str, str]]:
    """What was found of a kernel beside its errors: each a name and a sentence."""
    pairs = [
        ("determinism", determinism(kernel)),
        ("sanitizers", sanitizers(kernel)),
        ("sensitivity", sensitivity(kernel)),
        ("mutation score", mutation_score(kernel)),
    ]
    return [(name, value) for name, value in pairs if value]


def determinism(kernel: KernelView) -> str:
    """Whether the same result is promised and was found, in how many cases and orders of threads."""
    check = kernel.check("determinism")
    if check is None:
        return "not checked"
    promise = {True: "bit for bit", False: "not promised bit for bit", None: ""}[kernel.deterministic]
    if check.status == "skipped":
        return f"not checked: {check.message or 'no reason given'}"
    orders = f", each in the plain order and {check.orders} others" if check.orders else ""
    found = {"passed": "the same", "failed": "differs"}.get(check.status, check.status)
    again = kernel.check("second_launch")
    second = (
        f"; second launch: {'the same' if again.status == 'passed' else again.status}"
        if again is not None and again.status != "skipped"
        else ""
    )
    head = f"{promise}: " if promise else ""
    return f"{head}{found} in {values.counted(check.cases, 'case')}{orders}{second}"


def sanitizers(kernel: KernelView) -> str:
    """What the sanitizers looked at and found."""
    check = kernel.check("sanitizers")
    if check is None:
        return "not run"
    if check.status == "skipped":
        return f"not run: {check.message or 'no reason given'}"
    found = values.counted(len(check.findings), "finding") if check.findings else "nothing found"
    if check.status != "passed" and not check.findings:
        found = check.status
    return f"{found} in {values.counted(check.cases, 'case')}"


def sensitivity(kernel: KernelView) -> str:
    """The smallest relative fault that the cases would have caught."""
    if kernel.sensitivity is None:
        return "not measured"
    return f"a relative fault of {values.plain(kernel.sensitivity)} in a typical element would have been caught"


def mutation_score(kernel: KernelView) -> str:
    """How many faults planted into the kernel were caught; says so where the run did not measure it."""
    if kernel.mutation is None:
        return "not measured in this run"
    share = kernel.mutation.killed / kernel.mutation.mutants if kernel.mutation.mutants else 0.0
    return (
        f"{kernel.mutation.killed:,} of {values.counted(kernel.mutation.mutants, 'planted fault')} caught ({share:.0%})"
    )


def flags(kernel: KernelView) -> list[str]:
    """What `analyze` flags in a kernel, a sentence each: poor memory traffic by source line, and spilled registers."""
    if kernel.analysis is None:
        return []
    lines = dict.fromkeys(
        f"{line.problem} at {line.place}: {line.access}, {_cost(line)}" for line in kernel.analysis.flagged
    )
    spilling = [each for each in kernel.analysis.resources if each.spill_bytes]
    spills = {
        name: ", ".join(each.architecture for each in spilling if each.kernel == name)
        for name in dict.fromkeys(each.kernel for each in spilling)
    }
    return [*lines, *(f"{name} spills registers on {where}" for name, where in spills.items())]


def _cost(line: LineView) -> str:
    """What a request takes: "32.0 sectors where 4 would do"."""
    taken, _, ideal = (line.sectors or line.passes).partition(" of ")
    return f"{taken} {'sectors' if line.sectors else 'bank passes'} where {ideal.partition(',')[0]} would do"
