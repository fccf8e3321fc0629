"""Arithmetic and traffic of the SwiGLU MLP's backward pass, as numbers (formulas: `refkit/reference/swiglu_mlp.py`).

x (M, K), w (K, 2I), w_down (I, K). A matrix product of (m, k) by (k, n) counts 2 m k n operations. The unfused
backward pass writes dout (M, I) to memory and reads it again; an epilogue that makes grad_de of it spares both.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SwigluLedger:
    """The ledger of one layer: M tokens, model width K, inner width I, bytes per stored element.

    FLOP counts are of the matrix products; the elementwise group is 14 operations per element of dout and left out.
    Byte counts of a kernel assume that each operand is read once and each result written once. Raises ValueError
    unless every size is positive.
    """

    M: int
    K: int
    I: int  # noqa: E741 (the formula's name)
    element_bytes: int = 2

    def __post_init__(self) -> None:
        for name in ("M", "K", "I", "element_bytes"):
            if getattr(self, name) < 1:
                raise ValueError(f"SwigluLedger: {name} is {getattr(self, name)}; expected at least 1")

    # -- operations -----------------------------------------------------------------------------------------------

    @property
    def dout_flops(self) -> int:
        """dout (M, I) = dy w_down^T: 2 M K I."""
        return 2 * self.M * self.K * self.I

    @property
    def dw_down_flops(self) -> int:
        """dw_down (I, K) = out^T dy: 2 M K I."""
        return 2 * self.M * self.K * self.I

    @property
    def dx_flops(self) -> int:
        """dx (M, K) = grad_de w^T: 2 M K 2I."""
        return 4 * self.M * self.K * self.I

    @property
    def dw_flops(self) -> int:
        """dw (K, 2I) = x^T grad_de, one product over the merged layout: 2 M K 2I."""
        return 4 * self.M * self.K * self.I

    @property
    def backward_flops(self) -> int:
        """The four products of the backward pass: 12 M K I."""
        return self.dout_flops + self.dw_down_flops + self.dx_flops + self.dw_flops

    @property
    def forward_flops(self) -> int:
        """x w and out w_down: 6 M K I, half of the backward pass."""
        return 2 * self.M * self.K * (2 * self.I) + 2 * self.M * self.I * self.K

    # -- bytes ----------------------------------------------------------------------------------------------------

    @property
    def dout_bytes(self) -> int:
        """dout, and just as much out: M I elements."""
        return self.M * self.I * self.element_bytes

    @property
    def de_bytes(self) -> int:
        """de = [left | gate], and just as much grad_de: 2 M I elements."""
        return 2 * self.dout_bytes

    @property
    def token_bytes(self) -> int:
        """x, y, dx or dy: M K elements."""
        return self.M * self.K * self.element_bytes

    @property
    def w_down_bytes(self) -> int:
        """w_down: I K elements; w has twice as many."""
        return self.I * self.K * self.element_bytes

    @property
    def saved_bytes(self) -> int:
        """What the forward pass keeps: x, de and out."""
        return self.token_bytes + self.de_bytes + self.dout_bytes

    @property
    def dout_round_trip_bytes(self) -> int:
        """What fusing saves: dout written by the product and read by the elementwise kernel."""
        return 2 * self.dout_bytes

    @property
    def unfused_bytes(self) -> int:
        """From dy to grad_de in two kernels: dy, w_down and dout for the product; dout, de and grad_de elementwise."""
        product = self.token_bytes + self.w_down_bytes + self.dout_bytes
        return product + self.dout_bytes + 2 * self.de_bytes

    @property
    def fused_bytes(self) -> int:
        """From dy to grad_de in one kernel: dy, w_down and de read, grad_de written."""
        return self.token_bytes + self.w_down_bytes + 2 * self.de_bytes
