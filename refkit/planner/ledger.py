"""A row of the save-or-recompute ledger: what an intermediate costs to keep, and what to make again.

Keeping it costs a write and a read, and memory from the forward pass to the backward pass; making it again costs
arithmetic and whatever it reads and writes beyond what the backward kernel touches anyway.
"""

from __future__ import annotations

from refkit.planner.sheet import Group, figure

PREFIX = "ledger_"
"""Begins the names of these groups, so that a tensor of the ledger and the product that makes it may share a name."""


def entry(
    name: str,
    title: str,
    about: str,
    *,
    stored: str,
    moved: str | None = None,
    flops: str = "",
    rebuilt_bytes: str = "0",
    rate: str = "rate",
    verdict: str = "",
    needs: str = "",
) -> Group:
    """An intermediate. stored: its bytes. moved: bytes that keeping it moves (without it written once, read once).
    flops, rebuilt_bytes: what making it again costs; rate: whose FLOPs those are. verdict: where there is no choice to
    compute, what to do. needs: as in `Group`."""
    traffic = "2 * stored" if moved is None else moved
    keeping = (
        figure("stored", "memory", "B", stored),
        figure("moved", "traffic to keep", "B", traffic, "written and read" if moved is None else ""),
        figure("keep_time", "time to keep", "s", "moved / bandwidth"),
    )
    if verdict:
        chosen = figure("verdict", "verdict", "text", repr(verdict))
        return Group(PREFIX + name, title, "ledger", (*keeping, chosen), about, needs)
    rebuilding = (
        figure("rebuild_flops", "FLOPs to rebuild", "FLOP", flops),
        figure("rebuild_bytes", "traffic to rebuild", "B", rebuilt_bytes, "beyond what is read anyway"),
        figure(
            "rebuild_time",
            "time to rebuild",
            "s",
            f"max(rebuild_flops / {rate}, rebuild_bytes / bandwidth)",
            "whichever takes longer",
        ),
        figure("verdict", "verdict", "text", "'recompute' if rebuild_time < keep_time else 'save'"),
    )
    return Group(PREFIX + name, title, "ledger", (*keeping, *rebuilding), about, needs)
