"""What an operator keeps for its backward pass, and what it costs: one `Ledger` per direction in a spec module."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Ledger:
    """A spec module's `LEDGER["forward"]` or `LEDGER["backward"]`, as shown in the table of operators.

    `saved` names what the forward pass keeps for the backward pass (empty: nothing), `flops` is the number of
    floating-point operations as a formula in the spec's dims, multiplication signs left out ("2 T K N"), one
    transcendental function counted as one.
    """

    saved: str
    flops: str
