"""`Probe`: one intrinsic and the layout that it should have; `run` says whether it does, on the GPU or on the CPU."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from refkit.cuda_kernels.layouts import Layout, MatrixMove, MmaLayout, SharedMatrix, WgmmaLayout
from refkit.verify.backends import Backend, LaunchFault, open_backend
from refkit.verify.probes.execution import Unsupported
from refkit.verify.probes.judgement import OperandVerdict, judge_mma, judge_move
from refkit.verify.probes.one_hot import lane_facts, matrix_facts, mma_facts
from refkit.verify.probes.warpgroup import WarpgroupProducts
from refkit.verify.probes.warpgroup_judgement import judge_wgmma


@dataclass(frozen=True)
class ProbeResult:
    """What a probe found on one backend.

    status: "passed", "failed" (a layout that is not as claimed), "skipped" (the device lacks the instruction) or
        "error" (the launch failed); `message` says why. operands: their verdicts; none where nothing ran.
    """

    name: str
    backend: str
    status: str
    message: str = ""
    operands: tuple[OperandVerdict, ...] = ()

    def __bool__(self) -> bool:
        return self.status == "passed"

    def to_json(self) -> list[dict[str, Any]]:
        """Entries of `probes` in `probe --json`, one for each operand.

        `map` is what was found, as the layout's `to_text` writes it, and `claimed` what the data says of a wrong one.
        A map of shared memory has `space`.
        """
        common = {"name": self.name, "backend": self.backend}
        if not self.operands:
            return [{**common, "operand": "", "status": self.status, "message": self.message, "map": []}]
        return [
            {
                **common,
                "operand": each.operand,
                "status": each.status,
                "message": each.message,
                "map": list(each.found.to_text()),
                **({"space": "shared"} if isinstance(each.claimed, SharedMatrix) else {}),
                **({"claimed": list(each.claimed.to_text())} if each.status == "failed" else {}),
            }
            for each in self.operands
        ]


@dataclass(frozen=True)
class Probe:
    """A layout probe of an intrinsic, of `cuda_kernels.ptx` or of your own.

    intrinsic: what a kernel would call: an `@intrinsic` or a device function. For an `MmaLayout` it takes three tuples
        of registers (a, b, c) and returns a tuple; for a `MatrixMove` it takes a shared address, and the registers to
        store as a tuple, or gives a tuple of those loaded (one register alone comes without a tuple). For a
        `WgmmaLayout` it takes the accumulator (a local array), a and b, descriptors or (a) a tuple of four registers.
    layout: what it should do. name: what reports call it (default: the layout's name).
    """

    intrinsic: Any
    layout: Layout
    name: str = field(default="")

    def __post_init__(self) -> None:
        if not self.name:
            object.__setattr__(self, "name", self.layout.name)

    def run(self, backend: str | Backend = "auto") -> ProbeResult:
        """Runs all one-hot experiments on a backend ("auto", "cpu", "cuda" or an open one) and judges them.

        Raises `Unavailable` where the backend cannot run here.
        """
        device = open_backend(backend) if isinstance(backend, str) else backend
        try:
            operands = self._operands(device)
        except Unsupported as reason:
            return ProbeResult(self.name, device.name, "skipped", str(reason))
        except LaunchFault as fault:
            if fault.fatal:
                raise
            return ProbeResult(self.name, device.name, "error", str(fault))
        failed = [each for each in operands if each.status == "failed"]
        message = "; ".join(f"{each.operand}: {each.message}" for each in failed)
        return ProbeResult(self.name, device.name, "failed" if failed else "passed", message, operands)

    def _operands(self, device: Backend) -> tuple[OperandVerdict, ...]:
        layout = self.layout
        if isinstance(layout, MmaLayout):
            return judge_mma(mma_facts(device, self.intrinsic, layout), layout)
        if isinstance(layout, WgmmaLayout):
            return judge_wgmma(WarpgroupProducts(device, self.intrinsic, layout))
        if isinstance(layout, MatrixMove):
            return (judge_move(matrix_facts(device, self.intrinsic, layout), layout.fragment),)
        return (judge_move(lane_facts(device, self.intrinsic, layout), layout.fragment),)
